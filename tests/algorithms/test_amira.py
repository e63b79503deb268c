from functools import partial

import numpy as np
import pytest
import reference
from algorithms.agreement import assert_follows, streams
from algorithms.theory import ROUNDING, converged, separable_problems, weights
from algorithms.trials import after, trials
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maxmargin import AMIRA
from maxmargin.algorithms.amira import AMIRARule

epsilons = st.floats(0.0, 1.0)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), epsilon=epsilons)
def test_follows_the_reference(stream, epsilon):
    run = partial(reference.amira, epsilon=epsilon)
    assert_follows(AMIRA(epsilon=epsilon), run, stream)


@given(seen=trials(), epsilon=epsilons)
def test_lands_on_margin_one(seen, epsilon):
    rule = AMIRARule(epsilon)
    assume(rule.active(seen))
    assert after(rule, seen).margin == pytest.approx(1.0, abs=1e-9 * (1 + abs(seen.margin)))


@settings(max_examples=30, deadline=None)
@given(problem=separable_problems(), epsilon=st.floats(0.05, 1.0))
def test_converges_within_the_bounds(problem, epsilon):
    best = problem.margin
    learner = converged(AMIRA(epsilon=epsilon), problem)
    assert learner.n_updates_ <= AMIRA.max_updates(epsilon, problem.radius, best)
    fraction = AMIRA.margin_fraction(epsilon)
    assert problem.reached(learner) >= fraction * best * (1 - ROUNDING)


@settings(max_examples=20, deadline=None)
@given(problem=separable_problems(), epsilon=epsilons)
def test_weights_never_get_longer_than_the_bound(problem, epsilon):
    learner = AMIRA(epsilon=epsilon)
    limit = AMIRA.max_norm(epsilon, problem.margin) * (1 + ROUNDING)
    for _ in range(4):
        for x, label in zip(problem.X, problem.y, strict=True):
            learner.partial_fit(x[None, :], [label], classes=[-1, 1])
            assert np.linalg.norm(weights(learner)) <= limit


def test_bounds_by_hand():
    assert AMIRA.max_updates(epsilon=0.5, radius=3.0, margin=0.5) == pytest.approx(108.0)
    assert AMIRA.max_norm(epsilon=0.5, margin=0.5) == 3.0
    assert AMIRA.margin_fraction(epsilon=0.5) == pytest.approx(1 / 3)
    assert AMIRA.margin_fraction(epsilon=1.0) == 0.0
