"""`MaxMargin` with kernels: against LIBSVM, the primal, and the objective in extended precision."""

import os
import tracemalloc

import numpy as np
import pytest
from brackets import drawn
from extent import EVERYTHING
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from maxmargin import MaxMargin
from maxmargin.datasets import load_usps
from maxmargin.models.kernel_model import variance
from maxmargin.solvers import kernel_oracle, newton_passes
from maxmargin.training.protocol import trainer_of

LONG = np.longdouble
LOSSES = ["squared_hinge", "hinge"]


def gram(X, gamma):
    X = np.asarray(X, LONG)
    return np.exp(-LONG(gamma) * ((X[:, None] - X) ** 2).sum(axis=2))


def objective(K, y, weights, penalty, loss, a, b):
    """In extended precision, of coefficients of all rows; y of -1 and 1."""
    a = np.asarray(a, LONG)
    slack = np.maximum(0, 1 - y * (K @ a + LONG(b)))
    slack = slack if loss == "hinge" else slack**2
    return a @ K @ a / 2 + (weights * slack).sum() / (2 * LONG(penalty))


def as_margin(value, loss):
    """As certificates state it."""
    return 1 / (2 * value) if loss == "hinge" else 1 / np.sqrt(2 * value)


def coefficients(clf, size, line=0):
    full = np.zeros(size)
    full[clf.support_] = clf.dual_coef_[line]
    return full


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(1000 if EVERYTHING else 40))
def test_the_optimum_is_between_dual_value_and_objective(seed, loss):
    random = np.random.default_rng(seed)
    X, y, weights, penalty = drawn(random)
    X, y, weights = X[:100], y[:100], weights[:100]
    penalty = float(random.choice([1e-3, 0.1, 1.0, 100.0]))
    gamma = float(random.choice([0.01, 1.0])) / max(X.var(), 1e-300)
    intercept = bool(random.integers(2))
    given = {"loss": loss, "soft_margin": penalty, "fit_intercept": intercept, "tol": 1e-4}
    clf = MaxMargin(kernel="rbf", gamma=gamma, **given, max_iter=200)
    certificate = clf.fit(X, y, sample_weight=weights).certificate_
    K = gram(X, gamma)
    a, b = coefficients(clf, y.size), clf.intercept_[0]
    reached = objective(K, y, weights, penalty, loss, a, b)
    assert certificate.margin <= as_margin(reached, loss)
    values = [reached]
    if intercept and loss == "hinge":
        there = weights > 0
        svc = SVC(C=0.5 / penalty, gamma=gamma, tol=1e-8, max_iter=10**5)
        svc.fit(X[there], y[there], sample_weight=weights[there])
        a = np.zeros(y.size)
        a[np.flatnonzero(there)[svc.support_]] = svc.dual_coef_[0]
        values.append(objective(K, y, weights, penalty, loss, a, svc.intercept_[0]))
    assert certificate.bound >= as_margin(min(values), loss)
    if np.abs(X).max() < 1e5 * X.std(axis=0).max() and penalty >= 0.1:
        assert clf.converged_
        assert certificate.ratio >= 1 - 1e-4


def lost_to_float32(K, y, weights, penalty, a, b):
    """How much 1 exceeds the square of a certificate's ratio by the rounding of lines, at most.

    Each kernel value is off by at most u times itself, and so at most u. So with the mass
    ``m = sum |a|`` each output is off by at most ``u m``, which is counted for each step since
    outputs were computed anew: at most four, as three steps without gain are the last ones. |w|^2
    in the objective is off by ``u m^2`` for each of them, and in the bound by ``2 u m^2``.
    """
    value = 2 * objective(K, y, weights, penalty, "squared_hinge", a, b)
    losses = (weights * np.maximum(0, 1 - y * (K @ a.astype(LONG) + LONG(b))) ** 2).sum()
    unit, mass = kernel_oracle.NARROW, np.abs(a).sum()
    off = 4 * unit * mass * np.sqrt(weights.sum())
    return float((6 * unit * mass**2 + (2 * np.sqrt(losses) * off + off**2) / penalty) / value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(500 if EVERYTHING else 20))
