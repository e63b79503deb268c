"""Kernel functions, and kernel values between many rows at the speed of matrix products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.core.bridge import Compiled

KERNELS = ("linear", "poly", "rbf", "precomputed")

# Rows of a sparse matrix are made dense so many numbers at a time, never more.
MOST_DENSE_VALUES = 2**22
# Kernel values that are chosen to be float32 are at least so exact, relative to the largest.
LARGEST_ROUNDING = 1e-4
# Functions are applied to pieces of a matrix that stay in the cache.
VALUES_PER_PIECE = 2**17


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel function with its parameters, as in `sklearn.svm.SVC`.

    Parameters
    ----------
    name : {"linear", "poly", "rbf", "precomputed"} or callable
    gamma, degree, coef0 : float
    dtype : data type in which products are computed
    center : array or None
        A point that "rbf" measures dense rows from, so that what all rows have in common costs no
        digits.
    adapts : bool
        May the data type become a more exact one, if rows come that need it?
    """

    name: str | Callable[..., Any]
    gamma: float
    degree: float
    coef0: float
    dtype: Any
    center: np.ndarray | None = None
    adapts: bool = False

    def __deepcopy__(self, memo: Any) -> Kernel:
        return self  # nothing in it changes, and a callable is the user's own

    def with_width(self, width: int) -> Kernel:
        """The same kernel for rows with more features."""
        if self.center is None:
            return self
        return replace(self, center=np.pad(self.center, (0, width - self.center.size)))

    def exact_enough_for(self, points: Points) -> Kernel:
        """This kernel, or the one in float64 if it would lose too many digits on these rows."""
        if self.adapts and self.rounding(points) > LARGEST_ROUNDING:
            return replace(self, dtype=np.float64, adapts=False)
        return self

    def points(self, X: Any) -> Points:
        """``X`` with what the kernel needs to know of each row."""
        if self.name != "rbf":
            return Points(X)
        step = max(1, MOST_DENSE_VALUES // max(1, X.shape[1]))
        parts = [
            squared_norms(self._from_center(X[start : start + step]))
            for start in range(0, X.shape[0], step)
        ]
        return Points(X, np.concatenate([np.empty(0), *parts]))

    def kept(self, points: Points, most_bytes: float) -> Points:
        """The same rows with what products are made of, if that is small enough to be kept."""
        if callable(self.name) or sparse.issparse(points.X) or self._is_ready(points.X):
            return points
        if points.X.size * np.dtype(self.dtype).itemsize > most_bytes:
            return points
        return Points(points.X, points.squares, self._factors(points.X))

    def _is_ready(self, X: np.ndarray) -> bool:
        return self.name != "rbf" and X.dtype == self.dtype and X.flags.c_contiguous

    def _factors(self, X: Any) -> Any:
        """What products are made of."""
        X = self._from_center(X) if self.name == "rbf" else X
        return X if sparse.issparse(X) else as_type(X, self.dtype)

    def _from_center(self, X: Any) -> Any:
        if self.center is None:
            return X
        # Sparse rows after dense ones: a few at a time.
        X = X.toarray() if sparse.issparse(X) else X
        return np.subtract(X, self.center, dtype=np.promote_types(X.dtype, self.dtype))

    def most_rows(self, cache_bytes: float) -> int:
        """How many rows may have a Gram matrix of that size."""
        return int(np.sqrt(cache_bytes / np.dtype(self.value_type()).itemsize))

    def rounding(self, points: Points) -> float:
        """How exact kernel values between these rows are, relative to the largest."""
        eps = float(np.finfo(self.value_type()).eps)
        if self.name == "rbf":
            assert points.squares is not None
            return eps * (8.0 + 2.0 * self.gamma * points.squares.max(initial=0.0))
        return eps * (8.0 + self.degree)

    def may_fail(self) -> bool:
        """Is it somebody else's code?"""
        return callable(self.name)

    def value_type(self) -> Any:
        """The data type of kernel values."""
        return np.float64 if callable(self.name) else self.dtype

    def new_points(self, X: Any) -> Points:
        """The same for rows that are not learnt from."""
        return self.points(X)

    def forget(self) -> None:
        """Let go of the training rows."""

    def between(self, some: Points, others: Points, out: np.ndarray | None = None) -> np.ndarray:
        """The matrix of kernel values, one row for each of ``some``; in ``out`` if possible."""
        if callable(self.name):
            if some.size() == 0 or others.size() == 0:
                return np.zeros((some.size(), others.size()))  # nobody's code expects no rows
            return self._called(some.X, others.X)
        left = self._factors(some.X) if some.factors is None else some.factors
        right = self._factors(others.X) if others.factors is None else others.factors
        values = products(left, right, self.dtype, out)
        if self.name == "rbf":
            assert some.squares is not None
            assert others.squares is not None
            own = (self.gamma * some.squares).astype(self.dtype)
            other = (self.gamma * others.squares).astype(self.dtype)
            for piece, rows in _pieces(values):
                turn_into_exponents(
                    piece, np.dtype(self.dtype).type(2.0 * self.gamma), own[rows], other
                )
                np.exp(piece, out=piece)
        elif self.name == "poly":
            for piece, _ in _pieces(values):
                piece *= self.gamma
                piece += self.coef0
                _raise_in_place(piece, self.degree)
        return values

    def diagonal(self, points: Points) -> np.ndarray:
        """``K(x, x)`` for each row, in float64."""
        if self.name == "rbf":
            return np.ones(points.size())
        if callable(self.name):
            parts = [np.diagonal(self._called(few, few)) for few in points.small_groups()]
            return np.concatenate([np.empty(0), *parts])
        squares = squared_norms(points.X)
        if self.name == "poly":
            squares = squares * self.gamma + self.coef0
            _raise_in_place(squares, self.degree)
        return squares

    def _called(self, some: Any, others: Any) -> np.ndarray:
        values = self.name(some, others)  # type: ignore[operator]
        if sparse.issparse(values):
            values = values.toarray()
        values = np.asarray(values, dtype=np.float64)
        expected = some.shape[0], others.shape[0]
        if values.shape != expected:
            raise ValueError(
                f"The kernel returned an array of shape {values.shape} for {expected[0]} and "
                f"{expected[1]} rows; it must be {expected}."
            )
        if not np.isfinite(values).all():
            raise ValueError("The kernel returned NaN or infinity.")
        return values


class Precomputed:
    """Kernel values that the user has computed: points are numbers of training rows."""

    def __init__(self) -> None:
        self._matrix: Any = None

    def points(self, X: Any) -> Points:
        given = self.new_points(X).X
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs a square matrix of kernel values, got {X.shape}."
            )
        some = np.random.default_rng(0).integers(0, X.shape[0], (2, 1000))
        left, right = given[some[0], some[1]], given[some[1], some[0]]
        if not np.allclose(left, right, rtol=1e-4, atol=1e-6 * np.abs(left).max(initial=0.0)):
            raise ValueError("kernel='precomputed' needs a symmetric matrix of kernel values.")
        self._matrix = given
        return Points(np.arange(X.shape[0]))

    def forget(self) -> None:
        self._matrix = None

    def kept(self, points: Points, most_bytes: float) -> Points:
        return points

    def most_rows(self, cache_bytes: float) -> int:
        return self._matrix.shape[0]  # it is there already

    def exact_enough_for(self, points: Points) -> Precomputed:
        return self

    def may_fail(self) -> bool:
        return False

    def value_type(self) -> Any:
        return self._matrix.dtype

    def rounding(self, points: Points) -> float:
        return 8.0 * float(np.finfo(self._matrix.dtype).eps)

    def between(self, some: Points, others: Points, out: np.ndarray | None = None) -> np.ndarray:
        if others.X.ndim == 2:  # new rows: their kernel values with all training rows
            return np.ascontiguousarray(others.X[:, some.X].T)
        everyone = np.arange(self._matrix.shape[0])
        if np.array_equal(some.X, everyone) and np.array_equal(others.X, everyone):
            values = np.ascontiguousarray(self._matrix).view()
            values.flags.writeable = False  # it may be the user's own
            return values
        return self._matrix[np.ix_(some.X, others.X)]

    def new_points(self, X: Any) -> Points:
        if sparse.issparse(X):
            raise ValueError("kernel='precomputed' needs a dense matrix of kernel values.")
        return Points(X)

    def diagonal(self, points: Points) -> np.ndarray:
        return np.diagonal(self._matrix)[points.X].astype(np.float64)


