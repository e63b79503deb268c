"""Learners that are the same learner."""

import numpy as np
import pytest
from algorithms.agreement import streams
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from maxmargin import (
    AMIRA,
    NORMA,
    ROMMA,
    DirectionalPerceptron,
    PassiveAggressive,
    Perceptron,
    Relaxation,
    TrackingALMA,
)


def history(learner, stream, scale=1.0):
    """Weights, updates and mistakes after each row."""
    learner = clone(learner).set_params(
        fit_intercept=stream.offset > 0, intercept_scaling=scale * stream.offset or 1.0
    )
    steps = []
    for x, label in zip(scale * stream.X, stream.y, strict=True):
        learner.partial_fit(x[None, :], [label], classes=range(stream.classes))
        weights = np.column_stack([learner.coef_, learner.intercept_])
        steps.append((weights, learner.n_updates_, learner.n_mistakes_))
    return [np.array(each) for each in zip(*steps, strict=True)]


def assert_same(first, second, factor=1.0):
    """The same sequence, but for a factor of the weights."""
    (w, updates, mistakes), (w_other, updates_other, mistakes_other) = first, second
    np.testing.assert_array_equal(updates, updates_other)
    np.testing.assert_array_equal(mistakes, mistakes_other)
    np.testing.assert_allclose(w, factor * w_other, rtol=1e-9, atol=1e-9 * np.abs(w).max())


@settings(max_examples=25, deadline=None)
@given(stream=streams())
def test_amira_at_zero_is_passive_aggressive(stream):
    assert_same(
        history(AMIRA(epsilon=0.0, multiclass="ovr"), stream), history(PassiveAggressive(), stream)
    )


@settings(max_examples=25, deadline=None)
@given(stream=streams(), epsilon=st.floats(0.01, 1.0))
def test_amira_is_relaxation(stream, epsilon):
    relaxation = Relaxation(margin=1.0 - epsilon, target=1.0, rate=1.0)
    assert_same(
        history(AMIRA(epsilon=epsilon, multiclass="ovr"), stream), history(relaxation, stream)
    )


@settings(max_examples=25, deadline=None)
@given(stream=streams())
@pytest.mark.parametrize(
    "learner", [AMIRA(epsilon=1.0, multiclass="ovr"), ROMMA(delta=1.0), Perceptron()]
)
def test_mistake_driven_learners_update_on_mistakes_only(stream, learner):
    binary = stream._replace(y=np.minimum(stream.y, 1), classes=2)
    _, updates, mistakes = history(learner, binary)
    zero_rows = np.cumsum(~binary.rows().any(axis=1))
    np.testing.assert_array_equal(updates + zero_rows, mistakes)


@settings(max_examples=25, deadline=None)
@given(stream=streams(), rate=st.floats(0.1, 3.0))
@pytest.mark.parametrize(
    "learner", [NORMA(decay=0.0, margin=0.0), TrackingALMA(radius=np.inf, margin=0.0)]
)
def test_perceptron_is_a_limit_of_those_for_moving_targets(stream, learner, rate):
    scaled = history(clone(learner).set_params(rate=rate), stream)
    assert_same(scaled, history(Perceptron(), stream), factor=rate)


@settings(max_examples=25, deadline=None)
@given(stream=streams(), rate=st.floats(0.1, 3.0), step=st.sampled_from(["constant", "relaxed"]))
def test_free_length_does_not_depend_on_the_rate(stream, rate, step):
    learner = DirectionalPerceptron(beta=1e-3, step=step)
    scaled = history(clone(learner).set_params(rate=rate), stream)
    assert_same(scaled, history(learner, stream), factor=rate)


@settings(max_examples=25, deadline=None)
@given(stream=streams(min_width=8), scale=st.sampled_from([1e-3, 0.3, 7.0, 1e3]))
@pytest.mark.parametrize(
    ("learner", "power"),
    [
        (AMIRA(epsilon=0.1, multiclass="ovr"), -1),
        (PassiveAggressive(), -1),
        (ROMMA(delta=0.1), -1),
        (Relaxation(), -1),
        (Perceptron(), 1),
    ],
)
def test_scaling_the_rows(stream, learner, power, scale):
    """The same updates; the weights of the features take the inverse, or the same, scale."""
    first, second = history(learner, stream), history(learner, stream, scale)
    # The intercept is a weight times the scaled coordinate: take the weight.
    for each, factor in ((first, 1.0), (second, scale)):
        each[0][:, :, -1] /= factor
    assert_same(second, first, factor=scale**power)
