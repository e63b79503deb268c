"""Sums in lanes: compiled code gives the bits of the plain meaning, and the right sum."""

import itertools
import math

import numpy as np
import pytest

from maxmargin.core import fixed_order_sums
from maxmargin.core.numba_backend import Compiled

WIDTHS = range(41)
ROWS, PROBLEMS = 3, 2


@Compiled
def compiled_dense_dot(values, i, weights, c):
    return fixed_order_sums.dense_dot(values, i, weights, c)


@Compiled
def compiled_dense_square(values, i):
    return fixed_order_sums.dense_square(values, i)


@Compiled
def compiled_sparse_dot(values, columns, start, stop, weights, c):
    return fixed_order_sums.sparse_dot(values, columns, start, stop, weights, c)


@Compiled
def compiled_sparse_square(values, start, stop):
    return fixed_order_sums.sparse_square(values, start, stop)


@Compiled
def compiled_dense_weighted_square(values, i, weights, c):
    return fixed_order_sums.dense_weighted_square(values, i, weights, c)


@Compiled
def compiled_sparse_weighted_square(values, columns, start, stop, weights, c):
    return fixed_order_sums.sparse_weighted_square(values, columns, start, stop, weights, c)


def rough(size, seed=0):
    """Numbers of very different sizes, so that each order of summation rounds in its own way."""
    random = np.random.default_rng(seed)
    return random.normal(size=size) * 10.0 ** random.integers(-6, 7, size=size)


def c_order(X):
    return np.ascontiguousarray(X)


def fortran_order(X):
    return np.asfortranarray(X)


def every_other_column(X):
    wide = np.zeros((X.shape[0], 2 * X.shape[1]), X.dtype)
    wide[:, ::2] = X
    return wide[:, ::2]


def backwards(X):
    return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]


def same_row_again(X):
    return np.broadcast_to(X[0], X.shape)


LAYOUTS = [c_order, fortran_order, every_other_column, backwards, same_row_again]


def same_bits(a, b):
    return np.float64(a).tobytes() == np.float64(b).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_dense_sums_have_the_bits_of_their_meaning(layout, dtype):
    for width in WIDTHS:
        X = layout(rough((ROWS, width), seed=width).astype(dtype))
        weights = rough((PROBLEMS, width + 1), seed=100 + width)
        for i in range(ROWS):
            assert same_bits(compiled_dense_square(X, i), fixed_order_sums.dense_square(X, i))
            for c in range(PROBLEMS):
                compiled = compiled_dense_dot(X, i, weights, c)
                assert same_bits(compiled, fixed_order_sums.dense_dot(X, i, weights, c)), (
                    width,
                    i,
                    c,
                )
                compiled = compiled_dense_weighted_square(X, i, weights, c)
                plain = fixed_order_sums.dense_weighted_square(X, i, weights, c)
                assert same_bits(compiled, plain), (width, i, c)
                terms = weights[c, :width] * X[i].astype(np.float64) ** 2
                assert plain == pytest.approx(
                    math.fsum(terms), abs=1e-14 * math.fsum(np.abs(terms))
                )


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_sums_have_the_bits_of_their_meaning(dtype, index):
    random = np.random.default_rng(0)
    values = rough(sum(WIDTHS)).astype(dtype)
    columns = random.integers(50, size=values.size).astype(index)
    weights = rough((PROBLEMS, 50), seed=1)
    starts = np.cumsum([0, *WIDTHS]).astype(index)
    for start, stop in itertools.pairwise(starts):
        square = compiled_sparse_square(values, start, stop)
        assert same_bits(square, fixed_order_sums.sparse_square(values, start, stop))
        for c in range(PROBLEMS):
            compiled = compiled_sparse_dot(values, columns, start, stop, weights, c)
            plain = fixed_order_sums.sparse_dot(values, columns, start, stop, weights, c)
            assert same_bits(compiled, plain), (start, stop, c)
            given = values, columns, start, stop, weights, c
            plain = fixed_order_sums.sparse_weighted_square(*given)
            assert same_bits(compiled_sparse_weighted_square(*given), plain), (start, stop, c)
            terms = weights[c, columns[start:stop]] * values[start:stop].astype(np.float64) ** 2
            assert plain == pytest.approx(math.fsum(terms), abs=1e-14 * math.fsum(np.abs(terms)))


def test_read_only_rows_and_narrow_indices():
    X, weights = rough((ROWS, 13)), rough((PROBLEMS, 14))
    X.flags.writeable = False
    i, c = np.int32(2), np.int32(1)
    assert same_bits(
        compiled_dense_dot(X, i, weights, c), fixed_order_sums.dense_dot(X, 2, weights, 1)
    )


def test_a_row_is_never_read_beyond_its_end():
    for width in WIDTHS:
        X = np.full((ROWS, width + 8), np.nan)
        weights = np.full((PROBLEMS, width + 8), np.nan)
        X[:, :width], weights[:, :width] = 1.0, 2.0
        flat, columns = X[0], np.arange(width + 8, dtype=np.int32)
        assert compiled_dense_dot(X[:, :width], 1, weights, 1) == 2 * width
        assert compiled_sparse_dot(flat, columns, 0, width, weights, 1) == 2 * width
        assert compiled_sparse_square(flat, 0, width) == width
        assert compiled_dense_weighted_square(X[:, :width], 1, weights, 1) == 2 * width
        assert compiled_sparse_weighted_square(flat, columns, 0, width, weights, 1) == 2 * width


@pytest.mark.parametrize("width", [1, 7, 8, 9, 40, 1000])
def test_sums_are_accurate(width):
    """Each product is rounded once, and each lane and fold adds at most one rounding a term."""
    X, weights = rough((1, width), seed=width), rough((1, width + 1), seed=width + 1)
    terms = [x * w for x, w in zip(X[0], weights[0], strict=False)]
    roundings = math.ceil(width / fixed_order_sums.LANES) + 4
    allowed = roundings * 2.0**-53 * math.fsum(map(abs, terms))
    assert abs(fixed_order_sums.dense_dot(X, 0, weights, 0) - math.fsum(terms)) <= allowed
    squares = [x * x for x in X[0]]
    assert fixed_order_sums.dense_square(X, 0) == pytest.approx(
        math.fsum(squares), rel=roundings * 2.0**-53
    )


def test_element_j_goes_into_lane_j_mod_eight():
    """A lane in which a huge number comes and goes loses its small ones, and only it does."""
    terms = np.ones(24)
    terms[3], terms[19] = 1e30, -1e30
    # Lane 3 holds 1e30, then swallows the 1 at place 11, then returns to 0.
    for dot in (fixed_order_sums.dense_dot, compiled_dense_dot):
        assert dot(terms[None], 0, np.ones((1, 24)), 0) == 21.0


def test_float32_values_are_summed_in_float64():
    X = np.full((1, 9), 1 + 2.0**-20, dtype=np.float32)
    assert compiled_dense_square(X, 0) == 9 * (1 + 2.0**-20) ** 2
