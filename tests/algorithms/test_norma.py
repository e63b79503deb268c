import warnings
from functools import partial

import numpy as np
import pytest
import reference
from algorithms.agreement import assert_follows, magnitudes, streams
from algorithms.moving import pursuits
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
    """What the theorems need to know of the comparison vectors."""
    return {
        "radius": pursuit.radius,
        "norm": pursuit.norm,
        "trials": len(pursuit.X),
        "drift": pursuit.drift,
        "squared_drift": pursuit.squared_drift,
        "losses": pursuit.losses,
    }


def play(learner, pursuit):
    learner.set_params(fit_intercept=False)
    return learner.partial_fit(pursuit.X, pursuit.y, classes=[-1, 1])


@settings(max_examples=60, deadline=None)
@given(pursuit=pursuits(), aggressive=st.booleans())
def test_mistakes_of_the_tuned_learner(pursuit, aggressive):
    facts = known(pursuit) | {"margin": pursuit.margin}
    learner = play(NORMA.tuned(**facts, aggressive=aggressive), pursuit)
    assert learner.n_mistakes_ <= NORMA.mistake_bound(**facts)


@settings(max_examples=60, deadline=None)
@given(pursuit=pursuits(), part=st.floats(0.01, 0.99))
def test_margin_errors(pursuit, part):
    """With a threshold above 0, the updates are the margin errors."""
    facts, threshold = known(pursuit), part * pursuit.margin
    learner = NORMA.tuned(**facts, margin=pursuit.margin - threshold)
    play(learner.set_params(margin=threshold), pursuit)
    limit = NORMA.margin_error_bound(**facts, margin=pursuit.margin, threshold=threshold)
    assert learner.n_updates_ <= limit


@given(pursuit=pursuits())
def test_tuned_rate_is_what_the_proof_needs(pursuit):
    """With alpha' = rate / (1 - rate * decay): the gap is alpha' X**2 / 2, and decay alpha' B =
    sqrt(D2 / T)."""
    learner = NORMA.tuned(**known(pursuit), margin=pursuit.margin)
    assert learner.rate * learner.decay < 1
    unshrunk = learner.rate / (1 - learner.rate * learner.decay)
    gap = unshrunk * pursuit.radius**2 / 2
    assert learner.margin == pytest.approx(pursuit.margin - gap)
    speed = np.sqrt(pursuit.squared_drift / len(pursuit.X))
    assert learner.decay * unshrunk * pursuit.norm == pytest.approx(speed)


def test_bounds_by_hand():
    # C = 4/4 * (9 + 3 * (sqrt(25 * 4) + 1)) = 42, then with m = 2: K/m = 1, C/m^2 = 10.5.
    facts = {"radius": 2.0, "norm": 3.0, "trials": 25, "drift": 1.0, "squared_drift": 4.0}
    expected = 1 + 21 + 2 * np.sqrt(10.5 * 11.5)
    assert NORMA.mistake_bound(**facts, margin=2.0, losses=2.0) == pytest.approx(expected)
    limit = NORMA.margin_error_bound(**facts, margin=3.0, threshold=1.0, losses=2.0)
    assert limit == pytest.approx(expected)
    assert NORMA.mistake_bound(2.0, 3.0, margin=2.0, trials=25) == pytest.approx(9.0)


def test_tuned_passes_other_parameters_on():
    learner = NORMA.tuned(1.0, 1.0, 0.5, trials=10, aggressive=False, fit_intercept=False)
    assert learner.get_params()["fit_intercept"] is False
    assert learner.margin == 0.0
    assert learner.decay == 0.0
    assert learner.rate == 0.5


def test_makes_all_passes_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = NORMA(max_iter=7).fit(*separable())
    assert learner.n_iter_ == 7
    assert not learner.converged_
