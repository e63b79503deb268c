"""Streams with columns and labels that come later: the model is that which knew them all."""

import pickle
import warnings

import numpy as np
import pytest
from extent import everything_or
from hypothesis import given, settings
from numpy.testing import assert_array_equal
from problems import chunk_sizes, kinds_of_learners, label
from scipy import sparse
from sklearn.base import clone

import maxmargin as mm
from maxmargin import NOCA, AutoMargin, ConformalClassifier, Perceptron
from maxmargin.streams import Recipe
from maxmargin.training.protocol import state_of

FORMS = {"dense": np.ascontiguousarray, "CSR": sparse.csr_matrix}
# Up to which row, so many columns and these labels: at the end, in front, and several between.
STAGES = (
    (6, 3, ["m"]),
    (24, 3, ["m", "z"]),
    (40, 5, ["m", "z", "a"]),
    (60, 5, ["m", "z", "a", "pp", "mmmm"]),
    (80, 9, ["m", "z", "a", "pp", "mmmm"]),
)
ENDS = [end for end, _, _ in STAGES]
ROWS, WIDTH = 80, 9
CLASSES = ["a", "m", "mmmm", "pp", "z"]


def one_vs_rest(learner):
    return learner.set_params(multiclass="ovr") if hasattr(learner, "multiclass") else learner


TRACKING = mm.TrackingALMA(p=4.0, rate=0.3, radius=2.0, margin=0.3)
LINEAR = [one_vs_rest(each) for each in [*kinds_of_learners(), *everything_or([], [TRACKING])]]
ON_A_BUDGET = [
    mm.AMIRA(budget=7),
    mm.AMIRA(budget=7, on_full="random", random_state=0),
    mm.AMIRA(budget=7, on_full="project"),
]
OTHER_RULES = [
    mm.Perceptron(),
    mm.NORMA(rate=0.5, decay=0.1, margin=0.5),
    mm.AMIRA(soft_margin=0.5),
    mm.AMIRA(intercept="pair"),
]
KERNEL = [
    one_vs_rest(each.set_params(kernel="rbf", gamma=0.3))
    for each in (
        mm.Perceptron(average=True),
        mm.PassiveAggressive(C=0.5),
        mm.PUMMA(),
        mm.Forgetron(budget=7),
        mm.RandomBudgetPerceptron(budget=7, random_state=0),
        mm.Projectron(threshold=0.1),
        *everything_or([], [*OTHER_RULES, *ON_A_BUDGET]),
    )
]
SOME = [mm.Perceptron(), mm.ALMA(p=4.0), mm.PUMMA(), *KERNEL[1:4], KERNEL[-1]]

every_form = pytest.mark.parametrize("form", FORMS)
some_learners = pytest.mark.parametrize("learner", SOME, ids=label)


def stream(seed=0):
    """Rows whose columns are 0 before they appear, and labels."""
    random = np.random.default_rng(seed)
    X, y, start = np.zeros((ROWS, WIDTH)), np.empty(ROWS, dtype="U4"), 0
    centres = dict(zip(CLASSES, random.normal(size=(5, WIDTH)), strict=True))
    for end, width, known in STAGES:
        y[start:end] = random.choice(known, size=end - start)
        X[start:end, :width] = random.normal(size=(end - start, width))
        X[start:end, :width] += 1.5 * np.array([centres[each][:width] for each in y[start:end]])
        start = end
    X[::7, 1] = 0.0  # so that sparse rows have different lengths
    return X, y


def width_at(end):
    return next(width for stop, width, _ in STAGES if end <= stop)


def feed(learner, form, ends, between=lambda clf: clf):
    """Learn from chunks of rows as they come, with the columns and labels there are by then."""
    (X, y), clf, start = stream(), clone(learner), 0
    for end in ends:
        chunk = FORMS[form](X[start:end, : width_at(end)])
        clf = between(clf.partial_fit(chunk, y[start:end], grow=True))
        start = end
    return clf


def all_knowing(learner, form, rows=ROWS, width=WIDTH, classes=CLASSES, **how):
    X, y = stream()
    return clone(learner).partial_fit(FORMS[form](X[:rows, :width]), y[:rows], classes, **how)


def bounds(clf):
    certificate = clf.certificate_
    return [one.bound for one in certificate.classes or (certificate,)]


