"""Single rows: `learn_one` is `partial_fit` and `predict_one` is `predict`, in every form."""

import copy
import pickle
import warnings
from collections import Counter, OrderedDict
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from problems import kinds_of_learners, label, separable, three_classes
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import maxmargin as mm
from maxmargin.streams import Recipe
from maxmargin.training import one_row, row_reading
from maxmargin.training.protocol import state_of

pytestmark = pytest.mark.filterwarnings("ignore:The row has none of the columns")

ROWS, WIDTH = 40, 6
NAMES = "abcdef"
LINEAR = [
    *kinds_of_learners(),
    mm.AMIRA(intercept="pair"),
    mm.PassiveAggressive(multiclass="1-best"),
    mm.AMIRA(average=True),  # of several classes together
    mm.NORMA(average=True),
]
INDIRECT = [
    mm.Perceptron(kernel="rbf", gamma=0.5),
    mm.PUMMA(kernel="rbf", gamma=0.5),
    mm.Forgetron(budget=5, gamma=0.5),
    mm.AMIRA(kernel="rbf", gamma=0.5, budget=5, on_full="project"),
]
SOME = [mm.Perceptron(), mm.Perceptron(average=True), mm.PUMMA(), INDIRECT[0], INDIRECT[-1]]
some_learners = pytest.mark.parametrize("learner", SOME, ids=label)


def stream(classes=3):
    """Rows of which the first has all columns, others not."""
    X, y = separable(n=ROWS, d=WIDTH) if classes == 2 else three_classes(n=ROWS, d=WIDTH)
    X[1:] *= np.random.default_rng(0).uniform(size=(ROWS - 1, WIDTH)) < 0.7
    return X, y


def as_dict(row):
    return {NAMES[k]: row[k].item() for k in np.flatnonzero(row)}


def as_pair(row):
    columns = np.flatnonzero(row)
    return columns, row[columns]


FORMS = {"dict": as_dict, "pair": as_pair, "dense": np.array, "list": np.ndarray.tolist}


def as_matrix(X, form):
    return X if form in ("dense", "list") else sparse.csr_matrix(X)


def learned(learner, rows, y, classes=(0, 1, 2)):
    clf = clone(learner)
    for x, label_of_x in zip(rows, y, strict=True):
        clf.learn_one(x, label_of_x, classes=classes)
    return clf


def assert_same(clf, expected, tolerance=0.0):
    def check(one, other):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)

    assert clf.n_features_in_ == expected.n_features_in_
    weights = "coef_" if getattr(clf, "kernel", "linear") == "linear" else "dual_coef_"
    check(getattr(clf, weights), getattr(expected, weights))
    check(clf.intercept_, expected.intercept_)
    check(clf.certificate_.bound, expected.certificate_.bound)
    np.testing.assert_equal(clf.certificate_.margin, expected.certificate_.margin)
    assert (clf.n_updates_, clf.n_mistakes_) == (expected.n_updates_, expected.n_mistakes_)
    assert clf.n_updates_ > 0


def state(clf):
    """What a call that fails must leave alone."""
    known = clf.classes_.tolist(), clf.n_features_in_, clf.__dict__.get("columns_")
    return (
        known,
        state_of(clf).model.weights().tolist(),
        clf.intercept_.tolist(),
        state_of(clf).model.tally.tolist(),
    )


# --------------------------------------------------------------- what partial_fit and predict say
@pytest.mark.parametrize("learner", LINEAR + INDIRECT, ids=label)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("form", ["dict", "pair", "dense"])
def test_one_row_at_a_time(learner, classes, form):
    (X, y), make = stream(classes), FORMS[form]
    rows, known = [make(row) for row in X], np.unique(y)
    expected = clone(learner).partial_fit(as_matrix(X, form), y, classes=known)
    clf = learned(learner, rows, y.tolist(), known)
    tolerance = 0.0 if learner in LINEAR else 1e-12
    assert_same(clf, expected, tolerance)
    assert [clf.predict_one(row) for row in rows] == expected.predict(X).tolist()
    assert_same(clf, expected, tolerance)


