"""The learners in p-norms: their references, the powers behind them, certificates."""

from itertools import product

import numpy as np
import pytest
import reference_pnorm as reference
from extent import everything_or
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import overlapping, separable, separable_sets, sparse_separable
from scipy import sparse
from sklearn.exceptions import NotFittedError

from maxmargin import ALMA, AMIRA, NORMA, PUMMA, Perceptron, TrackingALMA
from maxmargin.datasets import make_r_of_k
from maxmargin.models.base import build
from maxmargin.spaces.pnorm import new_pnorm
from maxmargin.spaces.power import power
from maxmargin.training.protocol import put_state, state_of, trainer_of

FORMS = {"dense": np.asarray, "CSR": sparse.csr_matrix}
EXPONENTS = [2.5, 3.0, 4.25, 9.21]
LEARNERS = {
    "AMIRA": (AMIRA, reference.pnorm_amira, {"epsilon": 0.2}),
    "Perceptron": (Perceptron, reference.pnorm_perceptron, {"margin": 0.5, "rate": 0.3}),
    "ALMA": (ALMA, reference.pnorm_alma, {"alpha": 0.3}),
    "ALMA with B and C": (ALMA, reference.pnorm_alma, {"alpha": 0.2, "B": 1.5, "C": 0.7}),
    "NORMA": (NORMA, reference.pnorm_norma, {"rate": 0.3, "decay": 0.2, "margin": 0.5}),
    "TrackingALMA": (
        TrackingALMA,
        reference.pnorm_tracking_alma,
        {"rate": 0.4, "radius": 0.8, "margin": 0.3},
    ),
}

# How rows are stored is not the rule's business, and CSR is compiled anew for each: one rule of the
# vectors, and the one that acts in a plane.
STORED = ["Perceptron", "AMIRA"]
ON_ROWS = everything_or(
    [*product(LEARNERS, ["dense"]), *product(STORED, ["CSR"])], list(product(LEARNERS, FORMS))
)
every_exponent = pytest.mark.parametrize("p", EXPONENTS)
every_learner = pytest.mark.parametrize("name", LEARNERS)
every_learner_and_form = pytest.mark.parametrize(("name", "form"), ON_ROWS)


def close(actual, expected, tolerance=1e-8):
    size = np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * size)


# --------------------------------------------------------------------------- against the references


@every_learner_and_form
@every_exponent
@settings(deadline=None, max_examples=4)
@given(data=separable_sets(max_rows=25), intercept=st.booleans())
def test_trial_by_trial(name, form, p, data, intercept):
    kind, run, settings_ = LEARNERS[name]
    X, y = data
    seen = np.hstack([X, np.ones((len(X), 1))]) if intercept else X
    trace = run(seen, y, p=p, **settings_)
    clf = kind(p=p, fit_intercept=intercept, **settings_)
    rows = FORMS[form](X)
    updates = np.cumsum(trace.updated)
    for i in range(len(X)):
        clf.partial_fit(rows[i : i + 1], y[i : i + 1], classes=[-1, 1])
        w = trace.history[i]
        close(np.append(clf.coef_, clf.intercept_ if intercept else []), w)
        assert clf.n_updates_ == updates[i]
    assert clf.n_mistakes_ == trace.mistakes.sum()


@pytest.mark.parametrize("name", everything_or(STORED, list(LEARNERS)))
@every_exponent
def test_long_sparse_stream(name, p):
    kind, run, settings_ = LEARNERS[name]
    X, y = sparse_separable(n=300, d=40)
    trace = run(X.toarray(), y, p=p, **settings_)
    clf = kind(p=p, fit_intercept=False, **settings_).partial_fit(X, y, classes=[-1, 1])
    assert clf.n_updates_ == trace.updated.sum() > 10
    close(clf.coef_[0], trace.w)


@every_learner_and_form
def test_next_to_p_2_nothing_changes(name, form):
    kind, _, settings_ = LEARNERS[name]
    X, y = overlapping(n=60)
    plain, near = (
        kind(p=p, **settings_).partial_fit(FORMS[form](X), y, classes=[-1, 1])
        for p in (2.0, 2.0 + 1e-12)
    )
    assert state_of(near).model.linear.geometry.p != 2.0
    assert near.n_updates_ == plain.n_updates_ > 5
    close(near.coef_, plain.coef_, 1e-9)
    close(near.intercept_, plain.intercept_, 1e-9)


# AMIRA has another space at other p.
@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "AMIRA"])
def test_the_geometry_at_p_2_is_the_plain_one(name):
    kind, _, settings_ = LEARNERS[name]
    X, y = overlapping(n=60)
    plain, raised = (
        kind(fit_intercept=False, **settings_).partial_fit(X, y, classes=[-1, 1]) for _ in range(2)
    )
    # Start over from zero, with the other geometry.
    model = build(trainer_of(raised).spec, 1, X).model
    model.linear = model.linear._replace(geometry=new_pnorm(2.0, 1, X.shape[1] + 1))
    put_state(raised, state_of(raised)._replace(model=model))
    raised.partial_fit(X, y)
    assert raised.n_updates_ == plain.n_updates_ > 5
    close(raised.coef_, plain.coef_, 1e-10)


