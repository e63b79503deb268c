from functools import partial

import pytest
import reference
from algorithms.agreement import assert_follows, streams
from algorithms.theory import ROUNDING, converged, separable_problems
from algorithms.trials import after, trials
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maxmargin import Relaxation
from maxmargin.algorithms.relaxation import RelaxationRule

margins, overshoots, rates = st.floats(0.0, 2.0), st.floats(0.05, 2.0), st.floats(0.1, 1.9)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), margin=margins, overshoot=overshoots, rate=rates)
def test_follows_the_reference(stream, margin, overshoot, rate):
    parameters = {"margin": margin, "target": margin + overshoot, "rate": rate}
    assert_follows(Relaxation(**parameters), partial(reference.relaxation, **parameters), stream)


@given(seen=trials(), margin=margins, overshoot=overshoots, rate=rates)
def test_step_goes_the_fraction_rate_of_the_way(seen, margin, overshoot, rate):
    target = margin + overshoot
    rule = RelaxationRule(margin, target, rate)
    assume(rule.active(seen))
    expected = seen.margin + rate * (target - seen.margin)
    assert after(rule, seen).margin == pytest.approx(expected, abs=1e-9 * (1 + abs(seen.margin)))


@given(seen=trials(), margin=margins, overshoot=overshoots)
def test_full_rate_lands_on_the_target(seen, margin, overshoot):
    rule = RelaxationRule(margin, margin + overshoot, 1.0)
    assume(rule.active(seen))
    landed = after(rule, seen).margin
    assert landed == pytest.approx(margin + overshoot, abs=1e-9 * (1 + abs(seen.margin)))


@settings(max_examples=30, deadline=None)
@given(
    problem=separable_problems(),
    margin=st.floats(0.1, 2.0),
    overshoot=st.floats(0.1, 2.0),
    rate=rates,
)
def test_converges_within_the_bounds(problem, margin, overshoot, rate):
    target, best = margin + overshoot, problem.margin
    learner = converged(Relaxation(margin=margin, target=target, rate=rate), problem)
    limit = Relaxation.max_updates(margin, target, rate, problem.radius, best)
    assert learner.n_updates_ <= limit
    fraction = Relaxation.margin_fraction(margin, target, rate)
    assert problem.reached(learner) >= fraction * best * (1 - ROUNDING)


def test_bounds_by_hand():
    limit = Relaxation.max_updates(threshold=1.0, target=1.5, rate=0.5, radius=2.0, margin=0.5)
    assert limit == pytest.approx(4 * (0.75 + 1.5) / (0.5 * 0.5 * 0.25))
    fraction = Relaxation.margin_fraction(threshold=1.0, target=1.5, rate=0.5)
    assert fraction == pytest.approx(1 / 2.25)


@settings(max_examples=30)
@given(
    margin=st.floats(0.1, 2.0),
    overshoot=overshoots,
    rate=rates,
    radius=st.floats(1.0, 5.0),
    best=st.floats(0.01, 1.0),
)
def test_bound_is_sharper_than_the_papers(margin, overshoot, rate, radius, best):
    target = margin + overshoot
    papers = Relaxation.max_updates_paper(margin, target, rate, radius, best, smallest=radius)
    assert Relaxation.max_updates(margin, target, rate, radius, best) <= papers


@settings(max_examples=30, deadline=None)
@given(problem=separable_problems(), margin=st.floats(0.1, 2.0), overshoot=st.floats(0.1, 2.0))
def test_the_bound_of_the_paper_holds_too(problem, margin, overshoot):
    """(2.29), which is never below ours."""
    target, best = margin + overshoot, problem.margin
    for rate in (0.3, 1.0, 1.7):
        learner = converged(Relaxation(margin=margin, target=target, rate=rate), problem)
        known = (margin, target, rate, problem.radius, best)
        papers = Relaxation.max_updates_paper(*known, problem.smallest)
        assert learner.n_updates_ <= Relaxation.max_updates(*known) <= papers


def test_the_bound_of_the_paper_by_hand():
    limit = Relaxation.max_updates_paper(1.0, 1.5, 0.5, radius=2.0, margin=0.5, smallest=1.0)
    assert limit == pytest.approx(4 / 3 * (4 / 0.5) ** 2 * 1.5**2 / 0.25)
