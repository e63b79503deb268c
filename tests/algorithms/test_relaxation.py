import warnings
from functools import partial

import numpy as np
import pytest
import reference
from algorithms.agreement import assert_follows, streams
from algorithms.theory import ROUNDING, converged, separable_problems, weights
from algorithms.trials import after, trials
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from maxmargin import Relaxation
from maxmargin.algorithms.relaxation import RelaxationRule

margins, overshoots, rates = st.floats(0.0, 2.0), st.floats(0.05, 2.0), st.floats(0.1, 1.9)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), margin=margins, overshoot=overshoots, rate=rates)
def test_follows_the_reference(stream, margin, overshoot, rate):
    parameters = {"margin": margin, "target": margin + overshoot, "rate": rate}
    assert_follows(Relaxation(**parameters), partial(reference.relaxation, **parameters), stream)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), margin=st.floats(0.05, 2.0), rate=rates)
def test_the_textbook_rule_follows_the_reference(stream, margin, rate):
    parameters = {"margin": margin, "target": margin, "rate": rate}
    assert_follows(Relaxation(**parameters), partial(reference.relaxation, **parameters), stream)


def test_the_textbook_rule_leaves_rows_on_the_target_alone():
    """Full steps on orthogonal rows end exactly on the margin: one update for each row."""
    X, y = np.eye(4), [1, -1, 1, -1]
    shared = {"margin": 1.0, "target": 1.0, "fit_intercept": False, "random_state": 0}
    clf = Relaxation(**shared).fit(X, y)
    assert clf.converged_
    assert clf.n_updates_ == 4
    assert (y * clf.decision_function(X)).tolist() == [1.0] * 4


@settings(max_examples=30, deadline=None)
@given(problem=separable_problems(), margin=st.floats(0.1, 2.0), rate=rates)
def test_the_textbook_rule_reaches_half_the_margin(problem, margin, rate):
    """Weights are never longer than proved; so it is half the margin if and when a fit ends."""
    learner = Relaxation(margin=margin, target=margin, rate=rate, max_iter=300, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learner.fit(problem.X, problem.y)
    length = np.linalg.norm(weights(learner))
    assert length <= 2.0 * margin / problem.margin * (1 + ROUNDING)
    assert Relaxation.margin_fraction(margin, margin, rate) == pytest.approx(0.5)
    if learner.converged_:
        assert problem.reached(learner) >= 0.5 * problem.margin * (1 - ROUNDING)


def test_a_target_below_the_margin_is_refused():
    with pytest.raises(ValueError, match=r"must not be below margin=1\.0\. Got 0\.9 instead"):
        Relaxation(margin=1.0, target=0.9).fit([[0.0], [1.0]], [0, 1])


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
    textbook = {"threshold": 1.0, "target": 1.0, "rate": 0.5, "radius": 2.0, "margin": 0.5}
    assert Relaxation.max_updates(**textbook) == np.inf
    assert Relaxation.max_updates_paper(**textbook, smallest=1.0) == np.inf
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