# --------------------------------------------------------------------------------------- the powers


@pytest.mark.slow
@every_exponent
@pytest.mark.parametrize("name", ["Perceptron", "TrackingALMA", "NORMA"])
def test_sums_do_not_drift(p, name):
    kind, _, _ = LEARNERS[name]
    random = np.random.default_rng(0)
    # Labels are noise and sizes differ much, so that most of what was added is taken away again.
    X = random.normal(size=(20_000, 6)) * 10.0 ** random.uniform(-3, 1, size=(20_000, 1))
    y = random.choice([-1, 1], 20_000)
    clf = kind(p=p, margin=1e9).partial_fit(X, y, classes=[-1, 1])
    assert clf.n_updates_ == 20_000
    space = state_of(clf).model.linear
    sizes = np.abs(space.weights)
    total = (sizes**p).sum()
    np.testing.assert_allclose(space.geometry.sums, total, rtol=1e-10)
    powers = np.sign(space.weights) * sizes ** (p - 1)
    np.testing.assert_allclose(space.geometry.powers, powers, rtol=1e-10)
    w = np.append(clf.coef_, clf.intercept_)
    close(w, reference.link(space.scalars.table.scale[0] * space.weights[0], p), 1e-10)
    size = reference.norm(space.scalars.table.scale[0] * space.weights[0], p)
    assert space.scalars.table.norm2[0] == pytest.approx(size**2, rel=1e-10)


@given(
    quarters=st.integers(0, 80),
    x=st.floats(0.0, 1e10, allow_subnormal=False),
)
def test_powers_by_square_roots(quarters, x):
    exponent = quarters / 4
    ours = power(exponent)
    assert ours.quarters >= 0
    assert ours.power_of(x) == pytest.approx(x**exponent, rel=1e-13, abs=1e-290)


@given(exponent=st.floats(0.01, 20.0), x=st.floats(1e-10, 1e10))
def test_powers_of_any_exponent(exponent, x):
    assert power(exponent).power_of(x) == pytest.approx(x**exponent, rel=1e-13)


def test_which_powers_use_square_roots():
    assert power(3.75)[1:] == (3, 3)
    assert power(2.0)[1:] == (2, 0)
    assert power(8.21).quarters == -1


# --------------------------------------------------------------------------------- what is promised


@every_learner
@every_exponent
@pytest.mark.parametrize("intercept", [False, True])
def test_certificates_hold(name, p, intercept):
    kind, _, settings_ = LEARNERS[name]
    X, y = separable(n=40, d=4, gap=0.5, shift=0.0, seed=3)
    best, _, _ = reference.max_pnorm_margin(X, y, p, intercept=intercept)
    clf = kind(p=p, fit_intercept=intercept, **settings_)
    for start in range(0, 40, 8):
        part = slice(start, start + 8)
        clf.partial_fit(X[part], y[part], classes=[-1, 1])
        assert clf.certificate_.bound >= best
    fitted = kind(p=p, fit_intercept=intercept, random_state=0, **settings_).fit(X, y)
    assert fitted.certificate_.bound >= best
    w, b = fitted.coef_[0], fitted.intercept_[0]
    reached = np.min(y * (X @ w + b)) / reference.norm(w, p / (p - 1))
    assert fitted.certificate_.margin == pytest.approx(reached, rel=1e-9)
    assert reached <= best * (1 + 1e-4)


@every_exponent
def test_alma_guarantee(p):
    X, y = separable(n=40, d=4, gap=0.5, shift=0.0, seed=3)
    X /= np.array([[reference.norm(x, p)] for x in X])
    best, _, _ = reference.max_pnorm_margin(X, y, p, intercept=False)
    clf = ALMA(alpha=0.2, p=p, fit_intercept=False, max_iter=10**5, random_state=0).fit(X, y)
    assert clf.converged_
    assert clf.n_updates_ <= ALMA.max_updates(0.2, best, p)
    assert clf.certificate_.margin >= ALMA.margin_fraction(0.2) * best


