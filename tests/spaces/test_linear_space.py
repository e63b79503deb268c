"""The linear space: its lazy scale never runs out, and its norm never drifts."""

import math
from typing import NamedTuple

import numpy as np
import pytest
import reference
from problems import (
    label,
    learners_of_sparse_rows,
    linear_model,
    separable,
    sparse_separable,
    three_classes,
    with_intercept,
)
from scipy import sparse

from maxmargin import PassiveAggressive, Perceptron, Relaxation
from maxmargin.core.rule import rule
from maxmargin.spaces.problem_scalars import LARGEST_SCALE
from maxmargin.training.inputs import as_targets
from maxmargin.training.protocol import state_of, trainer_of

FORMS = [np.asarray, sparse.csr_matrix]


@rule
class Scripted(NamedTuple):
    """An update at the first and then at every ``every``-th trial; between them w is scaled."""

    every: int
    shrink: float
    step_length: float
    between: float

    def active(self, seen):
        return (seen.t - 1) % self.every == 0

    def step(self, seen):
        return self.shrink, self.step_length

    def rest(self, seen):
        return self.between


def trained(rule, X, y, order, **options):
    model = linear_model(1, X.shape[1], **options)
    codes = (np.asarray(y) > 0).astype(np.int32)
    model.learn_from(model.rows(X), as_targets(codes, 2), np.asarray(order, dtype=np.int32), rule)
    return model


def run(rule, X, y, order, **options):
    return trained(rule, X, y, order, **options).linear


def weights(space, c=0):
    return space.scalars.table.scale[c] * space.weights[c]


def masses(space):
    mine = space.scalars.table[0]
    return mine.scale * mine.positive, mine.scale * mine.negative


def norm2_of(w):
    return math.fsum(x * x for x in w)


@pytest.mark.parametrize("shrink", [1.0, 0.5, 0.0, -0.5, -1.0, 2.0, 1e-90, 1e40, -1e-120])
@pytest.mark.parametrize("between", [1.0, 0.9, 0.0, -0.7])
def test_any_scaling_gives_the_plain_weights(shrink, between):
    X, y = separable(n=12, d=4)
    long = np.column_stack([X, np.ones(12)])
    rule = Scripted(3, shrink, 0.7, between)
    w = np.zeros(5)
    for t in range(12):
        w = shrink * w + 0.7 * y[t] * long[t] if t % 3 == 0 else between * w
        space = run(rule, X, y, range(t + 1))
        np.testing.assert_allclose(weights(space), w, rtol=1e-12, atol=1e-14 * np.abs(w).max())
        assert space.scalars.table.norm2[0] == pytest.approx(norm2_of(w), rel=1e-10)


def test_the_scale_is_folded_before_it_runs_out():
    rule = Scripted(1000, 1.0, 1.0, 1e-30)
    X, y = separable(n=4, d=3)
    for t in range(1, 12):
        space = run(rule, X, y, np.zeros(t))
        assert 1.0 / LARGEST_SCALE <= space.scalars.table.scale[0] <= LARGEST_SCALE
        assert weights(space)[0] == pytest.approx(
            y[0] * X[0, 0] * 10.0 ** (-30 * (t - 1)), rel=1e-9
        )


MILLIONS = 2_000_000


def test_millions_of_shrinking_steps():
    """An update at every thousandth trial: w, its norm and its masses are geometric sums."""
    keep, every = 1 - 1e-3, 1000
    X, y = np.array([[3.0, -4.0]]), [1]
    space = run(Scripted(every, keep, 0.5, keep), X, y, np.zeros(MILLIONS))
    # The last update was 999 trials ago, the one before that 1000 earlier, and so on.
    mass = 0.5 * keep ** (every - 1) / (1 - keep**every)
    assert space.scalars.table.updates[0] == MILLIONS // every
    np.testing.assert_allclose(weights(space), mass * np.array([3.0, -4.0, 1.0]), rtol=1e-11)
    assert space.scalars.table.norm2[0] == pytest.approx(26 * mass**2, rel=1e-10)
    assert masses(space) == pytest.approx((mass, 0.0), rel=1e-11)


def test_shrinking_to_nothing_and_learning_again():
    keep = 1 - 1e-3
    X, y = np.array([[3.0, -4.0]]), [1]
    rule = Scripted(MILLIONS, keep, 0.5, keep)
    space = run(rule, X, y, np.zeros(MILLIONS))
    np.testing.assert_array_equal(weights(space), 0.0)  # (1 - 1e-3)^(2 million) is below 1e-800
    assert space.scalars.table.norm2[0] == 0.0
    space = run(rule, X, y, np.zeros(MILLIONS + 1))
    np.testing.assert_array_equal(weights(space), [1.5, -2.0, 0.5])
    assert masses(space) == (0.5, 0.0)


@pytest.mark.parametrize("label", [-1, 1])
def test_growth_past_the_largest_scale(label):
    """Of coordinates that a stream's rows have of their own, only the squares are kept."""
    grow, trials, private = 1 + 1e-3, 300_001, 2.0
    X, rule = np.array([[3.0, -4.0]]), Scripted(trials, 1.0, 0.5, grow)
    space = run(rule, X, [label], np.zeros(trials), private=private)
    mass = 0.5 * grow ** (trials - 1)
    assert mass > LARGEST_SCALE
    w = label * mass * np.array([3.0, -4.0, 1.0])
    np.testing.assert_allclose(weights(space), w, rtol=1e-10)
    mine = space.scalars.table[0]
    assert mine.norm2 == pytest.approx((26 + private**2) * mass**2, rel=1e-10)
    hidden = mine.scale**2 * np.array([mine.hidden_positive, mine.hidden_negative])
    assert masses(space)[::label] == pytest.approx((mass, 0.0), rel=1e-10)
    assert hidden[::label] == pytest.approx((private**2 * mass**2, 0.0), rel=1e-10)


