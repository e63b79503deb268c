from functools import partial

import numpy as np
import pytest
import reference
from algorithms.agreement import assert_follows, magnitudes, streams
from algorithms.theory import ROUNDING, converged, separable_problems
from algorithms.trials import after, trials
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maxmargin import ALMA
from maxmargin.algorithms.alma import ALMARule

alphas, scales = st.floats(0.05, 1.0), magnitudes(0.1, 5.0)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), alpha=alphas, B=st.none() | scales, C=st.none() | scales)
def test_follows_the_reference(stream, alpha, B, C):
    parameters = {"alpha": alpha, "B": B, "C": C}
    assert_follows(ALMA(**parameters), partial(reference.alma, **parameters), stream)


@given(seen=trials(log_ww=0.0), alpha=alphas, B=scales, C=scales)
def test_stays_in_the_unit_ball(seen, alpha, B, C):
    rule = ALMARule(alpha, B, C)
    assume(rule.active(seen))
    shrink, step = rule.step(seen)
    length2 = seen.ww + 2 * step * seen.margin + step**2 * seen.xx
    assert (shrink, step) == (1.0, pytest.approx(C / np.sqrt((seen.k + 1) * seen.xx)))
    assert after(rule, seen).ww == pytest.approx(min(1.0, length2), abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(problem=separable_problems(), alpha=st.floats(0.3, 1.0))
def test_converges_within_the_bounds(problem, alpha):
    normalised = problem.normalised()
    best = normalised.margin
    learner = converged(ALMA(alpha=alpha), problem)
    assert learner.n_updates_ <= ALMA.max_updates(alpha, best)
    assert normalised.reached(learner) >= ALMA.margin_fraction(alpha) * best * (1 - ROUNDING)


def test_bounds_by_hand():
    assert ALMA.max_updates(alpha=0.5, margin=0.5) == 2 / 0.25 * 9 + 16 - 4
    assert ALMA.max_updates(alpha=1.0, margin=0.5) == 12.0
    assert ALMA.margin_fraction(alpha=0.25) == 0.75
