"""A saved model that goes on with another file: the bits of one file with the rows of both."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from maxmargin import AMIRA, PUMMA, AutoMargin, PassiveAggressive, Perceptron, load, save, streams
from maxmargin.streams import Recipe, StreamError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
import pyarrow.parquet as pq  # noqa: E402

WORDS = [f"word{k}" for k in range(300)]


def table(rows, seed, cities):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": rng.normal(3.0, 2.0, rows).round(3),
            "city": rng.choice(cities, rows),
            "zip": [f"{code:05d}" for code in rng.integers(0, 40, rows)],
            "note": [" ".join(rng.choice(WORDS[: 150 * (seed + 1)], 6)) for _ in range(rows)],
            "label": rng.choice(["no", "yes"], rows),
        }
    )


@pytest.fixture
def days(tmp_path):
    """Monday, Tuesday with other cities and words, and both, as CSV."""
    monday = table(80, 0, ["Rome", "Ulm"])
    tuesday = table(70, 1, ["Ulm", "Bern", "Oslo"])
    for name, each in [("mon", monday), ("tue", tuesday), ("both", pd.concat([monday, tuesday]))]:
        each.to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


KINDS = {"size": "number", "city": "category", "zip": "category", "note": "text"}


def recipe():
    return Recipe(KINDS, interactions=[("city", "size")])


def saved(clf, folder):
    save(clf, folder / "model.mm")
    return (folder / "model.mm").read_bytes()


def same_bits(clf, expected, folder):
    assert saved(clf, folder) == saved(expected, folder)


@pytest.mark.parametrize(
    "learner", [AutoMargin(), AMIRA(), PUMMA(), PassiveAggressive(C=0.1)], ids=repr
)
def test_a_recipe_goes_on(days, learner):
    learner.fit_stream(streams.open(days / "mon.csv", recipe=recipe()))
    save(learner, days / "mon.mm")
    clf = load(days / "mon.mm").fit_stream(days / "tue.csv")
    expected = type(learner)(**learner.get_params())
    expected.fit_stream(streams.open(days / "both.csv", recipe=recipe()))
    assert {"city=Oslo", "city=Rome"} <= set(clf.feature_names_in_)
    same_bits(clf, expected, days)


@pytest.mark.parametrize("block_size", [1, 3000])
def test_in_any_blocks_and_row_by_row(days, block_size):
    expected = PassiveAggressive().fit_stream(streams.open(days / "both.csv", recipe=recipe()))
    monday = streams.open(days / "mon.csv", recipe=recipe(), block_size=block_size)
    clf = PassiveAggressive().fit_stream(monday)
    one = load(saved_at(clf, days)).partial_fit(*rows_of(days / "tue.csv", slice(0, 30)))
    for row, label in zip(*records_of(days / "tue.csv", slice(30, None)), strict=True):
        one.learn_one(row, label)
    clf.fit_stream(streams.open(days / "tue.csv", schema=clf.schema_, block_size=block_size))
    for each in (clf, one):
        np.testing.assert_array_equal(each.coef_, expected.coef_)
        assert repr(each.recipe_.tree()) == repr(expected.recipe_.tree())
        X, _ = rows_of(days / "both.csv", slice(None))
        np.testing.assert_array_equal(each.decision_function(X), expected.decision_function(X))
    same_bits(clf, expected, days)


def saved_at(clf, folder):
    save(clf, folder / "model.mm")
    return folder / "model.mm"


def rows_of(path, rows):
    frame = pd.read_csv(path, dtype={"zip": str})[rows]
    return frame.drop(columns="label"), frame.label.to_numpy()


def records_of(path, rows):
    X, y = rows_of(path, rows)
    return X.to_dict("records"), y


def test_without_a_recipe(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)), rng.integers(0, 3, 90)
    parts = {"mon": slice(0, 50), "tue": slice(50, None), "both": slice(None)}
    for name, rows in parts.items():
        frame = pd.DataFrame(X[rows], columns=list("abcd")).assign(label=y[rows])
        # Columns are matched by their names.
        order = list("abcd") if name != "tue" else list("dcba")
        frame[[*order, "label"]].to_csv(tmp_path / f"{name}.csv", index=False)
        wide = sparse.csr_matrix(np.hstack([X, X * (np.arange(90) > 60)[:, None]])[rows])
        dump_svmlight_file(wide, y[rows], str(tmp_path / f"{name}.svm"), zero_based=False)
    for form in ("csv", "svm"):
        clf = load(saved_at(AutoMargin().fit_stream(tmp_path / f"mon.{form}"), tmp_path))
        clf.fit_stream(tmp_path / f"tue.{form}")
        expected = AutoMargin().fit_stream(tmp_path / f"both.{form}")
        same_bits(clf, expected, tmp_path)


def test_a_checkpoint_of_the_next_file(days):
    first = PassiveAggressive().fit_stream(streams.open(days / "mon.csv", recipe=recipe()))
    save(first, days / "mon.mm")
    expected = load(days / "mon.mm").fit_stream(days / "tue.csv")

    class Stop(Exception):
        pass

    def tuesday():
        return streams.open(days / "tue.csv", schema=first.schema_, block_size=800)

    source = tuesday()
    reach, seen = source.reach, []

    def stopping(block):
        reach(block)
        seen.append(block)
        if len(seen) == 3:
            raise Stop

    source.reach = stopping
    with pytest.raises(Stop):
        load(days / "mon.mm").fit_stream(source, checkpoint=days / "c", every=1)
    clf = load(days / "mon.mm").fit_stream(tuesday(), checkpoint=days / "c", every=1)
    np.testing.assert_array_equal(clf.coef_, expected.coef_)
    assert repr(clf.recipe_.tree()) == repr(expected.recipe_.tree())


def test_labels_that_are_new(days):
    frame = pd.read_csv(days / "tue.csv", dtype=str)
    frame.loc[40:, "label"] = "maybe"
    frame.to_csv(days / "tue.csv", index=False)
    both = pd.concat([pd.read_csv(days / "mon.csv", dtype=str), frame])
    both.to_csv(days / "both.csv", index=False)
    clf = Perceptron().fit_stream(streams.open(days / "mon.csv", recipe=recipe()))
    before = saved(clf, days)
    with pytest.raises(
        StreamError, match=r"\['maybe'\] are not among the classes .*; when learning starts"
    ):
        clf.fit_stream(days / "tue.csv")
    assert saved(clf, days) == before
    names = ["maybe", "no", "yes"]
    clf = Perceptron().fit_stream(streams.open(days / "mon.csv", recipe=recipe()), classes=names)
    clf.fit_stream(days / "tue.csv")
    expected = Perceptron().fit_stream(streams.open(days / "both.csv", recipe=recipe()))
    same_bits(clf, expected, days)


def test_labels_that_may_be_new():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.repeat(["a", "b", "c"], 20)
    clf = Perceptron().partial_fit(X[:40], y[:40], grow=True)
    expected = Perceptron().partial_fit(X, y, grow=True)
    clf.fit_stream([(X[40:], y[40:])])
    assert clf.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(clf.coef_, expected.coef_)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (
            "zip",
            [3816, 3817],
            r"column 'zip' was learned as text, and is a number column \(int64\) here: keep it as "
            r"text when it is read, such as by pandas.read_csv\(..., dtype={'zip': 'str'}\)",
        ),
        ("note", [1.5, 2.5], r"column 'note' was learned as text, and is a number column \(double"),
        ("size", ["large", "small"], "column 'size': expected a number, found 'large'"),
    ],
)
def test_a_column_of_another_kind_is_named(days, column, values, message):
    clf = Perceptron().fit_stream(streams.open(days / "mon.csv", recipe=recipe()))
    before = saved(clf, days)
    frame = table(2, 0, ["Rome"]).assign(**{column: values})
    frame["label"] = ["no", "yes"]
    pq.write_table(pa.Table.from_pandas(frame), days / "tue.parquet")
    for source in (frame, days / "tue.parquet"):
        with pytest.raises(StreamError, match=message):
            clf.fit_stream(source)
    with pytest.raises(ValueError, match=message):
        clf.partial_fit(frame.drop(columns="label"), frame.label)
    assert saved(clf, days) == before


def test_a_number_for_text_in_a_dict(days):
    clf = Perceptron().fit_stream(streams.open(days / "mon.csv", recipe=recipe()))
    row = {"size": 1.0, "city": "Rome", "zip": 3816, "note": "word1 word2"}
    with pytest.raises(
        ValueError, match="column 'zip' was learned as text, and is the number 3816"
    ):
        clf.learn_one(row, "no")
    with pytest.raises(ValueError, match="'zip' was learned as text"):
        clf.predict_one(row)
    assert clf.predict_one({**row, "zip": "03816"}) in ("no", "yes")


def test_another_recipe_is_refused(days):
    clf = Perceptron().fit_stream(streams.open(days / "mon.csv", recipe=recipe()))
    with pytest.raises(ValueError, match=r"leave out recipe, or start .* sklearn\.base\.clone"):
        clf.fit_stream(days / "tue.csv", recipe=recipe())
    with pytest.raises(ValueError, match=r"another recipe than that of the learner"):
        clf.fit_stream(streams.open(days / "tue.csv", recipe=recipe()))
    with pytest.raises(ValueError, match="another recipe"):
        Perceptron(shuffle=False).fit([[0.0], [1.0]], [0, 1]).fit_stream(
            streams.open(days / "tue.csv", recipe=recipe())
        )


def test_a_model_of_text_is_as_large_as_what_occurred(tmp_path):
    """Files and arrays take about 300 bytes for each word, not for each bucket of the hash."""
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(2000)]
    frame = pd.DataFrame(
        {
            "text": [" ".join(rng.choice(words, 12)) for _ in range(600)],
            "label": rng.choice([f"l{k}" for k in range(5)], 600),
        }
    )
    clf = AutoMargin().fit_stream(frame, recipe=Recipe({"text": "text"}))
    occurred = clf.n_features_in_
    assert occurred <= 2000 + 1
    assert len(saved(clf, tmp_path)) < 5 * 350 * occurred
    assert clf.weights_.size <= 5 * 16 * occurred
    before = clf.decision_function(frame)
    new = frame.assign(text=frame.text + " never before seen")
    assert clf.decision_function(new).shape == before.shape  # such words have no column
    clf.learn_one({"text": "never before seen"}, "l0")
    assert clf.n_features_in_ == occurred + 3
    again = load(saved_at(clf, tmp_path))
    np.testing.assert_array_equal(again.decision_function(frame), clf.decision_function(frame))
    assert len(saved(clf, tmp_path)) < 5 * 350 * (occurred + 10)
