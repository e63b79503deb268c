"""Fits whose kernel matrix is larger than the cache: what they cost, and the same models."""

import tracemalloc
import warnings

import numpy as np
import pytest
from reference_kernel import rbf
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxmargin import AMIRA, PUMMA, PassiveAggressive, Perceptron
from maxmargin.core.joint_loop import learn_jointly
from maxmargin.core.loop import learn
from maxmargin.kernels import products
from maxmargin.kernels.functions import GaussianKernel
from maxmargin.kernels.kernel_lines import KernelLines
from maxmargin.kernels.products import Products
from maxmargin.models import kernel_fit, kernel_model
from maxmargin.spaces.gram import add_lines, add_products, complete_lines, copy_lines

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


@pytest.fixture
def counted(monkeypatch):
    """The kernel values that were computed."""
    numbers, gram = [0], Products.gram

    def counting(self, kernel, some, others, out=None):
        numbers[0] += some.size() * others.size()
        return gram(self, kernel, some, others, out)

    monkeypatch.setattr(Products, "gram", counting)
    return numbers


# -------------------------------------------------------------------------------------------- costs
@pytest.mark.slow
@pytest.mark.parametrize(("share", "factor"), [(0.99, 3.0), (0.5, 4.0)])
@pytest.mark.parametrize("name", ["k-best", "one-vs-rest"])
def test_beyond_the_cache_a_few_times_as_many_values_are_computed(
    monkeypatch, counted, name, share, factor
):
    in_small(monkeypatch)
    X, y = classes(1000, 12)
    numbers = []
    for size in (1.0, share):
        counted[0] = 0
        clf = quietly(with_cache(LEARNERS[name], size, 1000), X, y)
        assert clf.n_iter_ > 20
        numbers.append(counted[0])
    assert numbers[1] <= factor * numbers[0]


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
        values.append(training.lines._lines.nbytes + block.geometry.products.nbytes)
        return block

    monkeypatch.setattr(kernel_fit.KernelFit, "enter", watched)
    tracemalloc.start()
    try:
        quietly(learner, X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    cache = 1e6 * learner.cache_size
    assert 0.5 * cache < max(values) <= cache
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


@pytest.mark.parametrize("name", ["k-best", "one-vs-rest", "pairs"])
def test_compiled_loops_over_lines_are_the_plain_ones(monkeypatch, name):
    in_small(monkeypatch)
    X, y = classes(90, 3)
    if name == "pairs":
        y = (y == 1).astype(int)
    learner = with_cache(LEARNERS[name], 0.6, 90, max_iter=4)
    clf = quietly(clone(learner), X, y)
    monkeypatch.setattr(kernel_model.KernelModel, "loop", staticmethod(learn.plain))
    monkeypatch.setattr(kernel_model.JointKernelModel, "loop", staticmethod(learn_jointly.plain))
    plain = quietly(clone(learner), X, y)
    np.testing.assert_array_equal(clf.dual_coef_, plain.dual_coef_)
    np.testing.assert_array_equal(clf.support_, plain.support_)


# -------------------------------------------------------------------------------------------- lines
def lines_of(X, number):
    kernel, made = GaussianKernel(GAMMA, 3.0, 0.0, np.float64), Products()
    return KernelLines(made, kernel, made.points(kernel, X), number * 8 * len(X))


def matrix_of(values):
    """The matrix that kernel values of a block are."""
    return np.stack(
        [
            values.products[source] if source >= 0 else values.lines[-1 - source, values.columns]
            for source in values.sources
        ]
    )


def assert_right(lines, X, ids):
    for repeatedly in (False, True):
        values = matrix_of(lines.values(ids, repeatedly))
        np.testing.assert_allclose(values, rbf(X[ids], X[ids], GAMMA), rtol=1e-12)


def test_lines_of_rows_that_change_most_often_are_kept():
    X, _ = classes(50, 3)
    lines, everyone = lines_of(X, 10), np.arange(50)
    for _ in range(3):
        lines.count(np.arange(20, 27))
    lines.count(everyone)
    lines.keep(np.arange(10))
    np.testing.assert_array_equal(np.flatnonzero(lines.have(everyone)), np.arange(10))
    lines.keep(np.arange(10, 30))
    assert lines.have(np.arange(20, 27)).all()
    assert lines.have(everyone).sum() == 10
    lines.keep(np.arange(30, 50))  # these have changed no more often than those with lines
    assert lines.have(np.arange(10)).sum() == 3
    assert_right(lines, X, np.arange(5, 40))
    assert_right(lines, X, np.array([40, 45]))
    assert_right(lines, X, np.array([21, 23]))


def test_without_room_nothing_is_kept():
    X, _ = classes(50, 3)
    lines = lines_of(X, 0.9)
    lines.keep(np.arange(50))
    assert not lines.have(np.arange(50)).any()
    assert_right(lines, X, np.arange(0, 50, 3))


def test_rows_with_lines_act_on_all_rows():
    random = np.random.default_rng(0)
    lines, diagonal = random.normal(size=(4, 9)), random.normal(size=9)
    weights = random.normal(size=(3, 2)) * [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    slots, ids, shift = np.array([3, 0]), np.array([5, 7]), 0.25
    before = random.normal(size=(3, 9))
    values = lines[slots] + shift
    values[[0, 1], ids] = diagonal[ids]
    for add in (add_lines, add_lines.plain):
        sums = before.copy()
        add(weights, lines, slots, ids, diagonal, shift, sums)
        np.testing.assert_allclose(sums, before + weights @ values, rtol=1e-12)
    columns, out, plain = np.array([8, 0, 2]), np.zeros((5, 3)), np.zeros((5, 3))
    copy_lines(lines, slots, columns, np.array([1, 4]), out)
    copy_lines.plain(lines, slots, columns, np.array([1, 4]), plain)
    np.testing.assert_array_equal(out[[1, 4]], lines[slots][:, columns])
    np.testing.assert_array_equal(out, plain)


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
    for add in (add_products, add_products.plain):
        sums = before.copy()
        add(lines, places, weights, np.empty(9, np.int64), sums)
        wanted = before + weights.T @ lines[places].astype(float)
        np.testing.assert_allclose(sums, wanted, rtol=1e-12, atol=1e-13)