def assert_same(clf, expected, tolerance=0.0):
    def check(one, other):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)

    assert clf.classes_.tolist() == expected.classes_.tolist()
    assert clf.n_features_in_ == expected.n_features_in_
    weights = "coef_" if getattr(clf, "kernel", "linear") == "linear" else "dual_coef_"
    check(getattr(clf, weights), getattr(expected, weights))
    check(clf.intercept_, expected.intercept_)
    X = stream(seed=1)[0][:, : clf.n_features_in_]
    check(clf.decision_function(X), expected.decision_function(X))
    assert clf.predict(X).tolist() == expected.predict(X).tolist()
    if (
        getattr(clf, "kernel", "linear") == "linear"
    ):  # with kernels they rest on snapshots at the ends of calls
        check(bounds(clf), bounds(expected))
    assert clf.n_updates_ == expected.n_updates_ > 0


def tolerance_of(learner):
    return 0.0 if getattr(learner, "kernel", "linear") == "linear" else 1e-9


def state(clf):
    """Everything that a call which fails must leave alone."""
    model = state_of(clf).model
    return pickle.dumps((clf.classes_, clf.n_features_in_, model.tally, model.problems()))


# -------------------------------------------------------------------- as if all had been known
@pytest.mark.parametrize("learner", LINEAR, ids=label)
@every_form
def test_linear_learner_grows_to_the_bit(learner, form):
    clf = feed(learner, form, ENDS)
    assert_same(clf, all_knowing(learner, form, grow=True))
    plain = all_knowing(learner, form)
    np.testing.assert_array_equal(clf.coef_, plain.coef_)
    np.testing.assert_array_equal(clf.intercept_, plain.intercept_)


@pytest.mark.parametrize("learner", KERNEL, ids=label)
@every_form
def test_kernel_learner_grows(learner, form):
    clf = feed(learner, form, ENDS)
    assert_same(clf, all_knowing(learner, form, grow=True), tolerance=1e-9)
    X, plain = stream(seed=1)[0], all_knowing(learner, form)
    outputs = clf.decision_function(X), plain.decision_function(X)
    np.testing.assert_allclose(*outputs, rtol=1e-9, atol=1e-9)


@some_learners
def test_chunks_do_not_matter(learner):
    expected = all_knowing(learner, "dense", grow=True)

    @settings(deadline=None, max_examples=5)
    @given(sizes=chunk_sizes(ROWS))
    def check(sizes):
        clf = feed(learner, "dense", np.cumsum(sizes).tolist())
        assert_same(clf, expected, tolerance_of(learner))

    check()


@some_learners
def test_pickling_and_asking_between_the_calls(learner):
    def stored(clf):
        assert bounds(clf)
        return pickle.loads(pickle.dumps(clf))

    clf = feed(learner, "dense", ENDS, between=stored)
    assert_same(clf, feed(learner, "dense", ENDS))
    assert not hasattr(clone(clf), "classes_")
    assert_same(feed(clf, "dense", ENDS), clf)


# -------------------------------------------------------------------------- one class, then more
@some_learners
def test_one_class_then_two_then_more(learner):
    X = stream(seed=1)[0]
    one = feed(learner, "dense", ENDS[:1])
    assert one.classes_.tolist() == ["m"]
    assert one.predict(X[:, :3]).tolist() == ["m"] * ROWS
    two = feed(learner, "dense", ENDS[:2])
    plain = all_knowing(learner, "dense", rows=24, width=3, classes=["m", "z"])
    assert two.decision_function(X[:, :3]).shape == (ROWS,)
    outputs = two.decision_function(X[:, :3]), plain.decision_function(X[:, :3])
    np.testing.assert_allclose(*outputs, rtol=1e-9, atol=1e-9)  # of matrix products of other shapes
    if getattr(learner, "kernel", "linear") == "linear":
        np.testing.assert_array_equal(two.coef_, plain.coef_)
    three = feed(learner, "dense", ENDS[:3])
    assert three.classes_.tolist() == ["a", "m", "z"]
    assert three.decision_function(X[:, :5]).shape == (ROWS, 3)


