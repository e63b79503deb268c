import math
from functools import partial

import numpy as np
import pytest
import reference
import reference_pnorm
from algorithms.agreement import assert_follows, magnitudes, streams
from algorithms.theory import ROUNDING, converged, separable_problems, weights
from algorithms.trials import after, trials
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import separable
from sklearn.exceptions import ConvergenceWarning

from maxmargin import DirectionalPerceptron
from maxmargin.training.protocol import trainer_of

lengths, steps = st.sampled_from(["free", "fixed"]), st.sampled_from(["constant", "relaxed"])
rates = magnitudes(0.01, 10.0)


# The theory of relaxed steps needs beta below the norms of all rows.
@settings(max_examples=80, deadline=None)
@given(stream=streams(), part=st.floats(0.01, 0.99), length=lengths, step=steps, rate=rates)
def test_follows_the_reference(stream, part, length, step, rate):
    norms = np.linalg.norm(stream.rows(), axis=1)
    assume(norms.any())
    beta = part * norms[norms > 0].min()
    parameters = {"beta": beta, "length": length, "step": step, "rate": rate}
    run = partial(reference.directional_perceptron, **parameters)
    assert_follows(DirectionalPerceptron(**parameters), run, stream)


@given(seen=trials(), beta=st.floats(0.01, 1.0), step=steps, rate=rates)
def test_fixed_length_stays(seen, beta, step, rate):
    learner = DirectionalPerceptron(beta=beta, length="fixed", step=step, rate=rate)
    rule = trainer_of(learner).rule(2.0)
    assume(rule.active(seen))
    new = after(rule, seen)
    assume(new.ww > 0.0)
    assert np.sqrt(new.ww) == pytest.approx(beta)


@given(seen=trials(), part=st.floats(0.01, 0.99), rate=rates)
def test_relaxed_factor_is_within_its_range(seen, part, rate):
    beta = part * np.sqrt(seen.xx)
    rule = trainer_of(DirectionalPerceptron(beta=beta, step="relaxed", rate=rate)).rule(2.0)
    assume(rule.active(seen))
    shrink, step = rule.step(seen)
    assert shrink == 1.0
    assert (1 - part**2) * (1 - 1e-9) <= step / rate <= (1 + part) * (1 + 1e-9)


@settings(max_examples=20, deadline=None)
@given(problem=separable_problems(), part=st.floats(0.05, 0.9))
def test_free_length_converges_within_the_bounds(problem, part):
    best = problem.margin
    learner = converged(DirectionalPerceptron(beta=part * best), problem)
    assert learner.n_updates_ <= DirectionalPerceptron.max_updates(
        part * best, problem.radius, best
    )
    assert problem.reached(learner) > part * best * (1 - ROUNDING)


@settings(max_examples=20, deadline=None)
@given(problem=separable_problems(), part=st.floats(0.05, 0.9))
def test_relaxed_steps_converge_within_the_bounds(problem, part):
    best = problem.margin
    beta = part * best
    spread = DirectionalPerceptron.step_spread(beta, problem.smallest)
    assume(spread * beta < 0.95 * best)
    learner = converged(DirectionalPerceptron(beta=beta, step="relaxed"), problem)
    limit = DirectionalPerceptron.max_updates(beta, problem.radius, best, spread)
    assert learner.n_updates_ <= limit
    assert problem.reached(learner) > beta * (1 - ROUNDING)


@settings(max_examples=20, deadline=None)
@given(problem=separable_problems(), part=st.floats(0.6, 0.9))
def test_relaxed_steps_converge_where_nothing_is_proved(problem, part):
    """What the paper says after (2.48)."""
    beta = part * problem.margin
    spread = DirectionalPerceptron.step_spread(beta, problem.smallest)
    assume(spread * beta > problem.margin)
    assert DirectionalPerceptron.max_updates(beta, problem.radius, problem.margin, spread) == np.inf
    learner = converged(DirectionalPerceptron(beta=beta, step="relaxed"), problem)
    assert problem.reached(learner) > beta * (1 - ROUNDING)


