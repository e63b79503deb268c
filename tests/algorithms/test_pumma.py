"""PUMMA and the other learner of pairs: their references, the KKT conditions, the guarantees."""

import itertools
import warnings

import numpy as np
import pytest
import reference_pnorm as reference
from extent import everything_or
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import label, overlapping, separable, separable_sets, three_classes
from reference import max_margin
from scipy import sparse
from scipy.linalg import hadamard
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from maxmargin import AMIRA, PUMMA, ROMMA
from maxmargin.core.rule import Trial
from maxmargin.spaces.pnorm_plane import Plane
from maxmargin.spaces.power import PowerBuffer, power
from maxmargin.training.protocol import state_of

FORMS = {"dense": np.asarray, "CSR": sparse.csr_matrix}
EXPONENTS = [2.0, 3.0, 4.0, 9.21]

# How rows are stored is not the learner's business, and each way is compiled for each space.
ON_ROWS = list(itertools.product(FORMS, EXPONENTS))
DENSE = [("dense", p) for p in EXPONENTS]
every_form = pytest.mark.parametrize("form", FORMS)
every_form_and_exponent = pytest.mark.parametrize(("form", "p"), ON_ROWS)
mostly_dense = pytest.mark.parametrize(
    ("form", "p"), everything_or([*DENSE, ("CSR", 2.0)], ON_ROWS)
)
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


@every_form_and_exponent
@a_few_sets
@given(data=separable_sets(), delta=st.sampled_from([0.05, 0.3, 1.0]))
def test_pumma_follows_its_reference(form, p, data, delta):
    X, y = data
    trace = reference.pumma(X, y, delta=delta, p=p)
    assert_follows(PUMMA(delta=delta, p=p), FORMS[form](X), y, trace)


@pytest.mark.parametrize("p", [50.0, 161.0, 340.0, 1000.0])
def test_pumma_follows_its_reference_at_large_p(p):
    for seed in range(2):
        X, y = separable(n=50, d=4, gap=0.1, seed=seed)
        trace = reference.pumma(X, y, delta=0.1, p=p)
        assert trace.updated.sum() > 10
        assert_follows(PUMMA(delta=0.1, p=p), X, y, trace)


@mostly_dense
@a_few_sets
@given(data=separable_sets(), epsilon=st.sampled_from([0.05, 0.3, 1.0]))
def test_amira_in_pairs_follows_its_reference(form, p, data, epsilon):
    X, y = data
    trace = reference.pair_amira(X, y, epsilon=epsilon, p=p)
    assert_follows(AMIRA(epsilon=epsilon, p=p, intercept="pair"), FORMS[form](X), y, trace)


@pytest.mark.parametrize(
    ("form", "p"),
    everything_or([("CSR", 2.0)], list(itertools.product(FORMS, (2.0, 3.0)))),
)
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
        positive, negative = state_of(clf).model.pair.members[:2, : X.shape[1]]
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


@every_form_and_exponent
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


# --------------------------------------------------------------------------- what cannot be learned


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@every_form_and_exponent
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
    p = draw(st.sampled_from([1.5, 1.8, 2.5, 3.0, 4.25, 9.21]))
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
    curvature, room = power(p - 2.0), PowerBuffer(*np.zeros((3, support)))
    plane = Plane(z[:support] / z_norm, t[:support], support, outside, p, curvature, room)
    return plane, Trial(margin, t_norm**2, z_norm**2, 1.0, 1, 1)


@settings(deadline=None, max_examples=200)
@given(drawn=planes())
def test_newton_agrees_with_bisection(drawn):
    plane, seen = drawn
    demand = 1.0 / np.sqrt(seen.xx * seen.ww)
    assume(demand * plane.slope(1.0, 0.0)[2] < 1.0)  # or there is no equation to solve
    a, b, solved = plane.newton(demand, seen.margin)
    slow_a, slow_b = plane.bisection(demand)
    slow_square, g_z, g_t = plane.slope(slow_a, slow_b)
    np.testing.assert_allclose([g_z / demand, g_t], 1.0, rtol=1e-8)
    if solved:
        square, g_z, g_t = plane.slope(a, b)
        np.testing.assert_allclose([g_z / demand, g_t], 1.0, rtol=1e-11)
        assert square == pytest.approx(slow_square, rel=1e-8)


