"""Probabilities from scores that were seen before their rows were learned from."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from common.estimators import can_hold, is_about
from hypothesis import given, settings
from hypothesis import strategies as st
from persistence.states import known_to
from scipy import optimize, sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import (
    AMIRA,
    NORMA,
    PUMMA,
    BisectionPerceptron,
    FixedShare,
    Forgetron,
    MaxMargin,
    PassiveAggressive,
    Perceptron,
)
from maxmargin.core.rows import DenseRows, Tail
from maxmargin.datasets import load_adult
from maxmargin.persistence import ModelFileError, load, save
from maxmargin.training import calibration
from maxmargin.training.calibration import NO_ODDS, NO_ROWS, NO_WEIGHTS
from maxmargin.training.inputs import as_targets
from maxmargin.training.protocol import put_state, state_of

random = np.random.default_rng(3)
X = random.normal(size=(120, 4))
noisy = X[:, 0] + 0.4 * X[:, 1] + random.normal(size=120)
two = np.where(noisy > 0.3, "yes", "no")
three = np.digitize(noisy, [-0.6, 0.6])
several = np.stack([noisy > -0.5, X[:, 2] + 0.3 * noisy > 0.2], axis=1).astype(int)
weights = random.choice([0.0, 0.5, 1.0, 3.0], size=120)

LEARNERS = {
    "two classes": (Perceptron(), two),
    "three classes": (PassiveAggressive(C=0.1), three),
    "together": (AMIRA(), three),
    "several labels": (Perceptron(), several),
    "mean weights": (Perceptron(average=True), two),
    "mean weights together": (AMIRA(average=True), three),
    "weights shrink": (NORMA(average=True), two),
    "pairs": (PUMMA(), two),
    "budget": (Forgetron(budget=10, gamma=0.5), two),
    "vote": (FixedShare(learners=[Perceptron(), PassiveAggressive(C=0.1)]), two),
    "weights of classes": (Perceptron(class_weight="balanced"), three),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)


def made(name, **parameters):
    return clone(LEARNERS[name][0]).set_params(calibration="online", **parameters)


def streamed(name, rows=slice(None), clf=None, **more):
    clf, y = made(name) if clf is None else clf, LEARNERS[name][1]
    classes = None if y.ndim == 2 else np.unique(y)
    more = {each: value[rows] for each, value in more.items()}
    return clf.partial_fit(X[rows], y[rows], classes=classes, **more)


def maps_of(clf):
    return state_of(clf).calibration


def bits_of(clf):
    """All that the maps know."""
    return known_to(maps_of(clf))


# ---------------------------------------------------------------------------------------- reference
def reference(scores, levels, signs, weights):
    """Theta and scale after all rows, by matrices and a general minimiser."""
    theta, H, scale = np.array([0.0, 0.0, 1.0]), np.eye(3), 0.0
    given = zip(scores, levels, signs, weights, strict=True)
    for n, (score, level, y, weight) in enumerate(given, start=1):
        scale += (abs(score - level) - scale) / min(n, 300)
        lift = np.clip(level / scale, -10.0, 10.0) if scale else 0.0
        x = np.array([1.0, lift, (score - level) / scale if scale else 0.0])
        keep = 1.0 - 1.0 / min(n + 1, 5000)
        H = keep * H + (1.0 - keep) * np.eye(3)
        # The minimum lies at theta + t y H^-1 x, for the t where the slope along it is 0.
        along = np.linalg.solve(H, x)

        def slope(t, y=y, x=x, weight=weight, along=along, theta=theta):
            return t - weight / (1.0 + np.exp(y * x @ (theta + t * y * along)))

        theta = theta + optimize.brentq(slope, 0.0, weight, xtol=1e-14) * y * along
        chance = 1.0 / (1.0 + np.exp(-x @ theta))
        H = H + weight * chance * (1.0 - chance) * np.outer(x, x)
        if theta[2] < 0.0:
            rise = np.linalg.inv(H)[2]
            theta = theta - theta[2] / rise[2] * rise
            theta[2] = 0.0
    return *theta, scale


def follow(maps, scores, targets, weights=NO_WEIGHTS, run=calibration.follow):
    """Scores whose level is not known."""
    order, steps = np.arange(len(scores), dtype=np.int32), np.empty((0, 0, 0))
    run(NO_ROWS, scores, scores, steps, targets, order, weights, maps, -1, NO_ODDS)


def known_of(maps, c=0):
    return *maps.theta[c], maps.scales[c]


def targets_of(signs):
    return as_targets((signs > 0).astype(np.int32), 2)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 5, 40, 700]),
    st.sampled_from([1e-20, 1.0, 1e9]),
    st.sampled_from([-1.0, 0.0, 2.0]),
    st.booleans(),
)
def test_maps_are_those_of_the_reference(seed, n, size, use, is_weighted):
    """Also of scores that say the opposite of labels, or nothing."""
    random = np.random.default_rng(seed)
    scores = size * random.normal(size=n) * np.where(random.random(n) < 0.1, 0.0, 1.0)
    signs = np.where(use * scores / size + random.logistic(size=n) > 0.5, 1.0, -1.0)
    counts = random.choice([0.1, 1.0, 7.0], size=n) if is_weighted else np.ones(n)
    maps = calibration.new_maps(1)
    follow(maps, scores[:, None], targets_of(signs), counts if is_weighted else NO_WEIGHTS)
    expected = reference(scores, np.zeros(n), signs, counts)
    np.testing.assert_allclose(known_of(maps), expected, rtol=1e-7, atol=1e-8)


def moving(n, seed, size=1.0, use=2.0):
    """Rows, the weights before each of them and what they become, and labels."""
    random = np.random.default_rng(seed)
    rows = random.normal([2.0, 0.0, -1.0], size=(n, 3))
    before, steps = np.zeros((n + 1, 4)), np.empty((n, 1, 2))
    steps[:, 0, 0] = random.choice([0.0, 0.5, 0.99, 1.0], size=n, p=[0.01, 0.09, 0.4, 0.5])
    steps[:, 0, 1] = size * random.normal(size=n) * (random.random(n) < 0.5)
    for i in range(n):
        before[i + 1] = steps[i, 0, 0] * before[i] + steps[i, 0, 1] * np.append(rows[i], 1.0)
    scores = np.einsum("ij,ij->i", before[:-1, :3], rows) + before[:-1, 3]
    signs = np.where(use * scores / size + random.logistic(size=n) > 0.5, 1.0, -1.0)
    return rows, before, steps, scores, signs


def means_of(rows):
    """The mean of the last rows before each of them, and after all."""
    means = np.zeros((len(rows) + 1, rows.shape[1]))
    for n, row in enumerate(rows, start=1):
        means[n] = means[n - 1] + (row - means[n - 1]) / min(n, 300)
    return means


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 3, 40, 700]),
    st.sampled_from([1e-20, 1.0, 1e9]),
    st.sampled_from([-1.0, 0.0, 2.0]),
    st.booleans(),
)
def test_levels_are_scores_of_the_mean_row(seed, n, size, use, is_mean):
    rows, before, steps, outputs, signs = moving(n, seed, size, use)
    with_offset = np.hstack([rows, np.ones((n, 1))])
    asked = before
    if is_mean:  # over the weights after each trial
        asked = np.cumsum(before, axis=0) / np.maximum(np.arange(n + 1), 1)[:, None]
    scores, means = np.einsum("ij,ij->i", asked[:-1], with_offset), means_of(with_offset)
    levels = np.einsum("ij,ij->i", asked, means)
    maps, order = calibration.new_maps(1, 3), np.arange(n, dtype=np.int32)
    calibration.follow(
        DenseRows(rows, Tail(1.0, 0.0)),
        scores[:, None],
        outputs[:, None],
        steps,
        targets_of(signs),
        order,
        NO_WEIGHTS,
        maps,
        0 if is_mean else -1,
        NO_ODDS,
    )
    np.testing.assert_allclose((maps.fading * maps.mean)[0], means[-1], atol=1e-12)
    np.testing.assert_allclose(maps.levels[0, 1], levels[-1], rtol=1e-9, atol=1e-11 * size)
    expected = reference(scores, levels[:-1], signs, np.ones(n))
    np.testing.assert_allclose(known_of(maps), expected, rtol=1e-6, atol=1e-7)


def test_a_mean_that_fades_is_multiplied_out():
    """After so many rows nothing is left of what it was multiplied by."""
    n = 80_000
    rows = np.random.default_rng(0).normal(size=(n, 1)) + 3.0
    maps, order = calibration.new_maps(1, 1), np.arange(n, dtype=np.int32)
    scores, steps = rows - 1.0, np.tile([1.0, 0.0], (n, 1, 1))
    follower = DenseRows(rows, Tail(1.0, 0.0)), scores, scores, steps
    calibration.follow(*follower, targets_of(np.ones(n)), order, NO_WEIGHTS, maps, -1, NO_ODDS)
    assert calibration.FADED < maps.fading[0] < 1.0
    mean = means_of(rows)[-1, 0]
    np.testing.assert_allclose((maps.fading * maps.mean)[0], [mean, 1.0], rtol=1e-12)
    np.testing.assert_allclose(maps.levels[0], mean - 1.0, rtol=1e-12)


def test_old_rows_are_forgotten():
    """More of them than are remembered, of which the last ones say something else."""
    random = np.random.default_rng(0)
    scores = random.normal(size=7000)
    signs = np.where(scores + random.logistic(size=7000) > np.arange(7000) / 4000, 1.0, -1.0)
    maps = calibration.new_maps(1)
    follow(maps, scores[:, None], targets_of(signs))
    expected = reference(scores, np.zeros(7000), signs, np.ones(7000))
    np.testing.assert_allclose(known_of(maps), expected, rtol=1e-6)


def test_compiled_and_plain_are_the_same():
    rows, _, steps, _, _ = moving(120, seed=4)
    found = []
    for run in (calibration.follow, calibration.follow.plain):
        maps, order = calibration.new_maps(3, 3), np.arange(120, dtype=np.int32)
        scores = np.ascontiguousarray(X[:, :3])
        run(
            DenseRows(rows, Tail(1.0, 0.0)),
            scores,
            scores,
            np.repeat(steps, 3, axis=1),
            as_targets(three.astype(np.int32), 3),
            order,
            weights + 0.5,
            maps,
            5,
            NO_ODDS,
        )
        found.append(np.concatenate([each.ravel() for each in maps]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10, atol=1e-14)


def test_maps_learn_the_sigmoid_that_made_the_labels():
    random = np.random.default_rng(0)
    scores = 50.0 * random.normal(size=40_000)
    labels = (random.random(40_000) < 1.0 / (1.0 + np.exp(1.0 - 0.04 * scores))).astype(np.int32)
    maps = calibration.new_maps(1)
    follow(maps, scores[:, None], as_targets(labels, 2))
    odds = calibration.log_odds(maps, slice(None), np.array([[-50.0], [0.0], [25.0], [75.0]]))
    np.testing.assert_allclose(odds.ravel(), [-3.0, -1.0, 0.0, 2.0], atol=0.25)


def test_scores_that_swing_together_do_not_count():
    """An intercept that jumps tells nothing of labels: what lies above the level does."""
    random = np.random.default_rng(0)
    n = 20_000
    rows = random.normal(size=(n, 1))
    labels = (random.random(n) < 1.0 / (1.0 + np.exp(-2.0 * rows[:, 0]))).astype(np.int32)
    clf = PassiveAggressive(C=10.0, calibration="online")
    clf.partial_fit(np.hstack([rows, np.full((n, 1), 30.0)]), labels, classes=[0, 1])
    asked = np.linspace(-2.0, 2.0, 9)
    found = clf.predict_proba(np.stack([asked, np.full(9, 30.0)], axis=1))[:, 1]
    np.testing.assert_allclose(found, 1.0 / (1.0 + np.exp(-2.0 * asked)), atol=0.1)


@pytest.mark.parametrize("weight", [1e-50, 1e50])
@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_extremes_stay_numbers(weight, size):
    scores = np.ones((50, 1))
    scores[10:20] = size
    scores[30:] = -size
    targets = as_targets(np.arange(50, dtype=np.int32) % 2, 2)
    counts, maps = np.where(np.arange(50) % 7 == 0, weight, 1.0), calibration.new_maps(1)
    follow(maps, scores, targets, counts)
    assert calibration.invalid_maps_message(maps) == ""
    far = np.array([[-1e300], [0.0], [1e300]])
    assert np.isfinite(calibration.log_odds(maps, slice(None), far)).all()


# --------------------------------------------------------------------------------- what is followed
@pytest.mark.parametrize("name", ["two classes", "three classes", "together", "mean weights"])
def test_scores_are_those_before_the_row_was_learned(name):
    """Seen from outside: ask for the score of each row, then teach it."""
    clf, y = made(name), LEARNERS[name][1]
    scores, means = np.zeros((120, 1 if y is two else 3)), means_of(X)
    levels = np.zeros_like(scores)
    for i in range(120):
        if i > 0:
            scores[i] = clf.decision_function(X[i : i + 1])
            if name != "together":  # steps of one row, not of rivals
                levels[i] = clf.decision_function(means[i : i + 1])
        clf.partial_fit(X[i : i + 1], y[i : i + 1], classes=np.unique(y))
    for c in range(scores.shape[1]):
        signs = np.where(y == ("yes" if y is two else c), 1.0, -1.0)
        expected = reference(scores[:, c], levels[:, c], signs, np.ones(120))
        np.testing.assert_allclose(known_of(maps_of(clf), c), expected, rtol=1e-6)


@every_learner
def test_learning_is_the_same_with_and_without(name):
    y = LEARNERS[name][1]
    with_them, without = streamed(name), streamed(name, clf=made(name).set_params(calibration=None))
    np.testing.assert_array_equal(with_them.decision_function(X), without.decision_function(X))
    np.testing.assert_array_equal(with_them.predict(X), without.predict(X))
    probabilities = with_them.predict_proba(X)
    assert probabilities.shape == (120, 2 if y is two or y is several else 3)
    assert ((probabilities > 0.0) & (probabilities < 1.0)).all()
    np.testing.assert_allclose(np.log(probabilities), with_them.predict_log_proba(X), atol=1e-12)
    if y is not several:
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)


@every_learner
def test_probabilities_rise_with_scores(name):
    clf = streamed(name)
    scores = clf.decision_function(X).reshape(120, -1)
    odds = clf._log_odds(*clf._scored(X))
    for c in range(scores.shape[1]):
        assert (np.diff(odds[np.argsort(scores[:, c]), c]) >= 0.0).all()


def test_nothing_is_promised_where_nothing_can_be_learned():
    """Rows that are learned by heart: their scores say nothing of rows to come."""
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(400, 500)), random.random(400) < 0.3
    clf = PassiveAggressive(calibration="online").partial_fit(rows, labels, classes=[False, True])
    assert (clf.predict(rows) == labels).mean() > 0.9
    assert np.abs(clf.predict_proba(rows)[:, 1] - 0.3).mean() < 0.15


def test_probabilities_that_are_all_small_keep_their_ratio():
    clf = streamed("three classes")
    far = clf.predict_log_proba(1e30 * X[:5])
    assert np.isfinite(far).all()
    np.testing.assert_allclose(np.exp(far).sum(axis=1), 1.0, atol=1e-12)


# ----------------------------------------------------------------------------------------- chunking
def in_parts(name, cuts, **more):
    clf = made(name)
    for start, stop in pairwise([0, *sorted(cuts), 120]):
        if stop > start:
            streamed(name, slice(start, stop), clf, **more)
    return clf


CUTS = st.lists(st.integers(0, 120), max_size=5)


@every_learner
@settings(max_examples=20)
@given(cuts=CUTS)
def test_any_chunking_gives_the_same_bits(name, cuts):
    whole, parts = streamed(name), in_parts(name, cuts)
    if name == "budget":  # kernel values are products of matrices, which are rounded as they come
        for one, other in zip(maps_of(whole), maps_of(parts), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    else:
        assert bits_of(whole) == bits_of(parts)


@pytest.mark.parametrize("name", ["two classes", "mean weights", "weights of classes"])
@settings(max_examples=20)
@given(cuts=CUTS)
def test_any_chunking_of_rows_with_weights_gives_the_same_bits(name, cuts):
    whole, parts = (
        streamed(name, sample_weight=weights),
        in_parts(name, cuts, sample_weight=weights),
    )
    assert bits_of(whole) == bits_of(parts)


@pytest.mark.parametrize("name", ["two classes", "three classes", "weights of classes", "pairs"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_single_rows_give_the_same_bits(name, is_weighted):
    y, one = LEARNERS[name][1], made(name)
    for i in range(120):
        w = weights[i] if is_weighted else 1.0
        one.learn_one(X[i], y[i].item(), w=w, classes=np.unique(y))
    many = streamed(name, **({"sample_weight": weights} if is_weighted else {}))
    assert bits_of(one) == bits_of(many)
    np.testing.assert_array_equal(one.predict_proba(X), many.predict_proba(X))


def test_single_rows_as_dicts():
    one = Perceptron(calibration="online")
    for row, label in zip(X, two.tolist(), strict=True):
        one.learn_one({f"x{j}": value for j, value in enumerate(row)}, label, classes=["no", "yes"])
    assert bits_of(one) == bits_of(streamed("two classes"))


def test_a_stream_gives_the_same_bits(tmp_path):
    source = [(X[:50], two[:50]), (X[50:], two[50:])]
    path = tmp_path / "run.ckpt"
    clf = made("two classes").fit_stream(source, classes=["no", "yes"], checkpoint=path, every=1)
    assert bits_of(clf) == bits_of(streamed("two classes"))
    again = made("two classes").fit_stream(source, classes=["no", "yes"], checkpoint=path, every=1)
    assert known_to(state_of(again)) == known_to(state_of(clf))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["two classes", "together", "several labels", "mean weights"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_fit_of_one_pass_is_a_stream(name, is_weighted):
    more = {"sample_weight": weights} if is_weighted else {}
    fitted = made(name, max_iter=1, shuffle=False).fit(X, LEARNERS[name][1], **more)
    assert bits_of(fitted) == bits_of(streamed(name, **more))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_begins_anew():
    clf = made("two classes", max_iter=1, shuffle=False)
    first = bits_of(clf.fit(X, two))
    assert bits_of(clf.fit(X, two)) == first
    assert maps_of(clf.set_params(warm_start=True).fit(X, two)).rows == [240]


def test_new_classes_and_columns():
    """As if all had been known from the start."""
    grown = PassiveAggressive(C=0.1, calibration="online")
    for rows in (slice(0, 30), slice(30, 60), slice(60, 120)):
        known = three[rows].copy()
        if rows.start < 30:
            known[known == 2] = 0
        grown.partial_fit(X[rows, : 3 if rows.start < 60 else 4], known, grow=True)
    labels, rows = three.copy(), X.copy()
    labels[:30][labels[:30] == 2] = 0
    rows[:60, 3] = 0.0
    known = PassiveAggressive(C=0.1, calibration="online")
    known.partial_fit(rows, labels, classes=[0, 1, 2], grow=True)
    assert grown.classes_.tolist() == [0, 1, 2]
    assert bits_of(grown) == bits_of(known)
    np.testing.assert_allclose(grown.predict_proba(X).sum(axis=1), 1.0)


def test_a_learner_that_knows_one_class_is_sure():
    clf = Perceptron(calibration="online").partial_fit(X[:5], ["a"] * 5, grow=True)
    assert clf.predict_proba(X[:2]).tolist() == [[1.0], [1.0]]


# ------------------------------------------------------------------------------------------ weights
def test_a_weight_of_1_is_none_and_one_of_0_is_no_row():
    ones = streamed("two classes", sample_weight=np.ones(120))
    assert bits_of(ones) == bits_of(streamed("two classes"))
    some = np.flatnonzero(weights)
    without = made("two classes").partial_fit(
        X[some], two[some], classes=["no", "yes"], sample_weight=weights[some]
    )
    weighted = streamed("two classes", sample_weight=weights)
    assert bits_of(weighted) == bits_of(without)


def test_weights_of_rows_change_what_is_frequent_and_those_of_classes_do_not():
    """Of labels that no score tells apart the probability is the weighted share."""
    random = np.random.default_rng(1)
    rows, labels = random.normal(size=(6000, 3)), random.random(6000) < 0.2
    shares = {}
    for name, class_weight, sample_weight in (
        ("plain", None, None),
        ("rows", None, np.where(labels, 4.0, 1.0)),
        ("classes", {True: 4.0}, None),
    ):
        clf = PassiveAggressive(C=0.01, class_weight=class_weight, calibration="online")
        clf.partial_fit(rows, labels, classes=[False, True], sample_weight=sample_weight)
        shares[name] = clf.predict_proba(rows)[:, 1].mean()
    np.testing.assert_allclose(shares["plain"], 0.2, atol=0.03)
    np.testing.assert_allclose(shares["rows"], 0.5, atol=0.05)
    np.testing.assert_allclose(shares["classes"], 0.2, atol=0.03)


# -------------------------------------------------------------------------------------------- files
@every_learner
def test_files_and_pickles_go_on_to_the_bit(name, tmp_path):
    clf = streamed(name, slice(0, 70))
    save(clf, tmp_path / "model.mm")
    for again in (load(tmp_path / "model.mm"), pickle.loads(pickle.dumps(clf))):
        assert known_to(state_of(again)) == known_to(state_of(clf))
        streamed(name, slice(70, 120), again)
        never_stopped = streamed(name, slice(70, 120), streamed(name, slice(0, 70)))
        assert bits_of(again) == bits_of(never_stopped)
        np.testing.assert_array_equal(again.predict_proba(X), never_stopped.predict_proba(X))


def test_files_without_calibration(tmp_path):
    clf = streamed("two classes", clf=Perceptron())
    save(clf, tmp_path / "model.mm")
    assert load(tmp_path / "model.mm").calibration is None


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("theta", -1.0, "negative"),
        ("levels", np.nan, "NaN or infinity"),
        ("curvature", 0.0, "not positive"),
        ("fading", 0.0, "not positive"),
        ("scales", np.inf, "NaN or infinity"),
    ],
)
def test_broken_maps_are_refused(name, value, why, tmp_path):
    clf = streamed("two classes")
    getattr(maps_of(clf), name)[...] = value
    save(clf, tmp_path / "model.mm")
    with pytest.raises(ModelFileError, match=f"calibration: .*{why}"):
        load(tmp_path / "model.mm")


def test_as_many_maps_as_problems(tmp_path):
    clf = streamed("two classes")
    put_state(clf, state_of(clf)._replace(calibration=calibration.new_maps(2, 4)))
    save(clf, tmp_path / "model.mm")
    with pytest.raises(ModelFileError, match="one map to probabilities for each problem"):
        load(tmp_path / "model.mm")


# ----------------------------------------------------------------------------------------- refusals
def test_more_than_one_pass_is_refused_and_the_model_stays():
    clf = streamed("two classes", clf=made("two classes", max_iter=5))
    before = known_to(state_of(clf))
    with pytest.raises(ValueError, match=r"max_iter=5 asks for more: use max_iter=1, or .*CV"):
        clf.fit(X, two)
    with pytest.raises(ValueError, match="passes=2 asks for more: use passes=1"):
        clf.fit_stream([(X, two)], passes=2)
    assert known_to(state_of(clf)) == before


def test_a_refused_row_leaves_the_maps_as_they_were():
    clf = streamed("two classes")
    before = known_to(state_of(clf))
    bad = X.copy()
    bad[7, 1] = np.nan
    with pytest.raises(ValueError, match="row 7"):
        clf.partial_fit(bad, two)
    with pytest.raises(ValueError, match="NaN"):
        clf.learn_one(bad[7], "yes")
    assert known_to(state_of(clf)) == before


def test_learners_that_cannot_say_so():
    with pytest.raises(ValueError, match="BisectionPerceptron needs all at once"):
        BisectionPerceptron(calibration="online", max_iter=1).fit(X, two)
    with pytest.raises(ValueError, match="average=False, or kernel='linear'"):
        Perceptron(kernel="rbf", gamma=0.5, average=True, calibration="online").partial_fit(
            X, two, classes=["no", "yes"]
        )
    with pytest.raises(ValueError, match=r"learners\[0\].*would not be used"):
        FixedShare(learners=[Perceptron(calibration="online")]).partial_fit(
            X, two, classes=["no", "yes"]
        )
    with pytest.raises(ValueError, match="'calibration' parameter"):
        Perceptron(calibration="isotonic").partial_fit(X, two, classes=["no", "yes"])


def test_probabilities_are_there_only_if_asked_for():
    clf = Perceptron().partial_fit(X, two, classes=["no", "yes"])
    assert not hasattr(clf, "predict_proba")
    assert not hasattr(MaxMargin(), "predict_log_proba")
    with pytest.raises(AttributeError, match="predict_proba") as refusal:
        MaxMargin().predict_proba(X)
    assert "CalibratedClassifierCV" in str(refusal.value)
    clf.set_params(calibration="online")
    with pytest.raises(NotFittedError, match="any row since calibration"):
        clf.predict_proba(X)
    assert clf.partial_fit(X[:9], two[:9]).predict_proba(X).shape == (120, 2)
    clf.learn_one(X[0], two[0])
    assert maps_of(clf).rows == [10]


def test_switched_off_nothing_stale_is_kept():
    clf = streamed("two classes").set_params(calibration=None)
    assert maps_of(clf.learn_one(X[0], two[0])) is None
    clf = streamed("two classes").set_params(calibration=None)
    assert maps_of(clf.partial_fit(X, two)) is None


def test_rows_of_any_kind():
    dense = streamed("two classes").predict_proba(X)
    clf = made("two classes").partial_fit(sparse.csr_matrix(X), two, classes=["no", "yes"])
    np.testing.assert_allclose(clf.predict_proba(sparse.csr_matrix(X)), dense, rtol=1e-9)


# ---------------------------------------------------------------------------------------- the world
checked = parametrize_with_checks([Perceptron(calibration="online", max_iter=1, random_state=0)])
# One asks that the likeliest class is the one that `predict` names, which goes by scores; the other
# makes 1000 passes.
BY_DESIGN = "check_classifiers_train", "check_class_weight_classifiers"
CHECKS = [
    (each, check)
    for each, check in checked.mark.args[1]
    if can_hold(each, check) and not any(is_about(check, name) for name in BY_DESIGN)
]


@pytest.mark.unseeded  # some of the checks are
@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=checked.mark.kwargs["ids"])
def test_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def log_loss_and_error(probabilities, y):
    """And the calibration error, of 15 bins."""
    bins = np.minimum((15 * probabilities).astype(int), 14)
    off = np.bincount(bins, probabilities - y, 15)
    return -np.log(np.where(y, probabilities, 1.0 - probabilities)).mean(), np.abs(
        off
    ).sum() / y.size


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_as_good_as_five_fits_of_parts():
    try:
        (rows, labels), (others, asked) = load_adult(), load_adult("test")
    except OSError as error:
        pytest.skip(str(error))
    ratios = []
    for seed in range(11):  # calibration errors depend on the order of the rows
        clf = Perceptron(average=True, max_iter=1, random_state=seed)
        online, peer = clone(clf).set_params(calibration="online"), CalibratedClassifierCV(clf)
        ours, theirs = (
            log_loss_and_error(each.fit(rows, labels).predict_proba(others)[:, 1], asked == 1)
            for each in (online, peer)
        )
        ratios.append(np.divide(ours, theirs))
    assert (np.median(ratios, axis=0) <= 1.05).all(), ratios
