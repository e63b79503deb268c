"""Kernel functions: one class for each, and a registry of their names.

A kernel says what it needs to know of rows (`points`), whether its values are functions of inner
products or of distances (`pairwise`, `from_pairs`), and how exact they are. The products and
distances themselves are computed by `maxmargin.kernels.products`, which hands them to `values`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy import sparse

from maxmargin.core.array_fields import Array, Saved
from maxmargin.core.numba_backend import Compiled
from maxmargin.kernels.points import Points, as_type, library_of, squared_norms

# Rows of a sparse matrix are made dense so many numbers at a time, never more.
MOST_DENSE_VALUES = 2**22
# Kernel values that are chosen to be float32 are at least so exact, relative to the largest.
LARGEST_ROUNDING = 1e-4
# Where the largest one is between these, neither it nor digits of the others are lost in float32.
SMALLEST_SINGLE, LARGEST_SINGLE = 1e-30, 1e37
# Functions are applied to pieces of a matrix that stay in the cache.
VALUES_PER_PIECE = 2**17

# ``pairs(some, others, dtype, out)`` gives ``some @ others.T``, or distances.
Pairs = Callable[[Any, Any, Any, "np.ndarray | None"], np.ndarray]


@dataclass(frozen=True, eq=False)
class Kernel(ABC):
    """A kernel function with its parameters, as in `sklearn.svm.SVC`.

    Parameters
    ----------
    gamma, degree, coef0 : float
    dtype : data type in which products are computed
    center : array or None
        A point that distances are measured from, so that what all dense rows have in common costs
        no digits.
    adapts : bool
        May the data type become a more exact one, if rows come that need it?
    """

    gamma: Annotated[float, Saved(at_least=0.0)]
    degree: Annotated[float, Saved(at_least=1.0)]
    coef0: Annotated[float, Saved()]
    dtype: Annotated[Any, Saved()]
    center: Annotated[np.ndarray | None, Array("features", optional=True)] = None
    adapts: Annotated[bool, Saved()] = False

    name: ClassVar[str]
    # What values are computed from: "products" of rows, or "distances", which are sums of absolute
    # differences.
    pairwise: ClassVar[str] = "products"
    # The kernel value in C, given the product (or distance) p of two rows, their squared norms own
    # and other, and the parameters; empty if no device can compute it.
    formula: ClassVar[str] = ""
    # Are values known only as long as a fit lasts?
    only_in_fit: ClassVar[bool] = False
    # Is a weight vector a vector of feature weights?
    is_linear: ClassVar[bool] = False
    # Is ``K(x, x)`` 1 for all rows?
    is_normalized: ClassVar[bool] = False
    # Is no value negative?
    is_nonnegative: ClassVar[bool] = False

    def is_mercer(self) -> bool:
        """Is it positive semidefinite on any rows, whatever the user has written?"""
        return True

    def __deepcopy__(self, memo: Any) -> Kernel:
        return self  # nothing in it changes, and a callable is the user's own

    def with_function(self, function: Any) -> Kernel:
        """The kernel that computes this function of users, if it is for such."""
        return self

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
        """The rows of a fit, or of a stream, with what the kernel needs to know of each."""
        return Points(X)

    def new_points(self, X: Any) -> Points:
        """The same for rows that are not learned from."""
        return self.points(X)

    def kept(self, points: Points, most_bytes: float) -> Points:
        """The same rows with what products are made of, if that is small enough to be kept."""
        if sparse.issparse(points.X) or self.is_ready(points.X):
            return points
        if points.X.size * np.dtype(self.dtype).itemsize > most_bytes:
            return points
        return Points(points.X, points.squares, self.factors(points.X), points.sample_weight)

    def is_ready(self, X: np.ndarray) -> bool:
        """Are the rows, as they are, what products are made of?"""
        return X.dtype == self.dtype and X.flags.c_contiguous

    def factors(self, X: Any) -> Any:
        """What products are made of."""
        return X if sparse.issparse(X) else as_type(X, self.dtype)

    def _from_center(self, X: Any) -> Any:
        if self.center is None:
            return X
        # Sparse rows after dense ones: a few at a time.
        X = X.toarray() if sparse.issparse(X) else X
        library, dtype = library_of(X), np.promote_types(X.dtype, self.dtype)
        return library.subtract(X, library.asarray(self.center), dtype=dtype)

    def values(
        self, some: Points, others: Points, pairs: Pairs, out: np.ndarray | None = None
    ) -> np.ndarray:
        """The matrix of kernel values, one line for each of ``some``; in ``out`` if possible."""
        left = self.factors(some.X) if some.factors is None else some.factors
        right = self.factors(others.X) if others.factors is None else others.factors
        values = pairs(left, right, self.dtype, out)
        self.from_pairs(values, some, others)
        return values

    def from_pairs(  # noqa: B027 (inner products may be kernel values already)
        self, values: np.ndarray, some: Points, others: Points
    ) -> None:
        """Turn inner products (or distances) of these rows into kernel values, in place."""

    @abstractmethod
    def diagonal(self, points: Points) -> np.ndarray:
        """``K(x, x)`` for each row, in float64."""

    def rounding(self, points: Points) -> float:
        """How exact kernel values between these rows are, relative to the largest."""
        if self.value_type() == np.float32:
            with np.errstate(over="ignore"):
                largest = self.diagonal(points).max(initial=1.0 if points.size() == 0 else 0.0)
            if largest > 0.0 and not SMALLEST_SINGLE <= largest <= LARGEST_SINGLE:
                return 1.0  # digits of the others are lost, or all of them
        return float(np.finfo(self.value_type()).eps) * (8.0 + self.degree)

    def value_type(self) -> Any:
        """The data type of kernel values."""
        return self.dtype

    def most_rows(self, cache_bytes: float) -> int:
        """How many rows may have a Gram matrix of that size."""
        return int(np.sqrt(cache_bytes / np.dtype(self.value_type()).itemsize))

    def for_fit(self, X: Any) -> Kernel:
        """The kernel for these training rows."""
        return self

    def forget_rows(self) -> Kernel:
        """The kernel without the training rows."""
        return self


@dataclass(frozen=True, eq=False)
class LinearKernel(Kernel):
    """``x.x'``."""

    name = "linear"
    is_linear = True
    formula = "p"

    def diagonal(self, points: Points) -> np.ndarray:
        return _squares(points)