def test_certificates_by_lines_in_float32_are_sound(monkeypatch, seed):
    """As close as rounding allows, so that an allowance too small for it would show."""
    monkeypatch.setattr(kernel_oracle, "SMALL", 0)
    monkeypatch.setattr(kernel_oracle, "LEAST_NARROW_TOL", 0.0)
    monkeypatch.setattr(kernel_oracle, "LEAST_NARROW_PENALTY", 0.0)
    monkeypatch.setattr(kernel_oracle.KernelOracle, "refine", lambda *_: False)
    random = np.random.default_rng(seed)
    X, y, weights, _ = drawn(random)
    X, y, weights = X[:100], y[:100], weights[:100]
    penalty = float(random.choice([1e-2, 0.1, 1.0, 100.0]))
    gamma = float(random.choice([0.01, 1.0])) / max(X.var(), 1e-300)
    given = {"soft_margin": penalty, "fit_intercept": bool(random.integers(2)), "tol": 1e-15}
    clf = MaxMargin(kernel="rbf", gamma=gamma, **given, max_iter=50)
    certificate = clf.fit(X, y, sample_weight=weights).certificate_
    a, b = coefficients(clf, y.size), clf.intercept_[0]
    K = gram(X, gamma)
    reached = as_margin(objective(K, y, weights, penalty, "squared_hinge", a, b), "")
    assert certificate.margin <= reached <= certificate.bound
    if penalty >= 0.1 and np.abs(X).max() < 1e5 * X.std(axis=0).max():
        lost = lost_to_float32(K, y, weights, penalty, a, b)
        assert certificate.ratio**2 >= 1 - lost - 1e-6


