"""Prediction sets and drift alarms in `progressive`, and what can be said of them."""

import copy

import numpy as np
import pytest
from campaigns.false_alarms import exchangeable, has_alarm, sea
from scipy import integrate

from maxmargin import PassiveAggressive
from maxmargin.evaluate import AbstentionDisplay, Drift, DriftAlarm, progressive
from maxmargin.evaluate.drift import strangeness
from maxmargin.evaluate.drift_alarm import ODDS, POWERS, SHARE, STEPS, UPWARD


def learner(**parameters):
    return PassiveAggressive(C=0.1, **parameters)


# --------------------------------------------------------------------------------------------- sets
@pytest.mark.parametrize("delay", [0, 3])
def test_sets_are_those_before_the_label(delay):
    X, y = exchangeable(np.random.default_rng(0), 300)
    found = progressive(learner(coverage=0.8), X, y, delay=delay, step=50)
    clf, covered, sizes = learner(coverage=0.8), [], []
    for i in range(300):
        late = max(1, delay)
        if i >= late and delay:
            clf.partial_fit(X[i - late : i - late + 1], y[i - late : i - late + 1], [False, True])
        if i >= late:
            inside = clf.predict_set(X[i : i + 1])[0]
            covered.append(inside[int(y[i])])
            sizes.append(inside.sum())
        if not delay:
            clf.partial_fit(X[i : i + 1], y[i : i + 1], [False, True])
    assert found.covered[late:].tolist() == covered
    assert found.set_sizes[late:].tolist() == sizes
    np.testing.assert_allclose(found.coverages[-1], found.covered.mean())
    np.testing.assert_allclose(found.mean_set_sizes[0], found.set_sizes[:50].mean())
    assert found.answered == (found.set_sizes == 1).mean()
    assert found.answered_accuracy == found.covered[found.set_sizes == 1].mean()


def test_rows_as_dicts_have_the_same_sets():
    X, y = exchangeable(np.random.default_rng(1), 120)
    dicts = [
        ({f"x{j}": v for j, v in enumerate(row)}, label)
        for row, label in zip(X, y.tolist(), strict=True)
    ]
    one = progressive(learner(coverage=0.8), dicts, classes=[False, True])
    many = progressive(learner(coverage=0.8), X, y)
    np.testing.assert_array_equal(one.covered, many.covered)
    np.testing.assert_array_equal(one.set_sizes, many.set_sizes)


def test_without_sets():
    found = progressive(learner(), [[1.0], [-1.0]], [1, 0])
    assert found.covered is None
    with pytest.raises(AttributeError, match=r"had no prediction sets: set coverage=0\.9"):
        _ = found.answered


def test_answers_are_fewer_and_better_with_more_coverage():
    X, y = exchangeable(np.random.default_rng(2), 3000)
    display = AbstentionDisplay.from_estimator(learner(), X, y, coverages=[0.8, 0.9, 0.97])
    assert (np.diff(display.answered) < 0.0).all()
    assert (np.diff(display.accuracies) > 0.0).all()
    assert display.accuracies[-1] > display.accuracy
    assert display.ax_.get_xlabel() == "share of rows answered"


# ------------------------------------------------------------------------------------------- alarms
def wealth_by_hand(scores, ties):
    """The martingale, with all scores kept."""
    bets, idle, path = np.zeros(6), 1.0, []
    steps, pays = np.array(STEPS), np.array(ODDS)
    for n in range(len(scores)):
        above = sum(each > scores[n] for each in scores[: n + 1])
        same = sum(each == scores[n] for each in scores[: n + 1])
        p = (above + (1.0 - ties[n]) * same) / (n + 1)
        q = 1.0 - (above + ties[n] * same) / (n + 1)
        left = (n + 2.0) ** -0.1
        ranks = np.array([p] * UPWARD + [q] * (len(POWERS) - UPWARD))
        odds = np.array(POWERS) * ranks ** (np.array(POWERS) - 1.0)
        stepped = np.where(p <= steps, pays, (1.0 - steps * pays) / (1.0 - steps))
        bets = (bets + SHARE * (idle - left)) * np.concatenate([odds, stepped])
        idle = left
        path.append(idle + bets.sum())
    return np.array(path)


def test_the_wealth_is_that_of_the_reference():
    random = np.random.default_rng(0)
    scores = np.concatenate([random.integers(-3, 3, 200), random.integers(2, 5, 30)]) * 0.7
    alarm = DriftAlarm(1e-30, random_state=5)
    wealth = wealth_by_hand(scores, np.random.default_rng(5).random(scores.size))
    found = []
    for score in scores:
        alarm.update(score)
        found.append(alarm._wealth.sum())
    np.testing.assert_allclose(found, wealth, rtol=1e-10)
    assert wealth[-1] > 1e3