@pytest.mark.parametrize("form", FORMS)
@some_learners
def test_ways_to_learn_may_alternate(learner, form):
    (X, y), make = stream(), FORMS[form]
    matrix, expected = as_matrix(X, form), clone(learner)
    expected.partial_fit(matrix, y, classes=[0, 1, 2])
    clf = clone(learner).learn_one(make(X[0]), y[0], classes=[0, 1, 2])
    for i in range(1, ROWS):
        if i % 3:
            clf.learn_one(make(X[i]), y[i])
        else:
            clf.partial_fit(matrix[i : i + 1], y[i : i + 1])
        if i % 10 == 0:
            clf = copy.deepcopy(clf) if i % 20 else pickle.loads(pickle.dumps(clf))
    assert_same(clf, expected, 1e-12)
    assert not hasattr(clone(clf), "columns_")
    clf.set_params(max_iter=2, shuffle=False).fit(X, y).learn_one(X[0], y[1])
    expected.set_params(max_iter=2, shuffle=False).fit(X, y).partial_fit(X[:1], y[1:2])
    assert_same(clf, expected, 1e-12)


@pytest.mark.parametrize("learner", [mm.Perceptron(), mm.PUMMA(), mm.AMIRA()], ids=label)
def test_partial_fit_of_arrays_of_one_row_takes_the_fast_way(learner, monkeypatch):
    X, y = stream()
    expected, slowly = clone(learner).partial_fit(X, y, classes=[0, 1, 2]), []
    learn_rows = type(learner)._learn_rows
    monkeypatch.setattr(
        type(learner), "_learn_rows", lambda *args: slowly.append(args) or learn_rows(*args)
    )
    clf = clone(learner).partial_fit(X[:1], y[:1], classes=[0, 1, 2])
    for k in range(1, ROWS):
        clf.partial_fit(X[k : k + 1], y[k : k + 1])
    assert_same(clf, expected)
    assert len(slowly) <= 3
    # What the fast way refuses is refused as ever; what it does not know goes the slow one.
    before, row = state(clf), X[:1].copy()
    row[0, 2] = np.nan
    for rows, labels, why in (
        (row, y[:1], "column 2"),
        (np.full((1, WIDTH), 1e200), y[:1], "row 0"),
        (X[:1], np.array([7]), "7 .row 0."),
        (X[:1, 1:], y[:1], "expecting 6 features"),
        (X[:1], y[:2], "inconsistent"),
    ):
        with pytest.raises(ValueError, match=why):
            clf.partial_fit(rows, labels)
        assert state(clf) == before
    for rows, labels in (
        (X[:1].astype(np.float32), y[:1]),
        (sparse.csr_matrix(X[:1]), y[:1]),
        (X[:1], y[:1].tolist()),
        (X[:1], y[:1].astype(float)),
    ):
        clf.partial_fit(rows, labels)
        expected.partial_fit(X[:1] if rows.dtype == np.float64 else rows, y[:1])
    assert_same(clf, expected)
    clf.set_params(max_iter=0)
    with pytest.raises(ValueError, match="max_iter"):
        clf.partial_fit(X[:1], y[:1])


@pytest.mark.parametrize("other", [np.asfortranarray, lambda X: X[:, ::-1].copy()[:, ::-1]])
def test_memory_layout_does_not_matter(other):
    X, y = stream()
    clf, same = learned(mm.ROMMA(), X, y), other(X)
    rows = [X[k] if k < 20 else same[k] for k in range(ROWS)]
    assert_same(learned(mm.ROMMA(), rows, y), clf)
    assert [clf.predict_one(row) for row in rows] == clf.predict(X).tolist()


@pytest.mark.parametrize(
    "learner", [mm.AMIRA(soft_margin=0.5), mm.ALMA(p=4.0, soft_margin=0.5), mm.PUMMA()], ids=label
)
def test_predict_one_changes_nothing(learner):
    X, y = separable()
    clf, expected = (clone(learner).set_params(warm_start=True, max_iter=1) for _ in "12")
    clf, expected = (each.set_params(shuffle=False).fit(X, y) for each in (clf, expected))
    assert [clf.predict_one(row) for row in X] == expected.predict(X).tolist()
    assert_same(clf.fit(X, y), expected.fit(X, y))


def test_predict_one_after_bisection():
    X, y = separable()
    clf = mm.BisectionPerceptron(random_state=0).fit(X, y)
    assert [clf.predict_one(row) for row in X] == clf.predict(X).tolist()


# ------------------------------------------------------------------------------------------ dicts
@some_learners
def test_names_get_columns_as_they_appear(learner):
    rows = [{"b": 1.0}, {"c": 2.0, "b": -1.0}, {"a": 3.0}, {"a": 1.0, "c": 1.0}, {}, {"b": 2.0}]
    y = [0, 1, 2, 1, 0, 2]
    dense = np.array([[row.get(name, 0.0) for name in "bca"] for row in rows])
    clf = learned(learner, rows, y)
    assert clf.columns_ == {"b": 0, "c": 1, "a": 2}
    expected = clone(learner).partial_fit(sparse.csr_matrix(dense), y, classes=[0, 1, 2])
    assert_same(clf, expected, 0.0 if getattr(learner, "kernel", "linear") == "linear" else 1e-12)
    assert [clf.predict_one(row) for row in rows] == expected.predict(dense).tolist()
    for row in rows:
        assert clf.predict_one(row | {"new": 9.0}) == clf.predict_one(row)
        assert clf.predict_one(dict(reversed(row.items()))) == clf.predict_one(row)
    assert clf.predict(dense).tolist() == expected.predict(dense).tolist()
    assert list(clf.columns_) == ["b", "c", "a"]


