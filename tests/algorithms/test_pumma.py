"""PUMMA and the other learner of pairs: their references, the KKT conditions, the guarantees."""

import itertools

import numpy as np
import pytest
import reference_pnorm as reference
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import label, separable, separable_sets, three_classes
from reference import max_margin
from scipy import sparse
from sklearn.base import clone

from maxmargin import AMIRA, PUMMA
from maxmargin.algorithms.pumma import PUMMARule
from maxmargin.core.rule import Trial
from maxmargin.datasets import make_r_of_k
from maxmargin.spaces.plane import Plane
from maxmargin.spaces.power import new_room, power

FORMS = {"dense": np.asarray, "CSR": sparse.csr_matrix}
EXPONENTS = [2.0, 3.0, 4.0, 9.21]

every_form = pytest.mark.parametrize("form", FORMS)
every_exponent = pytest.mark.parametrize("p", EXPONENTS)
a_few_sets = settings(deadline=None, max_examples=8)


def steps(clf, X, y):
    """Present the rows one by one; yields (row number, did an update follow) after each trial."""
    before = 0
    for i in range(X.shape[0]):
        clf.partial_fit(X[i : i + 1], y[i : i + 1], classes=np.unique(y))
        yield i, clf.n_updates_ > before
        before = clf.n_updates_


def assert_follows(clf, X, y, trace):
    for i, updated in steps(clf, X, y):
        w, b = trace.history[i]
        assert updated == trace.updated[i]
        np.testing.assert_allclose(clf.coef_[0], w, rtol=1e-8, atol=1e-8 * np.abs(w).max())
        np.testing.assert_allclose(clf.intercept_[0], b, rtol=1e-8, atol=1e-8)


def best_margin(X, y, p):
    """Of all hyperplanes with intercept; found by a feasible one, so never too large."""
    if p == 2.0:
        return max_margin(X, y, intercept=True)[0]
    return reference.max_pnorm_margin(X, y, p, intercept=True)[0]


def diameter(X, y, p):
    gaps = (X[y > 0][:, None] - X[y < 0]).reshape(-1, X.shape[1])
    return max(reference.norm(gap, p) for gap in gaps)


# --------------------------------------------------------------------------- against the references


@every_form
@every_exponent
@a_few_sets
@given(data=separable_sets(), delta=st.sampled_from([0.05, 0.3, 1.0]))
def test_pumma_follows_its_reference(form, p, data, delta):
    X, y = data
    trace = reference.pumma(X, y, delta=delta, p=p)
    assert_follows(PUMMA(delta=delta, p=p), FORMS[form](X), y, trace)


@every_form
@a_few_sets
@given(data=separable_sets(), epsilon=st.sampled_from([0.05, 0.3, 1.0]))
def test_amira_in_pairs_follows_its_reference(form, data, epsilon):
    X, y = data
    trace = reference.pair_amira(X, y, epsilon=epsilon)
    assert_follows(AMIRA(epsilon=epsilon, intercept="pair"), FORMS[form](X), y, trace)


@every_form
@pytest.mark.parametrize("p", [2.0, 3.0])
def test_several_classes_are_one_reference_each(form, p):
    X, y = three_classes(n=50)
    clf = PUMMA(delta=0.1, p=p).partial_fit(FORMS[form](X), y, classes=[0, 1, 2])
    traces = [reference.pumma(X, np.where(y == c, 1, -1), delta=0.1, p=p) for c in range(3)]
    assert clf.n_updates_ == sum(trace.updated.sum() for trace in traces)
    np.testing.assert_allclose(clf.coef_, [trace.w for trace in traces], rtol=1e-8)
    np.testing.assert_allclose(clf.intercept_, [trace.b for trace in traces], rtol=1e-8)


# --------------------------------------------------------------------- what holds after every step


