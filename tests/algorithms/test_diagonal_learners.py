"""AROW, SCW, AdaGrad, FTRL and scaled PA: their references, theorems, and units of columns."""

import numpy as np
import pytest
import reference_diagonal as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin import AROW, FTRL, SCW, AdaGrad, PassiveAggressive
from maxmargin.core import loop
from maxmargin.models.linear_model import LinearModel

PLAIN = {"fit_intercept": False, "max_iter": 1, "shuffle": False}
# One of each metric, and of each rule in it: learner, what its reference is given, the reference.
CASES = {
    "AROW": (AROW, {"r": 0.7}, reference.arow),
    "SCW-I": (SCW, {"C": 0.5, "eta": 0.8, "variant": "I"}, reference.scw),
    "SCW-II": (SCW, {"C": 0.5, "eta": 0.8, "variant": "II"}, reference.scw),
    "hinge": (AdaGrad, {"rate": 0.3, "loss": "hinge"}, reference.adagrad),
    "logistic": (AdaGrad, {"rate": 0.3, "loss": "logistic"}, reference.adagrad),
    "FTRL": (FTRL, {"alpha": 0.3, "beta": 1.0, "l1": 0.4, "l2": 0.2}, reference.ftrl),
    "PA": (PassiveAggressive, {"C": 0.3}, reference.passive_aggressive),
}
every_case = pytest.mark.parametrize("name", CASES)
WEIGHTED = [name for name in CASES if name != "PA"]


