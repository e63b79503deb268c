"""All products and distances of kernel learning: the seam at which another device can enter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dpotrf, dpotrs, spotrf, spotrs

from maxmargin.core.numba_backend import Compiled
from maxmargin.kernels.functions import MOST_DENSE_VALUES, Kernel
from maxmargin.kernels.points import Points, as_type, sparse_products

# Rows that are multiplied in one go.
CHUNK = 4096
# A product of at most so many multiplications, of rows with at most so many features, is made by
# one thread. Threads that wait for each other on a busy machine lose more than they gain there: a
# product that takes 0.1 ms alone took 20 ms on two cores that others used as well.
MOST_ALONE, WIDEST_ALONE = 2**26, 64
# A piece of it: BLAS libraries start no threads for so few multiplications.
PIECE_ROWS, PIECE_MULTIPLICATIONS = 128, 2**18
# Rows whose distances from another one are computed together, column by column.
COLUMNS_IN_CACHE = 512
# Lines of kernel values of which a few thousand each stay in the cache while they are multiplied.
ROWS_IN_CACHE = 64


class Products:
    """Kernel values between rows, and sums of them, ``w = sum_k a_k phi(x_k)``.

    Here they are made by this machine; `kernels.cuda` makes them on a device. What it gives is on
    the host, but for the sums of `effects`, which add up over a fit: these are wherever products
    are made, and `host` and `here` carry them over.

    Attributes
    ----------
    block : rows that are learned from in one go where the Gram matrix of all is too large
    chunk : rows to which the changes of others are applied in one go
    most_waiting : rows with other coefficients wait until there are so many
    works_aside : are sums made while this machine does something else?
    keeps_lines : are lines of the kernel matrix kept? (see `solvers.newton_lines`)
    most_factorised : rows of a system that is factorised
    """

    block = 256
    chunk = CHUNK
    most_waiting = 512
    works_aside = False
    keeps_lines = True
    most_factorised = 2**14

    def points(self, kernel: Kernel, X: Any) -> Points:
        """Rows with what the kernel needs to know of each, ready for products."""
        return kernel.points(X)

    def new_points(self, kernel: Kernel, X: Any) -> Points:
        """The same for rows that are not learned from."""
        return kernel.new_points(X)

    def kept(self, kernel: Kernel, points: Points, most_bytes: float) -> Points:
        """The same rows with what products are made of, if that is small enough to be kept."""
        return kernel.kept(points, most_bytes)

    @property
    def xp(self) -> Any:
        """The functions of arrays that are where products are made."""
        return np

    def values_in(self, kernel: Kernel, some: Points, others: Points, out: Any) -> None:
        """Put the matrix of kernel values into ``out``, an array where products are made."""
        values = self.gram(kernel, some, others, out if out.dtype == kernel.value_type() else None)
        if values is not out:
            out[...] = values

    def picked(self, lines: Any, numbers: np.ndarray, columns: np.ndarray) -> Any:
        """``lines[numbers][:, columns]``, where products are made."""
        out = np.empty((numbers.size, columns.size), lines.dtype)
        copy_values(lines, numbers, columns, out)
        return out

    def multiplied(self, lines: Any, numbers: np.ndarray, weights: Any) -> Any:
        """``lines[numbers].T @ weights`` in float64, where products are made."""
        sums = np.zeros((weights.shape[1], lines.shape[1]))
        add_products(lines, numbers, weights, np.empty(ROWS_IN_CACHE, np.int64), sums)
        return np.ascontiguousarray(sums.T)

    def solved(self, system: Any, sides: Any) -> Any:
        """The solution of a positive definite system, which is overwritten; None if it is not.

        Its upper triangle is used.
        """
        factorise, solve = (spotrf, spotrs) if system.dtype == np.float32 else (dpotrf, dpotrs)
        factor, failed = factorise(system.T, lower=1, overwrite_a=1, clean=0)
        return None if failed else solve(factor, sides, lower=1)[0].astype(float, copy=False)

    def each_solved(
        self, sizes: list[int], make: Callable[[int], tuple[Any, Any, Any]]
    ) -> Iterator[tuple[Any, Any]]:
        """`solved` for systems of these sizes; devices solve several at a time.

        ``make(n)`` gives what is to be returned with the solution, and what `solved` takes.
        """
        for n in range(len(sizes)):
            name, system, sides = make(n)
            yield name, self.solved(system, sides)

    def here(self, array: np.ndarray) -> Any:
        """An array of the host, where products are made."""
        return array

    def index(self, which: np.ndarray) -> Any:
        """Numbers of rows, for arrays that are where products are made."""
        return which

    def host(self, array: Any) -> np.ndarray:
        return array

    def rows_here(self, X: Any, numbers: Any) -> Any:
        """Some of the rows that a user gave, on this machine."""
        is_here = isinstance(X, np.ndarray) or sparse.issparse(X)
        return X[numbers] if is_here else self.host(X[self.index(numbers)])

    def gram(
        self, kernel: Kernel, some: Points, others: Points, out: np.ndarray | None = None
    ) -> np.ndarray:
        """The matrix of kernel values, one line for each of ``some``; in ``out`` if possible."""
        return kernel.values(some, others, PAIRWISE[kernel.pairwise], out)

    def effects(
        self,
        kernel: Kernel,
        weights: np.ndarray,
        changed: Points,
        points: Points,
        shift: float,
        same: tuple[np.ndarray, np.ndarray],
    ) -> tuple[Any, np.ndarray]:
        """`weighted_sums`, where products are made; and the values of rows with themselves in them.

        ``same`` are pairs of the numbers of a changed row and of the point that it is.
        """
        values = self.gram(kernel, changed, points)
        sums = np.zeros((weights.shape[0], points.size()))
        add_weighted(weights, values, shift, sums)
        return sums, values[same]

    def add_at(self, sums: Any, places: np.ndarray, amounts: np.ndarray) -> None:
        """Add ``amounts``, a column for each place, to what `effects` gave."""
        np.add.at(sums.T, places, amounts.T)

    def weighted_sums(
        self, kernel: Kernel, weights: np.ndarray, supports: Points, points: Points, shift: float
    ) -> np.ndarray:
        """``sum_k weights_k (K(x_k, x) + shift)`` for each problem and each point."""
        sums = np.zeros((weights.shape[0], points.size()))
        for start in range(0, supports.size(), CHUNK):
            part = slice(start, start + CHUNK)
            values = self.gram(kernel, supports.take(part), points)
            add_weighted(np.ascontiguousarray(weights[:, part]), values, shift, sums)
        return sums

    def begin_sums(
        self, kernel: Kernel, weights: np.ndarray, supports: Points, points: Points, shift: float
    ) -> Any:
        """`weighted_sums`, which may be still under way: `host` waits for them."""
        return self.weighted_sums(kernel, weights, supports, points, shift)

    def quadratic(
        self,
        kernel: Kernel,
        weights: np.ndarray,
        points: Points,
        diagonal: np.ndarray,
        ridges: Any,
    ) -> np.ndarray:
        """At least ``|w|**2 + |sqrt(ridges) weights|**2`` for each problem, given all ``K(x, x)``.

        ``ridges`` is a number, or one for each point. NaN where the form is negative beyond
        rounding: then the kernel does not satisfy Mercer's condition.
        """
        if np.ndim(ridges):
            squares = (ridges * weights**2).sum(axis=1)
        else:  # one factor of the sum, which has been rounded so all along
            squares = ridges * (weights**2).sum(axis=1)
        for start in range(0, points.size(), CHUNK):
            part = slice(start, start + CHUNK)
            products = self._outputs(kernel, weights, points, points.take(part))
            squares += (products * weights[:, part]).sum(axis=1)
        lost = kernel.rounding(points) * diagonal.max(initial=0.0)
        lost = lost * np.abs(weights).sum(axis=1) ** 2
        return np.where(squares >= -lost, np.maximum(squares, 0.0) + lost, np.nan)

    def _outputs(
        self, kernel: Kernel, weights: np.ndarray, points: Points, some: Points
    ) -> np.ndarray:
        """``w.phi(x)`` of some of the points."""
        outputs = np.zeros((weights.shape[0], some.size()))
        add_weighted(weights, self.gram(kernel, points, some), 0.0, outputs)
        return outputs


def inner_products(some: Any, others: Any, dtype: Any, out: np.ndarray | None = None) -> np.ndarray:
    """``some @ others.T`` as a dense array of ``dtype``; of two dense arrays, in ``out``."""
    if not sparse.issparse(some):
        if sparse.issparse(others):
            return np.ascontiguousarray(inner_products(others, some, dtype).T)
        return _multiplied(as_type(some, dtype), as_type(others, dtype), out)
    result = np.empty((some.shape[0], others.shape[0]), dtype)
    if some.shape[0] == 1 and sparse.issparse(others) and others.dtype == np.float64:
        parts = others.data, others.indices, others.indptr
        row = np.zeros(some.shape[1], dtype)
        sparse_products(*parts, some.data, some.indices, row, result[0])
        return result
    step = max(1, MOST_DENSE_VALUES // max(1, some.shape[1]))
    for start in range(0, some.shape[0], step):
        few = some[start : start + step].toarray().astype(dtype, copy=False)
        result[start : start + step] = (others @ few.T).T
    return result


def l1_distances(some: Any, others: Any, dtype: Any, out: np.ndarray | None = None) -> np.ndarray:
    """``sum_j |x_j - z_j|`` for rows x of ``some`` and z of ``others``; if possible, in ``out``."""
    if sparse.issparse(some) and not sparse.issparse(others):
        return np.ascontiguousarray(l1_distances(others, some, dtype).T)
    result = np.empty((some.shape[0], others.shape[0]), dtype) if out is None else out
    if not sparse.issparse(others):
        left, right = as_type(some, dtype), as_type(others, dtype)
        for start in range(0, right.shape[0], COLUMNS_IN_CACHE):
            columns = np.ascontiguousarray(right[start : start + COLUMNS_IN_CACHE].T)
            dense_distances(left, columns, np.empty(columns.shape[1], dtype), start, result)
        return result
    parts = others.data, others.indices, others.indptr
    step = max(1, MOST_DENSE_VALUES // max(1, some.shape[1]))
    for start in range(0, some.shape[0], step):
        few = some[start : start + step]
        few = as_type(few.toarray() if sparse.issparse(few) else few, dtype)
        sparse_distances(*parts, few, result[start : start + step])
    return result


# By `Kernel.pairwise`.
PAIRWISE = {"products": inner_products, "distances": l1_distances}


def _multiplied(left: np.ndarray, right: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """``left @ right.T``."""
    (rows, width), columns = left.shape, right.shape[0]
    work = rows * columns * width
    if width > WIDEST_ALONE or not PIECE_MULTIPLICATIONS < work <= MOST_ALONE:
        return np.matmul(left, right.T, out=out)
    if out is None:
        out = np.empty((rows, columns), left.dtype)
    step = PIECE_MULTIPLICATIONS // (PIECE_ROWS * width)
    for i in range(0, rows, PIECE_ROWS):
        for k in range(0, columns, step):
            some, others = slice(i, i + PIECE_ROWS), slice(k, k + step)
            np.matmul(left[some], right[others].T, out=out[some, others])
    return out


@Compiled
def dense_distances(rows, columns, line, start, out):  # type: ignore[no-untyped-def]
    """``out[i, start + k] = sum_j |rows[i, j] - columns[j, k]|``, in the order of j.

    ``out`` may have gaps; ``line``, a buffer, has none, so that loops over it use vectors.
    """
    width, size = columns.shape
    for i in range(rows.shape[0]):
        for k in range(size):
            line[k] = 0.0
        j = 0
        while j + 4 <= width:
            a, b, c, d = rows[i, j], rows[i, j + 1], rows[i, j + 2], rows[i, j + 3]
            for k in range(size):
                pair = abs(a - columns[j, k]) + abs(b - columns[j + 1, k])
                other = abs(c - columns[j + 2, k]) + abs(d - columns[j + 3, k])
                line[k] += pair + other
            j += 4
        while j < width:
            a = rows[i, j]
            for k in range(size):
                line[k] += abs(a - columns[j, k])
            j += 1
        for k in range(size):
            out[i, start + k] = line[k]


@Compiled
def sparse_distances(data, indices, starts, rows, out):  # type: ignore[no-untyped-def]
    """The distances of dense rows from those of a CSR matrix, which may differ in few columns."""
    for i in range(rows.shape[0]):
        norm = 0.0
        for j in range(rows.shape[1]):
            norm += abs(rows[i, j])
        for k in range(starts.size - 1):
            total = norm
            for n in range(starts[k], starts[k + 1]):
                value = rows[i, indices[n]]
                total += abs(data[n] - value) - abs(value)
            out[i, k] = max(total, 0.0)


@Compiled
def add_weighted(weights, values, shift, sums):  # type: ignore[no-untyped-def]
    """``sums += weights @ (values + shift)`` in float64, skipping weights that are 0."""
    for c in range(weights.shape[0]):
        for r in range(weights.shape[1]):
            weight = weights[c, r]
            if weight != 0.0:
                for k in range(values.shape[1]):
                    sums[c, k] += weight * (float(values[r, k]) + shift)


@Compiled
def copy_values(lines, places, columns, out):  # type: ignore[no-untyped-def]
    """``out = lines[places][:, columns]``."""
    for r in range(places.size):
        for k in range(columns.size):
            out[r, k] = lines[places[r], columns[k]]


@Compiled
def add_products(lines, places, weights, buffer, sums):  # type: ignore[no-untyped-def]
    """``sums += weights.T @ lines[places]`` in float64, skipping weights that are 0.

    The size of ``buffer`` is the number of rows that are multiplied while they are in the cache.
    """
    for start in range(0, places.size, buffer.size):
        end = min(start + buffer.size, places.size)
        for first in range(0, sums.shape[1], 2048):
            last = min(first + 2048, sums.shape[1])
            for c in range(sums.shape[0]):
                count = 0
                for r in range(start, end):
                    if weights[r, c] != 0.0:
                        buffer[count] = r
                        count += 1
                n = 0
                while n + 4 <= count:
                    i, j, k, m = buffer[n], buffer[n + 1], buffer[n + 2], buffer[n + 3]
                    u, v, w, z = weights[i, c], weights[j, c], weights[k, c], weights[m, c]
                    i, j, k, m = places[i], places[j], places[k], places[m]
                    for t in range(first, last):
                        pair = u * float(lines[i, t]) + v * float(lines[j, t])
                        other = w * float(lines[k, t]) + z * float(lines[m, t])
                        sums[c, t] += pair + other
                    n += 4
                while n < count:
                    u, i = weights[buffer[n], c], places[buffer[n]]
                    for t in range(first, last):
                        sums[c, t] += u * float(lines[i, t])
                    n += 1