@pytest.mark.parametrize("p", [50.0, 161.0, 340.0, 1000.0])
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_derivatives_at_large_p(p, size):
    random = np.random.default_rng(0)
    z, t = random.normal(size=(2, 6))
    z[4:] = 0.0
    z, t = z / reference.norm(z, p), t / reference.norm(t, p)
    outside = float(np.sum(np.abs(t[4:]) ** p))
    buffer = PowerBuffer(*np.zeros((3, 4)))
    plane = Plane(z[:4], t[:4], 4, outside, p, power(p - 2.0), buffer)
    for a, b in size * random.normal(size=(20, 2)):
        point = a * z + b * t
        norm, dual = reference.norm(point, p), reference.link(point, p)
        curved = (p - 1.0) * (np.abs(point) / norm) ** (p - 2.0)
        bent = (np.array([z, t]) * curved) @ np.array([z, t]).T
        slopes = np.array([dual @ z, dual @ t])
        bent -= (p - 2.0) * np.outer(slopes, slopes) / norm**2
        expected = [norm**2, *slopes, bent[0, 0], bent[0, 1], bent[1, 1]]
        sizes = [norm**2, norm, norm, *(3 * [p])]
        errors = np.abs(np.subtract(plane.bend(a, b), expected))
        assert (errors <= 1e-11 * np.array(sizes)).all()


# ------------------------------------------------------------------------------------- parameters


def test_max_updates_in_numbers():
    assert PUMMA.max_updates(0.5, 4.0, 1.0) == 49.0
    assert PUMMA.max_updates(0.5, 4.0, 1.0, p=3.0) == 97.0
    assert PUMMA.max_updates(0.5, 2.0, 1.0, p=3.0, distortion=2.0) == 97.0


# ------------------------------------------------------------------------------ without intercept


@mostly_dense
@a_few_sets
@given(data=separable_sets(), delta=st.sampled_from([0.05, 0.3, 1.0]))
def test_without_intercept_it_follows_its_reference(form, p, data, delta):
    X, y = data
    try:
        trace = reference.pnorm_romma(X, y, p=p, delta=delta)
    except (ValueError, RuntimeError):  # without an intercept there need not be a solution
        assume(False)
    assume(np.abs(trace.history).max() < 1e3)
    # Where two rows point against each other, what the reference finds is no solution.
    reached = y * np.sum(X * np.array(trace.history), axis=1)
    assume(np.all(reached[np.array(trace.updated)] >= 1.0 - 1e-6))
    clf = PUMMA(delta=delta, p=p, fit_intercept=False)
    for i, updated in steps(clf, FORMS[form](X), y):
        w = trace.history[i]
        assert updated == trace.updated[i]
        np.testing.assert_allclose(clf.coef_[0], w, rtol=1e-7, atol=1e-7 * np.abs(w).max())
    assert clf.intercept_[0] == 0.0
    assert clf.n_mistakes_ == trace.mistakes.sum()


@every_exponent
@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_without_intercept_it_converges_within_the_bounds(p, delta, seed):
    X, y = separable(n=40, d=4, gap=0.3, shift=0.0, seed=seed)
    best, _, _ = reference.max_pnorm_margin(X, y, p, intercept=False)
    clf = PUMMA(p=p, delta=delta, fit_intercept=False, max_iter=10**5, random_state=0).fit(X, y)
    assert clf.converged_
    radius = max(reference.norm(x, p) for x in X)
    assert 0 < clf.n_updates_ <= ROMMA.max_updates(delta, radius, best, p)
    reached = np.min(y * (X @ clf.coef_[0])) / reference.norm(clf.coef_[0], p / (p - 1))
    assert PUMMA.margin_fraction(delta) * best <= reached <= best * (1 + 1e-4)
    assert clf.certificate_.margin == pytest.approx(reached, rel=1e-9)
    assert clf.certificate_.bound >= best * (1 - 1e-9)
    assert clf.certificate_.ratio >= 1 - delta


def test_without_intercept_the_bound_grows_with_p():
    """Rows of a Walsh matrix, of which each agrees with the target in half of the places."""
    X = hadamard(64).astype(float)[1:]
    y = X[:, 5]
    taken = {}
    for p in (2.0, 8.0):
        clf = PUMMA(p=p, delta=0.5, fit_intercept=False, random_state=0).fit(X, y)
        taken[p] = clf.n_updates_
        assert clf.n_updates_ <= ROMMA.max_updates(0.5, 64.0 ** (1 / p), 1.0, p)
    assert taken[8.0] < taken[2.0]


