from functools import partial

import numpy as np
import pytest
import reference
import reference_pnorm as pnorm
from algorithms.agreement import assert_follows, streams
from algorithms.theory import ROUNDING, converged, separable_problems, weights
from algorithms.trials import after, trials
from extent import EVERYTHING
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import separable, three_classes
from scipy import sparse

import maxmargin
from maxmargin import AMIRA
from maxmargin.algorithms.amira import AMIRARule
from maxmargin.core.rule import Trial
from maxmargin.datasets import make_r_of_k
from maxmargin.spaces.pnorm_plane import Plane
from maxmargin.spaces.power import PowerBuffer, power

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


# ----------------------------------------------------------------------------------------- p-norms

EXPONENTS = [2.0, 2.5, 3.0, 4.0, 10.0, 40.0]
every_exponent = pytest.mark.parametrize("p", EXPONENTS)


@every_exponent
@settings(max_examples=6, deadline=None)
@given(problem=separable_problems(), epsilon=st.sampled_from([0.05, 0.3, 0.9]))
def test_p_norms_converge_within_the_bounds(p, problem, epsilon):
    best, _, _ = pnorm.max_pnorm_margin(problem.rows, problem.y, p, intercept=False)
    learner = converged(AMIRA(epsilon=epsilon, p=p), problem)
    radius = max(pnorm.norm(x, p) for x in problem.rows)
    assert 0 < learner.n_updates_ <= AMIRA.max_updates(epsilon, radius, best, p)
    length = pnorm.norm(weights(learner), p / (p - 1))
    assert length <= AMIRA.max_norm(epsilon, best, p) * (1 + ROUNDING)
    reached = np.min(problem.y * (problem.rows @ weights(learner))) / length
    assert reached >= AMIRA.margin_fraction(epsilon, p) * best * (1 - ROUNDING)


