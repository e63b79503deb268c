"""A learner that was saved and loaded goes on as if nothing had happened, to the bit."""

import copy

import numpy as np
import pytest
from persistence.states import (
    ESTIMATORS,
    VARIANTS,
    X,
    as_dict,
    every_estimator,
    fitted,
    known_to,
    made,
    states,
    streamed,
    streams,
    two,
)
from sklearn.base import clone

from maxmargin import NOCA, Perceptron, RandomBudgetPerceptron
from maxmargin.persistence import load, save
from maxmargin.training.protocol import put_state, state_of


def loaded(clf, folder):
    save(clf, folder / "model.mm")
    return load(folder / "model.mm")


ALL = list(states())


@pytest.mark.parametrize(
    ("make", "go_on"), [each[1:] for each in ALL], ids=[each[0] for each in ALL]
)
def test_going_on_after_loading_is_never_having_stopped(make, go_on, tmp_path):
    clf = make()
    before = known_to(clf)
    again = loaded(clf, tmp_path)
    assert known_to(clf) == before  # saving changes nothing
    assert known_to(again) == before
    assert type(again) is type(clf)
    assert known_to(go_on(again)) == known_to(go_on(clf))
    rows = X @ X.T if clf.get_params().get("kernel") == "precomputed" else X
    np.testing.assert_array_equal(again.predict(rows), clf.predict(rows))


def test_there_are_states_of_every_kind():
    names = [name for name, *_ in ALL]
    for variant in (*VARIANTS, "new", "fitted", "precomputed", "precomputed budget"):
        assert any(f" {variant}" in name for name in names), variant
    for Estimator in ESTIMATORS:
        assert f"{Estimator.__name__} fitted" in names


@pytest.mark.parametrize("learner", [Perceptron(), Perceptron(kernel="rbf", gamma=0.5)])
def test_rows_with_names(learner, tmp_path):
    clf = clone(learner)
    for row, label in zip(X[:20], two[:20], strict=True):
        clf.learn_one(as_dict(row), label, classes=["no", "yes"])
    again = loaded(clf, tmp_path)
    assert known_to(again) == known_to(clf)
    for row, label in zip(X[20:], two[20:], strict=True):
        for one in (clf, again):
            one.learn_one({**as_dict(row), "new": 1.0}, label)
        assert again.predict_one(as_dict(row)) == clf.predict_one(as_dict(row))
    assert again.columns_ == clf.columns_
    assert known_to(again) == known_to(clf)


def test_spare_columns_are_not_written(tmp_path):
    clf = Perceptron()
    for k in range(5):  # weights are doubled at the fifth name
        clf.learn_one({f"x{k}": 1.0}, k % 2, classes=[0, 1])
    assert state_of(clf).model.width() > clf.n_features_in_
    again = loaded(clf, tmp_path)
    assert state_of(again).model.width() == clf.n_features_in_
    for one in (clf, again):
        one.learn_one({"x5": 2.0, "x9": 1.0}, 1)
    np.testing.assert_array_equal(again.coef_, clf.coef_)
    assert again.columns_ == clf.columns_


def test_classes_that_nobody_knew_of(tmp_path):
    clf = Perceptron().partial_fit(X[:5], np.zeros(5), grow=True)
    again = loaded(clf, tmp_path)
    for one in (clf, again):
        one.partial_fit(X[5:], np.digitize(X[5:, 0], [0.0, 1.0]), grow=True)
    assert known_to(again) == known_to(clf)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", "längst"]),
        np.array(["a", "b"], dtype=object),
        np.array([b"a", b"b"]),
        np.array([-3, 5]),
        np.array([0, 1], dtype=np.uint8),
        np.array([0.0, 1.0]),
        np.array([False, True]),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_of_all_kinds(labels, tmp_path):
    clf = streamed(made(Perceptron), labels=labels[(X[:, 0] > 0).astype(int)])
    again = loaded(clf, tmp_path)
    assert again.classes_.dtype == labels.dtype
    assert again.predict(X).tolist() == clf.predict(X).tolist()


def test_names_of_features(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["a", "b", "ü"])
    clf = fitted(made(Perceptron), table)
    again = loaded(clf, tmp_path)
    assert again.feature_names_in_.tolist() == ["a", "b", "ü"]
    np.testing.assert_array_equal(again.predict(table), clf.predict(table))


def test_how_a_file_was_read(tmp_path):
    clf = streamed(made(Perceptron))
    schema = {"label": "y", "columns": [{"name": "a", "values": ["x", None]}], "seed": 3}
    put_state(clf, state_of(clf)._replace(schema=schema))
    assert loaded(clf, tmp_path).schema_ == clf.schema_


@pytest.mark.parametrize(
    "state",
    [
        None,
        3,
        np.int64(3),
        np.random.RandomState(3),
        np.random.default_rng(3),
        *(np.random.Generator(bits(3)) for bits in (np.random.Philox, np.random.SFC64)),
    ],
    ids=["None", "int", "int64", "RandomState", "PCG64", "Philox", "SFC64"],
)
def test_random_states(state, tmp_path):
    again = loaded(Perceptron(random_state=state), tmp_path)
    assert type(again.random_state) is type(getattr(state, "item", lambda: state)())
    assert known_to(again.random_state) == known_to(state)


def test_a_random_state_goes_on(tmp_path):
    state = np.random.RandomState(3)
    state.normal()  # half of a pair is kept for the next time
    clf = made(NOCA, random_state=state)
    again = loaded(clf, tmp_path)
    assert again.random_state.normal() == state.normal()
    assert known_to(fitted(again)) == known_to(fitted(clf))


@every_estimator
def test_arrays_are_free(Estimator, tmp_path):
    """They can be written to, and share memory where the learner's own do, and only there."""
    if not streams(Estimator):
        pytest.skip("no streams")
    clf = streamed(made(Estimator))
    again = loaded(clf, tmp_path)
    mine, theirs = _arrays(again), _arrays(clf)
    assert all(array.flags.writeable for array in mine.values())
    assert _shared(mine) == _shared(theirs)
    for name, array in mine.items():
        assert not any(np.shares_memory(array, other) for other in theirs.values()), name


def _arrays(value, name=""):
    if isinstance(value, np.ndarray):
        return {name: value} if value.size else {}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    elif hasattr(value, "__dict__") and type(value).__module__.startswith("maxmargin"):
        value = vars(value)
    found = {}
    for part in value if isinstance(value, dict) else ():
        if part not in ("_one_row", "_structure"):
            found |= _arrays(value[part], f"{name}.{part}")
    return found


def _shared(arrays):
    names = list(arrays)
    return {
        (one, other)
        for one in names
        for other in names
        if one < other and np.shares_memory(arrays[one], arrays[other])
    }


def test_saving_twice_gives_the_same_bytes(tmp_path):
    for clf in (
        fitted(made(Perceptron)),
        streamed(made(RandomBudgetPerceptron)),
    ):
        for name in ("a", "b"):
            save(copy.deepcopy(clf), tmp_path / name)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