@pytest.mark.parametrize("p", [3.0, "log"])
@pytest.mark.parametrize("several", everything_or([False], [False, True]))
def test_without_intercept_all_else_is_as_with_one(p, several, tmp_path):
    X, y = three_classes(n=60, d=4) if several else separable(n=60, d=4, shift=0.0)
    X, classes = X - X.mean(axis=0) if several else X, np.unique(y)
    whole = PUMMA(p=p, fit_intercept=False).partial_fit(X, y, classes=classes)
    parts = PUMMA(p=p, fit_intercept=False)
    for start in range(0, 60, 7):
        parts.partial_fit(X[start : start + 7], y[start : start + 7], classes=classes)
        maxmargin.save(parts, tmp_path / "model")
        parts = maxmargin.load(tmp_path / "model")
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    fitted = PUMMA(p=p, fit_intercept=False, soft_margin=0.5, random_state=0).fit(X, y)
    assert fitted.converged_
    assert fitted.certificate_.ratio >= 0.9
    np.testing.assert_array_equal(fitted.intercept_, 0.0)


def test_without_intercept_columns_can_come_later():
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 6))
    X[:40, 4:] = 0.0
    y = np.where(X @ random.normal(size=6) > 0, 1, -1)
    settings_ = {"p": 3.0, "fit_intercept": False}
    whole = PUMMA(**settings_).partial_fit(X, y, classes=[-1, 1])
    narrow = np.ascontiguousarray(X[:40, :4])
    grown = PUMMA(**settings_).partial_fit(narrow, y[:40], classes=[-1, 1])
    grown.partial_fit(X[40:], y[40:], grow=True)
    np.testing.assert_allclose(grown.coef_, whole.coef_, rtol=1e-12)


# ----------------------------------------------------------------------------------------- p < 2

LOW = [1.25, 1.5, 1.75]
every_low_exponent = pytest.mark.parametrize("p", LOW)


@every_form
@every_low_exponent
@pytest.mark.parametrize("seed", range(3))
def test_below_2_it_follows_its_reference(form, p, seed):
    X, y = separable(n=25, d=4, gap=0.3, seed=seed)
    trace = reference.pumma(X, y, delta=0.1, p=p)
    assert trace.updated.sum() > 3
    assert_follows(PUMMA(delta=0.1, p=p), FORMS[form](X), y, trace)


@every_low_exponent
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_below_2_it_converges_within_the_bounds(p, intercept, seed):
    delta = 0.2
    X, y = separable(n=30, d=5, gap=0.3, shift=0.0, seed=seed)
    best, _, _ = reference.max_pnorm_margin(X, y, p, intercept=intercept)
    clf = PUMMA(p=p, delta=delta, fit_intercept=intercept, max_iter=10**5, random_state=0)
    clf.fit(X, y)
    assert clf.converged_
    if intercept:
        most = PUMMA.max_updates(delta, diameter(X, y, p), best, p)
    else:
        most = ROMMA.max_updates(delta, max(reference.norm(x, p) for x in X), best, p)
    assert 0 < clf.n_updates_ <= most
    w = clf.coef_[0]
    reached = np.min(y * (X @ w + clf.intercept_[0])) / reference.norm(w, p / (p - 1))
    assert (1 - delta) * best * (1 - 1e-6) <= reached <= best * (1 + 1e-4)
    assert clf.certificate_.margin == pytest.approx(reached, rel=1e-9)
    assert clf.certificate_.bound >= best * (1 - 1e-9)
    assert clf.certificate_.ratio >= 1 - delta - 1e-6


@every_low_exponent
@pytest.mark.parametrize("seed", range(3))
def test_below_2_every_update_lengthens_the_weights(p, seed):
    """What the bound on the updates rests on: |w|^q grows by (1 - m)^q / (2^(q - 2) |x|_p^q)."""
    X, y = separable(n=60, d=4, gap=0.1, shift=0.0, seed=seed)
    clf, q = PUMMA(p=p, delta=0.1, fit_intercept=False), p / (p - 1)
    w, lengthened = np.zeros(4), []
    for i, updated in steps(clf, X, y):
        if updated:
            grown = reference.norm(clf.coef_[0], q) ** q - reference.norm(w, q) ** q
            least = ((1 - y[i] * (X[i] @ w)) / reference.norm(X[i], p)) ** q / 2 ** (q - 2)
            assert grown >= (least if w.any() else 0.0) * (1 - 1e-6)
            lengthened.append(grown)
            w = clf.coef_[0]
    assert len(lengthened) > 3


@every_low_exponent
@pytest.mark.parametrize("seed", range(2))
def test_below_2_the_bound_is_never_below_the_optimum(p, seed):
    X, y = separable(n=30, d=4, gap=0.1, seed=seed)
    clf = PUMMA(delta=0.1, p=p)
    for start in range(0, 30, 6):
        clf.partial_fit(X[start : start + 6], y[start : start + 6], classes=[-1, 1])
        seen = X[: start + 6], y[: start + 6]
        if len(np.unique(seen[1])) == 2:
            assert clf.certificate_.bound >= best_margin(*seen, p)
    one_pass = PUMMA(p=p, max_iter=2, delta=1.0, random_state=0)
    assert one_pass.fit(X, y).certificate_.bound >= best_margin(X, y, p)


