from functools import partial

import numpy as np
import pytest
import reference
from algorithms.agreement import assert_follows, magnitudes, streams
from algorithms.theory import ROUNDING, losses, played, separable_problems, with_intercept
from algorithms.trials import after, trials
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import overlapping_sets

from maxmargin import PassiveAggressive
from maxmargin.training.protocol import trainer_of

limits = magnitudes(0.001, 10.0)


def rule(C=None, loss="hinge"):
    return trainer_of(PassiveAggressive(C=C, loss=loss)).rule(2.0)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), C=st.none() | limits, loss=st.sampled_from(["hinge", "squared_hinge"]))
def test_follows_the_reference(stream, C, loss):
    parameters = {"C": C, "loss": loss}
    run = partial(reference.passive_aggressive, **parameters)
    assert_follows(PassiveAggressive(**parameters), run, stream)


@given(seen=trials())
def test_pa_lands_on_margin_one(seen):
    assume(rule().active(seen))
    assert after(rule(), seen).margin == pytest.approx(1.0, abs=1e-9 * (1 + abs(seen.margin)))


@given(seen=trials(), C=limits)
def test_pa_i_is_pa_up_to_a_step_of_c(seen, C):
    assume(rule(C).active(seen))
    shrink, step = rule(C).step(seen)
    assert shrink == 1.0
    assert step == min(C, rule().step(seen)[1])


@given(seen=trials(), C=limits)
def test_pa_ii_minimises_its_objective(seen, C):
    """The step tau solves min ``tau**2 |x|**2 / 2 + C * (1 - m - tau |x|**2)**2``."""
    pa_ii = rule(C, "squared_hinge")
    assume(pa_ii.active(seen))
    shrink, step = pa_ii.step(seen)
    assert shrink == 1.0
    slope = step * seen.xx - 2 * C * seen.xx * (1 - seen.margin - step * seen.xx)
    assert slope == pytest.approx(0.0, abs=1e-9 * (1 + C * seen.xx) * (1 + abs(seen.margin)))


def comparisons(rows, y):
    """Vectors u of many lengths along a good direction: their norms and losses."""
    direction = np.linalg.lstsq(rows, y, rcond=None)[0]
    for length in np.geomspace(0.03, 30.0, 16):
        u = length * direction
        yield np.linalg.norm(u), losses(u, rows, y)


def largest_norm(rows):
    return np.linalg.norm(rows, axis=1).max()


@settings(max_examples=30, deadline=None)
@given(problem=separable_problems(), passes=st.integers(1, 4))
def test_squared_losses_of_pa(problem, passes):
    X, y = np.tile(problem.X, (passes, 1)), np.tile(problem.y, passes)
    suffered = losses(played(PassiveAggressive(), X, y), with_intercept(X), y)
    limit = PassiveAggressive.max_squared_loss(problem.radius, 1 / problem.margin)
    assert np.sum(suffered**2) <= limit * (1 + ROUNDING)


@settings(max_examples=30, deadline=None)
@given(drawn=overlapping_sets(), C=limits)
def test_mistakes_of_pa_i(drawn, C):
    X, y = drawn
    rows = with_intercept(X)
    mistakes = PassiveAggressive(C=C).partial_fit(X, y, classes=[-1, 1]).n_mistakes_
    for norm, missed in comparisons(rows, y):
        limit = PassiveAggressive.max_mistakes(largest_norm(rows), norm, C, np.sum(missed))
        assert mistakes <= limit * (1 + ROUNDING)


@settings(max_examples=30, deadline=None)
@given(drawn=overlapping_sets(), C=limits)
def test_squared_losses_of_pa_ii(drawn, C):
    X, y = drawn
    rows = with_intercept(X)
    learner = PassiveAggressive(C=C, loss="squared_hinge")
    suffered = losses(played(learner, X, y), rows, y)
    for norm, missed in comparisons(rows, y):
        limit = PassiveAggressive.max_squared_loss(largest_norm(rows), norm, C, np.sum(missed**2))
        assert np.sum(suffered**2) <= limit * (1 + ROUNDING)


def test_bounds_by_hand():
    assert PassiveAggressive.max_squared_loss(radius=2.0, norm=3.0) == 36.0
    assert PassiveAggressive.max_squared_loss(radius=2.0, norm=3.0, comparison=0.1) == np.inf
    limit = PassiveAggressive.max_squared_loss(radius=2.0, norm=3.0, C=0.5, comparison=4.0)
    assert limit == (4 + 1) * (9 + 4)
    assert PassiveAggressive.max_mistakes(radius=2.0, norm=3.0, C=0.5, comparison=4.0) == 52.0
    assert PassiveAggressive.max_mistakes(radius=2.0, norm=3.0, C=0.125, comparison=4.0) == 80.0