@dataclass(frozen=True, eq=False)
class PolynomialKernel(Kernel):
    """``(gamma x.x' + coef0)**degree``."""

    name = "poly"
    formula = "raised(gamma * p + coef0, degree)"

    def is_mercer(self) -> bool:
        return self.coef0 >= 0.0

    def from_pairs(self, values: np.ndarray, some: Points, others: Points) -> None:
        for piece, _ in _pieces(values):
            self._apply(piece)

    def diagonal(self, points: Points) -> np.ndarray:
        squares = _squares(points)
        self._apply(squares)
        return squares

    def _apply(self, products: np.ndarray) -> None:
        products *= self.gamma
        products += self.coef0
        _raise_in_place(products, self.degree)


@dataclass(frozen=True, eq=False)
class RadialKernel(Kernel):
    """``exp(-gamma D(x, x'))`` for a distance D between rows."""

    is_normalized = True
    is_nonnegative = True

    @abstractmethod
    def turn_into_exponents(
        self, values: np.ndarray, rows: slice, some: Points, others: Points
    ) -> None:
        """Turn what `pairwise` says into ``-gamma D``, in place; of ``some``, for these rows."""

    def from_pairs(self, values: np.ndarray, some: Points, others: Points) -> None:
        for piece, rows in _pieces(values):
            self.turn_into_exponents(piece, rows, some, others)
            np.exp(piece, out=piece)

    def distances(self, points: Points, pairs: Pairs) -> np.ndarray:
        """``D(x, x')`` between all of these rows."""
        factors = self.factors(points.X)
        values = pairs(factors, factors, self.dtype, None)
        replace(self, gamma=1.0).turn_into_exponents(values, slice(None), points, points)
        return np.negative(values, out=values)

    def diagonal(self, points: Points) -> np.ndarray:
        return np.ones(points.size())


