from functools import partial

import numpy as np
import pytest
import reference
import reference_pnorm
from algorithms.agreement import assert_follows, magnitudes, streams
from algorithms.moving import Pursuit, known, losses_on_the_way, pursuits
from algorithms.trials import after, trials
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maxmargin import TrackingALMA
from maxmargin.algorithms.trackingalma import TrackingALMARule

rates, margins = magnitudes(0.01, 2.0), st.just(0.0) | magnitudes(0.01, 10.0)
radii = magnitudes(0.01, 10.0) | st.just(np.inf)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), rate=rates, radius=radii, margin=margins)
def test_follows_the_reference(stream, rate, radius, margin):
    parameters = {"rate": rate, "radius": radius, "margin": margin}
    run = partial(reference.tracking_alma, **parameters)
    assert_follows(TrackingALMA(**parameters), run, stream)


@given(seen=trials(), rate=rates, radius=radii, margin=margins)
def test_stays_in_the_ball(seen, rate, radius, margin):
    rule = TrackingALMARule(rate, radius, margin)
    assume(rule.active(seen))
    assert rule.step(seen) == (1.0, rate)
    free = seen.ww + 2 * rate * seen.margin + rate**2 * seen.xx
    tolerance = 1e-9 * (seen.ww + rate**2 * seen.xx)
    assert after(rule, seen).ww == pytest.approx(min(free, radius**2), abs=tolerance)


@pytest.mark.parametrize(("p", "radius"), [(2.0, 2.0), (5.0, 1.0)])
def test_bounds_by_hand(p, radius):
    # C = (p - 1) X^2 / 4 * (9 + 2 * 3 * 5.5) = 42, then with m = 2: K/m = 1, C/m^2 = 10.5.
    facts = {"radius": radius, "norm": 3.0, "p": p}
    moves = {"drift": 5.5, "losses": 2.0}
    expected = 1 + 21 + 2 * np.sqrt(10.5 * 11.5)
    assert TrackingALMA.mistake_bound(**facts, **moves, margin=2.0) == pytest.approx(expected)
    limit = TrackingALMA.margin_error_bound(**facts, **moves, margin=3.0, threshold=1.0)
    assert limit == pytest.approx(expected)
    # Without drift and losses: (p - 1) (X B / mu)^2, and four times that at half the margin.
    assert TrackingALMA.mistake_bound(**facts, margin=2.0) == pytest.approx(9.0)
    halved = TrackingALMA.margin_error_bound(**facts, margin=2.0, threshold=1.0)
    assert halved == pytest.approx(36.0)


def test_tuned_by_hand():
    learner = TrackingALMA.tuned(2.0, 3.0, 0.5, fit_intercept=False)
    assert learner.get_params()["fit_intercept"] is False
    assert (learner.rate, learner.radius, learner.margin, learner.p) == (0.125, 3.0, 0.25, 2.0)
    learner = TrackingALMA.tuned(1.0, 3.0, 0.5, p=5.0, aggressive=False)
    assert (learner.rate, learner.radius, learner.margin, learner.p) == (0.125, 3.0, 0.0, 5.0)


@given(pursuit=pursuits(), part=st.floats(0.01, 0.99))
def test_tuned_for_a_threshold(pursuit, part):
    """Theorem 1: no other rate makes what the proof bounds smaller."""
    facts, threshold = known(TrackingALMA, pursuit), part * pursuit.margin
    learner = TrackingALMA.tuned(**facts, margin=pursuit.margin, threshold=threshold)
    assert (learner.margin, learner.radius, learner.p) == (threshold, facts["norm"], pursuit.p)
    limit = TrackingALMA.margin_error_bound(**facts, margin=pursuit.margin, threshold=threshold)

    def errors(rate):
        gain = pursuit.margin - threshold - rate * (pursuit.p - 1) * facts["radius"] ** 2 / 2
        length = facts["norm"] ** 2 / 2 + facts["norm"] * facts["drift"]
        return (facts["losses"] + length / rate) / gain if gain > 0 else np.inf

    assert errors(learner.rate) == pytest.approx(limit, rel=1e-9)
    for other in (0.5, 0.9, 1.1, 2.0):
        assert errors(other * learner.rate) >= limit * (1 - 1e-9)


