from functools import partial

import numpy as np
import pytest
import reference
from algorithms.agreement import assert_follows, streams
from algorithms.theory import ROUNDING, converged, separable_problems
from algorithms.trials import after, trials
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maxmargin import ROMMA
from maxmargin.algorithms.romma import ROMMARule
from maxmargin.core.rule import Trial

deltas = st.floats(0.0, 1.0)
# Away from parallel x and w, where the constraints lose their digits.
slanted = trials(cosine=0.99)


# In few dimensions the labels of a stream contradict each other, and |w| grows until rounding
# errors do too.
@settings(max_examples=100, deadline=None)
@given(stream=streams(min_width=8, several=True), delta=deltas)
def test_follows_the_reference(stream, delta):
    assert_follows(ROMMA(delta=delta), partial(reference.romma, delta=delta), stream)


@given(seen=slanted, delta=deltas)
def test_both_constraints_are_tight_or_the_second_holds_by_itself(seen, delta):
    rule = ROMMARule(delta, anew=True)
    assume(rule.active(seen))
    shrink, step = rule.step(seen)
    new = after(rule, seen)
    assert shrink >= 0.0
    assert step > 0.0
    assert new.margin == pytest.approx(1.0, rel=1e-9, abs=1e-9 * shrink * abs(seen.margin))
    if shrink > 0.0:
        assert new.along == pytest.approx(seen.ww, rel=1e-9, abs=1e-9 * step * abs(seen.margin))
    else:
        assert step == 1.0 / seen.xx
        assert new.along >= seen.ww * (1 - 1e-9)


@given(seen=slanted, delta=deltas)
def test_inverse_is_the_nearest_point_of_a_segment(seen, delta):
    """``h = w / |w|**2`` becomes the point of the segment from h to y x that is nearest to 0."""
    rule = ROMMARule(delta, anew=True)
    assume(rule.active(seen))
    hh, hx = 1.0 / seen.ww, seen.margin / seen.ww
    gap2 = hh - 2 * hx + seen.xx
    along = np.clip((hh - hx) / gap2, 0.0, 1.0)
    nearest2 = (1 - along) ** 2 * hh + 2 * along * (1 - along) * hx + along**2 * seen.xx
    assert 1.0 / after(rule, seen).ww == pytest.approx(nearest2, rel=1e-9)


@pytest.mark.parametrize("margin", [-1e3, -1.0, -1e-3])
def test_opposite_rows_change_nothing(margin):
    seen = Trial(margin, ww=margin**2 / 2.0, xx=2.0, largest_xx=2.0, t=5, k=3)
    assert ROMMARule(0.1, anew=True).step(seen) == (1.0, 0.0)


@given(ww=st.floats(1e-3, 0.4))
def test_parallel_rows_start_anew(ww):
    seen = Trial(np.sqrt(2.0 * ww), ww, xx=2.0, largest_xx=2.0, t=5, k=3)
    assert ROMMARule(0.0, anew=True).step(seen) == (0.0, 0.5)


@settings(max_examples=20, deadline=None)
@given(problem=separable_problems(), delta=st.floats(0.1, 1.0))
def test_converges_within_the_bounds(problem, delta):
    best = problem.margin
    learner = converged(ROMMA(delta=delta), problem)
    assert learner.n_updates_ <= ROMMA.max_updates(delta, problem.radius, best)
    assert problem.reached(learner) >= ROMMA.margin_fraction(delta) * best * (1 - ROUNDING)


@settings(max_examples=20, deadline=None)
@given(problem=separable_problems(), delta=st.floats(0.1, 1.0))
def test_length_proves_the_bound(problem, delta):
    learner = ROMMA(delta=delta, fit_intercept=False, random_state=0, max_iter=50)
    learner.fit(problem.rows, problem.y)
    proved, certified = 1.0 / np.linalg.norm(learner.coef_), learner.certificate_.bound
    assert problem.margin <= proved * (1 + ROUNDING)
    assert problem.margin <= certified <= proved * (1 + 1e-8)


def test_bounds_by_hand():
    assert ROMMA.max_updates(delta=1.0, radius=3.0, margin=0.5) == 36.0
    assert ROMMA.max_updates(delta=0.5, radius=3.0, margin=0.5) == 141.0
    assert ROMMA.margin_fraction(delta=0.25) == 0.75