@pytest.mark.parametrize("kind", [Counter, OrderedDict])
def test_kinds_of_dicts(kind):
    rows, y = [kind(a=1, b=2), kind(b=1), kind(c=3, a=1)], [0, 1, 2]
    assert_same(learned(mm.Perceptron(), rows, y), learned(mm.Perceptron(), map(dict, rows), y))


def test_many_sets_of_names(monkeypatch):
    monkeypatch.setattr(one_row, "MOST_LAYOUTS", 3)
    X, y = stream()
    rows = [as_dict(row) for row in X]
    assert len({tuple(row) for row in rows}) > 10
    clf = learned(mm.Perceptron(), rows, y)
    assert_same(clf, mm.Perceptron().partial_fit(sparse.csr_matrix(X), y, classes=[0, 1, 2]))
    assert len(clf._one_row.layouts) <= 3


def test_new_names_one_by_one(monkeypatch):
    """Weights are moved whenever their number has doubled, not for each name."""
    widths, grown = [], row_reading.grown

    def spy(state, width, classes):
        after = grown(state, width, classes)
        if after.model is not state.model:
            widths.append(width)
        return after

    monkeypatch.setattr(row_reading, "grown", spy)
    rows = [{f"x{k}": 1.0, f"x{k // 2}": -1.0} for k in range(1, 3000)]
    y = np.arange(2999) % 2
    clf = learned(mm.Perceptron(), rows, y, [0, 1])
    assert len(widths) <= 13
    assert state_of(clf).model.width() > 3000
    assert clf.coef_.shape == (1, 3000)
    columns = [clf.columns_[name] for row in rows for name in row]
    values, starts = np.tile([1.0, -1.0], len(rows)), 2 * np.arange(len(rows) + 1)
    X = sparse.csr_matrix((values, columns, starts), (len(rows), 3000))
    X.sort_indices()
    assert_same(clf, mm.Perceptron().partial_fit(X, y, classes=[0, 1]))


@pytest.mark.parametrize(
    "learner", [mm.Perceptron(), mm.Perceptron(average=True), mm.PUMMA()], ids=label
)
def test_looking_while_there_is_room_for_more(learner):
    rows = [{f"x{k % (k // 3 + 2)}": 1.0 + k, "x0": -1.0} for k in range(60)]
    y = np.arange(60) % 3
    clf, expected = clone(learner), learned(learner, rows, y)
    for k, row in enumerate(rows):
        clf.learn_one(row, y[k], classes=[0, 1, 2])
        assert clf.predict_one(np.zeros(len(clf.columns_))) in (0, 1, 2)
        if k % 5 == 0:
            assert clf.coef_.shape == (3, len(clf.columns_)) == (3, clf.n_features_in_)
            clf.predict(np.zeros((1, clf.n_features_in_)))
    assert_same(clf, expected)


@some_learners
def test_dicts_after_a_table(learner, table):
    X, y = stream()
    clf = clone(learner).partial_fit(table(X[:20]), y[:20], classes=[0, 1, 2])
    for k in range(20, ROWS):
        clf.learn_one(as_dict(X[k]), y[k])
    expected = clone(learner).partial_fit(table(X), y, classes=[0, 1, 2])
    assert_same(clf, expected, 1e-12)
    assert [clf.predict_one(as_dict(row)) for row in X] == clf.predict(table(X)).tolist()
    clf.learn_one({"b": 1.0, "new": 2.0}, 1)
    wider = table(np.ones((1, WIDTH + 1)), [*NAMES, "new"])
    assert clf.predict(wider).tolist() == [clf.predict_one(dict.fromkeys(wider.names, 1.0))]


@some_learners
def test_dicts_after_an_array_are_refused(learner):
    X, y = stream()
    clf = clone(learner).partial_fit(X, y, classes=[0, 1, 2])
    before = state(clf)
    with pytest.raises(ValueError, match=r"dict.*without names"):
        clf.learn_one({"a": 1.0}, 1)
    with pytest.raises(ValueError, match=r"dict.*rows without names"):
        clf.predict_one({"a": 1.0})
    assert state(clf) == before


