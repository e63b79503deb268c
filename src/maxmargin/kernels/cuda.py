"""Kernel values on a GPU, through CuPy.

Rows, supports, coefficients and the outputs of all rows of a fit are on the device. A block's own
Gram matrix and its outputs come to the host, where the compiled loop learns as ever.

Products are made by tensor cores where that costs no digit: these multiply numbers of 8 bits
(bfloat16) or 11 bits (tf32) and add up in float32, so rows of whole numbers below 256, such as
grey levels, have the same products as in float32.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.growable_array import growable_of
from maxmargin.kernels.points import Points
from maxmargin.kernels.products import Products

# Products are made so many at a time, which mostly stay in the cache of the device.
TILE_VALUES = 2**25
# The most points in a tile.
TILE_POINTS = 2**13
# Sums over the rows of a tile are made in so many parts, to keep the device busy.
PARTS = 32
# Problems whose sums are made in one go, each in a register.
MOST_PROBLEMS = 16
# Systems that are solved at a time, as one of them leaves most of the device idle, and the most
# values that these may have together.
STREAMS, SYSTEM_VALUES = 8, 2**29
# The bits of a float32 that numbers lack.
LACKING_BITS = {"bfloat16": 16, "tf32": 13, "float32": 0}


Method = TypeVar("Method", bound=Callable[..., Any])


def within_memory(method: Method) -> Method:
    """Say what helps where the memory of the device is full."""

    @wraps(method)
    def tried(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except MemoryError as error:
            raise MemoryError(
                f"The memory of the GPU is full ({error}): keep fewer rows by budget=, or learn on "
                "the host by device='cpu'."
            ) from error

    return tried  # type: ignore[return-value]


class Placed(NamedTuple):
    """Rows on the device, as products are made of them.

    Attributes
    ----------
    factors : the rows, bfloat16 as uint16
    squares : their squared norms
    kind : "float64", "float32", "tf32" or "bfloat16"
    """

    factors: Any
    squares: Any
    kind: str

    def take(self, which: Any) -> Placed:
        return self._replace(factors=self.factors[which], squares=self.squares[which])


class DeviceRows(Points):
    """Rows of a fit, or new ones, that are placed on the device.

    The rows that users gave stay where they are; ``X`` takes those that are asked for to the host.
    """

    def __init__(
        self,
        products: CudaProducts,
        kernel: Kernel,
        source: Any,
        placed: Placed,
        squares: np.ndarray,
        sample_weight: np.ndarray | None = None,
        numbers: Any = None,
    ) -> None:
        self.products, self.kernel, self.source, self.placed = products, kernel, source, placed
        self.squares, self.sample_weight, self.numbers = squares, sample_weight, numbers
        self.factors = None
        self.changes = None

    @property
    def X(self) -> np.ndarray:  # type: ignore[override]
        rows = self.source
        if self.numbers is not None:
            here = isinstance(rows, np.ndarray) or isinstance(self.numbers, slice)
            rows = rows[self.numbers if here else self.products.here(self.numbers)]
        return self.products.host(rows)

    def size(self) -> int:
        assert self.squares is not None
        return self.squares.size

    def take(self, which: Any) -> DeviceRows:
        numbers = which
        if self.numbers is not None:
            numbers = np.arange(self.source.shape[0])[self.numbers][which]
        assert self.squares is not None
        placed = self.placed.take(self.products.index(which))
        sample_weight = None if self.sample_weight is None else self.sample_weight[which]
        same = self.products, self.kernel, self.source
        return DeviceRows(*same, placed, self.squares[which], sample_weight, numbers)

    def with_sample_weight(self, sample_weight: np.ndarray) -> DeviceRows:
        assert self.squares is not None
        same = self.products, self.kernel, self.source, self.placed
        return DeviceRows(*same, self.squares, sample_weight, self.numbers)

    def bare(self) -> Points:
        points = self.kernel.points(self.X)
        return (
            points if self.sample_weight is None else points.with_sample_weight(self.sample_weight)
        )

    on_host = bare

    def zeros(self, size: int) -> Points:
        return self.take(slice(0)).bare().zeros(size)

    def laid_out_like(self, others: Points) -> Points:
        return self


class CudaProducts(Products):
    """`Products` that are made on a GPU."""

    block = 4096
    chunk = 2**16
    most_waiting = 2048
    works_aside = True
    keeps_lines = False  # the device computes values faster than it gets them
    most_factorised = 2**16

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._fixed: weakref.WeakKeyDictionary[Points, tuple[Kernel, Placed]]
        self._fixed = weakref.WeakKeyDictionary()
        self._growing: dict[str, Growing] = {}
        self._asked: tuple[np.ndarray, Any] | None = None

    def __deepcopy__(self, memo: Any) -> CudaProducts:
        return self  # what it remembers is found again by whose it is

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._forget()

    @cached_property
    def library(self) -> Any:
        return cupy_library()

    @property
    def xp(self) -> Any:
        return self.library.xp

    # ------------------------------------------------------------------------ from and to the host
    def here(self, array: np.ndarray) -> Any:
        return self.library.xp.asarray(array)

    def index(self, which: Any) -> Any:
        """Numbers of rows on the device; several arrays may be asked for the same ones in a row."""
        if isinstance(which, slice):
            return which
        asked = self._asked  # which other threads may change
        if asked is None or asked[0] is not which:
            asked = self._asked = which, self.here(which)
        return asked[1]

    def host(self, array: Any) -> np.ndarray:
        return array if isinstance(array, np.ndarray) else self.library.fetched(array)

    # ---------------------------------------------------------------------------------------- rows
    @within_memory
    def points(self, kernel: Kernel, X: Any) -> Points:
        placed = self._place(kernel, X)
        return DeviceRows(self, kernel, X, placed, self.host(placed.squares))

    def new_points(self, kernel: Kernel, X: Any) -> Points:
        return self.points(kernel, X)

    def kept(self, kernel: Kernel, points: Points, most_bytes: float) -> Points:
        return points

    def _place(self, kernel: Kernel, X: Any, kind: str = "") -> Placed:
        """Rows on the device, in the narrowest numbers in which nothing is lost, or of a kind."""
        if sparse.issparse(X):
            raise ValueError(
                "device='cuda' takes dense rows only: use device='cpu' for sparse ones."
            )
        xp = self.library.xp
        factors = kernel.factors(self.here(X))
        squares = xp.square(factors, dtype=np.float64).sum(axis=1)
        if factors.dtype == np.float64 or kernel.pairwise == "distances":
            return Placed(factors, squares, factors.dtype.name)
        if not kind:
            bits = self.library.all_bits(factors)
            kind = next(name for name, lack in LACKING_BITS.items() if not bits & (2**lack - 1))
        return Placed(_packed(factors) if kind == "bfloat16" else factors, squares, kind)

    def _placed(self, kernel: Kernel, points: Points) -> Placed:
        if isinstance(points, DeviceRows):
            return points.placed
        if growable_of(points.X) is not None:
            if not (rows := self._growing.get("rows")) or not rows.is_of(points.X, kernel):
                self._growing.pop("rows", None)  # first, to free its memory
                rows = self._growing["rows"] = GrowingRows(self, kernel, points.X)
            assert isinstance(rows, GrowingRows)
            return rows.up_to(points.X)
        found = self._fixed.get(points)
        if found is None or found[0] is not kernel:
            points.changes = []
            found = self._fixed[points] = kernel, self._place(kernel, points.X)
        elif points.changes:
            found = self._fixed[points] = kernel, self._renewed(kernel, points, found[1])
            points.changes = []
        return found[1]

    def _renewed(self, kernel: Kernel, points: Points, placed: Placed) -> Placed:
        """``placed`` with the rows that were replaced since."""
        places = np.unique(np.concatenate(points.changes or []))
        more = self._place(kernel, points.X[places])
        if _wider(more.kind, placed.kind) != placed.kind:
            return self._place(kernel, points.X)
        there = self.here(places)
        placed.factors[there] = _as_kind(more, placed.kind).factors
        placed.squares[there] = more.squares
        return placed

    # ------------------------------------------------------------------------------------ products
    @within_memory
    def gram(
        self, kernel: Kernel, some: Points, others: Points, out: np.ndarray | None = None
    ) -> np.ndarray:
        return self.library.fetched(self._values(kernel, some, others), out)

    def _values(self, kernel: Kernel, some: Points, others: Points) -> Any:
        left, right = _alike(self._placed(kernel, some), self._placed(kernel, others))
        values = self.library.pairs(kernel)(left, right)
        self.library.apply(kernel, values, left.squares, right.squares)
        return values

    @within_memory
    def values_in(self, kernel: Kernel, some: Points, others: Points, out: Any) -> None:
        out[...] = self._values(kernel, some, others)

    @within_memory
    def picked(self, lines: Any, numbers: np.ndarray, columns: np.ndarray) -> Any:
        return lines[self.here(numbers)[:, None], self.here(columns)[None, :]]

    @within_memory
    def multiplied(self, lines: Any, numbers: np.ndarray, weights: Any) -> Any:
        # All lines that are kept: most of them are asked for, and a copy of these takes longer.
        last = int(numbers.max(initial=-1)) + 1
        full = self.xp.zeros((last, weights.shape[1]))
        full[self.here(numbers)] = weights
        return lines[:last].T @ full

    def each_solved(
        self, sizes: list[int], make: Callable[[int], tuple[Any, Any, Any]]
    ) -> Iterator[tuple[Any, Any]]:
        first = 0
        while first < len(sizes):
            most = min(STREAMS, max(1, SYSTEM_VALUES // max(sizes[first:]) ** 2))
            numbers = range(first, min(first + most, len(sizes)))
            for name, found in self._solved_together(numbers, make):
                yield name, found if bool(self.xp.isfinite(found).all()) else None
            first = numbers.stop

    @within_memory
    def _solved_together(
        self, numbers: range, make: Callable[[int], tuple[Any, Any, Any]]
    ) -> list[tuple[Any, Any]]:
        """Solutions that may be still under way, each in a stream of its own."""
        solved = []
        for stream, n in zip(self.library.streams(STREAMS), numbers, strict=False):
            with stream:
                name, system, sides = make(n)
                solved.append((name, self.library.solved(system, sides)))
        return solved

    @within_memory
    def effects(
        self,
        kernel: Kernel,
        weights: np.ndarray,
        changed: Points,
        points: Points,
        shift: float,
        same: tuple[np.ndarray, np.ndarray],
    ) -> tuple[Any, np.ndarray]:
        sums = self._sums(kernel, self.here(weights), changed, points, shift)
        return sums, kernel.diagonal(changed.take(same[0]))

    def add_at(self, sums: Any, places: np.ndarray, amounts: np.ndarray) -> None:
        if amounts.any():
            there, which = np.unique(places, return_inverse=True)
            total = np.zeros((amounts.shape[0], there.size))
            np.add.at(total.T, which, amounts.T)
            sums[:, self.here(there)] += self.here(total)

    @within_memory
    def weighted_sums(
        self, kernel: Kernel, weights: np.ndarray, supports: Points, points: Points, shift: float
    ) -> np.ndarray:
        return self.host(self._sums(kernel, self._weights(weights), supports, points, shift))

    @within_memory
    def begin_sums(
        self, kernel: Kernel, weights: np.ndarray, supports: Points, points: Points, shift: float
    ) -> Any:
        return self._sums(kernel, self._weights(weights), supports, points, shift)

    def _outputs(
        self, kernel: Kernel, weights: np.ndarray, points: Points, some: Points
    ) -> np.ndarray:
        return self.weighted_sums(kernel, weights, points, some, 0.0)

    def _weights(self, weights: np.ndarray) -> Any:
        if growable_of(weights) is None:
            return self.here(weights)
        if not (growing := self._growing.get("weights")) or not growing.is_of(weights):
            growing = self._growing["weights"] = GrowingWeights(self, weights)
        assert isinstance(growing, GrowingWeights)
        return growing.up_to(weights)

    def _sums(
        self, kernel: Kernel, weights: Any, supports: Points, points: Points, shift: float
    ) -> Any:
        """`weighted_sums`, on the device."""
        library, xp = self.library, self.library.xp
        if weights.strides[1] != weights.itemsize:  # lines must follow each other
            weights = xp.ascontiguousarray(weights)
        left, right = _alike(self._placed(kernel, supports), self._placed(kernel, points))
        problems, columns, rows = weights.shape[0], points.size(), supports.size()
        sums, pairs = xp.zeros((problems, columns)), library.pairs(kernel)
        for first in range(0, columns, TILE_POINTS):
            some = right.take(slice(first, first + TILE_POINTS))
            width = some.squares.shape[0]
            step = max(1, TILE_VALUES // width)
            parts = xp.zeros((PARTS, problems, width))
            for start in range(0, rows, step):
                part = slice(start, start + step)
                few = left.take(part)
                values = pairs(few, some)
                given = values, few.squares, some.squares, weights[:, part], parts
                library.add_sums(kernel, *given)
            sums[:, first : first + width] = parts.sum(axis=0)
        if shift:
            sums += shift * weights.sum(axis=1)[:, None]
        return sums


class Growing:
    """An array of the host that grows, and what of it is on the device."""

    def __init__(self, array: np.ndarray) -> None:
        memory = growable_of(array)
        assert memory is not None
        self._memory, self.size = weakref.ref(memory), memory.shape
        self.filled = 0

    def is_of(self, array: np.ndarray, kernel: Kernel | None = None) -> bool:
        memory = self._memory()
        same = memory is not None and memory is growable_of(array)
        return same and kernel is getattr(self, "kernel", None)


class GrowingWeights(Growing):
    def __init__(self, products: CudaProducts, weights: np.ndarray) -> None:
        super().__init__(weights)
        self.products = products
        self.copy = products.library.xp.zeros(self.size)

    def up_to(self, weights: np.ndarray) -> Any:
        size = weights.shape[1]
        if size > self.filled:
            part = slice(self.filled, size)
            self.copy[:, part] = self.products.here(np.ascontiguousarray(weights[:, part]))
            self.filled = size
        return self.copy[:, :size]


class GrowingRows(Growing):
    def __init__(self, products: CudaProducts, kernel: Kernel, X: np.ndarray) -> None:
        super().__init__(X)
        self.products, self.kernel = products, kernel
        self.placed = self._new(X, "")

    def _new(self, X: np.ndarray, kind: str) -> Placed:
        first, xp = self.products._place(self.kernel, X, kind), self.products.library.xp
        factors = xp.zeros(self.size, first.factors.dtype)
        squares = xp.zeros(self.size[0])
        self.filled = X.shape[0]
        factors[: self.filled], squares[: self.filled] = first.factors, first.squares
        return Placed(factors, squares, first.kind)

    def up_to(self, X: np.ndarray) -> Placed:
        size = X.shape[0]
        if size > self.filled:
            part = slice(self.filled, size)
            more = self.products._place(self.kernel, X[part])
            kind = _wider(more.kind, self.placed.kind)
            if kind != self.placed.kind:
                self.placed = self._new(X, kind)
            else:
                self.placed.factors[part] = _as_kind(more, kind).factors
                self.placed.squares[part] = more.squares
                self.filled = size
        return self.placed.take(slice(0, size))


# ------------------------------------------------------------------------------------------ numbers
def _wider(one: str, other: str) -> str:
    order = [*LACKING_BITS, "float64"]
    return max(one, other, key=order.index)


def _alike(left: Placed, right: Placed) -> tuple[Placed, Placed]:
    kind = _wider(left.kind, right.kind)
    return _as_kind(left, kind), _as_kind(right, kind)


def _as_kind(placed: Placed, kind: str) -> Placed:
    """The same numbers in a wider kind."""
    if placed.kind == kind:
        return placed
    factors = _unpacked(placed.factors) if placed.kind == "bfloat16" else placed.factors
    return placed._replace(factors=factors, kind=kind)


def _packed(factors: Any) -> Any:
    return (factors.view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def _unpacked(factors: Any) -> Any:
    return (factors.astype(np.uint32) << np.uint32(16)).view(np.float32)


# --------------------------------------------------------------------------------------------- CuPy
SOURCE = r"""
typedef %(real)s real;

