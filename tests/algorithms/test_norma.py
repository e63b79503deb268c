import warnings
from functools import partial

import numpy as np
import pytest
import reference
import reference_pnorm
from algorithms.agreement import assert_follows, magnitudes, streams
from algorithms.moving import Pursuit, known, losses_on_the_way, pursuits
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import separable

from maxmargin import NORMA, Pegasos

rates, decays = magnitudes(0.01, 2.0), st.floats(0.0, 0.49)
margins = st.just(0.0) | magnitudes(0.01, 10.0)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), rate=rates, decay=decays, margin=margins)
def test_follows_the_reference(stream, rate, decay, margin):
    parameters = {"rate": rate, "decay": decay, "margin": margin}
    assert_follows(NORMA(**parameters), partial(reference.norma, **parameters), stream)


@given(pursuit=pursuits())
def test_tuned_rate_is_what_the_proof_needs(pursuit):
    """With alpha' = rate / (1 - rate * decay): the gap is alpha' (p - 1) X**2 / 2, and
    decay alpha' B = sqrt(D2 / T)."""
    facts = known(NORMA, pursuit)
    learner = NORMA.tuned(**facts, margin=pursuit.margin)
    assert learner.rate * learner.decay < 1
    unshrunk = learner.rate / (1 - learner.rate * learner.decay)
    gap = unshrunk * (pursuit.p - 1) * facts["radius"] ** 2 / 2
    assert learner.margin == pytest.approx(pursuit.margin - gap)
    speed = np.sqrt(facts["squared_drift"] / facts["trials"])
    assert learner.decay * unshrunk * facts["norm"] == pytest.approx(speed)


@pytest.mark.parametrize(("p", "radius"), [(2.0, 2.0), (5.0, 1.0)])
def test_bounds_by_hand(p, radius):
    # C = (p - 1) X^2 / 4 * (9 + 3 * (sqrt(25 * 4) + 1)) = 42, then with m = 2: K/m = 1, C/m^2 =
    # 10.5.
    facts = {"radius": radius, "norm": 3.0, "trials": 25, "p": p}
    moves = {"drift": 1.0, "squared_drift": 4.0, "losses": 2.0}
    expected = 1 + 21 + 2 * np.sqrt(10.5 * 11.5)
    assert NORMA.mistake_bound(**facts, **moves, margin=2.0) == pytest.approx(expected)
    limit = NORMA.margin_error_bound(**facts, **moves, margin=3.0, threshold=1.0)
    assert limit == pytest.approx(expected)
    assert NORMA.mistake_bound(**facts, margin=2.0) == pytest.approx(9.0)


def test_tuned_by_hand():
    learner = NORMA.tuned(1.0, 1.0, 0.5, trials=10, aggressive=False, fit_intercept=False)
    assert learner.get_params()["fit_intercept"] is False
    assert (learner.rate, learner.decay, learner.margin, learner.p) == (0.5, 0.0, 0.0, 2.0)
    # alpha' = 2 * 0.5 / (4 * 1) = 0.25, decay = sqrt(1 / 4) / 0.25.
    learner = NORMA.tuned(1.0, 1.0, 1.0, trials=4, drift=1.0, squared_drift=1.0, p=5.0)
    assert (learner.rate, learner.decay) == pytest.approx((0.25 / 1.5, 2.0))
    assert (learner.margin, learner.p) == (0.5, 5.0)


def test_drift_comes_with_its_squares():
    with pytest.raises(ValueError, match="'drift' and 'squared_drift' parameters must both"):
        NORMA.tuned(1.0, 1.0, 1.0, trials=10, drift=1.0)


def test_drift_is_at_most_uniform():
    """D1 <= sqrt(T D2), by Cauchy and Schwarz."""
    NORMA.tuned(1.0, 1.0, 1.0, trials=9, drift=3.0, squared_drift=1.0)
    for call in (NORMA.tuned, NORMA.mistake_bound):
        with pytest.raises(ValueError, match=r"'drift' parameter must be at most sqrt.* = 3\.0"):
            call(1.0, 1.0, 1.0, trials=9, drift=3.01, squared_drift=1.0)
    with pytest.raises(ValueError, match="'drift' parameter must be at most"):
        NORMA.loss_bound(
            *(1.0, 1.0, 1.0, 9), threshold=0.0, rate=1.0, decay=0.1, drift=4.0, squared_drift=1.0
        )


@given(pursuit=pursuits())
def test_drifts_of_all_sequences_are_accepted(pursuit):
    largest = np.sqrt(len(pursuit.X) * pursuit.squared_drift())
    assert pursuit.drift() <= largest * (1 + 1e-12)


@given(pursuit=pursuits(), part=st.floats(0.01, 0.99))
def test_tuned_for_a_threshold(pursuit, part):
    """Theorem 3: no other rate makes what the proof bounds smaller; the decay is that of (8)."""
    facts, threshold = known(NORMA, pursuit), part * pursuit.margin
    learner = NORMA.tuned(**facts, margin=pursuit.margin, threshold=threshold)
    assert (learner.margin, learner.p) == (threshold, pursuit.p)
    unshrunk = learner.rate / (1 - learner.rate * learner.decay)
    speed = np.sqrt(facts["squared_drift"] / facts["trials"])
    assert learner.decay * unshrunk * facts["norm"] == pytest.approx(speed)
    limit = NORMA.margin_error_bound(**facts, margin=pursuit.margin, threshold=threshold)
    root = np.sqrt(facts["trials"] * facts["squared_drift"])
    length = facts["norm"] ** 2 + facts["norm"] * (root + facts["drift"])

    def errors(rate):
        gain = pursuit.margin - threshold - rate * (pursuit.p - 1) * facts["radius"] ** 2 / 2
        return (facts["losses"] + length / (2 * rate)) / gain if gain > 0 else np.inf

    assert errors(unshrunk) == pytest.approx(limit, rel=1e-9)
    for other in (0.5, 0.9, 1.1, 2.0):
        assert errors(other * unshrunk) >= limit * (1 - 1e-9)


