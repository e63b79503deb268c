"""The order in which `fit` presents the rows."""

import numpy as np
import pytest
from problems import overlapping, separable, three_classes
from reference import max_margin

from maxmargin import AMIRA, NORMA, PUMMA, ROMMA, Perceptron
from maxmargin.core.trace import NO_TRACE
from maxmargin.datasets import make_separable
from maxmargin.models.linear_model import LinearModel
from maxmargin.training.passes import MEMORY, Schedule
from maxmargin.training.protocol import state_of


@pytest.fixture
def orders(monkeypatch):
    """The orders in which models learn; the rows of partial ones must have brought updates."""
    orders = []
    learn_from = LinearModel.learn_from

    def spied(self, rows, targets, order, rule, trace=NO_TRACE):
        if not is_full(order, rows.size()):
            assert (trace.touched[order] > 0).all()
        orders.append(order.copy())
        learn_from(self, rows, targets, order, rule, trace)

    monkeypatch.setattr(LinearModel, "learn_from", spied)
    return orders


def is_full(order, size):
    return order.size == size and np.array_equal(np.sort(order), np.arange(size))


def schedule_of(size, shuffle=True):
    return Schedule(size, shuffle, np.random.default_rng(0))


# ---------------------------------------------------------------------------------- the schedule


def test_full_passes_have_every_row_in_new_orders():
    schedule = schedule_of(50)
    first, second = schedule.full_pass_order().copy(), schedule.full_pass_order().copy()
    assert is_full(first, 50)
    assert is_full(second, 50)
    assert not np.array_equal(first, second)


def test_without_shuffling_the_order_is_kept():
    schedule = schedule_of(50, shuffle=False)
    for _ in range(3):
        np.testing.assert_array_equal(schedule.full_pass_order(), np.arange(50))


def test_only_rows_with_updates_come_again_until_they_are_quiet():
    schedule = schedule_of(5000)
    schedule.full_pass_order()
    schedule.touched[[3, 7, 1000]] = schedule.stamp
    orders = schedule.recent(most=10**6)
    assert set(next(orders)) == {3, 7, 1000}
    schedule.touched[7] = schedule.stamp
    assert set(next(orders)) == {7}
    # Quiet: the others once more, and that is all if they are quiet too.
    assert set(next(orders)) == {3, 7, 1000}
    assert next(orders, None) is None


def test_rows_are_forgotten_after_some_full_passes():
    schedule = schedule_of(5000)
    schedule.full_pass_order()
    schedule.touched[5] = schedule.stamp
    assert len(list(schedule.recent(most=10**6))) == 1
    for _ in range(MEMORY - 1):
        schedule.full_pass_order()
        assert [set(order) for order in schedule.recent(most=10**6)] == [{5}]
    schedule.full_pass_order()
    assert list(schedule.recent(most=10**6)) == []


# --------------------------------------------------------------------------------------- in fit


def test_passes_are_counted_by_rows(orders):
    X, y = make_separable(500, gap=1.0, random_state=0)
    clf = AMIRA(random_state=0).fit(X, y)
    assert clf.n_iter_ == -(-sum(order.size for order in orders) // 500)
    assert state_of(clf).model.tally.trials[0] == sum(order.size for order in orders)


@pytest.mark.parametrize("learner", [AMIRA(), AMIRA(intercept="pair"), Perceptron(margin=1.0)])
def test_convergence_is_a_quiet_full_pass(orders, learner):
    X, y = make_separable(500, gap=1.0, random_state=0)
    clf = learner.set_params(random_state=0).fit(X, y)
    assert clf.converged_
    assert is_full(orders[-1], 500)
    signs = np.where(y == clf.classes_[1], 1, -1)
    due = 1 - clf.epsilon if isinstance(clf, AMIRA) else clf.margin
    assert np.min(signs * clf.decision_function(X)) > due
    updates = clf.n_updates_
    clf.partial_fit(X, y)
    assert clf.n_updates_ == updates


def test_between_full_passes_rows_with_updates_come_again(orders):
    X, y = make_separable(500, gap=1.0, random_state=0)
    clf = AMIRA(random_state=0).fit(X, y)
    assert clf.converged_
    full = [is_full(order, 500) for order in orders]
    assert full[0]
    assert full[-1]
    assert 2 <= sum(full) < len(full)


@pytest.mark.parametrize("learner", [AMIRA(), NORMA(), Perceptron(average=True)])
def test_plain_passes_in_order(orders, learner):
    X, y = separable(n=40)
    learner.set_params(shuffle=False).fit(X, y)
    assert len(orders) > 1
    for order in orders:
        np.testing.assert_array_equal(order, np.arange(40))


@pytest.mark.parametrize("learner", [NORMA(max_iter=5), Perceptron(average=True)])
def test_learners_that_need_every_trial_get_full_passes_only(orders, learner):
    X, y = separable(n=40)
    learner.set_params(random_state=0).fit(X, y)
    assert len(orders) > 1
    assert all(is_full(order, 40) for order in orders)


@pytest.mark.parametrize("shuffle", [False, True])
def test_one_iteration_is_one_plain_pass(orders, shuffle):
    X, y = overlapping(n=40)
    clf = AMIRA(max_iter=1, shuffle=shuffle, random_state=0).fit(X, y)
    assert len(orders) == 1
    assert is_full(orders[0], 40)
    assert clf.n_iter_ == 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [2, 3, 10, 60])
@pytest.mark.parametrize("n", [40, 3000])
def test_no_more_passes_than_allowed(max_iter, n):
    X, y = overlapping(n=n)
    clf = ROMMA(delta=1e-4, soft_margin=0.01, max_iter=max_iter, random_state=0).fit(X, y)
    assert not clf.converged_
    assert clf.n_iter_ <= max_iter


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_data_that_are_not_separated_get_full_passes_only(orders):
    X, y = overlapping(n=40)
    AMIRA(max_iter=20, random_state=0).fit(X, y)
    assert len(orders) == 20
    assert all(is_full(order, 40) for order in orders)


def test_guarantees_stay():
    X, y = separable(n=100, d=4, gap=0.1)
    best, _, _ = max_margin(X, y, intercept=True)
    gaps = X[y > 0][:, None] - X[y < 0]
    for seed in range(5):
        clf = PUMMA(delta=0.05, random_state=seed).fit(X, y)
        assert clf.converged_
        assert clf.certificate_.margin >= 0.95 * best
        assert clf.certificate_.bound >= best
        far = np.sqrt((gaps**2).sum(axis=2).max())
        assert clf.n_updates_ <= PUMMA.max_updates(0.05, far, best)


def test_several_classes_converge(orders):
    X, y = three_classes(n=200)
    clf = AMIRA(multiclass="ovr", random_state=0).fit(X, y)
    assert clf.converged_
    assert is_full(orders[-1], 200)
    scores = clf.decision_function(X) * np.where(y[:, None] == np.arange(3), 1, -1)
    assert scores.min() > 1 - clf.epsilon


def test_it_saves_rows_where_it_matters(monkeypatch):
    X, y = make_separable(2000, gap=1.0, random_state=0)

    def passes():
        fitted = [AMIRA(max_iter=10**5, random_state=seed).fit(X, y) for seed in range(2)]
        assert all(clf.converged_ for clf in fitted)
        return sum(clf.n_iter_ for clf in fitted)

    ours = passes()
    monkeypatch.setattr(Schedule, "recent", lambda self, most: iter(()))
    assert ours < passes()