# -------------------------------------------------------------------------------- what is refused
BAD_ROWS = {
    "NaN|'c': .* found nan": [
        {"a": 1.0, "c": np.nan},
        ([0, 2], [1.0, np.nan]),
        [1.0, 0.0, np.nan, 0.0, 0.0, 0.0],
    ],
    "infinity|'c': .* found -inf": [
        {"c": -np.inf},
        ([2, 0], [np.inf, 1.0]),
        [1.0, 0.0, np.inf, 0.0, 0.0, 0.0],
    ],
    "column|'c'": [{"b": 1.0, "c": None}, ([0, 2], [1, None]), [1.0, 0.0, None, 0.0, 0.0, 0.0]],
    "high": [([0, 2], [1.0, "high"]), [1.0, 0.0, "high", 0.0, 0.0, 0.0]],
    "'c': .* found \\[1.5\\]": [{"a": 1.0, "b": 1.0, "c": [1.5]}],
    "'c'|too large": [{"c": 1e200}, {"a": 1.0, "c": 10**400}, ([0], [1e200]), np.full(6, 1e200)],
    "twice": [([2, 0, 2], [1.0, 2.0, 3.0]), ([1, 1], [1.0, 1.0])],
    "outside": [([-1, 0], [1.0, 2.0])],
    "integers": [([0.5, 1.0], [1.0, 2.0])],
    "same": [([0, 1], [1.0])],
    "shape": [np.ones((2, 3))],
}


@pytest.mark.parametrize("why", BAD_ROWS)
@some_learners
def test_bad_rows_are_refused(learner, why):
    X, y = stream()
    clf, fresh = learned(learner, map(as_dict, X), y), clone(learner)
    before = state(clf)
    for x in BAD_ROWS[why]:
        with pytest.raises(ValueError, match=why):
            clf.learn_one(x, 1)
        assert state(clf) == before
        with pytest.raises(ValueError, match=why):
            fresh.learn_one(x, 1, classes=[0, 1])
        assert vars(fresh).keys() & {"classes_", "columns_", "n_features_in_"} == set()
        if "large" not in why:
            with pytest.raises(ValueError):  # noqa: PT011
                clf.predict_one(x)


@some_learners
def test_rows_of_another_width_are_refused(learner):
    X, y = stream()
    clf = learned(learner, map(as_dict, X), y)
    before = state(clf)
    for x in (np.ones(7), np.ones(5), ([0, 6], [1.0, 2.0])):
        for ask in (clf.predict_one, lambda x: clf.learn_one(x, 1)):
            with pytest.raises(ValueError, match=r"6 features|outside 0\.\.5"):
                ask(x)
    assert state(clf) == before


@some_learners
def test_bad_labels_and_beginnings(learner):
    X, y = stream()
    with pytest.raises(NotFittedError):
        clone(learner).predict_one(X[0])
    for x in (X[0], as_dict(X[0])):
        clf = clone(learner)
        with pytest.raises(ValueError, match="classes must be passed on the first call"):
            clf.learn_one(x, 1)
        assert not hasattr(clf, "columns_")
    with pytest.raises(ValueError, match=r"no names|0 feature"):
        clone(learner).learn_one({}, 1, classes=[0, 1])
    clf = learned(learner, map(as_dict, X), y)
    before = state(clf)
    for bad in (7, "1", None):
        for x in (as_dict(X[0]), {"new": 1.0}, X[0]):
            with pytest.raises(ValueError, match=r"not among the classes|labels are missing"):
                clf.learn_one(x, bad)
    assert state(clf) == before


# ------------------------------------------------------------------- parameters, growth, threads
@pytest.mark.parametrize("look", [False, True])
def test_parameters_may_change_as_in_partial_fit(look):
    X, y = stream()
    clf, expected = mm.PassiveAggressive(C=0.01), mm.PassiveAggressive(C=0.01)
    for k in range(ROWS):
        if k == 20:
            clf.set_params(C=1.0)
            expected.set_params(C=1.0)
            if look:
                clf.predict_one(X[0])
        clf.learn_one(X[k], y[k], classes=[0, 1, 2])
        expected.partial_fit(X[k : k + 1], y[k : k + 1], classes=[0, 1, 2])
    assert_same(clf, expected)
    for name, value in {"fit_intercept": False, "kernel": "rbf", "C": -1.0}.items():
        before = getattr(clf, name)
        clf.set_params(**{name: value})
        if look:
            clf.predict_one(X[0])
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            clf.learn_one(X[0], y[1])
        clf.set_params(**{name: before})
        assert_same(clf, expected)