@every_exponent
@pytest.mark.parametrize("seed", range(3))
def test_kkt_conditions_after_every_step(p, seed):
    X, y = separable(n=60, d=4, gap=0.1, seed=seed)
    clf, q = PUMMA(delta=0.1, p=p), p / (p - 1)
    largest = 1 / best_margin(X, y, p)
    before = np.zeros(X.shape[1])
    cases = set()
    for _, updated in steps(clf, X, y):
        w, b = clf.coef_[0], clf.intercept_[0]
        if not updated:
            np.testing.assert_array_equal(w, before)
            continue
        positive, negative = clf._state.model.pair.members[:2, : X.shape[1]]
        assert w @ positive + b == pytest.approx(1, abs=1e-9)
        assert w @ negative + b == pytest.approx(-1, abs=1e-9)

        # The third constraint; where it is slack, theta must be along z alone.
        theta, size = reference.inverse_link(before, p), reference.norm(before, q)
        product = w @ theta
        assert product >= size**2 * (1 - 1e-9)
        slack = product > size**2 * (1 + 1e-6) or size == 0
        if slack:
            z = (positive - negative) / 2
            alone = z / reference.norm(z, p) ** 2
            np.testing.assert_allclose(reference.inverse_link(w, p), alone, rtol=1e-8)
        cases.add(slack)

        assert reference.norm(w, q) >= size * (1 - 1e-12)
        assert reference.norm(w, q) <= largest * (1 + 1e-9)
        before = w
    assert cases == {True, False}


@every_exponent
@pytest.mark.parametrize("seed", range(2))
def test_bound_is_never_below_the_optimum(p, seed):
    X, y = separable(n=40, d=4, gap=0.1, seed=seed)
    clf = PUMMA(delta=0.1, p=p)
    seen_both = max(np.argmax(y > 0), np.argmax(y < 0))
    for i, _ in steps(clf, X, y):
        bound = clf.certificate_.bound
        if i < seen_both:
            assert bound == np.inf
        elif i % 4 == 0:
            assert bound >= best_margin(X[: i + 1], y[: i + 1], p)


@every_form
@every_exponent
@pytest.mark.parametrize("delta", [0.02, 0.3])
def test_guarantees(form, p, delta):
    X, y = separable(n=60, d=4, gap=0.2, seed=5)
    best = best_margin(X, y, p)
    clf = PUMMA(delta=delta, p=p, random_state=0).fit(FORMS[form](X), y)
    assert clf.converged_
    assert clf.n_updates_ <= PUMMA.max_updates(delta, diameter(X, y, p), best, p)
    assert clf.certificate_.ratio >= PUMMA.margin_fraction(delta) - 1e-9
    w, b = clf.coef_[0], clf.intercept_[0]
    reached = np.min(y * (X @ w + b)) / reference.norm(w, p / (p - 1))
    assert clf.certificate_.margin == pytest.approx(reached, rel=1e-9)
    assert (1 - delta) * best <= reached <= best * (1 + 1e-4)
    assert clf.certificate_.bound >= best


# ----------------------------------------------------------------------------------- invariances


@pytest.mark.parametrize(
    "learner", [AMIRA(intercept="pair"), *(PUMMA(delta=0.1, p=p) for p in EXPONENTS)], ids=label
)
def test_translation_changes_the_intercept_alone(learner):
    clf, moved = clone(learner), clone(learner)
    X, y = separable(n=50, d=4, shift=0.0, seed=2)
    by = np.array([3.0, -1.0, 0.5, 2.0])
    clf.partial_fit(X, y, classes=[-1, 1])
    moved.partial_fit(X + by, y, classes=[-1, 1])
    assert moved.n_updates_ == clf.n_updates_ > 5
    size = np.abs(clf.coef_).max()
    np.testing.assert_allclose(moved.coef_, clf.coef_, rtol=1e-9, atol=1e-9 * size)
    np.testing.assert_allclose(moved.intercept_, clf.intercept_ - clf.coef_ @ by, rtol=1e-8)
    assert moved.certificate_.bound == pytest.approx(clf.certificate_.bound, rel=1e-9)


@every_form
@pytest.mark.parametrize("p", [2.0, 3.0])
@a_few_sets
@given(cuts=st.sets(st.integers(1, 39), max_size=39))
def test_chunks_do_not_matter(form, p, cuts):
    X, y = separable(n=40, gap=0.05)
    X[:, 3] *= np.arange(40) % 2  # so that sparse rows have different lengths
    X = FORMS[form](X)
    whole, parts = (PUMMA(delta=0.05, p=p) for _ in range(2))
    whole.partial_fit(X, y, classes=[-1, 1])
    edges = [0, *sorted(cuts), 40]
    for start, stop in itertools.pairwise(edges):
        parts.partial_fit(X[start:stop], y[start:stop], classes=[-1, 1])
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    np.testing.assert_array_equal(parts.intercept_, whole.intercept_)
    assert parts.n_updates_ == whole.n_updates_ > 5
    assert parts.certificate_.bound == whole.certificate_.bound