# ----------------------------------------------------------------------------- columns on their own
@pytest.mark.parametrize("learner", [*SOME, mm.AMIRA(), mm.Perceptron(average=True)], ids=label)
def test_only_columns_grow_where_the_first_call_did_not_ask_for_more(learner):
    X, y = stream()
    clf = clone(learner).partial_fit(FORMS["dense"](X[:40, :5]), y[:40], classes=CLASSES)
    clf.partial_fit(X[40:], y[40:], grow=True)
    plain = all_knowing(learner, "dense")
    assert_same(clf, plain, tolerance_of(learner))
    before = state(clf)
    with pytest.raises(ValueError, match=r"new classes, \['other'\].*first call.*grow=True"):
        clf.partial_fit(np.ones((1, 12)), ["other"], grow=True)
    assert state(clf) == before
    assert_same(clf, plain, tolerance_of(learner))


@pytest.mark.parametrize("kind", [mm.ALMA, mm.TrackingALMA, mm.PUMMA])
def test_norm_chosen_by_the_number_of_columns_is_that_of_the_first_call(kind):
    X, y = stream()
    clf, expected = kind(p="log"), kind(p=2.0)
    for each in (clf, expected):
        each.partial_fit(FORMS["dense"](X[:40, :2]), y[:40], classes=CLASSES)
        each.partial_fit(X[40:], y[40:], grow=True)
    assert_same(clf, expected)


def test_fitted_models_take_new_columns():
    """A soft margin gives each row of `fit` a weight, and rows of a stream none."""
    X, y = stream()
    clf, plain = (mm.Perceptron(soft_margin=0.5, max_iter=3, random_state=0) for _ in "12")
    clf.fit(FORMS["dense"](X[:40, :5]), y[:40]).partial_fit(X[:40], y[:40], grow=True)
    plain.fit(X[:40], y[:40]).partial_fit(X[:40], y[:40])
    assert_same(clf, plain)


@some_learners
def test_without_grow_nothing_new_is_accepted(learner):
    X, y = stream()
    clf = feed(learner, "dense", ENDS[:3])
    before = state(clf)
    with pytest.raises(ValueError, match="9 features"):
        clf.partial_fit(X, np.full(ROWS, "a"))
    with pytest.raises(ValueError, match=r"'mmmm'|'pp'"):
        clf.partial_fit(X[:, :5], y)
    with pytest.raises(ValueError, match="classes="):
        clf.partial_fit(X[:1, :5], ["m"], classes=CLASSES)
    with pytest.raises(ValueError, match="4 features"):
        clf.partial_fit(X[:, :4], y, grow=True)
    assert state(clf) == before


@some_learners
@every_form
@pytest.mark.parametrize("bad", [np.nan, 1e200])
def test_rows_that_cannot_be_learned_leave_everything_as_it_was(learner, form, bad):
    X, y = stream()
    clf = feed(learner, form, ENDS[:2])
    before, expected = state(clf), feed(learner, form, ENDS[:2])
    X[70, 8] = bad
    with pytest.raises(ValueError, match="row 46"):
        clf.partial_fit(FORMS[form](X[24:]), y[24:], grow=True)
    assert state(clf) == before
    assert_same(clf, expected)


@pytest.mark.parametrize("more", [{}, {"budget": 10}, {"intercept": "pair"}], ids=str)
def test_kernels_that_fail_leave_everything_as_it_was(more):
    """In a later block of rows, when the model has grown and learned already."""
    X, y = stream()
    clf = mm.AMIRA(multiclass="ovr", kernel="poly", gamma=0.1, degree=100, **more)
    clf.partial_fit(X[:24, :3], y[:24], grow=True)
    before, outputs = state(clf), clf.decision_function(X[:, :3])
    longer, labels = np.tile(X, (10, 1)), np.tile(y, 10)
    longer[-1] = 1e9
    with pytest.raises(ValueError, match="not finite"):
        clf.partial_fit(longer, labels, grow=True)
    np.testing.assert_array_equal(clf.decision_function(X[:, :3]), outputs)
    assert state(clf) == before


