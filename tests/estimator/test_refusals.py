"""What is said about input that is refused: by the names that the user knows."""

import io
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from maxmargin import NOCA, AutoMargin, MaxMargin, Perceptron, streams
from maxmargin.training.inputs import FEW_FRACTIONS, likely_classes

# ------------------------------------------------------------------------------- numbers as labels


def many(count, rows=None):
    y = np.arange(rows or count) % count
    return np.random.default_rng(0).normal(size=(y.size, 2)), y


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("name", [int, float, str])
def test_labels_that_hardly_repeat_are_questioned(name):
    X, y = many(150, rows=200)
    y = y.astype(name)
    with pytest.raises(
        ValueError, match=r"150 different labels among 200 rows, \[.*140 more\]: is"
    ):
        Perceptron(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="is it a number, or the name of a row"):
        Perceptron().fit_stream([(X, y)])


def test_many_classes_that_repeat_are_none_of_our_business():
    X, y = many(150, rows=310)
    assert Perceptron(max_iter=1, random_state=0).fit(X, y).classes_.size == 150
    assert Perceptron().fit_stream([(X, y)]).classes_.size == 150


def test_labels_that_are_named_are_believed():
    X, y = many(150, rows=200)
    assert Perceptron().fit_stream([(X, y)], classes=np.arange(150)).classes_.size == 150
    assert Perceptron().partial_fit(X, y, classes=np.arange(150)).classes_.size == 150


def test_fractions_are_no_labels():
    X, y = many(40)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        Perceptron(random_state=0).fit(X, y + 0.5)
    fractions = np.arange(FEW_FRACTIONS + 1) + 0.5
    with pytest.raises(ValueError, match="1,001 different labels among 10,000,000 rows"):
        likely_classes(fractions, 10**7)
    assert likely_classes(fractions[1:], 10**7).size == FEW_FRACTIONS
    assert likely_classes(np.floor(fractions), 10**7).size == FEW_FRACTIONS + 1
    with pytest.raises(ValueError, match="is it a number"):
        Perceptron().partial_fit(np.ones((fractions.size, 1)), fractions, grow=True)


# -------------------------------------------------------------------------------- names of columns
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_columns_are_named_where_names_are_known(value, what):
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(20, 3))
    table = pandas.DataFrame(X, columns=["age", "income", "height"])
    y = X[:, 0] > 0
    bad = table.copy()
    bad.iloc[3, 1] = value
    named = rf"contains {what} \(row 3, column 'income'\)"
    for X_bad, message in ((bad, named), (bad.to_numpy(), rf"{what} \(row 3, column 1\)")):
        with pytest.raises(ValueError, match=message):
            Perceptron(random_state=0).fit(X_bad, y)
        with pytest.raises(ValueError, match=message):
            Perceptron().partial_fit(X_bad, y, classes=[False, True])
    fitted = Perceptron(random_state=0).fit(table, y)
    with pytest.raises(ValueError, match=named):
        fitted.predict(bad)
    numbered = Perceptron(random_state=0).fit(X, y)
    for make in (np.asarray, sparse.csr_matrix, np.asfortranarray):
        with pytest.raises(ValueError, match=rf"{what} \(row 3, column 1\)"):
            numbered.predict(make(bad.to_numpy()))


# ---------------------------------------------------------------------------------- dicts with text
ROWS = [
    ({"city": "Rom", "size": 2.0, "open": True}, 1),
    ({"city": "Ulm", "size": -1.0, "open": np.bool_(False)}, 0),
    ({"city": "Rom", "size": np.float32(-2.0), "open": 1}, 0),
    ({"size": 3, "colour": "red"}, 1),
]