# --------------------------------------------------------------------------- what cannot be learnt


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@every_form
@every_exponent
def test_a_point_with_both_labels(form, p):
    X, y = separable(n=20, d=3)
    X, y = np.vstack([X, X[:1]]), np.append(y, -y[0])
    clf = PUMMA(p=p, max_iter=50, random_state=0).fit(FORMS[form](X), y)
    assert clf.certificate_.bound == 0.0
    assert clf.certificate_.ratio == 0.0
    assert np.isfinite(clf.coef_).all()
    assert np.isfinite(clf.intercept_).all()


@every_exponent
def test_nothing_but_a_point_with_both_labels(p):
    clf = PUMMA(p=p)
    for number in (0, 1, 0, 1):
        clf.partial_fit([[1.0, 2.0]], [number], classes=[0, 1])
    assert clf.n_updates_ == 0
    assert clf.certificate_.bound == 0.0
    np.testing.assert_array_equal(clf.coef_, 0.0)


@every_exponent
def test_duplicate_rows_are_no_news(p):
    X, y = separable(n=20, d=3, seed=1)
    once, twice = (PUMMA(p=p) for _ in range(2))
    once.partial_fit(X, y, classes=[-1, 1])
    twice.partial_fit(np.repeat(X, 2, axis=0), np.repeat(y, 2), classes=[-1, 1])
    assert twice.n_updates_ == once.n_updates_
    np.testing.assert_allclose(twice.coef_, once.coef_, rtol=1e-12)


# ---------------------------------------------------------------------------------- Newton's method


@st.composite
def planes(draw):
    """A plane in which an update is due, and what the rule has seen of it."""
    p = draw(st.sampled_from([2.5, 3.0, 4.25, 9.21]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    support, others = draw(st.integers(2, 8)), draw(st.integers(0, 5))
    z, theta = np.zeros(support + others), random.normal(size=support + others)
    z[:support] = random.normal(size=support)
    margin = draw(st.floats(-3.0, -0.01) | st.floats(0.01, 0.95))
    # Of the right sign first, then of the right size.
    along = reference.link(theta, p) @ z
    if along * margin < 0:
        z = -z
    theta *= abs(margin / along)
    z_norm, t_norm = reference.norm(z, p), reference.norm(theta, p)
    t = theta / t_norm
    outside = float(np.sum(np.abs(t[support:]) ** p))
    curvature, room = power(p - 2.0), new_room(support)
    plane = Plane(z[:support] / z_norm, t[:support], support, outside, p, curvature, room)
    return plane, Trial(margin, t_norm**2, z_norm**2, 1.0, 1, 1)


@settings(deadline=None, max_examples=200)
@given(drawn=planes())
def test_newton_agrees_with_bisection(drawn):
    plane, seen = drawn
    rule = PUMMARule(0.1, anew=True)
    demand = 1.0 / np.sqrt(seen.xx * seen.ww)
    assume(demand * plane.slope(1.0, 0.0)[2] < 1.0)  # or there is no equation to solve
    a, b, _, solved = rule.newton(seen, plane, demand)
    slow_a, slow_b, _ = rule.bisection(plane, demand)
    slow_square, g_z, g_t = plane.slope(slow_a, slow_b)
    np.testing.assert_allclose([g_z / demand, g_t], 1.0, rtol=1e-8)
    if solved:
        square, g_z, g_t = plane.slope(a, b)
        np.testing.assert_allclose([g_z / demand, g_t], 1.0, rtol=1e-11)
        assert square == pytest.approx(slow_square, rel=1e-8)


@pytest.mark.parametrize("r", [1, 4, 8])
def test_few_evaluations_per_update(r):
    X, y = make_r_of_k(300, r=r, random_state=0)
    clf = PUMMA(p="log", random_state=0).fit(X, y)
    assert clf._state.model.linear.geometry.evaluations.sum() <= 6 * clf.n_updates_


# ------------------------------------------------------------------------------------- parameters


def test_without_intercept_only_p_2():
    X, y = separable(n=10)
    with pytest.raises(ValueError, match="must be 2 without an intercept"):
        PUMMA(p=3.0, fit_intercept=False).fit(X, y)


def test_max_updates_in_numbers():
    assert PUMMA.max_updates(0.5, 4.0, 1.0) == 49.0
    assert PUMMA.max_updates(0.5, 4.0, 1.0, p=3.0) == 97.0
