"""Rules of the diagonal geometry: what they solve, as functions of a margin and its variance."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from maxmargin.algorithms.adagrad import HingeDescentRule, LogisticDescentRule
from maxmargin.algorithms.arow import AROWRule
from maxmargin.algorithms.scw import SCW1Rule, SCW2Rule
from maxmargin.core.rule import Trial

MARGINS = st.floats(-5.0, 5.0)
VARIANCES = st.floats(0.01, 100.0)
COSTS = st.floats(0.05, 20.0)
ETAS = st.floats(0.5, 0.99)
WEIGHTS = st.floats(0.1, 10.0)


def trial_of(margin, variance, weight=1.0):
    return Trial(margin, 1.0, variance, variance, 1, 0, weight)


def divergence(step, gain, v):
    """KL divergence of the new Gaussian from the old one, both along the row.

    In units of the old covariance, ``mu += step * Sigma x`` and ``Sigma**-1 += gain * x x'``.
    """
    left = 1.0 / (1.0 + gain * v)
    return 0.5 * (-np.log(left) + left - 1.0 + step * step * v)


@given(MARGINS, VARIANCES, st.floats(0.05, 20.0), WEIGHTS)
def test_arow_minimises_its_objective(m, v, r, weight):
    """Divergence + weight / (2 r) (squared hinge loss + variance of the margin)."""
    if m >= 1.0:
        return
    rule, trial = AROWRule(r), trial_of(m, v, weight)

    def objective(step, gain):
        loss = max(0.0, 1.0 - m - step * v)
        variance = v / (1.0 + gain * v)
        return divergence(step, gain, v) + weight * (loss * loss + variance) / (2.0 * r)

    _, step = rule.step(trial)
    gain = rule.precision_gain(trial)
    lowest = objective(step, gain)
    slack = 1e-12 * (1.0 + abs(lowest))
    for by in (0.9, 0.999, 1.001, 1.1):
        assert objective(by * step, gain) >= lowest - slack
        assert objective(step, by * gain) >= lowest - slack


def scw_objective(point, m, v, phi, cost, squared):
    """With the multiplier's step and the standard deviation that is left, as a part of the old."""
    step, part = point
    loss = max(0.0, phi * part * np.sqrt(v) - m - step * v)
    gain = (1.0 / part**2 - 1.0) / v
    return divergence(step, gain, v) + cost * (loss * loss if squared else loss)


@pytest.mark.parametrize("squared", [False, True])
@given(MARGINS, VARIANCES, COSTS, ETAS, WEIGHTS)
def test_scw_solves_its_problem(squared, m, v, cost, eta, weight):
    """No point is better, neither near the solution nor where a solver ends."""
    phi = NormalDist().inv_cdf(eta)
    rule = (SCW2Rule if squared else SCW1Rule)(cost, phi)
    trial = trial_of(m, v, weight)
    if not rule.active(trial):
        assert m >= phi * np.sqrt(v)
        return
    _, step = rule.step(trial)
    part = 1.0 / np.sqrt(1.0 + rule.precision_gain(trial) * v)
    given_by_row = m, v, phi, cost * weight, squared
    lowest = scw_objective((step, part), *given_by_row)
    slack = 1e-9 * (1.0 + abs(lowest))
    found = minimize(
        scw_objective,
        (0.9 * step + 0.01, 0.9 * part),
        args=given_by_row,
        method="Nelder-Mead",
        bounds=[(0.0, None), (1e-6, 1.0)],
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 2000},
    )
    assert found.fun >= lowest - slack
    random = np.random.default_rng(0)
    for size in (1e-3, 1e-1):
        for _ in range(10):
            near = (step + size * random.normal() / v, part * np.exp(size * random.normal()))
            assert scw_objective(near, *given_by_row) >= lowest - slack


@given(st.floats(-50.0, 30.0), WEIGHTS)
def test_logistic_slopes_are_derivatives(m, weight):
    rule, h = LogisticDescentRule(1.0), 1e-5
    slope = (np.logaddexp(0.0, h - m) - np.logaddexp(0.0, -h - m)) / (2 * h)
    _, step = rule.step(trial_of(m, 1.0, weight))
    assert step == pytest.approx(weight * slope, rel=1e-6, abs=1e-10)
    assert rule.precision_gain(trial_of(m, 1.0, weight)) == step * step


def test_extreme_margins_give_numbers():
    for m in (-1e300, -800.0, 800.0, 1e300):
        slope = LogisticDescentRule(1.0).loss_slope(trial_of(m, 1.0))
        assert 0.0 <= slope <= 1.0
    assert not LogisticDescentRule(1.0).active(trial_of(701.0, 1.0))
    assert HingeDescentRule(0.5).step(trial_of(-2.0, 1.0, 3.0)) == (1.0, 1.5)
    assert not HingeDescentRule(0.5).active(trial_of(1.0, 1.0))