@pytest.mark.parametrize(
    "learner", [Perceptron(), Perceptron(kernel="rbf", gamma=0.5)], ids=["linear", "kernel"]
)
def test_learn_one_takes_what_fit_stream_takes(learner):
    X = np.array(
        # city=Rom, size, open, city=Ulm, colour=red
        [[1, 2, 1, 0, 0], [0, -1, 0, 1, 0], [1, -2, 1, 0, 0], [0, 3, 0, 0, 1]],
        float,
    )
    clf, plain = (type(learner)(**learner.get_params()) for _ in range(2))
    for _ in range(3):
        for (x, y), row in zip(ROWS, X, strict=True):
            clf.learn_one(x, y, classes=[0, 1])
            plain.learn_one(row, y, classes=[0, 1])
    assert list(clf.columns_) == ["city=Rom", "size", "open", "city=Ulm", "colour=red"]
    for row, (x, _) in zip(X, ROWS, strict=True):
        assert clf.predict_one(x) == plain.predict_one(row)
    np.testing.assert_allclose(clf.decision_function(X), plain.decision_function(X))


@pytest.mark.parametrize(
    "x", [{"size": "large"}, {"new": 1.0, "size": "3"}, {"size": "", "n": "x"}]
)
def test_text_where_numbers_were_learned_is_refused(x):
    clf = Perceptron().fit_stream(ROWS)
    alone = Perceptron()
    for row, y in ROWS:
        alone.learn_one(row, y, classes=[0, 1])
    message = r"column 'size': it was learned as a number, and is the text '\w*' here"
    before = alone.predict_one(ROWS[0][0])
    for call in (
        clf.predict_one,
        clf.decision_one,
        lambda x: clf.learn_one(x, 1),
        lambda x: clf.fit_stream([(x, 1)]),
        lambda x: Perceptron().fit_stream([*ROWS, (x, 1)]),
        alone.predict_one,
        lambda x: alone.learn_one(x, 1),
        lambda x: alone.learn_one({**x, "other": 2.0}, 1),
    ):
        with pytest.raises(ValueError, match=message):
            call(x)
    assert alone.predict_one(ROWS[0][0]) == before
    assert alone.predict_one({"size": 1.0, "city": "Bonn"}) in (0, 1)


@pytest.mark.parametrize("x", [{"size": None}, {"size": np.nan}, {"new": 1.0, "size": [2]}])
def test_values_that_are_neither_are_refused_alike(x):
    clf = Perceptron().fit_stream(ROWS)
    message = r"column 'size': expected a finite number or text, found (no value|nan|\[2\])"
    for call in (
        clf.predict_one,
        lambda x: clf.learn_one(x, 1),
        lambda x: Perceptron().fit_stream([*ROWS, (x, 1)]),
    ):
        with pytest.raises(ValueError, match=message):
            call(x)


def test_names_of_a_stream_are_known_to_single_rows():
    clf = Perceptron().fit_stream(ROWS, passes=5)
    assert list(clf.columns_) == ["city=Rom", "size", "open", "city=Ulm", "colour=red"]
    X = next(streams.open(ROWS).blocks()).X
    assert [clf.predict_one(x) for x, _ in ROWS] == clf.predict(X).tolist()
    assert clf.predict_one({"city": "Paris"}) == clf.predict_one({})
    trials = clf.n_mistakes_
    clf.learn_one({"city": "Bern", "size": -50.0}, 1)
    assert clf.n_mistakes_ == trials + 1
    assert list(clf.columns_)[-1] == "city=Bern"
    assert clf.schema_["columns"] == list(clf.columns_)
    assert clf.predict_one({"city": "Bern"}) == 1


# ----------------------------------------------------------------------------- before the first row
def test_rows_may_be_predicted_before_any_was_learned():
    x = {"size": 1.0}
    assert Perceptron().predict_one(x, grow=True) is None
    assert Perceptron().predict_one(x, classes=["no", "yes"]) == "yes"
    assert Perceptron().predict_one(x, classes=[3, 2, 1]) == 1
    with pytest.raises(NotFittedError):
        Perceptron().predict_one(x)
    with pytest.raises(ValueError, match="at least two labels"):
        Perceptron().predict_one(x, classes=[1])
    clf = Perceptron().learn_one(x, "yes", classes=["no", "yes"])
    assert clf.predict_one(x, classes=["no", "yes"]) == "yes"


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
def test_the_answer_is_the_class_of_a_score_of_zero(classes):
    clf = Perceptron(fit_intercept=False).learn_one([1.0, 0.0], 1, classes=classes)
    nothing = clf.predict_one([0.0, 0.0])
    assert Perceptron().predict_one([0.0, 0.0], classes=classes) == nothing