@dataclass(frozen=True, eq=False)
class GaussianKernel(RadialKernel):
    """``exp(-gamma |x - x'|**2)``."""

    name = "rbf"
    formula = "exp(min(gamma * (2 * p - own - other), (real)0))"

    def points(self, X: Any) -> Points:
        step = max(1, MOST_DENSE_VALUES // max(1, X.shape[1]))
        if X.shape[0] <= step:
            return Points(X, squared_norms(self._from_center(X)))
        parts = [
            squared_norms(self._from_center(X[start : start + step]))
            for start in range(0, X.shape[0], step)
        ]
        return Points(X, np.concatenate([np.empty(0), *parts]))

    def is_ready(self, X: np.ndarray) -> bool:
        return False

    def factors(self, X: Any) -> Any:
        return super().factors(self._from_center(X))

    def turn_into_exponents(
        self, values: np.ndarray, rows: slice, some: Points, others: Points
    ) -> None:
        assert some.squares is not None
        assert others.squares is not None
        buffer = np.empty(others.squares.size, self.dtype)
        exponents_of_products(values, self.gamma, some.squares[rows], others.squares, buffer)

    def rounding(self, points: Points) -> float:
        assert points.squares is not None
        eps = float(np.finfo(self.dtype).eps)
        return eps * (8.0 + 2.0 * self.gamma * points.squares.max(initial=0.0))


@dataclass(frozen=True, eq=False)
class LaplacianKernel(RadialKernel):
    """``exp(-gamma sum_j scales_j |x_j - x'_j| / deviations_j)``; without these, they are 1.

    A deviation of 0 leaves out its column.
    """

    scales: Annotated[np.ndarray | None, Array("features", optional=True, at_least=0.0)] = None
    deviations: Annotated[np.ndarray | None, Array("features", optional=True, at_least=0.0)] = None

    name = "laplacian"
    pairwise = "distances"
    formula = "exp(-gamma * p)"

    def is_ready(self, X: np.ndarray) -> bool:
        return self.center is None and self.scales is None and super().is_ready(X)

    def factors(self, X: Any) -> Any:
        X = self._from_center(X)
        if self.scales is None:
            return super().factors(X)
        units = np.zeros_like(self.scales)
        deviations = np.ones_like(units) if self.deviations is None else self.deviations
        np.divide(self.scales, deviations, out=units, where=deviations > 0.0)
        if sparse.issparse(X):
            data = X.data * units[X.indices]
            return sparse.csr_matrix((data, X.indices, X.indptr), shape=X.shape)
        return super().factors(X * library_of(X).asarray(units))

    def turn_into_exponents(
        self, values: np.ndarray, rows: slice, some: Points, others: Points
    ) -> None:
        np.multiply(values, -self.gamma, out=values)

    def rounding(self, points: Points) -> float:
        # Differences are exact up to the rounding of factors; those of sparse rows are sums over
        # the entries of both. As exp(-d) d < 1/2, the relative rounding of sums is small.
        eps, X = float(np.finfo(self.dtype).eps), points.X
        step, longest = max(1, MOST_DENSE_VALUES // max(1, X.shape[1])), 0.0
        for start in range(0, X.shape[0], step):
            norms = abs(self.factors(X[start : start + step])).sum(axis=1)
            longest = max(longest, float(norms.max()))
        most = float(X.shape[1])
        if sparse.issparse(X):
            most = 2.0 * float(np.diff(X.indptr).max(initial=0))
            longest *= most + 1.0
        return eps * (8.0 + most + 4.0 * self.gamma * longest)


@dataclass(frozen=True, eq=False)
class UserKernel(Kernel):
    """A function of two arrays of rows that the user has written."""

    function: Callable[..., Any] | None = None

    name = "callable"

    def is_mercer(self) -> bool:
        return False

    def with_function(self, function: Any) -> Kernel:
        return replace(self, function=function)

    def kept(self, points: Points, most_bytes: float) -> Points:
        return points

    def value_type(self) -> Any:
        return np.float64

    def values(
        self, some: Points, others: Points, pairs: Pairs, out: np.ndarray | None = None
    ) -> np.ndarray:
        if some.size() == 0 or others.size() == 0:
            return np.zeros((some.size(), others.size()))  # user code may not expect empty arrays
        return self._called(some.X, others.X)

    def diagonal(self, points: Points) -> np.ndarray:
        parts = [np.diagonal(self._symmetric(few)) for few in points.small_groups()]
        return np.concatenate([np.empty(0), *parts])

    def _symmetric(self, rows: Any) -> np.ndarray:
        """The values of these rows with each other."""
        values = self._called(rows, rows)
        if (found := asymmetric_entry(values)) is not None:
            i, j = found
            raise ValueError(
                "The kernel is not symmetric: of two rows it is "
                f"{values[i, j]:.6g}, and {values[j, i]:.6g} of the same rows in the other order."
            )
        return values

    def _called(self, some: Any, others: Any) -> np.ndarray:
        assert self.function is not None
        values = self.function(some, others)
        if sparse.issparse(values):
            values = values.toarray()
        values = np.array(values, dtype=np.float64)  # a copy: it may write to the same array again
        expected = some.shape[0], others.shape[0]
        if values.shape != expected:
            raise ValueError(
                f"The kernel returned an array of shape {values.shape} for {expected[0]} and "
                f"{expected[1]} rows; it must be {expected}."
            )
        if not np.isfinite(values).all():
            raise ValueError("The kernel returned NaN or infinity.")
        return values


@dataclass(frozen=True, eq=False)
class PrecomputedKernel(Kernel):
    """Kernel values that the user has computed: rows are numbers of training rows."""

    matrix: np.ndarray | None = None

    name = "precomputed"
    only_in_fit = True

    def is_mercer(self) -> bool:
        return False

    def points(self, X: Any) -> Points:
        return Points(np.arange(X.shape[0]))

    def new_points(self, X: Any) -> Points:
        if sparse.issparse(X):
            raise ValueError("kernel='precomputed' needs a dense matrix of kernel values.")
        return Points(X)

    def kept(self, points: Points, most_bytes: float) -> Points:
        return points

    def value_type(self) -> Any:
        assert self.matrix is not None
        return self.matrix.dtype

    def rounding(self, points: Points) -> float:
        return 8.0 * float(np.finfo(self.value_type()).eps)

    def most_rows(self, cache_bytes: float) -> int:
        assert self.matrix is not None
        return self.matrix.shape[0]  # it is there already

    def values(
        self, some: Points, others: Points, pairs: Pairs, out: np.ndarray | None = None
    ) -> np.ndarray:
        if others.X.ndim == 2:  # new rows: their kernel values with all training rows
            return np.ascontiguousarray(others.X[:, some.X].T)
        assert self.matrix is not None
        everyone = np.arange(self.matrix.shape[0])
        if np.array_equal(some.X, everyone) and np.array_equal(others.X, everyone):
            values = np.ascontiguousarray(self.matrix).view()
            values.flags.writeable = False  # it may be the user's own
            return values
        return self.matrix[np.ix_(some.X, others.X)]

    def diagonal(self, points: Points) -> np.ndarray:
        assert self.matrix is not None
        return np.diagonal(self.matrix)[points.X].astype(np.float64)

    def for_fit(self, X: Any) -> Kernel:
        matrix = self.new_points(X).X
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"kernel='precomputed' needs a square matrix of kernel values, got {X.shape}."
            )
        if (found := asymmetric_entry(matrix)) is not None:
            i, j = found
            raise ValueError(
                "kernel='precomputed' needs a symmetric matrix of kernel values, but X"
                f"[{i}, {j}] is {matrix[i, j]:.6g} and X[{j}, {i}] is {matrix[j, i]:.6g}."
            )
        return replace(self, matrix=matrix)

    def forget_rows(self) -> Kernel:
        return replace(self, matrix=None)


KERNELS: dict[str, type[Kernel]] = {
    kind.name: kind
    for kind in (
        LinearKernel,
        PolynomialKernel,
        GaussianKernel,
        LaplacianKernel,
        PrecomputedKernel,
    )
}


def finite_diagonal(kernel: Kernel, points: Points) -> np.ndarray:
    """``K(x, x)`` for each row; one that is infinite or negative raises."""
    if kernel.is_normalized:
        return kernel.diagonal(points)
    with np.errstate(over="ignore"):
        diagonal = kernel.diagonal(points)
    if not np.isfinite(diagonal).all():
        i = int(np.flatnonzero(~np.isfinite(diagonal))[0])
        raise ValueError(f"The kernel of row {i} with itself is not finite.")
    if kernel.value_type() == np.float32 and diagonal.max(initial=0.0) > LARGEST_SINGLE:
        i = int(diagonal.argmax())
        raise ValueError(
            f"The kernel of row {i} with itself is {diagonal[i]:.6g}, too large for float32: scale "
            "the rows, or use kernel_dtype='float64'."
        )
    if (diagonal < 0.0).any():
        i = int(diagonal.argmin())
        raise ValueError(
            f"The kernel of row {i} with itself is {diagonal[i]:.6g}: no kernel is negative there."
        )
    return diagonal


def asymmetric_entry(matrix: np.ndarray) -> tuple[int, int] | None:
    """Where a square matrix differs from its transpose by more than rounding; None if nowhere."""
    size, tile = matrix.shape[0], 512  # of both, two tiles stay in the cache
    largest = max(matrix.max(initial=0.0), -matrix.min(initial=0.0))
    for i in range(0, size, tile):
        for j in range(i, size, tile):
            one = matrix[i : i + tile, j : j + tile]
            other = matrix[j : j + tile, i : i + tile].T
            same = np.isclose(one, other, rtol=1e-4, atol=1e-6 * largest)
            if not same.all():
                row, column = np.unravel_index(int(same.argmin()), same.shape)
                return i + int(row), j + int(column)
    return None


@Compiled
def exponents_of_products(products, gamma, own, other, columns):  # type: ignore[no-untyped-def]
    """``gamma * (2 * products - own - other)``; above 0 is only rounding, of equal rows.

    ``columns`` is a buffer for what belongs to the columns.
    """
    number = products.dtype.type
    factor = number(2.0 * gamma)
    for k in range(other.size):
        columns[k] = gamma * other[k]
    for r in range(products.shape[0]):
        line = number(gamma * own[r])
        for k in range(products.shape[1]):
            exponent = factor * products[r, k] - line - columns[k]
            products[r, k] = min(exponent, number(0.0))


def _squares(points: Points) -> np.ndarray:
    """Squared norms of rows, as they are known or anew."""
    return squared_norms(points.X) if points.squares is None else points.squares.copy()


def _pieces(values: np.ndarray) -> list[tuple[np.ndarray, slice]]:
    """Groups of whole rows, each with the slice that it is."""
    step = max(1, VALUES_PER_PIECE // max(1, values.shape[1]))
    if values.shape[0] <= step:
        return [(values, slice(None))]
    parts = (slice(start, start + step) for start in range(0, values.shape[0], step))
    return [(values[rows], rows) for rows in parts]


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