class Points:
    """Rows, their squared norms where the kernel needs them, and perhaps factors of products."""

    def __init__(
        self, X: Any, squares: np.ndarray | None = None, factors: np.ndarray | None = None
    ) -> None:
        self.X = X
        self.squares = squares
        self.factors = factors

    def size(self) -> int:
        return self.X.shape[0]

    def take(self, which: Any) -> Points:
        """Some of the rows, by numbers or a slice."""
        parts = (None if part is None else part[which] for part in (self.squares, self.factors))
        return Points(self.X[which], *parts)

    def bare(self) -> Points:
        """The same without factors."""
        return Points(self.X, self.squares)

    def small_groups(self) -> list[Any]:
        return [self.X[start : start + 32] for start in range(0, self.size(), 32)]

    def same_as(self, others: Points) -> bool:
        if sparse.issparse(self.X) or sparse.issparse(others.X):
            mine, their = sparse.csr_matrix(self.X), sparse.csr_matrix(others.X)
            return mine.shape == their.shape and (mine != their).nnz == 0
        return np.array_equal(self.X, others.X)

    def room(self, size: int) -> Points:
        """Room for so many rows like these."""
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
        return Points(X, self.squares, factors)

    def laid_out_like(self, others: Points) -> Points:
        """The same rows, sparse or dense as ``others`` are."""
        if sparse.issparse(self.X) == sparse.issparse(others.X):
            return self
        dense = sparse.issparse(self.X)
        return Points(self.X.toarray() if dense else sparse.csr_matrix(self.X), self.squares)

    def put(self, places: np.ndarray, others: Points, which: np.ndarray) -> None:
        """Replace the rows at ``places`` by rows of ``others``, which are laid out alike."""
        if sparse.issparse(self.X):
            source = np.arange(self.size())
            source[places] = self.size() + which
            self.X = sparse.vstack([self.X, others.X], "csr")[source]
        else:
            self.X = self.X.astype(np.promote_types(self.X.dtype, others.X.dtype), copy=False)
            self.X[places] = others.X[which]
        if self.squares is not None and others.squares is not None:
            self.squares[places] = others.squares[which]
        if self.factors is not None:
            factors = others.X if others.factors is None else others.factors
            self.factors[places] = factors[which]

    def followed_by(self, others: Points) -> Points:
        if self.size() == 0:
            return others
        if sparse.issparse(self.X) or sparse.issparse(others.X):
            X = sparse.vstack([sparse.csr_matrix(self.X), sparse.csr_matrix(others.X)], "csr")
        else:
            X = np.concatenate([self.X, others.X])
        if self.squares is None or others.squares is None:
            return Points(X)
        return Points(X, np.concatenate([self.squares, others.squares]))


