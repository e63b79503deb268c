"""Shards in memory and in files: what is found in them, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from distributed_parts import evenly, noisy, same
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from maxmargin import NOCA, MaxMargin, PassiveAggressive
from maxmargin.distributed import Held, files, fit
from maxmargin.distributed.executor import FAN_IN, tree
from maxmargin.distributed.shards import ShardError

SOON = MaxMargin(tol=1e-6)


def parts_of(X, y, count):
    return zip(np.array_split(X, count), np.array_split(y, count), strict=True)


def test_the_tree_depends_on_the_number_of_answers_only():
    merges = []

    def merge(some):
        merges.append(tuple(some))
        return sum(some, ())

    answers = [(k,) for k in range(70)]
    assert tree(answers, merge) == tuple(range(70))
    assert max(map(len, merges)) == FAN_IN
    assert tree([(5,)], merge) == (5,)


# -------------------------------------------------------------------------------------------- files
@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight(tmp_path, zero_based):
    X, y = noisy(300, 5)
    X = X * (np.random.default_rng(0).random(X.shape) < 0.7)
    X[:100, 0] = X[100:, 4] = 0.0
    for k, (part, labels) in enumerate(parts_of(X, y, 3)):
        dump_svmlight_file(part, labels, str(tmp_path / f"{k}.svm"), zero_based=zero_based)
    given = {"zero_based": zero_based, "n_features": 5}
    clf = fit(MaxMargin(tol=1e-6), files(tmp_path / "*.svm", **given))
    whole = MaxMargin(tol=1e-6).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(clf.coef_, whole.coef_, rtol=1e-2, atol=1e-4)
    assert clf.schema_["zero_based"] is zero_based
    given["n_features"] = 7
    assert fit(MaxMargin(), files(tmp_path / "*.svm", **given)).n_features_in_ == 7
    given["n_features"] = 4
    with pytest.raises(ShardError, match=r"column [45], more than n_features"):
        fit(MaxMargin(), files(tmp_path / "*.svm", **given))
    del given["n_features"]
    with pytest.raises(ShardError, match=r"pass zero_based=True or False, and n_features="):
        fit(MaxMargin(), files(tmp_path / "*.svm", **given))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables(tmp_path, kind):
    X, y = noisy(400, 3)
    for k, (part, labels) in enumerate(parts_of(X, y, 4)):
        frame = pd.DataFrame(part, columns=list("abc")).assign(spam=np.where(labels, "yes", "no"))
        frame["color"] = "red"
        if kind == "csv":
            frame.to_csv(tmp_path / f"{k}.csv", index=False)
        else:
            frame.to_parquet(tmp_path / f"{k}.parquet")
    numbers = fit(SOON, files(tmp_path / f"*.{kind}", label="spam", columns=list("abc")))
    whole = MaxMargin(tol=1e-6).fit(X, np.where(y, "yes", "no"))
    assert numbers.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(numbers.coef_, whole.coef_, rtol=1e-2, atol=1e-4)
    with pytest.raises(ShardError, match="column 'color' is not numeric"):
        fit(MaxMargin(), files(tmp_path / f"*.{kind}", label="spam"))


def test_a_file_is_a_shard_in_memory(tmp_path):
    X, y = noisy(300, 3)
    for k, (part, labels) in enumerate(parts_of(X, y, 3)):
        pd.DataFrame(part, columns=list("abc")).assign(y=labels).to_parquet(
            tmp_path / f"{k}.parquet"
        )
    from_files = fit(MaxMargin(), files(sorted(tmp_path.glob("*"))))
    assert same(from_files, fit(MaxMargin(), evenly(X, y, 3)))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"\.svm"):
        files(tmp_path / "*.svm")
    with pytest.raises(ShardError, match="nothing"):
        fit(MaxMargin(), files(tmp_path / "nothing.svm"))
    with pytest.raises(ValueError, match="recipe"):
        files(tmp_path, recipe=1)


# ----------------------------------------------------------------------------------------- refusals
def with_nan(X, y):
    X = X.copy()
    X[1, 2] = np.nan
    return X, y


BROKEN = {
    "NaN": (with_nan, "NaN"),
    "a column more": (lambda X, y: (np.hstack([X, X[:, :1]]), y), "4 columns, partition 0 has 3"),
    "fewer labels": (lambda X, y: (X, y[1:]), "inconsistent"),
    "labels of text": (lambda X, y: (X, y.astype(str)), "labels are text"),
    "no labels": (lambda X, y: (X, np.where(y, np.inf, 0.0)), "infinity"),
}


@pytest.mark.parametrize(("broken", "why"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_shard_is_named(broken, why):
    X, y = noisy(90, 3)
    shards, clf = evenly(X, y, 9), MaxMargin()
    fit(clf, shards)
    before = clf.coef_.copy()
    shards[4] = Held(4, "partition 4", *broken(shards[4].X, shards[4].y))
    with pytest.raises(ShardError, match=f"^partition 4: .*{why}"):
        fit(clf, shards)
    assert clf.coef_.tobytes() == before.tobytes()


def test_frames_with_other_columns():
    X, y = noisy(40, 2)
    one, other = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(X, columns=["b", "a"])
    with pytest.raises(ShardError, match=r"partition 1: the columns are \['b', 'a'\]"):
        fit(MaxMargin(), [Held(0, "partition 0", one, y), Held(1, "partition 1", other, y)])
    clf = fit(MaxMargin(), [Held(0, "partition 0", one, y), Held(1, "partition 1", one, y)])
    assert clf.feature_names_in_.tolist() == ["a", "b"]


def test_what_is_too_little():
    X, y = noisy(40, 2)
    with pytest.raises(ValueError, match="only one class"):
        fit(MaxMargin(), evenly(X, np.zeros(40), 3))
    with pytest.raises(ValueError, match="no rows to learn from: all partitions are empty"):
        fit(MaxMargin(), evenly(X[:0], y[:0], 3))
    with pytest.raises(ValueError, match="weights are zero"):
        fit(MaxMargin(), evenly(X, y, 3, np.zeros(40)))
    with pytest.raises(ValueError, match="no shards"):
        fit(MaxMargin(), [])


def test_ctrl_c_leaves_the_learner_as_it_was():
    X, y = noisy(3000, 5)

    def stop(progress):
        raise KeyboardInterrupt

    clf = MaxMargin(tol=1e-9)
    with pytest.raises(KeyboardInterrupt):
        fit(clf, evenly(X, y, 3), report=stop)
    assert not hasattr(clf, "n_iter_")


def test_what_cannot_be_learned_from_is_said():
    X, y = noisy(40, 3)
    first = Held(0, "the first", X, y)
    with pytest.raises(ShardError, match=r"^the second: X must be rows, got NoneType"):
        fit(MaxMargin(), [first, Held(1, "the second", None, None)])
    with pytest.raises(ShardError, match=r"^the second: the rows are sparse, those of the first"):
        fit(MaxMargin(), [first, Held(1, "the second", sparse.csr_matrix(X), y)])
    with pytest.raises(ValueError, match="use a small soft_margin, or fit all rows on one machine"):
        fit(MaxMargin(soft_margin=0.0), [first])
    for clf in (PassiveAggressive(), NOCA()):
        with pytest.raises(TypeError, match=f"{type(clf).__name__} cannot learn from rows in many"):
            fit(clf, [first])