@every_exponent
@pytest.mark.parametrize("intercept", ["coordinate", "pair"])
@settings(max_examples=4, deadline=None)
@given(problem=separable_problems())
def test_p_norm_certificates_hold(p, intercept, problem):
    X, y = problem.X, problem.y
    best, _, _ = pnorm.max_pnorm_margin(X, y, p, intercept=True)
    learner = converged(AMIRA(epsilon=0.2, p=p, intercept=intercept), problem)
    w = learner.coef_[0]
    reached = np.min(y * (X @ w + learner.intercept_[0])) / pnorm.norm(w, p / (p - 1))
    assert learner.certificate_.margin == pytest.approx(reached, rel=1e-6, abs=1e-9)
    assert learner.certificate_.margin <= reached + 1e-12
    assert learner.certificate_.bound >= best * (1 - ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("p", EXPONENTS[1:])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_in_p_norms_converge_within_the_bounds(p, seed):
    """In pairs the theorem holds for half of epsilon, half differences and geometric margins."""
    epsilon = 0.2
    X, y = separable(n=40, d=4, gap=0.3, seed=seed)
    best, _, _ = pnorm.max_pnorm_margin(X, y, p, intercept=True)
    learner = AMIRA(epsilon=epsilon, p=p, intercept="pair", random_state=0).fit(X, y)
    gaps = (X[y > 0][:, None] - X[y < 0]).reshape(-1, X.shape[1])
    radius = max(pnorm.norm(gap / 2, p) for gap in gaps)
    assert learner.converged_
    assert learner.n_updates_ <= AMIRA.max_updates(epsilon / 2, radius, best, p)
    # All outputs, not only those of half differences, are above 1 - epsilon.
    length = pnorm.norm(learner.coef_[0], p / (p - 1))
    assert length <= AMIRA.max_norm(epsilon / 2, best, p)
    assert learner.certificate_.margin >= AMIRA.margin_fraction(epsilon, p) * best


@st.composite
def planes(draw):
    """A plane of a row and theta, in vectors and as a `Plane`, and what the rule knows of it."""
    p = draw(st.sampled_from([2.0, 2.25, 3.0, 7.7, 40.0]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    support, others = draw(st.integers(1, 8)), draw(st.integers(0, 5))
    z, theta = np.zeros(support + others), random.normal(size=support + others)
    z[:support] = random.normal(size=support) * 10.0 ** draw(st.floats(-4, 4))
    if draw(st.booleans()):
        theta[:support] = 0.0  # rows with no feature in common with theta
    assume(theta.any())
    sizes = pnorm.norm(z, p), pnorm.norm(theta, p)
    z_unit, t_unit = z / sizes[0], theta / sizes[1]
    outside = float(np.sum(np.abs(t_unit[support:]) ** p))
    buffer = PowerBuffer(*np.zeros((3, support)))
    plane = Plane(z_unit[:support], t_unit[:support], support, outside, p, power(p - 2.0), buffer)
    margin = float(pnorm.link(theta, p) @ z)
    assume(margin < 1.0 - 1e-9)
    return z, theta, plane, Trial(margin, sizes[1] ** 2, sizes[0] ** 2, 1.0, 1, 1)


@settings(deadline=None, max_examples=200)
@given(drawn=planes())
def test_the_step_in_the_plane_leads_to_margin_one(drawn):
    z, theta, plane, trial = drawn
    a, b = AMIRARule(0.1).step_in_plane(trial, plane)
    assert a > 0.0
    assert b == 1.0
    step = a * np.sqrt(trial.ww / trial.xx)
    if plane.p == 2.0:
        assert step == pytest.approx(AMIRARule(0.1).step(trial)[1], rel=1e-12)
    lost = 1e-14 * np.sqrt(trial.xx * trial.ww) * plane.p
    reached = pnorm.link(theta + step * z, plane.p) @ z
    assert reached == pytest.approx(1.0, abs=1e-11 + lost)


@pytest.mark.parametrize("p", [3.0, "log"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_p_norm_streams_and_files_are_the_same_to_the_bit(p, form, tmp_path):
    X, y = three_classes(n=60, d=4)
    if form is sparse.csr_matrix and not EVERYTHING:  # three classes are compiled for dense rows
        y = np.minimum(y, 1)
    classes, settings_ = np.unique(y), {"p": p, "multiclass": "ovr"}
    whole = AMIRA(**settings_).partial_fit(form(X), y, classes=classes)
    parts, single = AMIRA(**settings_), AMIRA(**settings_)
    for start in range(0, 60, 7):
        part = slice(start, start + 7)
        parts.partial_fit(form(X[part]), y[part], classes=classes)
        maxmargin.save(parts, tmp_path / "model")
        parts = maxmargin.load(tmp_path / "model")
    single.partial_fit(form(X[:1]), y[:1], classes=classes)
    for x, label in zip(X[1:], y[1:], strict=True):
        single.learn_one(x, label)
    for learner in (parts, single):
        np.testing.assert_array_equal(learner.coef_, whole.coef_)
        np.testing.assert_array_equal(learner.intercept_, whole.intercept_)
    for c in range(classes.size if classes.size > 2 else 0):
        own = AMIRA(p=p).partial_fit(form(X), np.where(y == c, 1, -1), classes=[-1, 1])
        np.testing.assert_array_equal(own.coef_[0], whole.coef_[c])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "'p' parameter must be 2 unless multiclass='ovr', got 3.0"),
        ({"average": True, "multiclass": "ovr"}, "'average' parameter needs p=2"),
        ({"kernel": "rbf", "multiclass": "ovr"}, "'p' parameter must be 2 with a kernel"),
        ({"budget": 5, "multiclass": "ovr"}, "'p' parameter cannot be 3.0 on a budget"),
    ],
)
def test_what_p_norms_do_not_go_with(given, message):
    X, y = three_classes(n=20)
    with pytest.raises(ValueError, match=message):
        AMIRA(p=3.0, **given).fit(X, y)


def test_large_p_needs_few_updates_where_few_features_matter():
    X, y = make_r_of_k(300, r=1, random_state=0)
    taken = {p: AMIRA(p=p, intercept="pair", random_state=0).fit(X, y).n_updates_ for p in (2, 4)}
    assert taken[4] < taken[2]


def test_p_norm_bounds_by_hand():
    assert AMIRA.max_updates(epsilon=0.5, radius=3.0, margin=0.5, p=4.0) == pytest.approx(324.0)
    assert AMIRA.max_norm(epsilon=0.5, margin=0.5, p=4.0) == 4.0
    assert AMIRA.margin_fraction(epsilon=0.5, p=4.0) == 0.25