@pytest.mark.parametrize("kind", [AMIRA, Perceptron, ALMA, NORMA, TrackingALMA, PUMMA])
def test_streams_have_no_soft_margin(kind):
    X, y = overlapping(n=20)
    clf = kind(p=3.0, soft_margin=0.5, max_iter=5, shuffle=False)
    with pytest.raises(ValueError, match="soft margin"):
        clf.partial_fit(X, y, classes=[-1, 1])
    with pytest.raises(NotFittedError):
        clf.predict(X)
    with pytest.warns() if kind not in (NORMA,) else np.errstate():
        clf.fit(X, y)
    before = clf.coef_, clf.intercept_, clf.n_updates_, clf.certificate_
    with pytest.raises(ValueError, match="soft margin"):
        clf.partial_fit(X, y)
    after = clf.coef_, clf.intercept_, clf.n_updates_, clf.certificate_
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("p", [3.0, "log"])
def test_sums_survive_a_fall_by_many_powers_of_ten(p):
    """A weight that dominates all others and then vanishes takes no digits with it."""
    X = np.eye(60)[np.arange(120) % 60] * np.where(np.arange(120) % 60 == 0, 1e3, 1.0)[:, None]
    X[60] *= -1.0
    y = np.ones(120, dtype=int)
    clf = Perceptron(p=p, margin=1e9, fit_intercept=False)
    clf.partial_fit(X, y, classes=[-1, 1])
    geometry, weights = state_of(clf).model.linear.geometry, state_of(clf).model.linear.weights
    assert weights[0, 0] == 0.0
    np.testing.assert_allclose(
        geometry.sums, (np.abs(weights) ** state_of(clf).model.p).sum(), rtol=1e-12
    )


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_the_intercept_is_scaled_by_the_largest_norm_of_the_space(form):
    X, y = make_r_of_k(50, 40, k=8, r=2, random_state=0)
    clf = Perceptron(p=4.0, intercept_scaling="max", max_iter=2, random_state=0).fit(form(X), y)
    assert state_of(clf).model.tail.offset == pytest.approx(40 ** (1 / 4), rel=1e-12)


@pytest.mark.parametrize(
    ("p", "size"), [(20.0, 1e-16), (50.0, 1e-7), (50.0, 1e7), (100.0, 1e-3), (1000.0, 1e6)]
)
def test_two_rows_whose_powers_are_no_numbers(p, size):
    clf = PUMMA(p=p, random_state=0).fit([[0.0, 0.0], [size, 0.5 * size]], [0, 1])
    # Half the distance in the p-norm; the margins of the hyperplane between them are as large.
    best = 0.5 * size * (1.0 + 0.5**p) ** (1.0 / p)
    assert clf.certificate_.bound == pytest.approx(best, rel=1e-8)
    assert clf.certificate_.margin == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("p", [3.0, 20.0, 50.0])
@pytest.mark.parametrize("form", everything_or([np.asarray], [np.asarray, sparse.csr_matrix]))
def test_the_unit_of_the_rows_does_not_matter(p, form):
    X, y = separable(n=60, d=5, seed=4)
    learners = PUMMA(p=p, delta=0.1, random_state=0), ALMA(p=p, fit_intercept=False, random_state=0)
    for learner in learners:
        plain = learner.fit(form(X), y).certificate_
        for size in (2.0**-40, 2.0**40):
            scaled = learner.fit(form(size * X), y).certificate_
            assert scaled.margin == pytest.approx(size * plain.margin, rel=1e-6)
            assert scaled.bound == pytest.approx(size * plain.bound, rel=1e-6)


def test_rows_of_very_different_sizes():
    """A pair a million times nearer than the one before changes theta by as much at once."""
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1e-6], [1.0, 2e-6]])
    y = np.array([0, 1, 0, 1])
    for p in (30.0, 60.0):
        clf = PUMMA(p=p, shuffle=False, max_iter=50).fit(X, y)
        assert clf.score(X, y) == 1.0
        assert clf.certificate_.ratio > 0.9


def test_a_stream_that_grows_by_many_powers_of_ten():
    rows = np.array([[1.0, 0.2], [-1.0, 0.3]])
    clf = Perceptron(p=40.0, fit_intercept=False)
    for size in 10.0 ** np.arange(-20, 21, 5):
        clf.partial_fit(size * rows, [1, -1], classes=[-1, 1])
        assert (clf.predict(size * rows) == [1, -1]).all()
    assert np.isfinite(clf.coef_).all()


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 1.999, np.inf, np.nan])
@pytest.mark.parametrize("kind", [AMIRA, Perceptron, ALMA, NORMA, TrackingALMA])
def test_norms_without_a_theorem_are_refused(kind, p):
    X, y = separable(n=10)
    limits = r"\[2\.0, 1000\.0\], where .* smooth.* use p=2.*infinity norm"
    why = rf"'p' parameter of \w+ must be .*{limits}"
    with pytest.raises(ValueError, match=why):
        kind(p=p).fit(X, y)


def test_below_2_the_square_of_the_norm_is_not_smooth():
    """What an update adds to |theta|^2 beyond 2 w.d is no multiple of |d|^2 for p < 2."""
    theta, d = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    for p, largest in [(2.0, 1.0), (3.0, 2.0), (8.0, 7.0), (1.5, np.inf)]:
        excess = [
            (reference.norm(theta + step * d, p) ** 2 - 1.0) / step**2
            for step in 10.0 ** -np.arange(1, 7)
        ]
        assert max(excess) <= largest * (1 + 1e-3)
    assert max(excess) > 1000.0