# ------------------------------------------------------------------------- tables, other rules
def test_tables_grow_by_columns_behind_the_old_ones(table):
    X, y = stream()
    clf = mm.Perceptron()
    for (end, width, _), start in zip(STAGES, [0, *ENDS], strict=False):
        chunk = table(FORMS["dense"](X[start:end, :width]), "abcdefghi"[:width])
        clf.partial_fit(chunk, y[start:end], grow=True)
    assert clf.feature_names_in_.tolist() == list("abcdefghi")
    np.testing.assert_array_equal(clf.coef_, all_knowing(mm.Perceptron(), "dense").coef_)
    before = state(clf)
    for other, why in (
        (table(np.ones((1, 10)), "jabcdefghi"), "behind the old ones"),
        (table(np.ones((1, 9)), "bacdefghi"), "feature names"),
        (np.ones((1, 10)), "names for them, or none"),
    ):
        with pytest.raises(ValueError, match=why):
            clf.partial_fit(other, ["a"], grow=True)
    assert clf.feature_names_in_.tolist() == list("abcdefghi")
    assert state(clf) == before


@pytest.mark.parametrize("how", ["k-best", "1-best"])
@pytest.mark.parametrize("more", [{}, {"kernel": "rbf", "gamma": 0.3}], ids=str)
def test_classes_that_are_learned_together_cannot_grow(how, more):
    X, y = stream()
    clf = mm.AMIRA(multiclass=how, **more)
    with pytest.raises(ValueError, match=f"multiclass='ovr', got '{how}'"):
        clf.partial_fit(X, y, grow=True)
    assert not hasattr(clf, "classes_")


@some_learners
def test_fit_starts_anew(learner):
    X, y = stream()
    clf = feed(learner, "dense", ENDS).set_params(max_iter=2, random_state=0)
    X, y = FORMS["dense"](X[6:24, :3]), y[6:24]
    expected = clone(clf.fit(X, y)).fit(X, y)
    assert_same(clf, expected)
    with pytest.raises(ValueError, match="new classes"):
        clf.partial_fit(X[:1], ["other"], grow=True)


SHOP = [
    ({"age": 20.0 + k % 7, "city": ("Rome", "Ulm")[k % 2]}, ("no", "yes")[k % 2]) for k in range(30)
]
LATER = [({"age": 90.0 + k % 7, "city": "Oslo"}, "maybe") for k in range(30)]


@pytest.mark.parametrize(
    "learner", [AutoMargin(), Perceptron(), ConformalClassifier(Perceptron())], ids=repr
)
def test_streams_with_a_recipe_learn_new_labels(learner):
    rows = [row for row, _ in SHOP + LATER]
    known = clone(learner).fit_stream(
        SHOP, recipe=Recipe(), classes=["maybe", "no", "yes"], grow=True
    )
    clf = clone(learner).fit_stream(SHOP, recipe=Recipe(), grow=True)
    assert clf.classes_.tolist() == ["no", "yes"]
    clf, known = clf.fit_stream(LATER), known.fit_stream(LATER)
    assert clf.classes_.tolist() == ["maybe", "no", "yes"]
    assert_array_equal(clf.decision_function(rows), known.decision_function(rows))
    clf.learn_one(rows[0], "new", grow=True)
    clf.partial_fit(rows[:1], ["newer"], grow=True)
    assert clf.classes_.tolist() == ["maybe", "new", "newer", "no", "yes"]


def test_a_stream_learns_labels_that_come_in_later_rows():
    clf = Perceptron().fit_stream(SHOP + LATER, recipe=Recipe(), classes=["no", "yes"], grow=True)
    assert clf.classes_.tolist() == ["maybe", "no", "yes"]


def test_errors_say_how_labels_could_have_been_learned():
    clf = Perceptron().fit_stream(SHOP, recipe=Recipe())
    with pytest.raises(ValueError, match="or fit_stream was made with grow=True"):
        clf.partial_fit([LATER[0][0]], ["maybe"], grow=True)
    with pytest.raises(ValueError, match="or pass grow=True"):
        clf.fit_stream(LATER)
    with pytest.raises(ValueError, match="NOCA must know all labels from the start"):
        NOCA().fit_stream(SHOP, recipe=Recipe(), grow=True)


@pytest.mark.parametrize("method", ["learn_one", "partial_fit"])
def test_a_recipe_says_that_it_ignores_new_names(method):
    clf = Perceptron().fit_stream(SHOP, recipe=Recipe())
    row, label = {"age": 20.0, "city": "Rome", "size": 3.0}, "no"
    learned = (row, label) if method == "learn_one" else ([row], [label])
    with pytest.warns(UserWarning, match="adds no columns to a recipe.*: 'size' will be ignored"):
        getattr(clf, method)(*learned, grow=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(clf, method)(*learned, grow=True)