@settings(max_examples=150, deadline=None)
@given(
    pursuit=pursuits(),
    part=st.floats(0.0, 1.5),
    rate=magnitudes(0.001, 3.0),
    shrinking=st.just(0.0) | magnitudes(1e-4, 0.5),
    standing=st.booleans(),
)
def test_losses_with_any_parameters(pursuit, part, rate, shrinking, standing):
    """The sum of (14) over all trials, of which (15) is a special case."""
    pursuit = pursuit.standing() if standing else pursuit
    decay, threshold = shrinking / rate, part * pursuit.margin
    trace = reference_pnorm.pnorm_norma(
        pursuit.X, pursuit.y, p=pursuit.p, rate=rate, decay=decay, margin=threshold
    )
    made, errors = losses_on_the_way(trace, pursuit, threshold), int(trace.updated.sum())
    facts = known(NORMA, pursuit) | {"rate": rate, "decay": decay, "threshold": threshold}
    limit = NORMA.loss_bound(**facts, margin=pursuit.margin, margin_errors=errors)
    assert made <= limit * (1 + 1e-9)
    assert made <= NORMA.loss_bound(**facts, margin=pursuit.margin) * (1 + 1e-9)


@settings(max_examples=50, deadline=None)
@given(pursuit=pursuits(), part=st.floats(0.01, 0.99))
def test_losses_of_the_tuned_learner(pursuit, part):
    """(15) itself, K + (B^2 + B (sqrt(T D2) + D1)) / (2 alpha') - E (...), is a little larger."""
    facts, threshold = known(NORMA, pursuit), part * pursuit.margin
    learner = NORMA.tuned(**facts, margin=pursuit.margin, threshold=threshold)
    settings_ = {"rate": learner.rate, "decay": learner.decay}
    trace = reference_pnorm.pnorm_norma(
        pursuit.X, pursuit.y, p=pursuit.p, margin=threshold, **settings_
    )
    limit = NORMA.loss_bound(**facts, margin=pursuit.margin, threshold=threshold, **settings_)
    assert losses_on_the_way(trace, pursuit, threshold) <= limit * (1 + 1e-9)
    unshrunk = learner.rate / (1 - learner.rate * learner.decay)
    root = np.sqrt(facts["trials"] * facts["squared_drift"])
    length = facts["norm"] ** 2 + facts["norm"] * (root + facts["drift"])
    printed = facts["losses"] + length / (2 * unshrunk)
    a = unshrunk * learner.decay
    assert limit <= printed * (1 + 1e-9)
    assert limit >= printed * 2 / (2 + a) * (1 - 1e-9)


def test_loss_bound_is_nearly_attained_by_a_decay_that_is_too_large():
    """One row again and again: w stays at 1 / decay, where the target has output 1.

    For decay 2 each trial costs 1/2 in the limit of small rates, as much as the bound allows.
    """
    trials, settings_ = 5000, {"rate": 0.01, "decay": 2.0}
    pursuit = Pursuit(np.ones((trials, 1)), np.ones(trials), np.ones((trials, 1)), 1.0, 2.0)
    trace = reference.norma(pursuit.X, pursuit.y, margin=0.6, **settings_)
    assert trace.updated.all()
    facts = known(NORMA, pursuit) | {"margin": 1.0, "threshold": 0.6, **settings_}
    limit = NORMA.loss_bound(**facts, margin_errors=trials)
    made = losses_on_the_way(trace, pursuit, 0.6)
    assert limit - 0.05 * NORMA.loss_bound(**facts) <= made <= limit


def test_loss_bound_by_hand():
    # alpha' = 1, a = 1: S = 4 + (3 / 1 + 2 * 2 * 1 + 9 * 4) / 3, and mu - rho - 1/2 = 1/2.
    facts = {"radius": 1.0, "norm": 2.0, "margin": 2.0, "trials": 9, "losses": 5.0}
    moves = {"drift": 1.0, "squared_drift": 3.0}
    learner = {"threshold": 1.0, "rate": 0.5, "decay": 1.0}
    limit = NORMA.loss_bound(**facts, **moves, **learner)
    assert limit == pytest.approx(5 + (4 + 43 / 3) / 2)
    after = NORMA.loss_bound(**facts, **moves, **learner, margin_errors=4)
    assert after == pytest.approx(limit - 2)
    assert NORMA.loss_bound(**facts, **moves, **learner | {"decay": 0.0}) == np.inf
    # Where steps are too long for a proof, only the number of errors helps.
    learner["threshold"] = 2.0
    assert NORMA.loss_bound(**facts, **moves, **learner) == np.inf
    after = NORMA.loss_bound(**facts, **moves, **learner, margin_errors=4)
    assert after == pytest.approx(limit + 2)
    with pytest.raises(ValueError, match="'decay' parameter must be below 1 / rate"):
        NORMA.loss_bound(**facts, **learner | {"decay": 2.0})


@pytest.mark.parametrize("Learner", [NORMA, Pegasos])
def test_makes_all_passes_without_a_warning(Learner):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = Learner(max_iter=7, random_state=0).fit(*separable())
    assert learner.n_iter_ == 7
    assert not learner.converged_