def test_bets_are_fair():
    """The mean of the odds over p is 1, and shares are those of one wealth."""
    for power in POWERS:
        mean, _ = integrate.quad(lambda p, power=power: power * p ** (power - 1.0), 0.0, 1.0)
        assert mean == pytest.approx(1.0)
    for step, pays in zip(STEPS, ODDS, strict=True):
        assert 1.0 < pays < 1.0 / step  # the rest is lost if p is above
    assert SHARE * (len(POWERS) + len(STEPS)) == pytest.approx(1.0)


def test_chunks_of_scores_give_the_same_alarms():
    random = np.random.default_rng(1)
    scores = random.normal(size=3000) + np.repeat([0.0, 3.0, -3.0], 1000)
    whole, rows, start = DriftAlarm(0.05), [], 0
    while start < scores.size:
        start += whole.update_many(scores[start:])
        if whole.drift_detected:
            rows.append(start)
    single, found = DriftAlarm(0.05), []
    for row, score in enumerate(scores, 1):
        if single.update(score).drift_detected:
            found.append(row)
    assert rows == found
    assert single.n_alarms == len(found) >= 2
    assert single._limit == (len(found) + 1) * (len(found) + 2) / 0.05


def test_false_alarms_are_rare():
    """A sample of tests/campaigns/false_alarms.py at a larger delta; Ville's bound is 0.2."""
    alarms = sum(has_alarm(seed, delta=0.2, rows=1500) for seed in range(60))
    assert alarms <= 12


def test_errors_of_any_share_are_exchangeable():
    random, alarms = np.random.default_rng(3), 0
    for seed in range(400):
        errors = random.random(2000) < random.uniform(0.0, 0.5)
        alarm = DriftAlarm(0.1, random_state=seed)
        alarm.update_many(errors.astype(float))
        alarms += alarm.n_alarms > 0
    assert alarms <= 40


def test_progressive_raises_alarms_after_changes():
    X, y = sea(np.random.default_rng(0), 6000, [])
    y[3000:] = ~y[3000:]
    clf = learner()
    found = progressive(clf, X, y, on_drift="alarm")
    assert found.drifts.size == 1
    assert 3000 < found.drifts[0] < 3100
    plain = learner()
    assert progressive(plain, X, y).mistakes[-1] == found.mistakes[-1]  # the learner goes on
    np.testing.assert_array_equal(plain.coef_, clf.coef_)


def test_rows_one_by_one_raise_the_same_alarms():
    """Labels that come late are learned row by row; here by hand, from a copy that is frozen."""
    X, y = exchangeable(np.random.default_rng(4), 900)
    y[600:] = ~y[600:]
    drift = Drift(DriftAlarm(0.05, warm_up=200), "alarm")
    found = progressive(learner(), X, y, on_drift=drift).drifts.tolist()
    clf, alarm, frozen, waited, rows = learner(), DriftAlarm(0.05, warm_up=200), None, 0, []
    for i in range(900):
        clf.partial_fit(X[i : i + 1], y[i : i + 1], [False, True])
        if frozen is not None:
            lead = frozen.decision_function(X[i : i + 1])[0] * (1 if y[i] else -1)
            if alarm.update(-max(lead, 0.0)).drift_detected:
                rows.append(i + 1)
                frozen, waited = None, 0
                continue
        waited += 1
        if waited == 200:
            frozen = copy.deepcopy(clf)
    assert found == rows
    assert len(rows) == 1


def test_strangeness_without_scores():
    class Majority:
        def predict(self, X):
            return np.zeros(len(X))

        def predict_one(self, x):
            return 0

    from maxmargin.evaluate.batching import Rows

    rows = Rows(np.zeros((2, 1)), np.array([0, 1]), None)
    assert strangeness(Majority(), rows).tolist() == [0.0, 1.0]
    assert strangeness(Majority(), Rows({"x": 1.0}, 1, None)).tolist() == [1.0]


def test_what_is_refused():
    with pytest.raises(ValueError, match="delta must be between 0 and 1, got 1"):
        DriftAlarm(1)
    with pytest.raises(ValueError, match="warm_up must be a whole number"):
        DriftAlarm(warm_up=0)
    with pytest.raises(ValueError, match="must be finite"):
        DriftAlarm().update(np.nan)
    with pytest.raises(TypeError, match='on_drift must be "alarm"'):
        progressive(learner(), [[1.0]], [1], on_drift="siren")
