"""Kernel functions: their values, in every layout and precision, and what they refuse."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import overlapping
from scipy import sparse
from sklearn.metrics.pairwise import (
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
)
from sklearn.svm import SVC

from maxmargin.kernels import functions, products
from maxmargin.kernels.functions import (
    KERNELS,
    LaplacianKernel,
    LinearKernel,
    PrecomputedKernel,
    UserKernel,
)
from maxmargin.kernels.products import Products
from maxmargin.models.kernel_model import kernel_for
from maxmargin.models.spec import KernelSpec

GAMMA, COEF0 = 0.3, 0.7
TOLERANCES = {np.float64: 1e-12, np.float32: 1e-5}
LAYOUTS = {"dense": np.ascontiguousarray, "Fortran": np.asfortranarray, "CSR": sparse.csr_matrix}

random = np.random.default_rng(0)
SOME = random.normal(size=(23, 6)) * (random.uniform(size=(23, 6)) < 0.6)
OTHERS = random.normal(size=(31, 6)) * (random.uniform(size=(31, 6)) < 0.6)
SOME[4] = 0.0  # also an empty sparse row
OTHERS[7] = SOME[3]  # equal rows, where rounding may go the wrong way

every_kernel = pytest.mark.parametrize(
    ("name", "degree"),
    [("linear", 3), ("rbf", 3), ("laplacian", 3), *(("poly", degree) for degree in (1, 2, 5, 7))],
)
between = Products().gram
every_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def expected(name, degree, some, others):
    if name == "linear":
        return linear_kernel(some, others)
    if name == "rbf":
        return rbf_kernel(some, others, gamma=GAMMA)
    if name == "laplacian":
        return laplacian_kernel(some, others, gamma=GAMMA)
    return polynomial_kernel(some, others, degree=degree, gamma=GAMMA, coef0=COEF0)


@every_kernel
@every_dtype
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_values(name, degree, dtype, left, right):
    kernel = KERNELS[name](GAMMA, degree, COEF0, dtype)
    some, others = LAYOUTS[left](SOME.astype(dtype)), LAYOUTS[right](OTHERS.astype(dtype))
    values = between(kernel, kernel.points(some), kernel.points(others))
    truth = expected(name, degree, SOME.astype(dtype).astype(float), OTHERS.astype(dtype))
    assert values.dtype == dtype
    np.testing.assert_allclose(values, truth, rtol=0, atol=TOLERANCES[dtype] * np.abs(truth).max())
    new = between(kernel, kernel.new_points(some), kernel.points(others))
    np.testing.assert_array_equal(new, values)


@every_kernel
def test_single_precision_of_double_rows(name, degree):
    kernel = KERNELS[name](GAMMA, degree, COEF0, np.float32)
    values = between(kernel, kernel.points(SOME), kernel.points(OTHERS))
    truth = expected(name, degree, SOME, OTHERS)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, truth, rtol=0, atol=1e-5 * np.abs(truth).max())


@every_kernel
@every_dtype
@pytest.mark.parametrize("layout", LAYOUTS)
def test_diagonal(name, degree, dtype, layout):
    kernel = KERNELS[name](GAMMA, degree, COEF0, dtype)
    points = kernel.points(LAYOUTS[layout](SOME.astype(dtype)))
    diagonal = kernel.diagonal(points)
    assert diagonal.dtype == np.float64
    truth = np.diagonal(expected(name, degree, SOME.astype(dtype).astype(float), None))
    tolerance = 1e-12 if name == "rbf" or dtype == np.float64 else 1e-6
    np.testing.assert_allclose(diagonal, truth, rtol=tolerance)
    values = np.diagonal(between(kernel, points, points))
    np.testing.assert_allclose(diagonal, values, rtol=0, atol=TOLERANCES[dtype] * truth.max())


@every_kernel
def test_work_is_cut_into_pieces(monkeypatch, name, degree):
    kernel = KERNELS[name](GAMMA, degree, COEF0, np.float64)
    some, others = kernel.points(sparse.csr_matrix(SOME)), kernel.points(OTHERS)
    at_once = between(kernel, some, others)
    for module in (functions, products):
        monkeypatch.setattr(module, "MOST_DENSE_VALUES", 4 * SOME.shape[1])
    monkeypatch.setattr(functions, "VALUES_PER_PIECE", 5 * OTHERS.shape[0])
    np.testing.assert_allclose(between(kernel, some, others), at_once, rtol=1e-14, atol=1e-14)


@every_dtype
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_laplacian_with_scales_of_columns_and_a_center(dtype, left, right):
    random = np.random.default_rng(1)
    scales, center = random.uniform(size=6), random.normal(size=6) + 100.0
    scales[2] = 0.0
    if (left, right) == ("CSR", "CSR"):  # sparse rows of a fit have no center
        center = np.zeros(6)
    kernel = LaplacianKernel(
        GAMMA, 1.0, 0.0, dtype, center if center.any() else None, scales=scales
    )
    some, others = (SOME + center).astype(dtype), (OTHERS + center).astype(dtype)
    rows = LAYOUTS[left](some), LAYOUTS[right](others)
    values = between(kernel, *(kernel.points(each) for each in rows))
    truth = laplacian_kernel(some * scales, others * scales, gamma=GAMMA)
    assert abs(values - truth).max() <= kernel.rounding(kernel.points(rows[1])) + 1e-15


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_rounding_of_laplacian_values_is_within_its_bound(seed):
    random = np.random.default_rng(seed)
    count, width = int(random.integers(1, 8)), int(random.integers(1, 12))
    X = random.normal(size=(count, width)) * 10.0 ** random.uniform(-3, 4, size=width)
    X *= random.uniform(size=X.shape) < random.uniform(0.2, 1.0)
    gamma, scales = 10.0 ** random.uniform(-4, 1), random.uniform(size=width)
    rows = sparse.csr_matrix(X) if random.integers(2) else X
    for dtype in (np.float64, np.float32):
        kernel = LaplacianKernel(gamma, 1.0, 0.0, dtype, scales=scales)
        points = kernel.points(rows)
        distances = [[exact_distance(x, z, scales) for z in X] for x in X]
        truth = np.exp(-gamma * np.array(distances))
        assert abs(between(kernel, points, points) - truth).max() <= kernel.rounding(points)


def exact_distance(x, z, scales):
    pairs = zip(x.tolist(), z.tolist(), scales.tolist(), strict=True)
    return float(sum(abs(Fraction(a) - Fraction(b)) * Fraction(s) for a, b, s in pairs))


def test_rbf_never_exceeds_one():
    """Also for equal rows far from the origin, where the distance is a difference of large sums."""
    rows = (1e3 + random.normal(size=(40, 9))).astype(np.float32)
    kernel = KERNELS["rbf"](1.0, 3, 0.0, np.float32)
    values = between(kernel, kernel.points(rows), kernel.points(rows))
    assert values.max() <= 1.0
    assert values.min() >= 0.0


@every_kernel
@pytest.mark.parametrize("left", ["dense", "CSR"])
@pytest.mark.parametrize("right", ["dense", "CSR"])
def test_points_joined_and_taken(name, degree, left, right):
    kernel = KERNELS[name](GAMMA, degree, COEF0, np.float64)
    first, second = LAYOUTS[left](SOME), LAYOUTS[right](OTHERS)
    joined = kernel.points(first).followed_by(kernel.points(second))
    both = np.concatenate([SOME, OTHERS])
    assert joined.size() == both.shape[0]
    truth = expected(name, degree, both, SOME)
    values = between(kernel, joined, kernel.points(SOME))
    np.testing.assert_allclose(values, truth, rtol=1e-12, atol=1e-12)
    few = joined.take(np.array([1, 30, 2]))
    np.testing.assert_allclose(
        between(kernel, few, kernel.points(SOME)), truth[[1, 30, 2]], rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("left", ["dense", "CSR"])
@pytest.mark.parametrize("right", ["dense", "CSR"])
def test_points_compared(left, right):
    kernel = LinearKernel(GAMMA, 3, COEF0, np.float64)
    mine, changed = kernel.points(LAYOUTS[left](SOME)), SOME.copy()
    changed[2, 3] += 1.0
    assert mine.same_as(kernel.points(LAYOUTS[right](SOME)))
    assert not mine.same_as(kernel.points(LAYOUTS[right](changed)))
    assert not mine.same_as(kernel.points(LAYOUTS[right](SOME[:-1])))


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("gamma", ["scale", "auto", 0.2])
@pytest.mark.parametrize("layout", ["dense", "CSR"])
def test_gamma_is_that_of_svc(kernel, gamma, layout):
    X, y = overlapping(n=30, d=4)
    X = LAYOUTS[layout](X)
    ours, _ = kernel_for(KernelSpec(kernel=kernel, gamma=gamma), X, Products(), whole=True)
    svc = SVC(kernel=kernel, gamma=gamma).fit(X, y)
    np.testing.assert_allclose(ours.gamma, svc._gamma, rtol=1e-12)


def test_gamma_of_rows_that_do_not_vary():
    kernel, _ = kernel_for(KernelSpec(kernel="rbf"), np.ones((5, 2)), Products(), whole=True)
    assert kernel.gamma == 1.0


@pytest.mark.parametrize("layout", ["dense", "CSR"])
def test_callable(layout):
    kernel = UserKernel(GAMMA, 3, COEF0, np.float32)
    kernel = kernel.with_function(lambda some, others: some @ others.T)
    some, others = kernel.points(LAYOUTS[layout](SOME)), kernel.points(LAYOUTS[layout](OTHERS))
    values = between(kernel, some, others)
    assert values.dtype == np.float64  # whatever precision others have: it is the user's
    np.testing.assert_allclose(values, SOME @ OTHERS.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(some), (SOME**2).sum(axis=1), rtol=1e-12)


BAD_RETURNS = {
    "too few columns": (lambda a, b: (a @ b.T)[:, :1], r"shape \(23, 1\) .* must be \(23, 31\)"),
    "transposed": (lambda a, b: b @ a.T, r"shape \(31, 23\) .* must be \(23, 31\)"),
    "one-dimensional": (lambda a, b: (a @ b.T)[0], r"shape \(31,\) .* must be \(23, 31\)"),
    "a number": (lambda a, b: 1.0, r"shape \(\) .* must be \(23, 31\)"),
    "nothing": (lambda a, b: None, r"shape \(\) .* must be \(23, 31\)"),
    "NaN": (lambda a, b: np.where(a @ b.T > 1.0, np.nan, 1.0), "returned NaN or infinity"),
    "infinity": (lambda a, b: np.where(a @ b.T > 1.0, -np.inf, 1.0), "returned NaN or infinity"),
}


@pytest.mark.parametrize(("function", "message"), BAD_RETURNS.values(), ids=BAD_RETURNS)
def test_callable_that_returns_something_else(function, message):
    kernel = UserKernel(GAMMA, 3, COEF0, np.float64).with_function(function)
    with pytest.raises(ValueError, match=message):
        between(kernel, kernel.points(SOME), kernel.points(OTHERS))


PRECOMPUTED = PrecomputedKernel(0.0, 0.0, 0.0, np.float64)


def test_precomputed():
    matrix = SOME @ SOME.T
    kernel = PRECOMPUTED.for_fit(matrix)
    points = kernel.points(matrix)
    some, others = points.take(np.array([3, 1])), points.take(slice(5, 9))
    np.testing.assert_array_equal(between(kernel, some, others), matrix[[3, 1], 5:9])
    np.testing.assert_array_equal(between(kernel, points, points), matrix)
    np.testing.assert_array_equal(kernel.diagonal(others), np.diagonal(matrix)[5:9])
    new = OTHERS @ SOME.T
    np.testing.assert_array_equal(between(kernel, some, kernel.new_points(new)), new[:, [3, 1]].T)


def test_precomputed_matrices_that_are_none():
    with pytest.raises(ValueError, match=r"'precomputed' needs a square matrix .* \(23, 31\)"):
        PRECOMPUTED.for_fit(SOME @ OTHERS.T)
    with pytest.raises(ValueError, match="'precomputed' needs a dense matrix"):
        PRECOMPUTED.for_fit(sparse.csr_matrix(SOME @ SOME.T))
    with pytest.raises(ValueError, match="'precomputed' needs a dense matrix"):
        PRECOMPUTED.new_points(sparse.csr_matrix(OTHERS @ SOME.T))