@some_learners
@pytest.mark.parametrize("form", FORMS)
def test_new_labels(learner, form):
    (X, y), make = stream(), FORMS[form]
    X, y = X[np.argsort(-y)], np.array(["aa", "b", "cccc"])[np.sort(y)[::-1]]
    X[0] = 1.0  # has all names, in order
    clf = clone(learner)
    for row, one in zip(X, y, strict=True):
        clf.learn_one(make(row), one, grow=True)
        assert clf.predict_one(make(row)) in clf.classes_
    assert clf.classes_.tolist() == ["aa", "b", "cccc"]
    expected = clone(learner).partial_fit(as_matrix(X, form), y, grow=True)
    state_of(clf).model.tally.mistakes = state_of(
        expected
    ).model.tally.mistakes  # of the classes known by then
    assert_same(clf, expected, 0.0 if getattr(learner, "kernel", "linear") == "linear" else 1e-9)


def test_threads():
    X, y = stream()
    rows = [as_dict(row) for row in X] * 25
    y = np.tile(y, 25)
    expected = learned(mm.Perceptron(), rows, y)
    with ThreadPoolExecutor(2) as pool:
        for clf in pool.map(lambda _: learned(mm.Perceptron(), rows, y), range(2)):
            assert_same(clf, expected)


@pytest.mark.parametrize("count", [2, 3])
def test_scores_and_probabilities_of_one_row(count):
    random = np.random.default_rng(5)
    X = random.standard_normal((60, 4))
    y = np.arange(60) % count
    clf = mm.AutoMargin()
    clf.partial_fit(X, y, classes=range(count))
    forms = [lambda x: x, lambda x: (np.arange(4), x)]
    for i, form in enumerate(forms):
        assert np.allclose(clf.decision_one(form(X[i])), clf.decision_function(X[i : i + 1])[0])
        probabilities = clf.predict_proba_one(form(X[i]))
        assert list(probabilities) == list(range(count))
        assert np.allclose(list(probabilities.values()), clf.predict_proba(X[i : i + 1])[0])
    with pytest.raises(ValueError, match="NaN"):
        clf.decision_one(np.full(4, np.nan))
    assert not hasattr(mm.Perceptron(), "predict_proba_one")


def test_labels_that_may_be_new_take_the_fast_way():
    """With ``grow``, rows of known labels and names are learned as those without it."""
    random = np.random.default_rng(6)
    rows = [dict(zip("abc", row, strict=True)) for row in random.standard_normal((50, 3)).tolist()]
    labels = [row["a"] > 0.0 for row in rows]
    fast, slow = mm.Perceptron(), mm.Perceptron()
    for row, y in zip(rows, labels, strict=True):
        fast.learn_one(row, y, grow=True)
        slow.learn_one(row, y, grow=True)
        slow.__dict__.pop("_one_row", None)
    assert np.array_equal(fast.coef_, slow.coef_)
    assert "_one_row" in vars(fast)


@pytest.mark.parametrize(
    "clf", [mm.Perceptron(), mm.AutoMargin(), mm.Perceptron(kernel="rbf", gamma=1.0)], ids=repr
)
@pytest.mark.parametrize("learns", [False, True])
def test_a_warning_about_rows_without_known_columns(clf, learns):
    clf = clone(clf)
    for k in range(10):
        clf.learn_one({"size": 1.0, "age": k - 4.5}, "ab"[k % 2], classes=["a", "b"])
    fine = [{"size": 1.0, "new": 3.0}, {"city": "Rome"}, {}]
    strange = [{"Size": 1.0, "Age": 3.0}, {"Age": 3.0}]
    use = (lambda row: clf.learn_one(row, "a")) if learns else clf.predict_one
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if not learns:
            for row in fine:
                use(row)
    words = r"none of the columns that were learned \('size', 'age'\); it has 'Size', 'Age'"
    with pytest.warns(UserWarning, match=words):
        use(strange[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        for row in strange:
            use(row)
            clf.predict_one(row)


def test_no_warning_about_new_words():
    clf = mm.Perceptron()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(100):
            clf.learn_one({f"w{3 * k + j}": 1.0 for j in range(3)}, k % 2, classes=[0, 1])


def test_a_warning_about_raw_rows_without_known_columns():
    rows = [({"size": 1.0, "city": "Rome"}, "a"), ({"size": 2.0, "city": "Ulm"}, "b")]
    clf = mm.AutoMargin().fit_stream(rows, recipe=Recipe())
    with pytest.warns(UserWarning, match="none of the columns that were learned"):
        clf.predict_one({"town": "Rome"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict_one({"town": "Rome"})