def test_below_2_a_certificate_without_an_update_holds():
    """The p-norm of a row is longer than the Euclidean one, and so may margins be."""
    X = np.vstack([np.ones((1, 50)), -np.ones((1, 50))])
    clf = PUMMA(p=1.25, random_state=0).fit(X, [1, -1])
    best = 50 ** (1 / 1.25)
    assert clf.certificate_.bound >= best * (1 - 1e-12)
    assert clf.certificate_.margin == pytest.approx(best, rel=1e-9)
    model = state_of(clf).model
    assert model.ceiling(model.rows(X), np.sqrt(50.0)) >= best
    assert model.tally.largest_xx[0] >= best**2 * (1 - 1e-12)


@pytest.mark.parametrize("p", [1.25, 1.6])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("several", everything_or([False], [False, True]))
def test_below_2_streams_and_files_are_the_same_to_the_bit(p, intercept, several, tmp_path):
    X, y = three_classes(n=40, d=4) if several else separable(n=40, d=4)
    classes, settings_ = np.unique(y), {"p": p, "fit_intercept": intercept}
    whole = PUMMA(**settings_).partial_fit(X, y, classes=classes)
    parts = PUMMA(**settings_)
    for start in range(0, 40, 7):
        part = slice(start, start + 7)
        parts.partial_fit(X[part], y[part], classes=classes)
        maxmargin.save(parts, tmp_path / "model")
        parts = maxmargin.load(tmp_path / "model")
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    np.testing.assert_array_equal(parts.intercept_, whole.intercept_)


def test_below_2_with_a_soft_margin():
    X, y = overlapping(n=30, d=3)
    clf = PUMMA(p=1.5, soft_margin=1.0, delta=0.1, max_iter=10**4, random_state=0).fit(X, y)
    best, _, _ = reference.max_pnorm_margin(reference.soft(X, 1.0), y, 1.5, intercept=True)
    assert clf.converged_
    assert clf.certificate_.margin <= best * (1 + 1e-6) <= clf.certificate_.bound * (1 + 2e-6)
    assert clf.certificate_.ratio >= 0.9 - 1e-6


@pytest.mark.parametrize("p", [1.01, 1.1])
@pytest.mark.parametrize("seed", range(3))
def test_near_1_certificates_hold(p, seed):
    """Rounding moves weights by 2e-16 to the power p - 1, but not the sums behind a bound."""
    X, y = separable(n=12, d=4, gap=0.5, seed=seed)
    clf = PUMMA(p=p, delta=0.5, max_iter=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf.fit(X, y)
    # |w|_q <= n^(1/q) |w|_inf, so the best margin is at least n^(1/p - 1) of that in the 1-norm.
    assert clf.certificate_.bound >= exact_margin(X, y, 1.0) * 4 ** (1 / p - 1) * (1 - 1e-9)
    w = clf.coef_[0]
    reached = np.min(y * (X @ w + clf.intercept_[0])) / reference.norm(w, p / (p - 1))
    assert clf.certificate_.margin == pytest.approx(reached, rel=1e-9)
    assert 0.0 < reached <= clf.certificate_.bound


def test_near_1_a_warning_names_rounding():
    X, y = separable(n=60, d=4, gap=0.5)
    with pytest.warns(ConvergenceWarning, match=r"With p=1\.01 rounding may cause updates"):
        PUMMA(p=1.01, delta=0.01, max_iter=2, random_state=0).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"set soft_margin\.$"):
        PUMMA(p=1.5, delta=0.01, max_iter=2, random_state=0).fit(X, y)


def test_max_updates_below_2_in_numbers():
    assert ROMMA.max_updates(0.5, 3.0, 1.0, p=1.5) == pytest.approx(1 + 2 * 26 / 0.125)
    assert PUMMA.max_updates(0.5, 4.0, 1.0, p=1.5) == pytest.approx(1 + 2 * 56 / 0.125)
    almost = PUMMA.max_updates(0.5, 4.0, 1.0, p=2.0 - 1e-9)
    assert almost == pytest.approx(PUMMA.max_updates(0.5, 4.0, 1.0), rel=1e-6)
    assert PUMMA.max_updates(0.5, 4.0, 1.0, p=1.0001) == np.inf


# ---------------------------------------------------------------------- margins in other norms


