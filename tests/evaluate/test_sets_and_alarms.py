"""Prediction sets and drift alarms in `progressive`, and what can be said of them."""

import copy
import itertools

import numpy as np
import pytest
from campaigns.false_alarms import exchangeable, has_alarm, sea
from persistence.states import known_to
from scipy import sparse

from maxmargin import ConformalClassifier, PassiveAggressive
from maxmargin.evaluate import AbstentionDisplay, Drift, DriftAlarm, progressive
from maxmargin.evaluate.batching import rows_of
from maxmargin.evaluate.drift_alarm import BETS, odds_at
from maxmargin.evaluate.nonconformity import nonconformity


def learner(**parameters):
    return PassiveAggressive(C=0.1, **parameters)


# --------------------------------------------------------------------------------------------- sets
@pytest.mark.parametrize("delay", [0, 3])
def test_sets_are_those_before_the_label(delay):
    X, y = exchangeable(np.random.default_rng(0), 300)
    found = progressive(ConformalClassifier(learner(), coverage=0.8), X, y, delay=delay, step=50)
    clf, covered, sizes = ConformalClassifier(learner(), coverage=0.8), [], []
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
    one = progressive(ConformalClassifier(learner(), coverage=0.8), dicts, classes=[False, True])
    many = progressive(ConformalClassifier(learner(), coverage=0.8), X, y)
    np.testing.assert_array_equal(one.covered, many.covered)
    np.testing.assert_array_equal(one.set_sizes, many.set_sizes)


def test_without_sets():
    found = progressive(learner(), [[1.0], [-1.0]], [1, 0])
    assert found.covered is None
    with pytest.raises(AttributeError, match=r"had no prediction sets: use ConformalClassifier"):
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
    e = max(0.03, ((scores[:200] > 0.0).sum() + 0.5) / 201.0)
    inverses = 1.0 / np.where(scores[200:] == 0.0, -1e-300, scores[200:])
    wealth, idle, path = np.zeros(len(BETS)), 1.0, []
    for n, own in enumerate(inverses):
        before = (inverses[: n + 1] > own).sum()
        p = (before + ties[n] * (inverses[: n + 1] == own).sum()) / (n + 1)
        fresh = idle * 0.3 / (n + 300.0)
        idle -= fresh
        for k, bet in enumerate(BETS):
            shape, ratio, inside = bet.right, 1.0, (1.0 - p) / (1.0 - e)
            if p <= e:
                shape, ratio, inside = bet.wrong, bet.ratio, p / e
            odds = ratio / (1.0 - e + bet.ratio * e) * shape[min(7, int(8 * inside))]
            wealth[k] = (wealth[k] + fresh / len(BETS)) * odds / np.mean(shape)
        path.append(idle + wealth.sum())
    return np.array(path)


def test_the_wealth_is_that_of_the_reference():
    random = np.random.default_rng(0)
    scores = np.concatenate([random.integers(-9, 3, 500), random.integers(-2, 9, 100)]) * 0.7
    alarm = DriftAlarm(1e-30, random_state=5)
    wealth = wealth_by_hand(scores, np.random.default_rng(5).random(scores.size))
    found = [alarm.update(score).evidence for score in scores]
    assert set(found[:200]) == {1.0}
    np.testing.assert_allclose(found[200:], wealth, rtol=1e-9)
    assert wealth[-1] > 1e3


def test_bets_are_fair():
    """The mean of the odds over p is 1, at any share of mistakes."""
    for share in (0.03, 0.1, 200.5 / 201.0):
        others, mistakes = odds_at(share).mean(axis=1)
        np.testing.assert_allclose(share * mistakes + (1.0 - share) * others, 1.0, rtol=1e-14)
        assert (odds_at(share) > 0.0).all()


def test_wealth_is_fair_on_all_orders_of_some_scores():
    """Its mean over all orders of a bag of scores, and over the ties, is 1: a martingale."""
    bag, begun, means = np.array([-2.0, -2.0, -0.5, 0.3, 0.3, 4.0]), DriftAlarm(), []
    orders = np.unique(np.array(list(itertools.permutations(bag))), axis=0)
    begun.update_many(np.repeat([-1.0, 1.0], [140, 60]))
    wealth = np.array([bet.ratio < 8.0 for bet in BETS] + [False]) / (len(BETS) - 1)  # all is bet
    for seed in range(40):
        found = []
        for k, order in enumerate(orders):
            alarm = DriftAlarm(1e-9, random_state=seed * len(orders) + k)
            alarm.restore({**begun.state(), "wealth": wealth}).update_many(order)
            found.append(alarm.evidence)
        means.append(np.mean(found))
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - 1.0) < 4.0 * error < 0.04


def test_an_alarm_goes_on_from_its_state():
    random = np.random.default_rng(2)
    scores = random.normal(size=3000) - 1.0
    scores[1500:] *= -1.0
    one, other = DriftAlarm(0.05, random_state=3), DriftAlarm(0.05, random_state=3)
    for start in range(0, 3000, 250):
        for alarm in (one, other):
            taken = start
            while taken < start + 250:
                taken += alarm.update_many(scores[taken : start + 250])
        other = DriftAlarm(0.05, random_state=3).restore(other.state())
    assert one.n_alarms == other.n_alarms == 1
    assert known_to(one.state()) == known_to(other.state())


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("counts", np.zeros(3, dtype=np.int64), "another shape"),
        ("wealth", np.full(len(BETS) + 1, np.nan), "out of its range"),
        ("first", np.array([3, 4]), "more scores than it has seen"),
        ("drawn", 0, "more scores than it has seen"),
    ],
)
def test_a_state_that_cannot_be_is_refused(name, value, what):
    alarm = DriftAlarm()
    alarm.update_many(np.arange(-300.0, 0.0))
    with pytest.raises(ValueError, match=what):
        DriftAlarm().restore({**alarm.state(), name: value})


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
    assert single.limit == (len(found) + 1) * (len(found) + 2) / 0.05


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
            if alarm.update(-lead).drift_detected:
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

    from maxmargin.evaluate.batching import StreamRows

    rows = StreamRows(np.zeros((2, 1)), np.array([0, 1]), None)
    assert nonconformity(Majority(), rows).tolist() == [0.0, 1.0]
    assert nonconformity(Majority(), StreamRows([{"x": 1.0}], [1], None)).tolist() == [1.0]


def test_what_is_refused():
    with pytest.raises(ValueError, match="delta must be between 0 and 1, got 1"):
        DriftAlarm(1)
    with pytest.raises(ValueError, match="warm_up must be a whole number"):
        DriftAlarm(warm_up=0)
    with pytest.raises(ValueError, match="must be finite"):
        DriftAlarm().update(np.nan)
    with pytest.raises(TypeError, match='on_drift must be "alarm"'):
        progressive(learner(), [[1.0]], [1], on_drift="siren")


@pytest.mark.parametrize("which", [slice(2, 5), slice(None, 4), slice(3, 3), slice(9, None)])
def test_parts_of_sparse_rows_are_views(which):
    X = sparse.random_array((6, 5), density=0.5, format="csr", rng=np.random.default_rng(0))
    X = sparse.csr_matrix(X)
    part = rows_of(X, which)
    np.testing.assert_array_equal(part.toarray(), X[which].toarray())
    assert part.has_canonical_format
    assert part.nnz == 0 or np.shares_memory(part.data, X.data)
