"""Rows as kernels see them."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import numpy as np
from scipy import sparse

from maxmargin.core.array_fields import Array, Saved
from maxmargin.core.numba_backend import Compiled
from maxmargin.kernels.growable_array import appended

# All weights are above 0.
SMALLEST_WEIGHT = float(np.nextafter(0.0, 1.0))


class Points:
    """Rows, their squared norms where the kernel needs them, and perhaps factors of products.

    Where weights act by a soft margin, ``sample_weight`` says how often each row counts.

    With a precomputed kernel, rows are the numbers of training rows, or lines of kernel values.
    """

    X: Annotated[Any, Saved()]
    squares: Annotated[np.ndarray | None, Array("points", optional=True)]
    factors: Annotated[np.ndarray | None, Array("points", "features", dtype=None, optional=True)]
    sample_weight: Annotated[
        np.ndarray | None,
        Array("points", optional=True, finite=True, at_least=SMALLEST_WEIGHT),
    ]

    def __init__(
        self,
        X: Any,
        squares: np.ndarray | None = None,
        factors: np.ndarray | None = None,
        sample_weight: np.ndarray | None = None,
    ) -> None:
        self.X = X
        self.squares = squares
        self.factors = factors
        self.sample_weight = sample_weight
        # Places of rows that were replaced, once a device keeps a copy of the rows; else None.
        self.changes: list[np.ndarray] | None = None

    def size(self) -> int:
        return self.X.shape[0]

    def nbytes(self) -> int:
        """The memory of the rows."""
        X = self.X
        parts = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
        return sum(part.nbytes for part in parts)

    def take(self, which: Any) -> Points:
        """Some of the rows, by numbers or a slice."""
        others = (self.squares, self.factors, self.sample_weight)
        parts = (None if part is None else part[which] for part in others)
        if sparse.issparse(self.X):
            if isinstance(which, slice) and which.start == 0:
                return Points(first_rows(self.X, which.stop), *parts)
            if self.size() == 1 and np.array_equal(which, [0]):
                return Points(copied(self.X), *parts)
        return Points(self.X[which], *parts)

    def bare(self) -> Points:
        """The same without factors, on the host."""
        return Points(self.X, self.squares, sample_weight=self.sample_weight)

    def with_sample_weight(self, sample_weight: np.ndarray) -> Points:
        return Points(self.X, self.squares, self.factors, sample_weight)

    def on_host(self) -> Points:
        return self

    def small_groups(self) -> list[Any]:
        return [self.X[start : start + 32] for start in range(0, self.size(), 32)]

    def same_as(self, others: Points) -> bool:
        if sparse.issparse(self.X) or sparse.issparse(others.X):
            mine, their = sparse.csr_matrix(self.X), sparse.csr_matrix(others.X)
            return mine.shape == their.shape and (mine != their).nnz == 0
        return np.array_equal(self.X, others.X)

    def zeros(self, size: int) -> Points:
        """So many rows of zeros, stored as these are."""
        if sparse.issparse(self.X):
            X = sparse.csr_matrix((size, self.X.shape[1]), dtype=self.X.dtype)
        else:
            X = np.zeros((size, *self.X.shape[1:]), self.X.dtype)
        squares = None if self.squares is None else np.zeros(size)
        factors = self.factors
        if factors is not None:
            factors = np.zeros((size, factors.shape[1]), factors.dtype)
        return Points(X, squares, factors)

    def with_width(self, width: int) -> Points:
        """The same rows with more features, all 0."""
        if sparse.issparse(self.X):
            X = self.X.copy()
            X.resize(X.shape[0], width)
        else:
            X = np.pad(self.X, ((0, 0), (0, width - self.X.shape[1])))
        factors = self.factors
        if factors is not None:
            factors = np.pad(factors, ((0, 0), (0, width - factors.shape[1])))
        return Points(X, self.squares, factors, self.sample_weight)

    def laid_out_like(self, others: Points) -> Points:
        """The same rows, sparse or dense as ``others`` are."""
        if sparse.issparse(self.X) == sparse.issparse(others.X):
            return self
        dense = sparse.issparse(self.X)
        return Points(self.X.toarray() if dense else sparse.csr_matrix(self.X), self.squares)

    def put(self, places: np.ndarray, others: Points, which: np.ndarray) -> None:
        """Replace the rows at ``places`` by rows of ``others``, which are laid out alike."""
        if sparse.issparse(self.X):
            self._put_sparse(places, others.X, which)
        else:
            self.X = self.X.astype(np.promote_types(self.X.dtype, others.X.dtype), copy=False)
            self.X[places] = others.X[which]
        if self.squares is not None and others.squares is not None:
            self.squares[places] = others.squares[which]
        if self.factors is not None:
            factors = others.X if others.factors is None else others.factors
            self.factors[places] = factors[which]
        if self.changes is not None:
            self.changes.append(places)

    def _put_sparse(self, places: np.ndarray, others: Any, which: np.ndarray) -> None:
        """In place if rows take the place of rows with as many entries."""
        X = self.X
        parts = X.data, X.indices, X.indptr, others.data, others.indices, others.indptr
        fits = X.dtype == others.dtype and X.data.flags.writeable and X.indices.flags.writeable
        if not (fits and overwrite_rows(*parts, places, which)):
            self.X = with_rows(X, places, others, which)

    def followed_by(self, others: Points) -> Points:
        if self.size() == 0:
            return others
        if sparse.issparse(self.X) or sparse.issparse(others.X):
            X = sparse.vstack([sparse.csr_matrix(self.X), sparse.csr_matrix(others.X)], "csr")
        else:
            X = np.concatenate([self.X, others.X])
        squares = sample_weight = None
        if self.squares is not None and others.squares is not None:
            squares = np.concatenate([self.squares, others.squares])
        if self.sample_weight is not None or others.sample_weight is not None:
            sample_weight = np.concatenate([self.weights(), others.weights()])
        return Points(X, squares, sample_weight=sample_weight)

    def grown_by(self, others: Points) -> Points:
        """`followed_by`, again and again: what is there is not copied each time."""
        is_copied = any(sparse.issparse(each.X) for each in (self, others)) or self.X.ndim != 2
        if (
            is_copied
            or self.size() == 0
            or self.sample_weight is not None
            or others.sample_weight is not None
        ):
            return self.followed_by(others)
        squares = None
        if self.squares is not None and others.squares is not None:
            squares = appended(self.squares, others.squares)
        return Points(appended(self.X, others.X, axis=0), squares)

    def weights(self) -> np.ndarray:
        """How often each row counts."""
        return np.ones(self.size()) if self.sample_weight is None else self.sample_weight


def shallow_copy(original: Any) -> Any:
    """`copy.copy` of an object whose state is its dict, in a fifth of the time."""
    other = object.__new__(type(original))
    other.__dict__.update(original.__dict__)
    return other


# SciPy's own ways to do these with a few short rows take ten times as long.
def first_rows(X: Any, count: int) -> Any:
    """The first rows of a CSR matrix, over the same memory."""
    few = shallow_copy(X)
    few.resize(min(count, X.shape[0]), X.shape[1])
    return few


def copied(X: Any) -> Any:
    """The same CSR matrix in memory of its own."""
    other = shallow_copy(X)
    other.data, other.indices, other.indptr = X.data.copy(), X.indices.copy(), X.indptr.copy()
    return other


def with_rows(X: Any, places: np.ndarray, others: Any, which: np.ndarray) -> Any:
    """A CSR matrix in whose rows at ``places`` stand rows of another one."""
    source = np.arange(X.shape[0])
    source[places] = X.shape[0] + which
    sizes = np.concatenate([np.diff(X.indptr), np.diff(others.indptr)])[source]
    new = shallow_copy(X)
    new.indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(X.indptr.dtype)
    new.indices = np.empty(new.indptr[-1], X.indices.dtype)
    new.data = np.empty(new.indptr[-1], np.promote_types(X.dtype, others.dtype))
    gather_rows(
        *(X.data, X.indices, X.indptr),
        *(others.data, others.indices, others.indptr),
        *(source, new.data, new.indices, new.indptr),
    )
    return new


@Compiled
def gather_rows(  # type: ignore[no-untyped-def]
    data, indices, starts, more_data, more_indices, more_starts, source, out, columns, begins
):
    """Copy rows of two CSR matrices, by their numbers in both together."""
    size = starts.size - 1
    for r in range(source.size):
        k, at = source[r], begins[r]
        if k < size:
            for n in range(starts[k], starts[k + 1]):
                out[at], columns[at] = data[n], indices[n]
                at += 1
        else:
            for n in range(more_starts[k - size], more_starts[k - size + 1]):
                out[at], columns[at] = more_data[n], more_indices[n]
                at += 1


@Compiled
def overwrite_rows(  # type: ignore[no-untyped-def]
    data, indices, starts, more_data, more_indices, more_starts, places, which
):
    """Write rows of a CSR matrix over those of another, if all have as many entries; have they?"""
    for n in range(places.size):
        p, k = places[n], which[n]
        if starts[p + 1] - starts[p] != more_starts[k + 1] - more_starts[k]:
            return False
    for n in range(places.size):
        at, first = starts[places[n]], more_starts[which[n]]
        for m in range(more_starts[which[n] + 1] - first):
            data[at + m], indices[at + m] = more_data[first + m], more_indices[first + m]
    return True


@Compiled
def sparse_products(  # type: ignore[no-untyped-def]
    data, indices, starts, row_data, row_indices, row, out
):
    """The products of the rows of a CSR matrix with a sparse row, each summed in its order.

    ``row`` are zeros, in whose place the dense row is written.
    """
    for n in range(row_indices.size):
        row[row_indices[n]] = row_data[n]
    for r in range(starts.size - 1):
        total = 0.0
        for n in range(starts[r], starts[r + 1]):
            total += data[n] * row[indices[n]]
        out[r] = total


def squared_norms(X: Any) -> np.ndarray:
    """``x.x`` of each row, summed in float64."""
    if sparse.issparse(X):
        squares, starts = np.square(X.data, dtype=np.float64), X.indptr
        if np.count_nonzero(squares) < squares.size:  # zeros would change the order of the sum
            starts = np.concatenate([[0], np.cumsum(squares != 0.0)])[starts]
            squares = squares[squares != 0.0]
        sums, filled = np.zeros(X.shape[0]), (starts[1:] > starts[:-1]).nonzero()[0]
        if filled.size:
            sums[filled] = np.add.reduceat(squares, starts[filled])
        return sums
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def as_type(X: Any, dtype: Any) -> Any:
    return library_of(X).ascontiguousarray(X, dtype=dtype)


def library_of(X: Any) -> Any:
    """NumPy, or whatever library of the same functions an array belongs to."""
    return np if isinstance(X, np.ndarray) else sys.modules[type(X).__module__.partition(".")[0]]
