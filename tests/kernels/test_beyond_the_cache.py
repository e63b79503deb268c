"""Fits whose kernel matrix is larger than the cache: what they cost, and the same models."""

import tracemalloc
import warnings

import numpy as np
import pytest
from reference_kernel import rbf
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxmargin import AMIRA, PUMMA, PassiveAggressive, Perceptron
from maxmargin.kernels import products
from maxmargin.kernels.products import Products
from maxmargin.models import kernel_fit
from maxmargin.solvers.newton_lines import complete_lines

GAMMA = 0.1
LEARNERS = {
    "k-best": AMIRA(epsilon=0.9),
    "one-vs-rest": AMIRA(epsilon=0.9, multiclass="ovr"),
    "soft margin": AMIRA(epsilon=0.9, soft_margin=0.1),
    "averages": Perceptron(average=True, max_iter=4),
    "aggressive": PassiveAggressive(max_iter=4),
    "pairs": PUMMA(delta=0.3),
}


def classes(n, number, seed=0):
    """Clouds that overlap a little, for which a Gaussian kernel needs many passes."""
    random = np.random.default_rng(seed)
    centers, y = 1.5 * random.normal(size=(number, 8)), random.integers(0, number, n)
    return centers[y] + random.normal(size=(n, 8)), y


def in_small(monkeypatch):
    """Let blocks be to a thousand rows what they are to ten thousand."""
    sizes = {"block": 32, "most_waiting": 64, "chunk": 400}
    for name, size in sizes.items():
        monkeypatch.setattr(Products, name, size)


def quietly(clf, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clf.fit(X, y)


def with_cache(learner, share, n, **params):
    """The learner with a cache for this share of the kernel matrix of ``n`` rows."""
    settings = {"kernel": "rbf", "gamma": GAMMA, "kernel_dtype": "float64", "random_state": 0}
    return clone(learner).set_params(**settings, cache_size=8e-6 * share * n**2, **params)


# -------------------------------------------------------------------------------------------- costs
@pytest.mark.slow
@pytest.mark.parametrize("share", [0.9, 0.2])
def test_memory_stays_within_the_cache(monkeypatch, share):
    """But for some numbers per row and problem, and pieces of values."""
    in_small(monkeypatch)
    X, y = classes(1000, 12)
    learner = with_cache(LEARNERS["k-best"], share, 1000)
    quietly(learner, X[:300], y[:300])  # what is compiled and imported stays
    values, enter = [], kernel_fit.KernelFit.enter

    def watched(training, ids, **how):
        block = enter(training, ids, **how)
        values.append(block.geometry.products.nbytes)
        return block

    monkeypatch.setattr(kernel_fit.KernelFit, "enter", watched)
    tracemalloc.start()
    try:
        quietly(learner, X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    cache = 1e6 * learner.cache_size
    assert max(values) <= cache
    per_row = 8 * (12 * 12 + 20) * 1000  # a dozen arrays of all problems, with copies
    pieces = 3 * 8 * (64 + 32) * 1000  # values of waiting rows and a chunk
    assert peak <= cache + per_row + pieces


def test_small_products_of_narrow_rows_are_made_in_pieces_without_threads(monkeypatch):
    random, made, matmul = np.random.default_rng(0), [], np.matmul

    def watched(left, right, out=None):
        made.append(left.shape[0] * left.shape[1] * right.shape[1])
        return matmul(left, right, out=out)

    monkeypatch.setattr(np, "matmul", watched)
    for rows, columns, width in [(300, 700, 16), (257, 129, 64), (1, 5000, 60), (500, 400, 1)]:
        left = random.normal(size=(rows, width))
        right = random.normal(size=(columns, width))
        expected = np.einsum("ik,jk->ij", left, right)
        out = np.empty((rows, columns))
        for given in (None, out):
            made.clear()
            values = products.inner_products(left, right, np.float64, given)
            np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
            assert max(made) <= products.PIECE_MULTIPLICATIONS
        assert values is out
    made.clear()
    wide = random.normal(size=(70, 65))
    products.inner_products(wide, wide, np.float64)
    assert made == [70 * 65 * 70]


# ----------------------------------------------------------------------------------- the same model
@pytest.mark.parametrize("share", [0.9, 0.3])
@pytest.mark.parametrize("name", LEARNERS)
def test_the_model_is_that_of_any_cache(monkeypatch, name, share):
    in_small(monkeypatch)
    X, y = classes(400, 5)
    if name == "pairs":
        y = (y == 1).astype(int)
    expected = quietly(with_cache(LEARNERS[name], 1.0, 400), X, y)
    clf = quietly(with_cache(LEARNERS[name], share, 400), X, y)
    assert (clf.n_updates_, clf.n_iter_) == (expected.n_updates_, expected.n_iter_)
    np.testing.assert_array_equal(clf.support_, expected.support_)
    np.testing.assert_allclose(clf.dual_coef_, expected.dual_coef_, rtol=1e-7, atol=1e-9)
    for mine, other in [
        (clf.certificate_.margin, expected.certificate_.margin),
        (clf.certificate_.bound, expected.certificate_.bound),
    ]:
        np.testing.assert_allclose(mine, other, rtol=1e-8)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_certificate_is_sound_beyond_the_cache(monkeypatch, dtype):
    in_small(monkeypatch)
    X, y = classes(400, 5)
    learner = with_cache(LEARNERS["k-best"], 0.2, 400, fit_intercept=False)
    clf = quietly(learner.set_params(kernel_dtype=dtype), X, y)
    best = quietly(
        with_cache(AMIRA(epsilon=0.05, max_iter=5000), 1.0, 400, fit_intercept=False), X, y
    )
    K, coefs = rbf(X, X[clf.support_], GAMMA), clf.dual_coef_
    outputs = K @ coefs.T
    own = outputs[np.arange(400), y].copy()
    outputs[np.arange(400), y] = -np.inf
    length = np.sqrt(np.sum(coefs @ K[clf.support_] * coefs))
    margin = (own - outputs.max(axis=1)).min() / length
    assert margin == pytest.approx(clf.certificate_.margin, abs=1e-4 * clf.certificate_.bound)
    assert margin > 0.0
    assert best.certificate_.margin > margin
    assert clf.certificate_.bound >= best.certificate_.margin


# -------------------------------------------------------------------------------------------- lines
def test_lines_are_completed_by_symmetry():
    random = np.random.default_rng(0)
    K = random.normal(size=(150, 150))
    K += K.T
    order = random.permutation(150)
    kept, numbers = order[:70], np.sort(order[70:145])
    others = np.sort(order[70:])
    for complete in (complete_lines, complete_lines.plain):
        out = np.zeros((75, 150))
        complete(K[kept], kept, numbers, K[np.ix_(numbers, others)], others, out)
        np.testing.assert_array_equal(out, K[numbers])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_lines_with_weights(dtype):
    random = np.random.default_rng(0)
    lines, places = random.normal(size=(30, 40)).astype(dtype), random.permutation(30)[:25]
    weights = random.normal(size=(25, 3)) * (random.random((25, 3)) < 0.6)
    before = random.normal(size=(3, 40))
    for add in (products.add_products, products.add_products.plain):
        sums = before.copy()
        add(lines, places, weights, np.empty(9, np.int64), sums)
        wanted = before + weights.T @ lines[places].astype(float)
        np.testing.assert_allclose(sums, wanted, rtol=1e-12, atol=1e-13)
