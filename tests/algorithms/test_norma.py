import warnings
from functools import partial

import numpy as np
import pytest
import reference
from algorithms.agreement import assert_follows, magnitudes, streams
from algorithms.moving import WRONG_FACTS, play, pursuits
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import separable

from maxmargin import NORMA

rates, decays = magnitudes(0.01, 2.0), st.floats(0.0, 0.49)
margins = st.just(0.0) | magnitudes(0.01, 10.0)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), rate=rates, decay=decays, margin=margins)
def test_follows_the_reference(stream, rate, decay, margin):
    parameters = {"rate": rate, "decay": decay, "margin": margin}
    assert_follows(NORMA(**parameters), partial(reference.norma, **parameters), stream)


def known(pursuit):
    """What the theorems need to know but for the margin."""
    return pursuit.known() | {
        "trials": len(pursuit.X),
        "drift": pursuit.drift(),
        "squared_drift": pursuit.squared_drift(),
    }


@settings(max_examples=150, deadline=None)
@given(pursuit=pursuits(), aggressive=st.booleans())
def test_mistakes_of_the_tuned_learner(pursuit, aggressive):
    facts = known(pursuit) | {"margin": pursuit.margin}
    learner = play(NORMA.tuned(**facts, aggressive=aggressive), pursuit)
    assert learner.n_mistakes_ <= NORMA.mistake_bound(**facts)


@settings(max_examples=150, deadline=None)
@given(pursuit=pursuits(), part=st.floats(0.01, 0.99))
def test_margin_errors(pursuit, part):
    """With a threshold above 0, the updates are the margin errors."""
    facts, threshold = known(pursuit), part * pursuit.margin
    learner = NORMA.tuned(**facts, margin=pursuit.margin - threshold)
    play(learner.set_params(margin=threshold), pursuit)
    limit = NORMA.margin_error_bound(**facts, margin=pursuit.margin, threshold=threshold)
    assert learner.n_updates_ <= limit


@pytest.mark.parametrize("aggressive", [False, True])
def test_mistake_bound_is_attained_on_orthogonal_rows(aggressive):
    facts = {"radius": 1.0, "norm": 4.0, "margin": 1.0, "trials": 16}
    learner = NORMA.tuned(**facts, aggressive=aggressive, fit_intercept=False)
    learner.partial_fit(np.eye(16), np.tile([-1, 1], 8), classes=[-1, 1])
    assert learner.n_mistakes_ == NORMA.mistake_bound(**facts) == 16


@given(pursuit=pursuits())
def test_tuned_rate_is_what_the_proof_needs(pursuit):
    """With alpha' = rate / (1 - rate * decay): the gap is alpha' (p - 1) X**2 / 2, and
    decay alpha' B = sqrt(D2 / T)."""
    facts = known(pursuit)
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


@pytest.mark.parametrize("call", [NORMA.tuned, NORMA.mistake_bound, NORMA.margin_error_bound])
@pytest.mark.parametrize(
    "bad",
    [*WRONG_FACTS, {"trials": 0}, {"trials": 2.5}, {"squared_drift": -1.0}],
    ids=str,
)
def test_wrong_facts_are_named(call, bad):
    facts = {"radius": 1.0, "norm": 1.0, "margin": 1.0, "trials": 10}
    if call is NORMA.margin_error_bound:
        facts["threshold"] = 0.5
    (name,) = bad
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        call(**facts | bad)


@pytest.mark.parametrize("threshold", [-0.1, 1.0, 2.0])
def test_threshold_is_below_the_margin(threshold):
    with pytest.raises(ValueError, match="'threshold' parameter"):
        NORMA.margin_error_bound(1.0, 1.0, 1.0, trials=10, threshold=threshold)


def test_drift_comes_with_its_squares():
    with pytest.raises(ValueError, match="'drift' and 'squared_drift' parameters must both"):
        NORMA.tuned(1.0, 1.0, 1.0, trials=10, drift=1.0)


def test_makes_all_passes_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = NORMA(max_iter=7, random_state=0).fit(*separable())
    assert learner.n_iter_ == 7
    assert not learner.converged_