@pytest.mark.parametrize("kind", [{}, {"aggressive": False}, {"aggressive": True}])
def test_a_threshold_decides_whatever_else_is_said(kind):
    learner = TrackingALMA.tuned(2.0, 3.0, 0.5, threshold=0.25, **kind)
    assert (learner.rate, learner.margin) == (0.0625, 0.25)
    with pytest.raises(ValueError, match="'threshold' parameter must be below the margin"):
        TrackingALMA.tuned(2.0, 3.0, 0.5, threshold=0.5, **kind)
    with pytest.raises(ValueError, match="'threshold' parameter"):
        TrackingALMA.tuned(2.0, 3.0, 0.5, threshold=-0.5, **kind)


@settings(max_examples=150, deadline=None)
@given(
    pursuit=pursuits(),
    part=st.floats(0.0, 1.5),
    rate=magnitudes(0.001, 3.0),
    standing=st.booleans(),
)
def test_losses_with_any_rate(pursuit, part, rate, standing):
    """(6)."""
    pursuit = pursuit.standing() if standing else pursuit
    facts, threshold = known(TrackingALMA, pursuit), part * pursuit.margin
    trace = reference_pnorm.pnorm_tracking_alma(
        pursuit.X, pursuit.y, p=pursuit.p, rate=rate, radius=facts["norm"], margin=threshold
    )
    made, errors = losses_on_the_way(trace, pursuit, threshold), int(trace.updated.sum())
    facts |= {"rate": rate, "threshold": threshold, "margin": pursuit.margin}
    assert made <= TrackingALMA.loss_bound(**facts, margin_errors=errors) * (1 + 1e-9)
    assert made <= TrackingALMA.loss_bound(**facts) * (1 + 1e-9)


def test_loss_bound_is_attained_on_orthogonal_rows():
    """Each row is an error with loss rho, and (6) is an equality."""
    X, y, rho = np.eye(16), np.tile([-1.0, 1.0], 8), 0.5
    pursuit = Pursuit(X, y, np.tile(y, (16, 1)), 1.0, 2.0)
    trace = reference.tracking_alma(X, y, rate=1.0, radius=4.0, margin=rho)
    facts = known(TrackingALMA, pursuit) | {"margin": 1.0, "threshold": rho, "rate": 1.0}
    limit = TrackingALMA.loss_bound(**facts, margin_errors=16)
    assert losses_on_the_way(trace, pursuit, rho) == pytest.approx(limit) == pytest.approx(8.0)


def test_loss_bound_by_hand():
    facts = {"radius": 2.0, "norm": 3.0, "margin": 2.0, "losses": 5.0, "drift": 1.0, "p": 5.0}
    # (9 / 2 + 3) / 0.1, and 2 - 1 - 0.1 * 4 * 4 / 2 = 0.2
    limit = TrackingALMA.loss_bound(**facts, threshold=1.0, rate=0.1)
    assert limit == pytest.approx(80.0)
    after = TrackingALMA.loss_bound(**facts, threshold=1.0, rate=0.1, margin_errors=10)
    assert after == pytest.approx(78.0)
    assert TrackingALMA.loss_bound(**facts, threshold=1.0, rate=0.2) == np.inf
    with pytest.raises(ValueError, match="'rate' parameter"):
        TrackingALMA.loss_bound(**facts, threshold=1.0, rate=0.0)
    with pytest.raises(ValueError, match="'margin_errors' parameter"):
        TrackingALMA.loss_bound(**facts, threshold=1.0, rate=0.1, margin_errors=-1)