def exact_margin(X, y, norm):
    """The best margin with intercept in a norm from 1 to infinity."""
    if 1.0 < norm < np.inf:
        return reference.max_pnorm_margin(X, y, norm, intercept=True)[0]
    # w = u - v with u, v >= 0; the dual norm is a sum, or the largest entry.
    n, d = X.shape
    rows = y[:, None] * np.hstack([X, -X, np.ones((n, 1)), -np.ones((n, 1))])
    cost = np.r_[np.ones(2 * d), 0.0, 0.0]
    if norm == 1.0:
        limits = np.hstack([np.eye(2 * d), np.zeros((2 * d, 2)), -np.ones((2 * d, 1))])
        rows = np.vstack([np.hstack([-rows, np.zeros((n, 1))]), limits])
        cost, right = np.r_[np.zeros(2 * d + 2), 1.0], np.r_[-np.ones(n), np.zeros(2 * d)]
        return 1.0 / linprog(cost, A_ub=rows, b_ub=right).fun
    return 1.0 / linprog(cost, A_ub=-rows, b_ub=-np.ones(n)).fun


def reached_margin(clf, X, y, norm):
    dual = 1.0 if norm == np.inf else np.inf if norm == 1.0 else norm / (norm - 1)
    lowest = np.min(y * (X @ clf.coef_[0] + clf.intercept_[0]))
    return lowest / np.linalg.norm(clf.coef_[0], ord=dual)


@pytest.mark.parametrize("p", [2.0, 4.0, "log"])
@pytest.mark.parametrize("norm", [1.0, 1.5, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("kind", ["dense", "few relevant", "corners"])
def test_margins_in_other_norms(p, norm, kind):
    """Corollary 3, where the norm is infinite, and its like for others."""
    random = np.random.default_rng(7)
    X, delta = random.normal(size=(40, 12)), 0.2
    target = random.normal(size=12) if kind == "dense" else np.r_[1.0, np.zeros(11)]
    if kind == "corners":
        X = np.sign(X)
    y = np.where(X @ target > 0, 1, -1)
    X = X + 0.3 * y[:, None] * target / np.abs(target).sum()
    clf = PUMMA(p=p, delta=delta, max_iter=10**5, random_state=0).fit(X, y)
    assert clf.converged_
    exponent = state_of(clf).model.p
    best, distortion = exact_margin(X, y, norm), PUMMA.distortion(exponent, norm, 12)
    gaps = (X[y > 0][:, None] - X[y < 0]).reshape(-1, 12)
    widest = np.linalg.norm(gaps, ord=norm, axis=1).max()
    assert clf.n_updates_ <= PUMMA.max_updates(delta, widest, best, exponent, distortion)
    reached = reached_margin(clf, X, y, norm)
    assert reached >= PUMMA.margin_fraction(delta, distortion) * best * (1 - 1e-6)
    assert reached <= best * (1 + 1e-4)


def test_other_norms_are_paid_for():
    """One feature against the sum of many: without the factor the fraction would be wrong."""
    X = np.vstack([np.eye(16), -np.eye(16)])
    y = np.repeat([1, -1], 16)
    clf = PUMMA(p=2.0, delta=0.01, random_state=0).fit(X, y)
    # All weights are equal: margin 1/16 in the infinity norm, and 1/4 in the 2-norm.
    assert reached_margin(clf, X, y, np.inf) == pytest.approx(1 / 16, rel=0.02)
    assert PUMMA.distortion(2.0, np.inf, 16) == 4.0
    assert PUMMA.distortion(2.0, 1.0, 16) == 4.0
    assert PUMMA.distortion(2.0, 2.0, 16) == 1.0


@pytest.mark.parametrize(
    ("features", "c"),
    [(2, 5.0), *itertools.product((100, 10**6), (0.5, 2.0, 5.0))],  # p >= 2
)
def test_corollary_3_as_it_is_printed(features, c):
    """With p = c ln n and the constant of Theorem 2 mended: 4 (p - 1) e^(2/c) (R / gamma)^2."""
    p, delta, radius, margin = c * np.log(features), 0.1, 3.0, 0.2
    distortion = PUMMA.distortion(p, np.inf, features)
    assert distortion == pytest.approx(np.exp(1 / c))
    fraction = PUMMA.margin_fraction(delta, distortion)
    assert fraction == pytest.approx((1 - delta) * np.exp(-1 / c))
    ours = PUMMA.max_updates(delta, 2 * radius, margin, p, distortion)
    printed = 4 * (p - 1) * np.exp(2 / c) * (radius / margin) ** 2 / delta**2
    assert ours == pytest.approx(1 + printed - 4 * (p - 1) / delta**2)
