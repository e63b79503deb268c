from functools import partial

import numpy as np
import pytest
import reference
import reference_pnorm
from algorithms.agreement import assert_follows, magnitudes, streams
from algorithms.theory import ROUNDING, converged, separable_problems, weights
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import separable

from maxmargin import Perceptron

margins, rates = st.just(0.0) | magnitudes(0.01, 100.0), magnitudes(0.1, 10.0)


@settings(max_examples=60, deadline=None)
@given(stream=streams(several=True), margin=margins, rate=rates)
def test_follows_the_reference(stream, margin, rate):
    parameters = {"margin": margin, "rate": rate}
    assert_follows(Perceptron(**parameters), partial(reference.perceptron, **parameters), stream)


@settings(max_examples=60, deadline=None)
@given(stream=streams(several=True), margin=margins, rate=rates)
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


@settings(max_examples=40, deadline=None)
@given(
    problem=separable_problems(),
    margin=st.floats(0.0, 3.0),
    rate=st.floats(0.1, 3.0),
    f_min=st.floats(0.2, 1.0),
    spread=st.floats(1.0, 4.0),
    p=st.sampled_from([2.0, 4.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_bounds_for_any_factors(problem, margin, rate, f_min, spread, p, seed):
    """(2.11), (2.20) and (2.21) for steps whose factors change from one update to the next."""
    factors = {"f_min": f_min, "f_max": spread * f_min}
    draw = np.random.default_rng(seed)
    # Extreme ones most of all.
    some = lambda: float(np.clip(draw.normal(f_min, f_min), *factors.values()))  # noqa: E731
    history = reference_pnorm.additive(problem.rows, problem.y, some, p=p, rate=rate, margin=margin)
    best, _, _ = reference_pnorm.max_pnorm_margin(problem.rows, problem.y, p, intercept=False)
    radius = max(reference_pnorm.norm(row, p) for row in problem.rows)
    known = {"threshold": margin, "rate": rate, "p": p, **factors}
    assert len(history) <= Perceptron.max_updates(radius, best, **known)
    lengths = [reference_pnorm.norm(w, p / (p - 1)) for w in history]
    assert max(lengths) <= Perceptron.max_norm(radius, best, **known) * (1 + ROUNDING)
    reached = np.min(problem.y * (problem.rows @ history[-1])) / lengths[-1]
    assert reached >= Perceptron.margin_fraction(radius, **known) * best * (1 - 1e-4)


@settings(max_examples=30, deadline=None)
@given(problem=separable_problems(), margin=st.floats(0.0, 3.0), rate=st.floats(0.1, 3.0))
def test_weights_are_never_longer_than_the_bound(problem, margin, rate):
    learner = converged(Perceptron(margin=margin, rate=rate), problem)
    limit = Perceptron.max_norm(problem.radius, problem.margin, threshold=margin, rate=rate)
    assert np.linalg.norm(weights(learner)) <= limit * (1 + ROUNDING)


def test_the_printed_length_is_too_small_for_factors():
    """Rows that are orthogonal to each other, of which each is learned from with f = 1.7.

    (2.20) is printed as (eta R^2 + 2 b) / gamma.
    """
    X, y = 2.0 * np.eye(25), np.ones(25)
    history = reference_pnorm.additive(X, y, lambda: 1.7)
    best = reference.max_margin(X, y, intercept=False)[0]
    length = np.linalg.norm(history[-1])
    assert length > 4.0 / best
    assert length <= Perceptron.max_norm(2.0, best, f_min=1.7, f_max=1.7) * (1 + ROUNDING)


@settings(max_examples=20, deadline=None)
@given(problem=separable_problems(), margin=st.floats(0.0, 1.0), seed=st.integers(0, 2**32 - 1))
def test_steps_turn_towards_the_best_direction_with_any_factors(problem, margin, seed):
    draw, factors = np.random.default_rng(seed), {"f_min": 0.5, "f_max": 1.0}
    history = reference_pnorm.additive(
        problem.rows, problem.y, lambda: draw.uniform(0.5, 1.0), margin=margin
    )
    best, u, _ = reference.max_margin(problem.rows, problem.y, intercept=False)
    cosines = history @ u * best / np.linalg.norm(history, axis=1)
    first = Perceptron.stepwise_from(problem.radius, best, threshold=margin, **factors)
    assert (np.diff(cosines)[int(np.ceil(first)) :] > -ROUNDING).all()


def test_factors_by_hand():
    factors = {"threshold": 2.0, "rate": 0.5, "f_min": 0.5, "f_max": 2.0}
    # F = 4: (16 * 9 + 2 * 4 * 2 / (0.5 * 0.5)) / 0.25 and 4 (0.5 * 2 * 9 + 4) / 0.5
    assert Perceptron.max_updates(3.0, 0.5, **factors) == pytest.approx(832.0)
    assert Perceptron.max_norm(3.0, 0.5, **factors) == pytest.approx(104.0)
    assert Perceptron.margin_fraction(3.0, **factors) == pytest.approx(2.0 / 104.0 / 0.5)
    # 2 * 35 + 2 / (0.25 * 0.25)
    assert Perceptron.stepwise_from(3.0, 0.5, **factors) == pytest.approx(102.0)


@given(
    ratio=st.floats(1.0, 100.0),
    margin=magnitudes(1e-3, 1e3),
    threshold=st.floats(0.0, 3.0),
    f_min=st.floats(0.1, 1.0),
    spread=st.floats(1.0, 9.0),
)
def test_stepwise_convergence_begins_well_before_the_bound(ratio, margin, threshold, f_min, spread):
    """(2.19)."""
    known = {"threshold": threshold, "f_min": f_min, "f_max": spread * f_min}
    first = Perceptron.stepwise_from(ratio * margin, margin, **known)
    assert Perceptron.max_updates(ratio * margin, margin, **known) > 2 * spread * first
