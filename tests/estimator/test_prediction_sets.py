"""Prediction sets whose coverage is kept on any stream."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from campaigns.coverage_on_streams import TARGETS, is_within_bounds, keeps_its_bounds
from hypothesis import given, settings
from hypothesis import strategies as st
from persistence.states import known_to
from reference_conformal import (
    CORRECTION,
    adaptive,
    scores_by_outputs,
    scores_by_probabilities,
    several_rates,
)
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from maxmargin import (
    AMIRA,
    NOCA,
    NORMA,
    PUMMA,
    AutoMargin,
    BisectionPerceptron,
    FixedShare,
    Forgetron,
    PassiveAggressive,
    Perceptron,
)
from maxmargin.certificates.coverage_bounds import coverage_bound, window_bound
from maxmargin.evaluate import progressive
from maxmargin.persistence import ModelFileError, load, save
from maxmargin.training import prediction_sets
from maxmargin.training.prediction_sets import follow_sets, new_tracker
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
    "probabilities": (Perceptron(calibration="online"), two),
    "probabilities of three": (PassiveAggressive(C=0.1, calibration="online"), three),
    "together": (AMIRA(), three),
    "mean weights": (Perceptron(average=True), two),
    "mean weights, probabilities": (Perceptron(average=True, calibration="online"), two),
    "pairs": (PUMMA(), two),
    "budget": (Forgetron(budget=10, gamma=0.5), two),
    "vote": (FixedShare(learners=[Perceptron(), PassiveAggressive(C=0.1)]), two),
    "weights of classes": (Perceptron(class_weight="balanced"), three),
    "mixture": (AutoMargin(), two),
    "mixtures of three": (AutoMargin(), three),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)


def made(name, **parameters):
    return clone(LEARNERS[name][0]).set_params(coverage=0.8, **parameters)


def streamed(name, rows=slice(None), clf=None, **more):
    clf, y = made(name) if clf is None else clf, LEARNERS[name][1]
    more = {each: value[rows] for each, value in more.items()}
    return clf.partial_fit(X[rows], y[rows], classes=np.unique(y), **more)


def bits_of(clf):
    return known_to(state_of(clf).sets)


# ------------------------------------------------------------------------------------------ theorem
def outputs_of_a_stream(kind, n, random):
    """Outputs of two classes and labels, of which one part does not go by the other for ever."""
    outputs, noise = random.normal(size=n), random.logistic(size=n)
    slope = np.full(n, random.uniform(0.0, 4.0))
    if kind == "abrupt":
        for stop in random.integers(0, n, size=3):
            slope[stop:] = random.uniform(-4.0, 4.0)
    elif kind == "slow":
        slope *= np.cos(np.arange(n) * random.uniform(0.0, 20.0) / n)
    elif kind == "growing":  # outputs grow or shrink by a factor of up to 1e6
        return outputs * 10.0 ** (np.linspace(0, 6, n) * random.choice([-1, 1])), noise > 0.0
    elif kind == "silent":
        return np.zeros(n), noise > random.normal()
    return outputs, slope * outputs + noise > 0.0


STREAMS = ["abrupt", "slow", "growing", "silent", "still"]


def test_coverage_keeps_its_bound_on_a_thousand_streams():
    """Of these, 950 with drift of many kinds, 50 with labels that know the set before."""
    random, kept, rows = np.random.default_rng(42), 0, 0
    for k in range(950):
        n, coverage = int(random.integers(200, 3000)), TARGETS[k % len(TARGETS)]
        outputs, labels = outputs_of_a_stream(STREAMS[k // 5 % len(STREAMS)], n, random)
        tracker, seen = new_tracker(coverage), np.empty((n, 2))
        order, codes = np.arange(n, dtype=np.int32), labels.astype(np.int32)
        follow_sets(tracker, outputs[:, None], bool(k % 2), codes, order, slice(None), 2, seen)
        kept += keeps_its_bounds(seen[:, 0], coverage)
        rows += n
    first = np.zeros(1, dtype=np.int32)
    for k in range(50):
        coverage, tracker = TARGETS[k % len(TARGETS)], new_tracker(TARGETS[k % len(TARGETS)])
        wants_error, outside = random.random(400) < (k % 3 + 1) / 3, []
        for n in range(400):
            evidence, is_odds = random.normal(size=(1, 3)), bool(k % 2)
            inside = prediction_sets.prediction_sets(tracker, evidence, is_odds, 3)[0]
            wished = np.flatnonzero(inside != wants_error[n])
            label = wished[0] if wished.size else 0
            codes = np.array([label], dtype=np.int32)
            follow_sets(tracker, evidence, is_odds, codes, first, slice(None), 3)
            outside.append(not inside[label])
        assert tracker.counts[1] == sum(outside)
        kept += keeps_its_bounds(np.array(outside), coverage)
    assert kept == 1000
    assert rows > 1_000_000


@pytest.mark.parametrize("k", [0, 7, 13, 16, 17])
def test_coverage_of_learners_keeps_its_bound(k):
    """A sample of tests/campaigns/coverage_on_streams.py, with mixtures and several classes."""
    assert is_within_bounds(k)


def test_the_bound_is_met_by_a_stream_that_never_has_its_label_inside():
    """An adversary wins until sets are full: then the level has fallen as far as it can."""
    outside, levels = adaptive(np.ones(400), 0.9, 0.1)
    rows = int(np.argmin(levels))
    off = abs(outside[:rows].mean() - 0.1)
    assert outside[:rows].any()
    assert off <= coverage_bound(rows, rate=0.1, start=0.1)
    assert off >= 0.1 * coverage_bound(rows, rate=0.1, start=0.1)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.5, 0.9, 0.99]),
    st.sampled_from([0.001, 0.03, 0.5, 3.0]),
)
def test_the_theorem_holds_for_the_reference_at_any_rate(seed, coverage, rate):
    random = np.random.default_rng(seed)
    scores = random.random(300) ** random.uniform(0.1, 10.0)
    outside, levels = adaptive(scores, coverage, rate)
    share = np.cumsum(outside) / np.arange(1, 301)
    bounds = [coverage_bound(t, rate=rate, start=1.0 - coverage) for t in range(1, 301)]
    assert (np.abs(share - (1.0 - coverage)) <= bounds).all()
    assert -rate <= levels.min() <= levels.max() <= 1.0 + rate


def test_any_2000_rows_are_within_two_points():
    assert window_bound(2000, rate=CORRECTION) <= 0.02 + 1e-12
    assert prediction_sets.CORRECTION == CORRECTION


def test_bounds_say_what_is_wrong():
    with pytest.raises(ValueError, match="rate must be a positive number, got 0"):
        coverage_bound(10, rate=0, start=0.1)
    with pytest.raises(ValueError, match="start must be between 0 and 1, got 2"):
        coverage_bound(10, rate=0.1, start=2)
    assert coverage_bound(0, rate=0.1, start=0.1) == window_bound(0, rate=0.1) == np.inf


# ---------------------------------------------------------------------------------------- reference
@given(st.integers(0, 2**32 - 1), st.sampled_from(TARGETS), st.booleans(), st.integers(2, 5))
def test_sets_are_those_of_the_reference(seed, coverage, is_odds, classes):
    """Of more than two classes; those of two have one output."""
    random, n = np.random.default_rng(seed), 300
    outputs = 3.0 * random.normal(size=(n, 1 if classes == 2 else classes))
    outputs[random.random(n) < 0.1] = 0.0
    labels = random.integers(0, classes, size=n).astype(np.int32)
    if random.random() < 0.7 and classes > 2:
        labels = (outputs + random.normal(size=outputs.shape)).argmax(axis=1).astype(np.int32)
    scores, all_scores, scale = np.empty(n), np.empty((n, classes)), 0.0
    for i, row in enumerate(outputs):
        values = np.array([-row[0], row[0]]) if classes == 2 else row
        if is_odds:
            chances = 1.0 / (1.0 + np.exp(-values))
            all_scores[i] = scores_by_probabilities(chances / chances.sum())
        else:
            all_scores[i] = scores_by_outputs(values, scale)
            scale += (np.sort(values)[-1] - np.sort(values)[-2] - scale) / min(i + 1, 300)
        scores[i] = all_scores[i, labels[i]]
    outside, made, _ = several_rates(scores, coverage)
    tracker, seen = new_tracker(coverage), np.empty((n, 2))
    order = np.arange(n, dtype=np.int32)
    follow_sets(tracker, outputs, is_odds, labels, order, slice(None), classes, seen)
    # Scores that are rounded otherwise may be on the other side of a threshold that met them.
    if np.abs(all_scores - made[:, None]).min() > 1e-9:
        np.testing.assert_array_equal(seen[:, 0], outside)
        np.testing.assert_array_equal(seen[:, 1], (all_scores <= made[:, None]).sum(axis=1))
    if not is_odds:
        np.testing.assert_allclose(tracker.mean_lead, scale, rtol=1e-12)


@pytest.mark.parametrize("is_odds", [False, True])
def test_compiled_and_uncompiled_agree(is_odds):
    found, codes, order = [], three.astype(np.int32), np.arange(120, dtype=np.int32)
    evidence = np.ascontiguousarray(X[:, :3])
    for run in (prediction_sets.cover, prediction_sets.cover.plain):
        tracker, seen = new_tracker(0.8), np.empty((120, 2))
        buffers = tracker, np.empty(3), np.empty(3), seen
        run(evidence, is_odds, codes, order, 0, 3, prediction_sets.loss_rate(0.8), *buffers)
        found.append(np.concatenate([*tracker, seen.ravel()]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


@pytest.mark.parametrize("size", [1e-300, 1e300, 1.7e308])
@pytest.mark.parametrize("is_odds", [False, True])
def test_extremes_stay_numbers(size, is_odds):
    evidence = np.where(np.arange(150).reshape(50, 3) % 2, size, -size)
    evidence[10:20] = 0.0
    tracker, order = new_tracker(0.9), np.arange(50, dtype=np.int32)
    follow_sets(tracker, evidence, is_odds, order % 3, order, slice(None), 3)
    assert prediction_sets.what_is_wrong(tracker) == ""
    assert prediction_sets.prediction_sets(tracker, evidence, is_odds, 3).shape == (50, 3)


def test_drift_is_followed():
    """Labels become much noisier in the middle: sets grow, and every 500 rows have the coverage."""
    random, n = np.random.default_rng(0), 10_000
    outputs = random.normal(size=n)
    slope = np.where(np.arange(n) < 5000, 4.0, 0.5)
    labels = (slope * outputs + random.logistic(size=n) > 0.0).astype(np.int32)
    tracker, seen = new_tracker(0.9), np.empty((n, 2))
    order = np.arange(n, dtype=np.int32)
    follow_sets(tracker, 4.0 * outputs[:, None], True, labels, order, slice(None), 2, seen)
    shares = seen[:, 0].reshape(20, 500).mean(axis=1)
    assert np.abs(shares - 0.1).max() < 0.03
    assert seen[5000:, 1].mean() > seen[:5000, 1].mean() + 0.3


# --------------------------------------------------------------------------------------- estimators
@every_learner
def test_sets_are_those_before_the_row_was_learned(name):
    """Seen from outside: ask for the set of each row, then teach it."""
    clf, y, outside, sizes = made(name), LEARNERS[name][1], 0, 0
    streamed(name, slice(0, 1), clf)
    start = state_of(clf).sets.counts.copy()
    for i in range(1, 120):
        inside = clf.predict_set(X[i : i + 1])[0]
        assert clf.predict_set_one(X[i]) == set(clf.classes_[inside].tolist())
        outside += not inside[clf.classes_ == y[i]][0]
        sizes += inside.sum()
        streamed(name, slice(i, i + 1), clf)
    assert (state_of(clf).sets.counts - start).tolist() == [119, outside, sizes]
    found = clf.coverage_
    assert (found.target, found.rows) == (0.8, 120)
    assert found.observed == 1.0 - state_of(clf).sets.counts[1] / 120
    assert abs(found.observed - 0.8) <= found.bound
    assert str(found).startswith("coverage 0.")


@every_learner
def test_learning_is_the_same_with_and_without(name):
    with_them, without = streamed(name), streamed(name, clf=made(name).set_params(coverage=None))
    np.testing.assert_array_equal(with_them.decision_function(X), without.decision_function(X))


@pytest.mark.parametrize("name", ["mixture", "mixtures of three", "probabilities of three"])
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
@settings(max_examples=15)
@given(cuts=CUTS)
def test_any_chunking_gives_the_same_bits(name, cuts):
    whole, parts = streamed(name), in_parts(name, cuts)
    if name == "budget":  # kernel values are products of matrices, which are rounded as they come
        for one, other in zip(state_of(whole).sets, state_of(parts).sets, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    else:
        assert bits_of(whole) == bits_of(parts)


@pytest.mark.parametrize("name", ["two classes", "mean weights, probabilities"])
@settings(max_examples=15)
@given(cuts=CUTS)
def test_any_chunking_of_rows_with_weights_gives_the_same_bits(name, cuts):
    """A row counts once, whatever its weight, and not at all if that is 0."""
    whole = streamed(name, sample_weight=weights)
    assert bits_of(whole) == bits_of(in_parts(name, cuts, sample_weight=weights))
    assert whole.coverage_.rows == np.count_nonzero(weights)


@pytest.mark.parametrize(
    "name",
    [
        *("two classes", "probabilities", "probabilities of three", "weights of classes", "vote"),
        *("mixture", "mixtures of three"),
    ],
)
def test_single_rows_give_the_same_bits(name):
    y, one = LEARNERS[name][1], made(name)
    for i in range(120):
        one.learn_one(X[i], y[i].item(), classes=np.unique(y))
    assert bits_of(one) == bits_of(streamed(name))
    np.testing.assert_array_equal(one.predict_set(X), streamed(name).predict_set(X))


def test_single_rows_as_dicts():
    one = made("probabilities")
    for row, label in zip(X, two.tolist(), strict=True):
        row = {f"x{j}": value for j, value in enumerate(row)}
        one.learn_one(row, label, classes=["no", "yes"])
    assert bits_of(one) == bits_of(streamed("probabilities"))
    assert one.predict_set_one({"x0": 9.0}) <= {"no", "yes"}


def test_a_stream_gives_the_same_bits(tmp_path):
    source = [(X[:50], two[:50]), (X[50:], two[50:])]
    path = tmp_path / "run.ckpt"
    clf = made("two classes").fit_stream(source, classes=["no", "yes"], checkpoint=path, every=1)
    assert bits_of(clf) == bits_of(streamed("two classes"))
    again = made("two classes").fit_stream(source, classes=["no", "yes"], checkpoint=path, every=1)
    assert known_to(state_of(again)) == known_to(state_of(clf))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["two classes", "probabilities of three"])
def test_a_fit_of_one_pass_is_a_stream(name):
    fitted = made(name, max_iter=1, shuffle=False).fit(X, LEARNERS[name][1])
    assert bits_of(fitted) == bits_of(streamed(name))


@pytest.mark.parametrize("y", [two, three], ids=["two classes", "three classes"])
def test_a_mixture_of_gaussians(tmp_path, y):
    """Of any cut of the stream, as it is seen from outside, in files and in streams."""
    clf, outside, sizes = NOCA(coverage=0.8), 0, 0
    clf.partial_fit(X[:1], y[:1], classes=np.unique(y))
    start = state_of(clf).sets.counts.copy()
    for i in range(1, 120):
        inside = clf.predict_set(X[i : i + 1])[0]
        outside += not inside[clf.classes_ == y[i]][0]
        sizes += inside.sum()
        clf.partial_fit(X[i : i + 1], y[i : i + 1])
    assert (state_of(clf).sets.counts - start).tolist() == [119, outside, sizes]
    assert abs(clf.coverage_.observed - 0.8) <= clf.coverage_.bound
    whole = NOCA(coverage=0.8).partial_fit(X, y, classes=np.unique(y))
    plain = NOCA().partial_fit(X, y, classes=np.unique(y))
    path, labels = tmp_path / "run.ckpt", np.unique(y)
    source = [(X[:50], y[:50]), (X[50:], y[50:])]
    streamed = NOCA(coverage=0.8).fit_stream(source, classes=labels, checkpoint=path, every=1)
    fitted = NOCA(coverage=0.8, shuffle=False).fit(X, y)
    for other in (whole, streamed, fitted):
        assert bits_of(other) == bits_of(clf)
        np.testing.assert_array_equal(other.decision_function(X), plain.decision_function(X))
    save(clf, tmp_path / "model.mm")
    for other in (load(tmp_path / "model.mm"), pickle.loads(pickle.dumps(clf))):
        assert other.coverage_ == clf.coverage_
        np.testing.assert_array_equal(other.predict_set(X), clf.predict_set(X))
    found = progressive(NOCA(coverage=0.8), X, y)
    assert found.covered[1:].sum() == 119 - outside
    assert found.set_sizes[1:].sum() == sizes


def test_refusals_of_a_mixture_of_gaussians():
    with pytest.raises(AttributeError, match=r"has no predict_set.*set coverage=0.9"):
        NOCA().predict_set(X)
    assert not hasattr(NOCA().partial_fit(X, two, classes=["no", "yes"]), "coverage_")
    with pytest.raises(ValueError, match=r"coverage=0.9 needs scores .* max_iter=2"):
        NOCA(coverage=0.9, max_iter=2).fit(X, two)
    with pytest.raises(NotFittedError, match=r"any row since coverage=0.9 was set"):
        NOCA().partial_fit(X, two, classes=["no", "yes"]).set_params(coverage=0.9).predict_set(X)


def test_new_classes():
    """As if the third class had been known to come, but never occurred before."""
    clf = PassiveAggressive(C=0.1, coverage=0.8)
    clf.partial_fit(X[:1], three[:1], grow=True)
    assert clf.predict_set(X).shape == (120, 1)
    for i in range(1, 120):
        clf.partial_fit(X[i : i + 1], three[i : i + 1], grow=True)
    assert clf.coverage_.rows == 120
    assert clf.predict_set(X).shape == (120, 3)


def test_files_and_pickles(tmp_path):
    for name in ("two classes", "probabilities of three"):
        clf = streamed(name, slice(0, 60))
        save(clf, tmp_path / "model.mm")
        for other in (load(tmp_path / "model.mm"), pickle.loads(pickle.dumps(clf))):
            assert other.coverage_ == clf.coverage_
            streamed(name, slice(60, 120), other)
            assert bits_of(other) == bits_of(streamed(name))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("target", np.array([1.0]), "the target is not between 0 and 1"),
        ("counts", np.array([1.0, 2.0, 0.0]), "a count or a scale is out of its range"),
        ("shares", np.full(8, 0.5), "the weights of rates are not shares of 1"),
        ("thresholds", np.full(8, np.nan), "it contains NaN or infinity"),
        ("thresholds", np.full(7, 0.5), "there are not the arrays of a tracker of sets"),
    ],
)
def test_files_that_cannot_be(tmp_path, field, value, message):
    clf = streamed("two classes")
    put_state(clf, state_of(clf)._replace(sets=state_of(clf).sets._replace(**{field: value})))
    save(clf, tmp_path / "model.mm")
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "model.mm")


def test_another_target_begins_anew():
    clf = streamed("two classes")
    clf.set_params(coverage=0.9)
    with pytest.raises(NotFittedError, match=r"any row since coverage=0.9 was set"):
        clf.predict_set(X)
    streamed("two classes", slice(0, 10), clf)
    assert (clf.coverage_.target, clf.coverage_.rows) == (0.9, 10)
    clf.set_params(coverage=0.7).learn_one(X[0], "no")
    assert (clf.coverage_.target, clf.coverage_.rows) == (0.7, 1)
    streamed("two classes", slice(0, 10), clf.set_params(coverage=None))
    assert state_of(clf).sets is None


def test_refusals():
    with pytest.raises(AttributeError, match=r"has no predict_set.*set coverage=0.9"):
        Perceptron().predict_set(X)
    assert not hasattr(Perceptron(), "predict_set_one")
    assert not hasattr(streamed("two classes").set_params(coverage=None), "coverage_")
    with pytest.raises(ValueError, match="'coverage' parameter"):
        Perceptron(coverage=1.0).partial_fit(X, two, classes=["no", "yes"])
    with pytest.raises(ValueError, match=r"coverage=0.9 needs scores of rows that were not"):
        Perceptron(coverage=0.9).fit(X, two)
    with pytest.raises(ValueError, match=r"coverage=0.9 needs scores .* passes=2"):
        Perceptron(coverage=0.9).fit_stream([(X, two)], passes=2)
    with pytest.raises(ValueError, match=r"coverage=0.9 needs rows that come one by one"):
        BisectionPerceptron(coverage=0.9).fit(X, two)
    several = np.stack([noisy > 0, noisy > 1], axis=1).astype(int)
    with pytest.raises(ValueError, match=r"coverage=0.9 needs rows with one label each"):
        Perceptron(coverage=0.9).partial_fit(X, several)
    with pytest.raises(ValueError, match=r"coverage=0.9 cannot follow the mean of a kernel"):
        NORMA(coverage=0.9, average=True, kernel="rbf", gamma=1.0).partial_fit(
            X, two, classes=["no", "yes"]
        )
    with pytest.raises(ValueError, match="its prediction sets would not be used"):
        FixedShare(learners=[Perceptron(coverage=0.9)]).partial_fit(X, two, classes=["no", "yes"])