__device__ __forceinline__ real raised(real base, int exponent) {
    real result = 1;
    #pragma unroll
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

__device__ __forceinline__ real value(real p, real own, real other, real gamma, real coef0) {
    const int degree = %(degree)d;
    return %(formula)s;
}

extern "C" __global__ void apply(
    real* values, const long long size, const int columns, const double* own, const double* other,
    const real gamma, const real coef0
) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size; i += step)
        values[i] = value(values[i], own[i / columns], other[i %% columns], gamma, coef0);
}

// One thread for each column and part of the rows. Sums of 64 rows are added up in float64; where
// there are fewer, the rest has weights of 0.
extern "C" __global__ void add_sums(
    const real* __restrict__ values, const int rows, const int columns,
    const double* __restrict__ own, const double* __restrict__ other,
    const double* __restrict__ weights, const long long stride,
    const real gamma, const real coef0, double* parts, const long long stride_of_parts
) {
    const int problems = %(problems)d, padded = (problems + 3) / 4 * 4, few = 64, at_once = 4;
    __shared__ __align__(32) real some[few][padded];
    __shared__ real owns[few];
    const int k = blockIdx.x * blockDim.x + threadIdx.x, column = min(k, columns - 1);
    const int each = (rows + gridDim.y - 1) / gridDim.y;
    const int first = blockIdx.y * each, last = min(first + each, rows);
    const real mine = other[column];
    double totals[problems];
    #pragma unroll
    for (int c = 0; c < problems; c++) totals[c] = 0;
    for (int start = first; start < last; start += few) {
        const int number = last - start;
        __syncthreads();
        for (int i = threadIdx.x; i < padded * few; i += blockDim.x) {
            const int c = i / few, r = i %% few;
            const bool counts = r < number && c < problems;
            some[r][c] = counts ? (real)weights[c * stride + start + r] : (real)0;
        }
        for (int r = threadIdx.x; r < few; r += blockDim.x)
            owns[r] = own[min(start + r, rows - 1)];
        __syncthreads();
        real sums[padded];
        #pragma unroll
        for (int c = 0; c < padded; c++) sums[c] = 0;
        for (int r = 0; r < few; r += at_once) {
            real found[at_once];
            #pragma unroll
            for (int n = 0; n < at_once; n++)
                found[n] = values[(long long)min(start + r + n, rows - 1) * columns + column];
            #pragma unroll
            for (int n = 0; n < at_once; n++) {
                const real v = value(found[n], owns[r + n], mine, gamma, coef0);
                #pragma unroll
                for (int c = 0; c < padded; c++) sums[c] += some[r + n][c] * v;
            }
        }
        #pragma unroll
        for (int c = 0; c < problems; c++) totals[c] += sums[c];
    }
    if (k < columns)
        #pragma unroll
        for (int c = 0; c < problems; c++)
            parts[blockIdx.y * stride_of_parts + (long long)c * columns + k] += totals[c];
}
"""
# Each block of threads computes a square of distances, each thread 16 of them.
DISTANCES = r"""
typedef %(real)s real;
const int side = 64, deep = 16, lines = 16, each = side / lines;