def rows(seed=0, size=120, width=6, units=True):
    """Noisy rows with zeros, in columns of very different units, and labels -1 and 1."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(size, width))
    X[random.random(X.shape) < 0.3] = 0.0
    y = np.where(X @ random.normal(size=width) + 0.5 * random.normal(size=size) > 0, 1, -1)
    return (X * 10.0 ** random.integers(-3, 4, size=width) if units else X), y


def made(name, **more):
    Learner, numbers, _ = CASES[name]
    scaling = {"scaling": "columns"} if Learner is PassiveAggressive else {}
    return Learner(**numbers, **(scaling | more))


# ------------------------------------------------------------------------------------- references
@pytest.mark.parametrize("seed", range(3))
@every_case
def test_learns_what_the_reference_learns(name, seed):
    X, y = rows(seed)
    clf = made(name, **PLAIN).fit(X, y)
    trace = CASES[name][2](X, y.astype(float), scaled=True, **CASES[name][1])
    np.testing.assert_allclose(clf.coef_[0], trace.w, rtol=1e-9, atol=1e-12 * np.abs(trace.w).max())
    assert clf.n_updates_ == trace.updated.sum()
    assert clf.n_mistakes_ == (y * trace.outputs <= 0).sum()


@pytest.mark.parametrize("name", WEIGHTED)
def test_columns_as_they_are(name):
    X, y = rows(1, units=False)
    clf = made(name, scaling=None, **PLAIN).fit(X, y)
    trace = CASES[name][2](X, y.astype(float), scaled=False, **CASES[name][1])
    np.testing.assert_allclose(clf.coef_[0], trace.w, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_rows(name):
    X, y = rows(2)
    weight = np.random.default_rng(0).choice([0.3, 1.0, 2.5], size=len(y))
    clf = made(name, **PLAIN).fit(X, y, sample_weight=weight)
    known = dict(CASES[name][1], scaled=True, sample_weight=weight)
    trace = CASES[name][2](X, y.astype(float), **known)
    np.testing.assert_allclose(clf.coef_[0], trace.w, rtol=1e-9, atol=1e-12 * np.abs(trace.w).max())


def test_intercept_is_a_column_of_ones():
    X, y = rows(3)
    clf = made("AROW", max_iter=1, shuffle=False).fit(X, y)
    w = reference.arow(np.c_[X, np.ones(len(X))], y.astype(float), r=0.7, scaled=True).w
    np.testing.assert_allclose(np.append(clf.coef_[0], clf.intercept_), w, rtol=1e-9)


def test_average_is_the_mean_over_all_trials():
    """Also where the weights of columns follow their peaks."""
    X, y = rows(4, size=40)
    for name in ("AROW", "hinge", "FTRL"):
        trace = CASES[name][2](X, y.astype(float), scaled=True, **CASES[name][1])
        clf = made(name, average=True, **PLAIN).fit(X, y)
        expected = trace.history.mean(axis=0)
        scale = np.abs(X).max(axis=0)
        np.testing.assert_allclose(scale * clf.coef_[0], scale * expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------- units of columns
@every_case
@settings(max_examples=20)
@given(st.integers(0, 99), st.lists(st.integers(-6, 6), min_size=6, max_size=6))
def test_units_do_not_matter(name, seed, exponents):
    """Powers of 2 change no bit; the largest values of columns come late."""
    X, y = rows(seed, size=60)
    X *= np.linspace(0.1, 1.0, len(X))[:, None]
    units = 2.0 ** np.array(exponents)
    clf, other = made(name, **PLAIN).fit(X, y), made(name, **PLAIN).fit(X * units, y)
    assert (clf.coef_ == units * other.coef_).all()
    by_tens = 10.0 ** np.array(exponents)
    other = made(name, **PLAIN).fit(X * by_tens, y)
    scale = np.abs(X).max(axis=0)
    np.testing.assert_allclose(scale * clf.coef_, scale * by_tens * other.coef_, atol=1e-9)


# ---------------------------------------------------------------------------- the same, to the bit
@every_case
def test_any_chunking_gives_the_same_bits(name):
    X, y = rows(5)
    whole = made(name, max_iter=1, shuffle=False).fit(X, y)
    for chunk in (1, 7, 50):
        clf = made(name)
        for start in range(0, len(y), chunk):
            part = slice(start, start + chunk)
            clf.partial_fit(X[part], y[part], classes=[-1, 1])
        assert (clf.coef_ == whole.coef_).all()
        assert (clf.intercept_ == whole.intercept_).all()
        assert clf.n_updates_ == whole.n_updates_


@pytest.mark.compiled
@every_case
def test_compiled_and_uncompiled_have_the_same_bits(name, monkeypatch):
    X, y = rows(6, size=60)
    for rows_of in (np.asarray, sparse.csr_matrix):
        compiled = made(name, average=True, max_iter=1, shuffle=False).fit(rows_of(X), y)
        with monkeypatch.context() as patch:
            patch.setattr(LinearModel, "loop", staticmethod(loop.learn.plain))
            plain = made(name, average=True, max_iter=1, shuffle=False).fit(rows_of(X), y)
        assert (compiled.coef_ == plain.coef_).all()
        assert (compiled.intercept_ == plain.intercept_).all()


@pytest.mark.parametrize("name", ["AROW", "hinge", "FTRL", "PA"])
def test_new_names_and_labels_as_they_come(name):
    """A column that comes late, and was 0 before, has learned the same."""
    X, y = rows(9)
    X[:40, 3:] = 0.0
    names = [f"f{j}" for j in range(X.shape[1])]
    clf = made(name)
    for x, label in zip(X, y.tolist(), strict=True):
        clf.learn_one({n: v for n, v in zip(names, x.tolist(), strict=True) if v}, label, grow=True)
    whole = made(name, max_iter=1, shuffle=False).fit(X, y)
    columns = [clf.columns_[n] for n in names]
    np.testing.assert_allclose(clf.coef_[-1][columns], whole.coef_[0], rtol=1e-9)


# --------------------------------------------------------------------------------------- theorems
def separating(seed, size=60, width=5):
    random = np.random.default_rng(seed)
    X = random.normal(size=(size, width)) * (random.random((size, width)) < 0.7)
    X *= 10.0 ** random.integers(-2, 3, size=width)
    u = random.normal(size=width) / np.abs(X).max(axis=0)
    y = np.where(X @ u > 0, 1.0, -1.0)
    y[random.random(size) < random.choice([0.0, 0.2])] *= -1
    return X, y, u * random.uniform(0.1, 5.0)


@given(st.integers(0, 10**6), st.floats(0.05, 20.0), st.booleans())
def test_arow_makes_no_more_mistakes(seed, r, scaled):
    X, y, u = separating(seed)
    trace = reference.arow(X, y, r=r, scaled=scaled)
    peaks = np.maximum.accumulate(np.abs(X)) if scaled else np.ones_like(X)
    updated = trace.updated
    radius = np.sqrt(reference.over(X**2, peaks**2).sum(axis=1).max())
    gained = (X[updated] ** 2).sum(axis=0) / r
    distance = ((u - trace.history[updated]) ** 2).max(axis=0, initial=0.0)
    losses = np.maximum(0.0, 1.0 - y * (X @ u))[updated]
    bound = AROW.max_mistakes(
        radius=radius,
        norm=np.sqrt((peaks[-1] ** 2 * u**2).sum()),
        r=r,
        deviation=(distance * gained).sum(),
        comparison=(losses**2).sum(),
    )
    assert (trace.margins <= 0).sum() <= bound * (1 + 1e-9)


@given(st.integers(0, 10**6), st.floats(0.05, 20.0))
def test_scaled_pa_makes_no_more_mistakes(seed, C):
    """The bound of PA-I, with lengths in the metric of the peaks, which grow on the way."""
    X, y, u = separating(seed)
    trace = reference.passive_aggressive(X, y, C=C, scaled=True)
    peaks = np.maximum.accumulate(np.abs(X))
    radius = np.sqrt(reference.over(X**2, peaks**2).sum(axis=1).max())
    losses = np.maximum(0.0, 1.0 - y * (X @ u))
    norm = np.sqrt((peaks[-1] ** 2 * u**2).sum())
    bound = PassiveAggressive.max_mistakes(radius, norm, C, comparison=losses.sum())
    wrong = (trace.margins <= 0) & X.any(axis=1)
    assert wrong.sum() <= bound * (1 + 1e-9)


def farthest(trace, u):
    """The largest difference of a weight to that of u, before any row."""
    return max(np.abs(u).max(), np.abs(u - trace.history[:-1]).max())


def regret_of(X, y, trace, u, loss):
    """Of the weights before each row, over u."""
    margins = trace.margins, y * (X @ u)
    if loss == "hinge":
        own, best = (np.maximum(0.0, 1.0 - m).sum() for m in margins)
    else:
        own, best = (np.logaddexp(0.0, -m).sum() for m in margins)
    return own - best


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@settings(max_examples=50)
@given(st.integers(0, 10**6), st.floats(0.02, 5.0))
def test_adagrad_has_no_more_regret(loss, seed, rate):
    X, y, u = separating(seed)
    learn = {"rate": rate, "loss": loss, "scaled": False}
    trace = reference.adagrad(X, y, **learn)
    gradients = np.sqrt(trace.precision).sum()
    bound = AdaGrad.max_regret(rate, farthest(trace, u), gradients)
    assert regret_of(X, y, trace, u, loss) <= bound * (1 + 1e-9)


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.floats(0.02, 5.0), st.floats(0.0, 2.0), st.floats(0.0, 2.0))
def test_ftrl_has_no_more_regret(seed, alpha, l1, l2):
    X, y, u = separating(seed)
    numbers = {"alpha": alpha, "beta": 1.0, "l1": l1, "l2": l2}
    trace = reference.ftrl(X, y, scaled=False, **numbers)
    bound = FTRL.max_regret(
        **numbers,
        norm=np.sqrt((u**2).sum()),
        norm1=np.abs(u).sum(),
        deviation=farthest(trace, u),
        gradients=np.sqrt(trace.precision).sum(),
    )
    assert regret_of(X, y, trace, u, "logistic") <= bound * (1 + 1e-9)


# -------------------------------------------------------------------------------------- the rest
def test_l1_gives_sparse_weights():
    X, y = rows(10, size=300, width=40)
    dense, thin = FTRL(max_iter=1, shuffle=False), FTRL(l1=5.0, max_iter=1, shuffle=False)
    assert np.count_nonzero(dense.fit(X, y).coef_) == 40
    assert 0 < np.count_nonzero(thin.fit(X, y).coef_) < 20
    assert (thin.predict(X) == y).mean() > 0.7


def test_structure_cannot_change_on_a_fitted_model():
    X, y = rows(11)
    clf = FTRL(alpha=0.5).partial_fit(X, y, classes=[-1, 1]).set_params(alpha=0.25)
    with pytest.raises(ValueError, match=r"'alpha' parameter of FTRL .* was 0.5, got 0.25"):
        clf.partial_fit(X, y)
    clf = AROW().partial_fit(X, y, classes=[-1, 1]).set_params(scaling=None)
    with pytest.raises(ValueError, match="'scaling' parameter of AROW"):
        clf.partial_fit(X, y)


@pytest.mark.parametrize(
    "other",
    [{"kernel": "rbf"}, {"budget": 9}, {"soft_margin": 1.0}, {"multiclass": "1-best"}],
    ids=lambda other: next(iter(other)),
)
def test_what_scaling_excludes(other):
    X, y = rows(12)
    y = y + (X[:, 0] > 0)
    (name,) = other
    with pytest.raises(ValueError, match=f"'{name}' parameter cannot be .*scaling='columns'"):
        PassiveAggressive(scaling="columns", **other).fit(X, y)


def test_extreme_columns_give_numbers():
    """Peaks from 1e-160 to 1e49, of which squares underflow or fill the range."""
    X, y = rows(13, units=False)
    X[:, 3] = np.copysign(1.0, X[:, 3])
    X = X * np.array([1e-160, 1e-60, 1e-30, 1.0, 1e20, 1e49])
    for name in CASES:
        clf = made(name, max_iter=1, shuffle=False).fit(X, y)
        assert np.isfinite(clf.coef_).all()
        assert np.isfinite(clf.decision_function(X)).all()