# ------------------------------------------------------------------------------------- raw columns
def test_text_in_place_of_numbers_has_a_hint():
    pandas = pytest.importorskip("pandas")
    raw = pandas.DataFrame({"comment": ["very good", "bad"], "size": [1.0, 2.0]})
    for learn in (Perceptron().fit, MaxMargin().fit, NOCA().fit):
        with pytest.raises(
            ValueError, match=r"to float: 'very good'\. .*streams\.Recipe.*fit_stream"
        ):
            learn(raw, ["yes", "no"])
    with pytest.raises(ValueError, match=r"Recipe"):
        Perceptron().partial_fit(raw, ["yes", "no"], classes=["no", "yes"])
    clf = make_pipeline(streams.Recipe({"comment": "text"}), Perceptron(random_state=0))
    assert clf.fit(raw, ["yes", "no"]).predict(raw).tolist() == ["yes", "no"]


def test_missing_values_and_times_in_a_table_have_a_hint():
    pandas = pytest.importorskip("pandas")
    times = pandas.DataFrame({"day": pandas.date_range("2026-01-01", periods=2)})
    for raw in (times, pandas.DataFrame({"size": [1.0, np.nan]})):
        for learn in (Perceptron().fit, MaxMargin().fit):
            with pytest.raises(ValueError, match=r"contains (times|NaN).*streams\.Recipe"):
                learn(raw, ["yes", "no"])


def test_a_recipe_that_the_learner_has_is_mentioned():
    raw = io.BytesIO(b"colour,y\nred,0\nblue,1\n")
    with pytest.raises(streams.StreamError, match=r"recipe=clf\.recipe_"):
        streams.open(raw, label="y")


def test_options_of_a_source_are_for_open():
    with pytest.raises(TypeError, match=r"fit_stream\(streams\.open\(path, label=\.\.\.\)\)"):
        Perceptron().fit_stream("rows.csv", label="left")


def test_labels_of_several_kinds():
    for learn in (Perceptron().fit, MaxMargin().fit):
        with pytest.raises(ValueError, match=r"labels of one kind, .* got int and str"):
            learn(np.eye(2), np.array([1, "a"], dtype=object))


# --------------------------------------------------------------------- what says what to do instead
@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "predict_proba_one"])
def test_no_probabilities_without_calibration(method):
    clf = Perceptron(random_state=0).fit([[0.0], [1.0]], [0, 1])
    assert not hasattr(clf, method)
    with pytest.raises(AttributeError, match=f"Perceptron has no {method}") as error:
        getattr(clf, method)
    assert "sklearn.calibration.CalibratedClassifierCV" in str(error.value)
    assert getattr(Perceptron, method).__doc__


def test_no_probabilities_of_max_margin_without_calibration():
    clf = MaxMargin().fit([[0.0], [1.0]], [0, 1])
    assert not hasattr(clf, "predict_proba")
    with pytest.raises(AttributeError, match="set calibration='loo' before it learns"):
        clf.predict_proba([[0.0]])


@pytest.mark.parametrize("row", [[1.0], {"size": 1.0}], ids=["array", "dict"])
def test_the_first_row_of_a_stream_needs_classes_or_grows(row):
    clf = Perceptron()
    with pytest.raises(ValueError, match="classes must be passed on the first call") as error:
        clf.learn_one(row, 1)
    assert "classes=[...]" in str(error.value)
    assert "learn_one, or grow=True" in str(error.value)
    clf.learn_one(row, 1, grow=True)
    with pytest.raises(ValueError, match="classes must be passed on the first call") as error:
        NOCA().partial_fit([[1.0]], [1])
    assert "grow" not in str(error.value)  # which it does not have


def test_one_number_among_texts_does_not_block_its_column():
    clf = AutoMargin()
    for k in range(6):
        clf.learn_one({"zip": f"A{k % 3}"}, "ab"[k % 2], grow=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the row has no column that was learned
        clf.learn_one({"zip": 12345}, "a")
    assert clf.predict_one({"zip": "A1"}) in ("a", "b")
    clf.learn_one({"zip": "A7"}, "b")
