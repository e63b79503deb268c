from functools import partial

import numpy as np
import pytest
import reference
from algorithms.agreement import assert_follows, magnitudes, streams
from algorithms.theory import ROUNDING, converged, separable_problems
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import separable

from maxmargin import Perceptron

margins, rates = st.just(0.0) | magnitudes(0.01, 100.0), magnitudes(0.1, 10.0)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), margin=margins, rate=rates)
def test_follows_the_reference(stream, margin, rate):
    parameters = {"margin": margin, "rate": rate}
    assert_follows(Perceptron(**parameters), partial(reference.perceptron, **parameters), stream)


@settings(max_examples=60, deadline=None)
@given(stream=streams(), margin=margins, rate=rates)
def test_average_follows_the_reference(stream, margin, rate):
    parameters = {"margin": margin, "rate": rate}
    assert_follows(
        Perceptron(**parameters, average=True),
        partial(reference.averaged_perceptron, **parameters),
        stream,
        predicts=partial(reference.perceptron, **parameters),
    )


@settings(max_examples=30, deadline=None)
@given(problem=separable_problems(), margin=st.floats(0.0, 3.0), rate=st.floats(0.1, 3.0))
def test_converges_within_the_bounds(problem, margin, rate):
    learner = converged(Perceptron(margin=margin, rate=rate), problem)
    best = problem.margin
    assert learner.n_updates_ <= Perceptron.max_updates(
        problem.radius, best, threshold=margin, rate=rate
    )
    fraction = Perceptron.margin_fraction(problem.radius, threshold=margin, rate=rate)
    assert problem.reached(learner) >= fraction * best * (1 - ROUNDING)


def test_bounds_by_hand():
    assert Perceptron.max_updates(radius=3.0, margin=0.5) == 36.0
    assert Perceptron.max_updates(radius=3.0, margin=0.5, threshold=2.0, rate=0.5) == 68.0
    assert Perceptron.margin_fraction(radius=3.0, threshold=0.0) == 0.0
    assert Perceptron.margin_fraction(radius=3.0, threshold=9.0, rate=2.0) == 0.25
    assert Perceptron.margin_fraction(radius=3.0, threshold=1e9) == pytest.approx(0.5)


@pytest.mark.parametrize("average", [False, True])
def test_switching_the_average_waits_for_the_next_fit(average):
    X, y = separable()
    learner = Perceptron(average=average, random_state=0).fit(X, y)
    before = learner.decision_function(X)
    learner.set_params(average=not average)
    np.testing.assert_array_equal(learner.decision_function(X), before)