@settings(max_examples=20, deadline=None)
@given(problem=separable_problems(), part=st.floats(0.05, 0.9), step=steps)
def test_fixed_length_converges_within_the_bounds(problem, part, step):
    best, radius = problem.margin, problem.radius
    beta = part * best
    f_min, f_max = 1.0, 1.0
    if step == "relaxed":
        f_min, f_max = 1 - (beta / problem.smallest) ** 2, 1 + beta / problem.smallest
    rate = DirectionalPerceptron.best_rate(beta, radius, best, f_max)
    learner = converged(
        DirectionalPerceptron(beta=beta, length="fixed", step=step, rate=rate), problem
    )
    limit = DirectionalPerceptron.max_updates_fixed(beta, rate, radius, best, f_min, f_max)
    assert learner.n_updates_ <= limit < np.inf
    assert problem.reached(learner) > beta * (1 - ROUNDING)
    assert np.linalg.norm(weights(learner)) == pytest.approx(beta)


@given(
    k=st.floats(1.0, 100.0),
    part=st.floats(0.01, 0.5),
    spread=st.floats(1.0, 1.9),
)
def test_free_bound_solves_its_equation(k, part, spread):
    margin = 0.5
    limit = DirectionalPerceptron.max_updates(part * margin, k * margin, margin, spread)
    right = (spread * k) ** 2 / 4 / (1 - spread * part)
    if right >= 1 / 3:
        assert (limit - 1) / (3 + 2 * np.log(limit - 1)) == pytest.approx(right, rel=1e-6)
    else:
        assert limit == 2.0


def test_bounds_by_hand():
    assert DirectionalPerceptron.max_updates(0.5, radius=2.0, margin=0.5) == np.inf
    assert DirectionalPerceptron.max_updates(0.3, 2.0, margin=0.5, spread=2.0) == np.inf
    assert DirectionalPerceptron.step_spread(beta=0.5, smallest=2.0) == pytest.approx(4 / 3)
    rate = DirectionalPerceptron.best_rate(beta=0.5, radius=2.0, margin=1.0, f_max=2.0)
    assert rate == pytest.approx(0.25 / (8 * 1.5))
    limit = DirectionalPerceptron.max_updates_fixed(0.5, rate, 2.0, 1.0, f_min=1.0, f_max=2.0)
    # At the best rate: 2 F R^2 / (g - b)^2 * m / (1 - (g - b) / (R m^2)) with m = 1 + 2 b / R.
    assert limit == pytest.approx(2 * 2 * 16 * 1.5 / (1 - 0.25 / 1.5**2))
    assert DirectionalPerceptron.max_updates_fixed(0.5, 10.0, 2.0, 1.0) == np.inf


@settings(max_examples=30, deadline=None)
@given(
    problem=separable_problems(),
    part=st.floats(0.05, 0.9),
    spread=st.floats(1.0, 1.5),
    start=st.integers(1, 60),
    seed=st.integers(0, 2**32 - 1),
)
def test_bounds_for_any_factors(problem, part, spread, start, seed):
    """(2.43), (2.45) and (2.48) for steps whose factors change from one update to the next."""
    best, radius = problem.margin, problem.radius
    beta = part * best
    assume(spread * beta < 0.95 * best)
    draw = np.random.default_rng(seed)
    factors = lambda: draw.uniform(1.0, spread) if seed % 2 else draw.choice([1.0, spread])  # noqa: E731
    taken = len(reference_pnorm.additive(problem.rows, problem.y, factors, beta=beta))
    assert taken <= DirectionalPerceptron.max_updates_after(start, beta, radius, best, spread)
    assert taken <= DirectionalPerceptron.max_updates(beta, radius, best, spread)
    assert taken <= DirectionalPerceptron.max_updates_refined(beta, radius, best, spread)


@settings(max_examples=20, deadline=None)
@given(
    problem=separable_problems(), part=st.floats(0.05, 0.9), step=steps, start=st.integers(1, 60)
)
def test_the_learner_converges_within_the_general_bound(problem, part, step, start):
    best = problem.margin
    beta, spread = part * best, 1.0
    if step == "relaxed":
        spread = DirectionalPerceptron.step_spread(beta, problem.smallest)
        assume(spread * beta < 0.95 * best)
    learner = converged(DirectionalPerceptron(beta=beta, step=step), problem)
    limit = DirectionalPerceptron.max_updates_after(start, beta, problem.radius, best, spread)
    assert learner.n_updates_ <= limit