def test_systems_in_float32_are_not_copied_to_float64():
    """Memory beyond the lines that are kept is that of one system, and what is chosen of it."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(700, 4)), random.integers(0, 2, 700)
    trainer = trainer_of(MaxMargin(kernel="rbf", gamma=1.0, soft_margin=0.1))
    posed = trainer._posed(trainer._problem(X, y, None))
    oracle = posed.data.oracle(posed.task, slice(0, 1))
    assert oracle.is_narrow
    oracle.restrict(None)
    active, systems = np.arange(600), oracle.curvature(None)
    oracle.lines.keep(active)
    systems.tightened(active, 0, np.full(700, 0.1))  # what is compiled takes memory too
    tracemalloc.start()
    systems.tightened(active, 0, np.full(700, 0.1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * 4 * active.size**2


def test_lines_in_float32_that_do_not_suffice(monkeypatch):
    X, y = load_iris(return_X_y=True)
    given = {"kernel": "rbf", "gamma": 0.5, "soft_margin": 0.1}
    monkeypatch.setattr(kernel_oracle, "SMALL", 0)
    usual = MaxMargin(**given).fit(X, y)
    monkeypatch.setattr(kernel_oracle, "NARROW", 1e-3)
    clf = MaxMargin(**given).fit(X, y)
    assert clf.converged_
    assert clf.n_iter_ > usual.n_iter_
    wanted = [each.margin for each in usual.certificate_.classes]
    margins = [each.margin for each in clf.certificate_.classes]
    np.testing.assert_allclose(margins, wanted, rtol=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", [0.0, 0.5])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_linear_kernel_is_the_primal(loss, penalty, intercept):
    X, y = load_iris(return_X_y=True)
    X, y = (X[:100], y[:100]) if penalty == 0.0 else (X, y)
    given = {"loss": loss, "soft_margin": penalty, "fit_intercept": intercept, "tol": 1e-6}
    primal = MaxMargin(**given, max_iter=300).fit(X, y)
    clf = MaxMargin(kernel=lambda some, others: some @ others.T, **given, max_iter=300).fit(X, y)
    assert clf.converged_ == primal.converged_
    margins = [each.margin for each in clf.certificate_.classes or [clf.certificate_]]
    wanted = [each.margin for each in primal.certificate_.classes or [primal.certificate_]]
    np.testing.assert_allclose(margins, wanted, rtol=3e-6)
    scores = primal.decision_function(X)
    np.testing.assert_allclose(clf.decision_function(X), scores, atol=0.01 * np.abs(scores).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_ways_to_give_the_same_kernel(loss):
    X, y = load_iris(return_X_y=True)
    given = {"loss": loss, "soft_margin": 0.1, "tol": 1e-6, "max_iter": 300}
    usual = MaxMargin(kernel="rbf", gamma=0.5, **given).fit(X, y)
    K = rbf_kernel(X, gamma=0.5)
    each = {
        "precomputed": (MaxMargin(kernel="precomputed", **given), K),
        "callable": (MaxMargin(kernel=lambda u, v: rbf_kernel(u, v, gamma=0.5), **given), X),
        "sparse": (MaxMargin(kernel="rbf", gamma=0.5, **given), sparse.csr_matrix(X)),
        "little memory": (MaxMargin(kernel="rbf", gamma=0.5, cache_size=0.1, **given), X),
    }
    for name, (clf, rows) in each.items():
        clf.fit(rows, y)
        np.testing.assert_allclose(
            clf.decision_function(rows), usual.decision_function(X), atol=1e-6, err_msg=name
        )
        np.testing.assert_array_equal(clf.support_, usual.support_, err_msg=name)


def value_reached(clf, X, y, C):
    """The objective of the hinge loss that a fitted classifier of two classes reaches."""
    outputs, bias = clf.decision_function(X), clf.intercept_[0]
    if clf.kernel == "linear":
        square = float(np.square(clf.coef_).sum())
    else:
        square = float(clf.dual_coef_[0] @ (outputs[clf.support_] - bias))
    return 0.5 * square + C * np.maximum(0.0, 1.0 - np.where(y, 1, -1) * outputs).sum()


def assert_as_good_as_svc(X, y, C, **kernel):
    ours = MaxMargin(loss="hinge", soft_margin=0.5 / C, **kernel).fit(X, y)
    theirs = SVC(C=C, tol=1e-5, cache_size=1000, **kernel).fit(X, y)
    assert ours.converged_
    values = [value_reached(clf, X, y, C) for clf in (ours, theirs)]
    assert values[0] <= (1 + 1e-3) * min(values)
    # What is proved of the optimum is true of what LIBSVM finds.
    assert 1 / (2 * ours.certificate_.bound) <= (1 + 1e-9) * values[1]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("seed", range(20))
def test_the_hinge_objective_beside_that_of_svc(seed, kernel):
    random = np.random.default_rng(seed)
    n, d = int(random.integers(50, 400)), int(random.integers(2, 20))
    X = random.normal(size=(n, d))
    noise = float(random.choice([0.1, 0.5, 2.0])) * random.normal(size=n)
    outputs = X @ random.normal(size=d) if seed % 2 else (X[:, :2] ** 2).sum(axis=1) - 1.5
    y = outputs + noise > 0.0
    assert_as_good_as_svc(X, y, C=float(random.choice([0.1, 1.0, 10.0])), kernel=kernel)


@pytest.mark.skipif("MAXMARGIN_DATA" not in os.environ, reason="it must name a folder")
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("digit", [0, 3, 8])
def test_the_hinge_objective_beside_that_of_svc_on_usps(kernel, digit):
    X, y = load_usps()
    assert_as_good_as_svc(X, y == digit, C=5.0, kernel=kernel)


def test_tightening_that_leaves_no_row():
    """By rounding, dual ascent gives no row a coefficient where kernel values are large."""
    X = np.array(
        [[-3.44171, -2.52269], [-3.44172, -2.52270], [-3.44173, -2.52271], [-3.4417, -2.5]]
    )
    X, y = 1e-5 * X, np.array([1, 1, 0, 0])
    given = {"gamma": 1.3e19, "coef0": 1.0, "soft_margin": 1000.0, "tol": 1e-6}
    clf = MaxMargin(kernel="poly", **given).fit(X, y)
    assert clf.certificate_.margin <= clf.certificate_.bound


@pytest.mark.parametrize("intercept", [0.0, 0.7])
def test_dual_ascent_by_the_kernel_matrix(intercept):
    """As by the definition, in the kernel's space with a coordinate for the intercept."""
    random = np.random.default_rng(0)
    X, signs = random.normal(size=(12, 3)), np.where(np.arange(12) % 3, 1.0, -1.0)
    K, own = rbf_kernel(X), random.uniform(0.1, 1.0, 12)
    goals, first, bias = random.uniform(1.0, 2.0, 12), np.maximum(random.normal(size=12), 0.0), 0.3

    def dual(a):
        beta = signs * a
        square = beta @ K @ beta + intercept * ((beta - signs * first).sum()) ** 2
        return (goals - bias * signs) @ a - square / 2 - (own * a * a).sum() / 2

    coefs = first.copy()
    wanted = [dual(coefs)]
    for _ in range(3):
        for i in range(12):
            step = np.eye(12)[i]
            slope = (dual(coefs + step) - dual(coefs - step)) / 2
            bend = dual(coefs + step) - 2 * dual(coefs) + dual(coefs - step)
            coefs[i] = max(0.0, coefs[i] - slope / bend)
        wanted.append(dual(coefs))
    assert np.all(np.diff(wanted) >= 0)
    system = newton_passes.DualSystem(signs, goals, own, intercept)
    for ascend in (newton_passes.ascend_by_matrix, newton_passes.ascend_by_matrix.plain):
        found, outputs = first.copy(), K @ (signs * first) + bias
        ascend(K, system, 3, found, outputs)
        np.testing.assert_allclose(found, coefs, atol=1e-10)
        np.testing.assert_allclose(outputs, K @ (signs * found) + bias)


