"""`ConformalClassifier`: prediction sets around any learner, on streams and by held-out rows."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from persistence.states import known_to
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import (
    AMIRA,
    NOCA,
    NORMA,
    PUMMA,
    AutoMargin,
    BisectionPerceptron,
    ConformalClassifier,
    FixedShare,
    Forgetron,
    MaxMargin,
    PassiveAggressive,
    Perceptron,
    Relaxation,
)
from maxmargin.persistence import ModelFileError, load, save
from maxmargin.streams import Recipe
from maxmargin.training.prediction_sets import (
    SETS,
    class_scores,
    held_out_rows,
    threshold,
    tracker_in,
)
from maxmargin.training.protocol import put_state, state_of

random = np.random.default_rng(3)
X = random.normal(size=(120, 4))
noisy = X[:, 0] + 0.4 * X[:, 1] + random.normal(size=120)
two = np.where(noisy > 0.3, "yes", "no")
three = np.digitize(noisy, [-0.6, 0.6])
weights = random.choice([0.0, 0.5, 1.0, 3.0], size=120)

LEARNERS = {
    "two classes": (Perceptron(), two),
    "three classes": (PassiveAggressive(C=0.1), three),
    "together": (AMIRA(), three),
    "mean weights": (Perceptron(average=True), two),
    "pairs": (PUMMA(), two),
    "budget": (Forgetron(budget=10, gamma=0.5), two),
    "vote": (FixedShare(learners=[Perceptron(), PassiveAggressive(C=0.1)]), two),
    "weights of classes": (Perceptron(class_weight="balanced"), three),
    "mixture": (AutoMargin(), two),
    "mixtures of three": (AutoMargin(), three),
    "Gaussians": (NOCA(), two),
    "Gaussians of three": (NOCA(), three),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)
# Kernel values of budgets are rounded as rows come, and Gaussians take no single rows.
with_bits = pytest.mark.parametrize("name", [each for each in LEARNERS if each[0] not in "Gb"])


def made(name):
    return ConformalClassifier(clone(LEARNERS[name][0]), coverage=0.8)


def streamed(name, rows=slice(None), clf=None, **more):
    clf, y = made(name) if clf is None else clf, LEARNERS[name][1]
    more = {each: value[rows] for each, value in more.items()}
    return clf.partial_fit(X[rows], y[rows], classes=np.unique(y), **more)


def bits_of(clf):
    return known_to(tracker_in(state_of(clf)))


# --------------------------------------------------------------------------------------- on streams
@every_learner
def test_sets_are_those_before_the_row_was_learned(name):
    """Seen from outside: ask for the set of each row, then teach it."""
    clf, y, outside, sizes = made(name), LEARNERS[name][1], 0, 0
    streamed(name, slice(0, 1), clf)
    start = tracker_in(state_of(clf)).counts.copy()
    for i in range(1, 120):
        inside = clf.predict_set(X[i : i + 1])[0]
        if hasattr(clf.estimator_, "decision_one"):
            assert clf.predict_set_one(X[i]) == set(clf.classes_[inside].tolist())
        outside += not inside[clf.classes_ == y[i]][0]
        sizes += inside.sum()
        streamed(name, slice(i, i + 1), clf)
    assert (tracker_in(state_of(clf)).counts - start).tolist() == [119, outside, sizes]
    found = clf.coverage_
    assert (found.target, found.rows) == (0.8, 120)
    assert abs(found.observed - 0.8) <= found.bound
    assert str(found).startswith("coverage 0.")


@every_learner
def test_the_learner_learns_as_without_sets(name):
    alone, y = clone(LEARNERS[name][0]), LEARNERS[name][1]
    alone.partial_fit(X, y, classes=np.unique(y))
    clf = streamed(name)
    np.testing.assert_array_equal(clf.decision_function(X), alone.decision_function(X))
    np.testing.assert_array_equal(clf.predict(X), alone.predict(X))
    assert type(clf.estimator_) is type(alone)
    assert clf.estimator_.n_mistakes_ == alone.n_mistakes_
    assert not hasattr(clf.clf, "classes_")


@pytest.mark.parametrize("name", ["mixture", "mixtures of three", "Gaussians of three"])
def test_sets_are_the_likeliest_classes(name):
    clf = streamed(name)
    inside, chances = clf.predict_set(X), clf.predict_proba(X)
    for row, chance in zip(inside, chances, strict=True):
        if row.any() and not row.all():
            assert chance[row].min() >= chance[~row].max()


CUTS = st.lists(st.integers(0, 120), max_size=5)


def in_parts(name, cuts, **more):
    clf = made(name)
    for start, stop in pairwise([0, *sorted(cuts), 120]):
        if stop > start:
            streamed(name, slice(start, stop), clf, **more)
    return clf


@every_learner
@settings(max_examples=10)
@given(cuts=CUTS)
def test_any_chunking_gives_the_same_bits(name, cuts):
    whole, parts = streamed(name), in_parts(name, cuts)
    if name == "budget":  # kernel values are products of matrices, which are rounded as they come
        for one, other in zip(
            tracker_in(state_of(whole)), tracker_in(state_of(parts)), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    else:
        assert bits_of(whole) == bits_of(parts)


@pytest.mark.parametrize("name", ["two classes", "mean weights"])
@settings(max_examples=10)
@given(cuts=CUTS)
def test_any_chunking_of_rows_with_weights_gives_the_same_bits(name, cuts):
    """A row counts once, whatever its weight, and not at all if that is 0."""
    whole = streamed(name, sample_weight=weights)
    assert bits_of(whole) == bits_of(in_parts(name, cuts, sample_weight=weights))
    assert whole.coverage_.rows == np.count_nonzero(weights)


@with_bits
def test_single_rows_give_the_same_bits(name):
    y, one, weighted = LEARNERS[name][1], made(name), name != "vote"
    for i in range(120):
        w = weights[i] if weighted else 1.0
        one.learn_one(X[i], y[i].item(), w=w, classes=np.unique(y))
    more = {"sample_weight": weights} if weighted else {}
    assert bits_of(one) == bits_of(streamed(name, **more))
    np.testing.assert_array_equal(one.predict_set(X), streamed(name, **more).predict_set(X))


def test_new_labels_and_columns_give_the_same_bits_however_they_come():
    rows = [{f"x{j}": v for j, v in enumerate(row[: 2 + i % 3])} for i, row in enumerate(X)]
    for learner in (PassiveAggressive(C=0.1), AutoMargin()):
        one, whole = ConformalClassifier(learner), ConformalClassifier(learner)
        for row, label in zip(rows, three.tolist(), strict=True):
            one.learn_one(row, label, grow=True)
        dense = ConformalClassifier(learner)
        whole.partial_fit(X, three, grow=True)
        for i in range(120):
            dense.partial_fit(X[i : i + 1], three[i : i + 1], grow=True)
        assert bits_of(whole) == bits_of(dense)
        assert one.coverage_.rows == whole.coverage_.rows == 120
        assert one.predict_set_one({"x0": 9.0, "unknown": 1.0}) <= {0, 1, 2}
        assert one.predict_one({"x0": 9.0}) in {0, 1, 2}
        assert set(one.columns_) == {"x0", "x1", "x2", "x3"}


def test_an_error_leaves_what_was_known():
    clf = ConformalClassifier(PassiveAggressive(C=0.1)).partial_fit(X[:3], three[:3], grow=True)
    before = known_to(state_of(clf))
    bad = X[3:9].copy()
    bad[-1, 0] = np.nan
    with pytest.raises(ValueError, match="Labels must be all of one kind"):
        clf.partial_fit(X[3:9], ["a"] * 6, grow=True)
    with pytest.raises(ValueError, match="NaN"):
        clf.partial_fit(bad, [0, 5, 0, 6, 0, 0], grow=True)
    for x, label in (([0.0, 1.0], 0), (X[0], 77), ([np.nan] * 4, 0)):
        with pytest.raises(ValueError, match=r"shape|classes|NaN"):
            clf.learn_one(x, label)
    assert known_to(state_of(clf)) == before


def test_a_stream_gives_the_same_bits(tmp_path):
    for name in ("two classes", "Gaussians"):
        source = [(X[:50], two[:50]), (X[50:], two[50:])]
        path = tmp_path / f"{name}.ckpt"
        options = {"classes": ["no", "yes"], "checkpoint": path, "every": 1}
        clf = made(name).fit_stream(source, **options)
        assert bits_of(clf) == bits_of(streamed(name))
        again = made(name).fit_stream(source, **options)
        assert known_to(state_of(again)) == known_to(state_of(clf))


def test_a_recipe_prepares_rows():
    rows = [{"size": v, "colour": "red" if v > 0 else "blue"} for v in X[:, 0].tolist()]
    source = list(zip(rows, two.tolist(), strict=True))
    clf = ConformalClassifier().fit_stream(source, classes=["no", "yes"], recipe=Recipe())
    assert clf.coverage_.rows == 120
    clf.learn_one(rows[0], "yes")
    clf.partial_fit(rows[:2], ["yes", "no"])
    assert clf.coverage_.rows == 123
    assert clf.predict_set(rows).shape == (120, 2)
    assert clf.predict_set_one(rows[0]) == set(clf.classes_[clf.predict_set(rows[:1])[0]].tolist())


def test_a_copy_goes_on_from_what_the_learner_knows():
    learner = PassiveAggressive(C=0.1).partial_fit(X[:60], three[:60], classes=[0, 1, 2])
    before = known_to(state_of(learner))
    clf = ConformalClassifier(learner, coverage=0.8)
    np.testing.assert_array_equal(clf.predict(X), learner.predict(X))
    for i in range(60, 120):
        clf.learn_one(X[i], int(three[i]))
    assert known_to(state_of(learner)) == before
    learner.partial_fit(X[60:], three[60:])
    np.testing.assert_array_equal(clf.estimator_.coef_, learner.coef_)
    assert clf.coverage_.rows == 60
    assert not hasattr(clone(clf), "classes_")


def test_files_and_pickles(tmp_path):
    for name in ("two classes", "mixtures of three", "Gaussians"):
        clf = streamed(name, slice(0, 60))
        save(clf, tmp_path / "model.mm")
        for other in (load(tmp_path / "model.mm"), *map(copy.deepcopy, (clf, clf))):
            pickled = pickle.loads(pickle.dumps(other))
            for each in (other, pickled):
                assert each.coverage_ == clf.coverage_
                streamed(name, slice(60, 120), each)
                assert bits_of(each) == bits_of(streamed(name))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("target", np.array([1.0]), "the target is not between 0 and 1"),
        (
            "counts",
            np.array([1.0, 2.0, 0.0]),
            "more labels were outside of sets than there were rows",
        ),
        ("shares", np.full(8, 0.5), "the weights of rates are not shares of 1"),
        ("thresholds", np.full(8, np.nan), "sets.thresholds is not finite"),
        ("thresholds", np.full(7, 0.5), "sets.thresholds has the shape"),
    ],
)
def test_files_that_cannot_be(tmp_path, field, value, message):
    clf = streamed("two classes")
    state = state_of(clf)
    put_state(clf, state._replace(more={SETS: tracker_in(state)._replace(**{field: value})}))
    save(clf, tmp_path / "model.mm")
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "model.mm")


def test_another_target_begins_anew():
    clf = streamed("two classes").set_params(coverage=0.9)
    assert (clf.coverage_.target, clf.coverage_.rows) == (0.9, 0)
    streamed("two classes", slice(0, 10), clf)
    assert (clf.coverage_.target, clf.coverage_.rows) == (0.9, 10)
    clf.set_params(coverage=0.7).learn_one(X[0], "no")
    assert (clf.coverage_.target, clf.coverage_.rows) == (0.7, 1)


def test_parameters_of_the_learner():
    clf = ConformalClassifier(PassiveAggressive()).set_params(clf__C=0.5)
    clf.partial_fit(X, three, classes=[0, 1, 2])
    assert clf.estimator_.C == 0.5
    clf.set_params(clf__C=0.25).partial_fit(X, three)
    assert clf.estimator_.C == 0.25
    assert type(ConformalClassifier().partial_fit(X, two, grow=True).estimator_) is AutoMargin


def test_rows_of_extreme_sizes_end():
    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 10)) * 10.0 ** random.uniform(-49, 49, size=(300, 1))
    rows, y = np.clip(rows, -3e49, 3e49), random.integers(0, 4, 300)
    for learner in (AutoMargin(), PassiveAggressive()):
        clf = ConformalClassifier(learner).partial_fit(rows, y, classes=[0, 1, 2, 3])
        assert abs(clf.coverage_.observed - 0.9) <= clf.coverage_.bound
    relaxation = Relaxation(target=1e300, intercept_scaling=5e24, random_state=0)
    with pytest.raises(ValueError, match="diverged"):
        ConformalClassifier(relaxation).partial_fit(rows, y, classes=[0, 1, 2, 3])


def test_refusals():
    with pytest.raises(NotFittedError):
        ConformalClassifier(Perceptron()).predict_set(X)
    with pytest.raises(ValueError, match="'coverage' parameter of ConformalClassifier"):
        ConformalClassifier(Perceptron(), coverage=1.0).partial_fit(X, two, classes=["no", "yes"])
    with pytest.raises(ValueError, match="'clf' parameter of ConformalClassifier"):
        ConformalClassifier("perceptron").partial_fit(X, two, classes=["no", "yes"])
    with pytest.raises(ValueError, match="learner of maxmargin, got Pipeline; put a scaler before"):
        ConformalClassifier(make_pipeline(StandardScaler(), Perceptron())).fit(X, two)
    with pytest.raises(AttributeError, match="after fit, threshold_ is"):
        _ = ConformalClassifier(Perceptron(random_state=0)).fit(X, two).coverage_
    with pytest.raises(ValueError, match="holds no other one"):
        ConformalClassifier(ConformalClassifier()).fit(X, two)
    with pytest.raises(ValueError, match="'C' parameter of PassiveAggressive"):
        ConformalClassifier(PassiveAggressive(C=-1)).partial_fit(X, two, classes=["no", "yes"])
    with pytest.raises(ValueError, match=r"only the first pass has, and passes=2 asks for more"):
        ConformalClassifier(Perceptron()).fit_stream([(X, two)], passes=2)
    for learner in (BisectionPerceptron(), MaxMargin()):
        with pytest.raises(AttributeError, match=r"has no partial_fit, since .* needs all"):
            ConformalClassifier(learner).partial_fit(X, two, classes=["no", "yes"])
    several = np.stack([noisy > 0, noisy > 1], axis=1).astype(int)
    for learn in (ConformalClassifier(Perceptron()).partial_fit, ConformalClassifier().fit):
        with pytest.raises(ValueError, match=r"needs rows with one label each"):
            learn(X, several)
    with pytest.raises(ValueError, match=r"cannot follow the mean of a kernel's coefficients"):
        ConformalClassifier(NORMA(average=True, kernel="rbf", gamma=1.0)).partial_fit(
            X, two, classes=["no", "yes"]
        )
    with pytest.raises(AttributeError, match="only after fit"):
        _ = streamed("two classes").threshold_
    with pytest.raises(AttributeError, match="only after learning from a stream"):
        _ = ConformalClassifier(MaxMargin()).fit(X, two).coverage_


# ------------------------------------------------------------------------------ with held-out rows
def rows(n, random, classes=2):
    X = random.normal(size=(n, 3))
    noisy = X[:, 0] + 0.7 * random.normal(size=n)
    return X, np.digitize(noisy, [0.0] if classes == 2 else [-0.6, 0.6])


@pytest.mark.parametrize(("classes", "coverage"), [(2, 0.9), (3, 0.8)])
def test_coverage_on_exchangeable_rows(classes, coverage):
    """The mean over 300 fits, each with 40 held-out rows: between coverage and 1 / 41 more."""
    random, found = np.random.default_rng(1), []
    for _ in range(300):
        X, y = rows(240, random, classes)
        clf = ConformalClassifier(MaxMargin(), coverage=coverage).fit(X[:200], y[:200])
        inside = clf.predict_set(X[200:])
        found.append(inside[np.arange(40), y[200:]].mean())
    error = np.std(found) / np.sqrt(300)
    assert coverage - 3.0 * error <= np.mean(found) <= coverage + 1.0 / 41.0 + 3.0 * error


def test_coverage_with_classes_that_only_held_out_rows_have():
    """20 rows of 10 classes: a label is in its set, or the threshold is infinite."""
    random, found = np.random.default_rng(4), []
    centres = 2.0 * random.normal(size=(10, 2))
    for _ in range(800):
        y = random.integers(0, 10, 21)
        X = centres[y] + random.normal(size=(21, 2))
        clf = ConformalClassifier(MaxMargin(), coverage=0.8, held_out=0.25).fit(X[:20], y[:20])
        is_inside = y[20] in clf.classes_[clf.predict_set(X[20:])[0]]
        found.append(is_inside or np.isinf(clf.threshold_))
    assert np.mean(found) >= 0.8 - 3.0 * np.sqrt(0.16 / 800)


def test_the_threshold_is_the_finite_sample_quantile():
    scores = np.arange(1.0, 10.0)  # nine: ranks of ten
    assert threshold(scores, 0.9) == threshold(scores, 0.85) == 9.0
    assert threshold(scores, 0.8) == 8.0
    assert threshold(scores, 0.95) == np.inf


def test_scores_of_classes():
    outputs = random.normal(size=(50, 4))
    expected = [[max(np.delete(row, c)) - row[c] for c in range(4)] for row in outputs]
    np.testing.assert_allclose(class_scores(outputs), expected)
    np.testing.assert_array_equal(class_scores(outputs[:, :1]), outputs[:, :1] * [1.0, -1.0])
    np.testing.assert_array_equal(class_scores(np.array([[1.0, 1.0, 0.0]])), [[0.0, 0.0, 1.0]])


@pytest.mark.parametrize(
    "learner", [MaxMargin(), *(each(random_state=0) for each in (PUMMA, NOCA, AutoMargin))]
)
def test_the_fit_is_that_of_the_other_rows(learner, tmp_path):
    X, y = rows(200, np.random.default_rng(0), 3)
    clf = ConformalClassifier(learner, held_out=0.1).fit(X, y)
    chosen, counted = held_out_rows(np.ones(200), 0.1), np.ones(200)
    counted[chosen] = 0.0
    other = clone(learner).fit(X, y, sample_weight=counted)
    outputs = other.decision_function(X)
    np.testing.assert_array_equal(clf.decision_function(X), outputs)
    expected = np.sort(class_scores(outputs)[chosen, y[chosen]])
    assert clf.threshold_ == threshold(expected, 0.9)
    np.testing.assert_array_equal(clf.predict_set(X), class_scores(outputs) <= clf.threshold_)
    by_rows = ConformalClassifier(learner, held_out=0.1).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(by_rows.threshold_, clf.threshold_, rtol=1e-6)
    save(clf, tmp_path / "model.mm")
    np.testing.assert_array_equal(load(tmp_path / "model.mm").predict_set(X), clf.predict_set(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_stream_after_a_fit_begins_its_own_sets():
    clf = ConformalClassifier(PassiveAggressive(C=0.1, random_state=0)).fit(X, three)
    clf.learn_one(X[0], int(three[0])).partial_fit(X[1:], three[1:])
    assert clf.coverage_.rows == 120
    assert not hasattr(clf, "threshold_")


def test_refusals_of_held_out_rows():
    with pytest.raises(ValueError, match=r"held_out=0.999 leaves no rows to learn from"):
        ConformalClassifier(MaxMargin(), held_out=0.999).fit(X, two)
    with pytest.raises(ValueError, match="'held_out' parameter"):
        ConformalClassifier(MaxMargin(), held_out=0.0).fit(X, two)