@given(
    k=st.floats(1.01, 100.0),
    part=st.floats(0.01, 0.5),
    spread=st.floats(1.0, 1.9),
    start=st.integers(1, 1000),
)
def test_general_bound_solves_its_equation(k, part, spread, start):
    t = DirectionalPerceptron.max_updates_after(start, part, k, 1.0, spread)
    k *= spread
    right = k**2 / (1 - spread * part)
    inner = start / k * (1 - 1 / k) + 0.5 / start + 0.5 * np.log((t - 1) / start)
    if t > start + 1:
        assert (t - start) / inner == pytest.approx(right, rel=1e-6)
    else:
        assert 1 / inner >= right * (1 - 1e-9)


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("radius", [1.5, 10.0, 300.0])
def test_the_others_are_special_cases_of_the_general_bound(beta, radius):
    """(2.45) is N = 1 with x (1 - x) <= 1/4, and (2.48) is N of (2.46) with (2.47)."""
    general = DirectionalPerceptron.max_updates_after
    limit = DirectionalPerceptron.max_updates(beta, radius, 1.0)
    assert general(1, beta, radius, 1.0) <= limit * (1 + 1e-9)
    start = max(1, math.floor(radius / 2 / (1 - beta / radius)))
    refined = DirectionalPerceptron.max_updates_refined(beta, radius, 1.0)
    if start > 1:
        assert general(start, beta, radius, 1.0) <= refined * (1 + 1e-9)
    assert general(1, 1.0, radius, 1.0) == np.inf


# ------------------------------------------------------------------- the fixed length, and hopes
def crossed():
    """Rows whose best margin is 1, by the first coordinate alone, and which are longer than 3."""
    return np.array([[1.0, 3.0], [1.0, -3.0], [-1.0, -3.0], [-1.0, 3.0]]), [1, 1, -1, -1]


@pytest.mark.parametrize("step", ["constant", "relaxed"])
@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_the_default_rate_of_the_fixed_length_converges(step, beta):
    clf = DirectionalPerceptron(
        beta=beta, length="fixed", step=step, fit_intercept=False, shuffle=False
    )
    clf.fit(*crossed())
    assert clf.converged_
    assert clf.certificate_.margin > beta
    radius = np.sqrt(10.0)
    rate = DirectionalPerceptron.best_rate(beta, radius, 2.0 * beta)
    spread = {} if step == "constant" else {"f_min": 1 - (beta / radius) ** 2, "f_max": 1.2}
    limit = DirectionalPerceptron.max_updates_fixed(beta, rate / 1.2, radius, 1.0, **spread)
    assert clf.n_updates_ <= limit


def test_a_large_rate_of_the_fixed_length_may_go_round_in_circles():
    parameters = {"beta": 0.5, "length": "fixed", "fit_intercept": False, "shuffle": False}
    with pytest.warns(ConvergenceWarning):
        clf = DirectionalPerceptron(rate=1.0, max_iter=300, **parameters).fit(*crossed())
    assert not clf.converged_
    assert DirectionalPerceptron.max_updates_fixed(0.5, 1.0, np.sqrt(10.0), 1.0) == np.inf


@settings(max_examples=15, deadline=None)
@given(problem=separable_problems(), part=st.floats(0.05, 0.5))
def test_the_default_rate_reaches_half_of_the_margin(problem, part):
    converged(DirectionalPerceptron(beta=part * problem.margin, length="fixed"), problem)


@pytest.mark.parametrize("length", ["free", "fixed"])
@pytest.mark.parametrize("part", [1.05, 2.0])
def test_what_is_proved_out_of_reach_ends_the_fit(length, part):
    X, y = separable(n=400, d=3, gap=0.5, seed=0)
    X = X - X.mean(axis=0)
    best = reference.max_margin(X, y, intercept=False)[0]
    clf = DirectionalPerceptron(
        beta=part * best, length=length, fit_intercept=False, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="out of reach. Ask for less"):
        clf.fit(X, y)
    assert clf.n_iter_ < 600
    assert best <= clf.certificate_.bound < clf.beta
    assert not clf.converged_