def test_poly():
    X, y = load_iris(return_X_y=True)
    given = {"degree": 2, "gamma": 0.3, "coef0": 1.0}
    clf = MaxMargin(kernel="poly", **given, tol=1e-6).fit(X, y)
    other = MaxMargin(kernel="precomputed", tol=1e-6).fit(polynomial_kernel(X, **given), y)
    np.testing.assert_allclose(clf.dual_coef_, other.dual_coef_, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("cache_size", [100.0, 0.5], ids=["shared lines", "lines of samples"])
def test_samples_first(monkeypatch, loss, cache_size):
    X, y = load_digits(return_X_y=True)
    X, y = X[:600] / 16.0, y[:600] % 4
    given = {"kernel": "rbf", "gamma": 0.05, "soft_margin": 0.1, "loss": loss, "tol": 1e-4}
    monkeypatch.setattr(kernel_oracle, "SAMPLES", ())
    usual = MaxMargin(**given).fit(X, y)
    monkeypatch.setattr(kernel_oracle, "SAMPLES", (100, 300))
    clf = MaxMargin(**given, cache_size=cache_size).fit(X, y)
    assert clf.converged_
    wanted = [each.margin for each in usual.certificate_.classes]
    margins = [each.margin for each in clf.certificate_.classes]
    np.testing.assert_allclose(margins, wanted, rtol=2e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_conjugate_gradients(monkeypatch, loss):
    X, y = load_iris(return_X_y=True)
    given = {"kernel": "rbf", "gamma": 0.5, "soft_margin": 0.1, "loss": loss, "max_iter": 300}
    usual = MaxMargin(**given, tol=1e-6).fit(X, y)
    monkeypatch.setattr("maxmargin.kernels.products.Products.most_factorised", 10)
    clf = MaxMargin(**given).fit(X, y)
    assert clf.converged_
    wanted = [each.margin for each in usual.certificate_.classes]
    margins = [each.margin for each in clf.certificate_.classes]
    np.testing.assert_allclose(margins, wanted, rtol=1e-3)


def test_weights_and_several_labels():
    X, y = load_iris(return_X_y=True)
    weights = np.arange(y.size) % 3
    given = {"soft_margin": 1.0, "kernel": "rbf", "gamma": 0.5, "tol": 1e-7}
    clf = MaxMargin(**given).fit(X, y, sample_weight=weights)
    again = MaxMargin(**given).fit(np.repeat(X, weights, axis=0), y.repeat(weights))
    np.testing.assert_allclose(clf.decision_function(X), again.decision_function(X), atol=1e-5)
    labels = MaxMargin(**given).fit(X, np.eye(3, dtype=int)[y])
    single = MaxMargin(**given).fit(X, y)
    np.testing.assert_array_equal(labels.decision_function(X), single.decision_function(X))
    assert labels.predict(X).shape == (150, 3)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_the_scale_of_rows_counts_their_weights(form):
    X, _ = load_iris(return_X_y=True)
    X = X + 100.0
    weights = np.arange(len(X)) % 3
    wanted = np.repeat(X, weights, axis=0).var()
    assert variance(form(X), weights.astype(float)) == pytest.approx(wanted, rel=1e-9)
    assert variance(form(X), np.full(len(X), 3.0)) == variance(form(X))


def test_the_attributes_of_svc():
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    clf = MaxMargin(kernel="rbf", gamma=0.5, loss="hinge", soft_margin=0.1, tol=1e-6).fit(X, y)
    svc = SVC(C=5.0, gamma=0.5, tol=1e-8).fit(X, y)
    np.testing.assert_array_equal(np.sort(svc.support_), clf.support_)
    np.testing.assert_array_equal(clf.support_vectors_, X[clf.support_])
    order = np.argsort(svc.support_)
    np.testing.assert_allclose(clf.dual_coef_, svc.dual_coef_[:, order], atol=1e-3)
    np.testing.assert_allclose(clf.intercept_, svc.intercept_, atol=1e-3)
    with pytest.raises(AttributeError, match="dual_coef_"):
        _ = clf.coef_


def test_an_interruption_leaves_the_model(monkeypatch):
    X, y = load_iris(return_X_y=True)
    clf = MaxMargin(kernel="rbf").fit(X, y)
    before = clf.decision_function(X)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel_oracle.KernelOracle, "measured", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, 2 - y)
    np.testing.assert_array_equal(clf.decision_function(X), before)


def test_a_matrix_that_is_no_kernel():
    random = np.random.default_rng(0)
    K = random.normal(size=(20, 20))
    K = K + K.T
    np.fill_diagonal(K, 0.1)
    with pytest.raises(ValueError, match="Mercer"):
        MaxMargin(kernel="precomputed", soft_margin=1e-3).fit(K, np.arange(20) % 2)