extern "C" __global__ void distances(
    const real* __restrict__ some, const real* __restrict__ others,
    const int rows, const int columns, const int width, real* out
) {
    __shared__ real left[deep][side + 1], right[deep][side + 1];
    const int x = threadIdx.x %% lines, y = threadIdx.x / lines;
    const int top = blockIdx.y * side, first = blockIdx.x * side;
    real sums[each][each];
    #pragma unroll
    for (int m = 0; m < each * each; m++) sums[m / each][m %% each] = 0;
    for (int start = 0; start < width; start += deep) {
        __syncthreads();
        for (int i = threadIdx.x; i < side * deep; i += blockDim.x) {
            const int r = i / deep, j = i %% deep, column = start + j;
            const bool one = column < width && top + r < rows;
            const bool other = column < width && first + r < columns;
            left[j][r] = one ? some[(long long)(top + r) * width + column] : (real)0;
            right[j][r] = other ? others[(long long)(first + r) * width + column] : (real)0;
        }
        __syncthreads();
        #pragma unroll
        for (int j = 0; j < deep; j++) {
            real mine[each];
            #pragma unroll
            for (int n = 0; n < each; n++) mine[n] = right[j][x + lines * n];
            #pragma unroll
            for (int m = 0; m < each; m++) {
                const real own = left[j][y + lines * m];
                #pragma unroll
                for (int n = 0; n < each; n++) sums[m][n] += fabs(own - mine[n]);
            }
        }
    }
    #pragma unroll
    for (int m = 0; m < each; m++)
        #pragma unroll
        for (int n = 0; n < each; n++) {
            const int row = top + y + lines * m, column = first + x + lines * n;
            if (row < rows && column < columns)
                out[(long long)row * columns + column] = sums[m][n];
        }
}
"""
SIDE = 64
THREADS = 256
REALS = {"float32": "float", "float64": "double"}
# Data types and ways to compute of cuBLAS.
TYPES = {"bfloat16": 14, "tf32": 0, "float32": 0, "float64": 1}
COMPUTE = {"bfloat16": 68, "tf32": 77, "float32": 68, "float64": 70}


class Cupy:
    """What is asked of CuPy, cuBLAS and the device."""

    def __init__(self, cupy: Any) -> None:
        from cupy_backends.cuda.libs import cublas

        self.xp, self._cublas = cupy, cublas
        self._any_bit = cupy.ReductionKernel(
            "uint32 x", "uint32 y", "x", "a | b", "y = a", "0", "maxmargin_any_bit"
        )

    def fetched(self, array: Any, out: np.ndarray | None = None) -> np.ndarray:
        """The array on the host."""
        if out is None:
            from cupyx import empty_pinned

            out = empty_pinned(array.shape, array.dtype)
        array = self.xp.ascontiguousarray(array)
        return array.get(out=out, blocking=True)

    def all_bits(self, factors: Any) -> int:
        """The bits that any of the float32 has."""
        return int(self._any_bit(factors.view(np.uint32)))

    def pairs(self, kernel: Kernel) -> Callable[[Placed, Placed], Any]:
        """What computes the products, or distances, that a kernel is a function of."""
        return self.distances if kernel.pairwise == "distances" else self.multiplied

    def distances(self, left: Placed, right: Placed) -> Any:
        """``sum_j |x_j - z_j|`` for rows x of ``left`` and z of ``right``."""
        (rows, width), columns = left.factors.shape, right.factors.shape[0]
        out = self.xp.zeros((rows, columns), left.factors.dtype)
        if out.size:
            run = self._distances(REALS[left.kind])
            some = self.xp.ascontiguousarray(left.factors)
            others = self.xp.ascontiguousarray(right.factors)
            sizes = np.int32(rows), np.int32(columns), np.int32(width)
            run((-(-columns // SIDE), -(-rows // SIDE)), (THREADS,), (some, others, *sizes, out))
        return out

    def multiplied(self, left: Placed, right: Placed) -> Any:
        """``left @ right.T``."""
        (rows, width), columns = left.factors.shape, right.factors.shape[0]
        double = left.kind == "float64"
        out = self.xp.empty((rows, columns), np.float64 if double else np.float32)
        if 0 in (rows, columns, width):
            out[...] = 0.0
            return out
        number = np.array([1.0, 0.0], out.dtype)
        one, zero = number.ctypes.data, number.ctypes.data + out.dtype.itemsize
        kind, result = TYPES[left.kind], TYPES["float64" if double else "float32"]
        some = self.xp.ascontiguousarray(left.factors)
        others = self.xp.ascontiguousarray(right.factors)
        self._cublas.gemmEx(
            self.xp.cuda.device.get_cublas_handle(),
            *(self._cublas.CUBLAS_OP_T, self._cublas.CUBLAS_OP_N, columns, rows, width),
            *(one, others.data.ptr, kind, width, some.data.ptr, kind, width),
            *(zero, out.data.ptr, result, columns, COMPUTE[left.kind], -1),
        )
        return out

    def solved(self, system: Any, sides: Any) -> Any:
        """The solution of a positive definite system; not finite if it is not."""
        from cupyx.scipy.linalg import solve_triangular

        upper = self.xp.linalg.cholesky(system).T  # columns follow each other: nothing is copied
        half = solve_triangular(upper, sides, trans=1, check_finite=False)
        return solve_triangular(upper, half, check_finite=False)

    @lru_cache(maxsize=1)  # noqa: B019 (there is one of these in a process)
    def streams(self, count: int) -> list[Any]:
        """Streams that wait for the usual one, and it for them."""
        return [self.xp.cuda.Stream() for _ in range(count)]

    def apply(self, kernel: Kernel, values: Any, own: Any, other: Any) -> None:
        """Turn inner products into kernel values, in place."""
        if values.size == 0 or kernel.is_linear:
            return
        run = self._compiled(kernel, values.dtype.name, 1)[0]
        real = values.dtype.type
        given = values, np.int64(values.size), np.int32(values.shape[1]), own, other
        blocks = min(-(-values.size // 256), 2**14)
        run((blocks,), (256,), (*given, real(kernel.gamma), real(kernel.coef0)))

    def add_sums(
        self, kernel: Kernel, values: Any, own: Any, other: Any, weights: Any, parts: Any
    ) -> None:
        """Add the weighted sums over the rows of ``values``, inner products, to ``parts``."""
        (rows, columns), real = values.shape, values.dtype.type
        grid = -(-columns // THREADS), parts.shape[0]
        for first in range(0, weights.shape[0], MOST_PROBLEMS):
            some = weights[first : first + MOST_PROBLEMS]
            run = self._compiled(kernel, values.dtype.name, some.shape[0])[1]
            given = values, np.int32(rows), np.int32(columns), own, other
            stride = np.int64(some.strides[0] // some.itemsize)
            numbers = real(kernel.gamma), real(kernel.coef0)
            mine = parts[:, first:], np.int64(parts.strides[0] // parts.itemsize)
            run(grid, (THREADS,), (*given, some, stride, *numbers, *mine))

    def _compiled(self, kernel: Kernel, real: str, problems: int) -> tuple[Any, Any]:
        return self._module(kernel.formula, int(kernel.degree), REALS[real], problems)

    @lru_cache(maxsize=2)  # noqa: B019 (there is one of these in a process)
    def _distances(self, real: str) -> Any:
        return self.xp.RawModule(code=DISTANCES % {"real": real}).get_function("distances")

    @lru_cache(maxsize=64)  # noqa: B019 (there is one of these in a process)
    def _module(self, formula: str, degree: int, real: str, problems: int) -> tuple[Any, Any]:
        given = {"formula": formula, "degree": degree, "real": real, "problems": problems}
        module = self.xp.RawModule(code=SOURCE % given)
        return module.get_function("apply"), module.get_function("add_sums")


@lru_cache(maxsize=1)
def cupy_library() -> Cupy:
    """CuPy, if there is a device for it."""
    try:
        import cupy
    except ImportError:
        raise ImportError(
            "device='cuda' needs CuPy: pip install 'maxmargin[gpu]', or use device='cpu'."
        ) from None
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        count = 0
    if count == 0:
        raise RuntimeError("device='cuda' needs a GPU, and CuPy finds none: use device='cpu'.")
    return Cupy(cupy)