@pytest.mark.parametrize("factor", [1e-60, 1e60])
def test_the_witness_shares_the_scale(factor):
    """Folding leaves all bounds as they were: vectors, marks and masses are scaled alike."""
    X, y = separable(n=8, d=3)
    model = trained(Scripted(1, 1.0, 1.0, 1.0), X, y, np.tile(np.arange(8), 3))
    space, hull = model.linear, model.hull()
    mine = space.scalars.table[0]
    assert space.witness.mark_share.any()  # there was a snapshot, of positive and negative rows
    assert 0 < mine.mark_positive < mine.positive

    def bounds():
        positive, negative = mine.positive - mine.mark_positive, mine.negative - mine.mark_negative
        return (
            hull.norm_over_mass(0, 0.0, (mine.positive, mine.negative), (0.0, 0.0)),
            hull.norm_over_mass(0, 1.0, (positive, negative), (0.0, 0.0)),
            hull.imbalance_bound(0, mine),
        )

    expected = bounds()
    space.rescale(0, factor, trial=1)
    assert bounds() == pytest.approx(expected, rel=1e-12)
    space.fold_lines(0, 0, 1, mine.scale)
    assert mine.scale == 1.0
    assert bounds() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("learner", learners_of_sparse_rows(), ids=label)
def test_the_norm_is_exact_on_sparse_rows(learner):
    X, y = sparse_separable(n=200, d=100, density=0.05, gap=0.01)
    clf = with_intercept(learner, 0.5)
    for _ in range(50):
        clf.partial_fit(X, y, classes=[-1, 1])
        space = state_of(clf).model.linear
        assert space.scalars.table.norm2[0] == pytest.approx(norm2_of(weights(space)), rel=1e-10)


def test_the_norm_is_exact_after_many_updates():
    X, y = sparse_separable(n=1000, d=100, density=0.05)
    y = np.random.default_rng(0).permutation(y)  # not separable: updates for ever
    clf = Relaxation(rate=1.9)
    for _ in range(300):
        clf.partial_fit(X, y, classes=[-1, 1])
    assert clf.n_updates_ > 150_000
    space = state_of(clf).model.linear
    assert space.scalars.table.norm2[0] == pytest.approx(norm2_of(weights(space)), rel=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12])
def test_the_norm_is_exact_after_cancellation(size, form):
    """A huge step forth, the same back: what remains is small beside what has been."""
    X = np.array([[size, size / 3, 0.0], [0.1, 0.0, 0.7]])
    rule = trainer_of(Perceptron(margin=np.inf, rate=0.3)).rule(2.0)
    labels, order = [1, 1, -1, 1], [0, 1, 0, 1]
    for times in range(1, 5):
        space = run(rule, form(X[order]), labels, np.tile(np.arange(4), times))
        assert space.scalars.table.norm2[0] == pytest.approx(norm2_of(weights(space)), rel=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_averaged_weights_are_the_mean_over_all_trials(form, margin):
    X, y = separable(n=80, d=4, gap=0.01)
    long = np.column_stack([X, np.full(80, 2.0)])
    mean = reference.averaged_perceptron(long, y, margin=margin, rate=0.3).history
    clf = Perceptron(margin=margin, rate=0.3, average=True, intercept_scaling=2.0)
    rows = form(X)
    for t in range(80):
        clf.partial_fit(rows[t : t + 1], y[t : t + 1], classes=[-1, 1])
        np.testing.assert_allclose(clf.coef_[0], mean[t, :-1], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(clf.intercept_[0], 2.0 * mean[t, -1], rtol=1e-10, atol=1e-12)


def test_averaged_weights_of_several_classes():
    X, y = three_classes(n=50, d=4)
    long = np.column_stack([X, np.ones(50)])
    clf = Perceptron(average=True).partial_fit(X, y, classes=[0, 1, 2])
    for c in range(3):
        mean = reference.averaged_perceptron(long, np.where(y == c, 1, -1)).w
        np.testing.assert_allclose(clf.coef_[c], mean[:-1], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(clf.intercept_[c], mean[-1], rtol=1e-10, atol=1e-12)


def test_an_average_costs_nothing_when_it_is_off():
    assert linear_model(2, 5).linear.witness.average.size == 0
    assert linear_model(2, 5, offset=0.0, average=True).linear.witness.share.size == 0


def test_problems_do_not_touch_each_other():
    """One-vs-rest gives for each class what that class alone would give."""
    X, y = three_classes(n=60, d=4)
    joint = PassiveAggressive().partial_fit(X, y, classes=[0, 1, 2])
    for c in range(3):
        alone = PassiveAggressive().partial_fit(X, y == c, classes=[False, True])
        np.testing.assert_array_equal(joint.coef_[c], alone.coef_[0])
        np.testing.assert_array_equal(joint.intercept_[c], alone.intercept_[0])
        tables = (state_of(clf).model.linear.scalars.table for clf in (joint, alone))
        mine, other = next(tables)[c], next(tables)[0]
        for name in mine.dtype.names:
            # The largest norm, which is shared by the problems, has a part in the bound.
            if name != "bound":
                assert mine[name] == other[name], name
        assert mine.bound == pytest.approx(other.bound, rel=1e-9)