def finite_diagonal(kernel: Kernel | Precomputed, points: Points) -> np.ndarray:
    """``K(x, x)`` for each row; one that is infinite or negative raises."""
    with np.errstate(over="ignore"):
        diagonal = kernel.diagonal(points)
    if not np.isfinite(diagonal).all():
        i = int(np.flatnonzero(~np.isfinite(diagonal))[0])
        raise ValueError(f"The kernel of row {i} with itself is not finite.")
    if (diagonal < 0.0).any():
        i = int(diagonal.argmin())
        raise ValueError(
            f"The kernel of row {i} with itself is {diagonal[i]:.6g}: no kernel is negative there."
        )
    return diagonal


def products(some: Any, others: Any, dtype: Any, out: np.ndarray | None = None) -> np.ndarray:
    """``some @ others.T`` as a dense array of ``dtype``; of two dense arrays, in ``out``."""
    if not sparse.issparse(some):
        if sparse.issparse(others):
            return np.ascontiguousarray(products(others, some, dtype).T)
        return np.matmul(as_type(some, dtype), as_type(others, dtype).T, out=out)
    result = np.empty((some.shape[0], others.shape[0]), dtype)
    step = max(1, MOST_DENSE_VALUES // max(1, some.shape[1]))
    for start in range(0, some.shape[0], step):
        few = some[start : start + step].toarray().astype(dtype, copy=False)
        result[start : start + step] = (others @ few.T).T
    return result


@Compiled
def turn_into_exponents(products, factor, own, other):  # type: ignore[no-untyped-def]
    """``factor * products - own - other``; above 0 is only rounding, of equal rows."""
    for r in range(products.shape[0]):
        for k in range(products.shape[1]):
            exponent = factor * products[r, k] - own[r] - other[k]
            products[r, k] = min(exponent, products.dtype.type(0.0))


def as_type(X: np.ndarray, dtype: Any) -> np.ndarray:
    return np.ascontiguousarray(X, dtype=dtype)


def squared_norms(X: Any) -> np.ndarray:
    """``x.x`` of each row, summed in float64."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def _pieces(values: np.ndarray) -> Any:
    """Groups of whole rows, each with the slice that it is."""
    step = max(1, VALUES_PER_PIECE // max(1, values.shape[1]))
    for start in range(0, values.shape[0], step):
        rows = slice(start, start + step)
        yield values[rows], rows


def _raise_in_place(values: np.ndarray, degree: float) -> None:
    """``values **= degree``, by multiplications where the degree is a whole number."""
    if degree != int(degree) or degree < 1:
        np.power(values, degree, out=values)
        return
    base = values.copy()
    for bit in bin(int(degree))[3:]:
        np.square(values, out=values)
        if bit == "1":
            values *= base
