"""Primitives in LLVM's instructions, each under the name of what it means in Python.

Sums are in eight lanes, which LLVM maps onto whatever vectors there are; see
`maxmargin.core.fixed_order_sums`. Bytes are read without asking whether an index is negative, and
eight at a time; see `maxmargin.streams.text.words`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from maxmargin.core.numba_backend.contract import LANES

CACHE_LINE = 64


class _Lanes:
    """A running sum of products in eight lanes, and how to load eight elements at a time."""

    I1, I32, DOUBLE = ir.IntType(1), ir.IntType(32), ir.DoubleType()
    SUMS = ir.VectorType(DOUBLE, LANES)

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder
        self.intp = context.get_value_type(types.intp)
        self.total = cgutils.alloca_once_value(builder, ir.Constant(self.SUMS, [0.0] * LANES))

    def each_group(self, size: Any, body: Any) -> None:
        """Call ``body(j, mask)`` for j = 0, 8, ...; ``mask`` is None but in a partial group."""
        builder, intp = self.builder, self.intp
        whole = builder.and_(size, intp(-LANES))
        with cgutils.for_range_slice(builder, intp(0), whole, intp(LANES), intp) as (j, _):
            body(j, None)
        left = builder.sub(size, whole)
        with builder.if_then(builder.icmp_signed(">", left, intp(0))):
            body(whole, self._first(left))

    def _first(self, count: Any) -> Any:
        """The mask of the first ``count`` lanes."""
        return self.builder.icmp_signed("<", self.numbers(), self.spread(count))

    def numbers(self) -> Any:
        return ir.Constant(ir.VectorType(self.intp, LANES), list(range(LANES)))

    def spread(self, scalar: Any) -> Any:
        """``scalar`` in all lanes."""
        undefined = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, self.I32(0))
        same = ir.Constant(ir.VectorType(self.I32, LANES), [0] * LANES)
        return self.builder.shuffle_vector(first, undefined, same)

    def load(self, pointer: Any, j: Any, mask: Any) -> Any:
        """Elements j .. j+7 behind ``pointer``; masked ones are zero and not read."""
        vector = ir.VectorType(pointer.type.pointee, LANES)
        address = self.builder.bitcast(self.builder.gep(pointer, [j]), vector.as_pointer())
        if mask is None:
            return self.builder.load(address, align=self._size(vector.element))
        return self._read("load", address, vector, mask, "p0")

    def gather(self, pointer: Any, byte_offsets: Any, mask: Any) -> Any:
        """The elements at ``pointer`` plus eight offsets; masked ones are zero and not read."""
        vector = ir.VectorType(pointer.type.pointee, LANES)
        start = self.spread(self.builder.ptrtoint(pointer, self.intp))
        addresses = self.builder.inttoptr(
            self.builder.add(start, byte_offsets), ir.VectorType(pointer.type, LANES)
        )
        return self._read("gather", addresses, vector, mask, f"v{LANES}p0")

    def _read(self, how: str, address: Any, vector: Any, mask: Any, pointers: str) -> Any:
        size = self._size(vector.element)
        kind = "i" if isinstance(vector.element, ir.IntType) else "f"
        intrinsic_function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(vector, [address.type, self.I32, mask.type, vector]),
            f"llvm.masked.{how}.v{LANES}{kind}{8 * size}.{pointers}",
        )
        zero = ir.Constant(vector, [vector.element(0)] * LANES)
        return self.builder.call(intrinsic_function, [address, self.I32(size), mask, zero])

    def _size(self, element: Any) -> int:
        return self.context.get_abi_sizeof(element)

    def add(self, x: Any, w: Any = None, squared: bool = False) -> None:
        """Add eight products ``x * w`` to the sum (``x * x * w`` if squared; without w squares)."""
        builder = self.builder
        if x.type.element != self.DOUBLE:
            x = builder.fpext(x, self.SUMS)
        product = builder.fmul(x, x if squared or w is None else w)
        if squared:
            product = builder.fmul(product, w)
        builder.store(builder.fadd(builder.load(self.total), product), self.total)

    def result(self) -> Any:
        """The sum over all lanes, folded in halves."""
        builder, lanes = self.builder, self.builder.load(self.total)
        half = LANES // 2
        while half:
            low, high = (
                builder.shuffle_vector(
                    lanes,
                    lanes,
                    ir.Constant(ir.VectorType(self.I32, half), list(range(at, at + half))),
                )
                for at in (0, half)
            )
            lanes = builder.fadd(low, high)
            half //= 2
        return builder.extract_element(lanes, self.I32(0))


def _array(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value)


def _row_pointer(context: Any, builder: Any, array: Any, index: Any, index_type: Any) -> Any:
    """Pointer to the first element of row ``index`` of a 2-D array of any layout."""
    index = context.cast(builder, index, index_type, types.intp)
    offset = builder.mul(index, builder.extract_value(array.strides, 0))
    return cgutils.pointer_add(builder, array.data, offset)


def _weights_pointer(context: Any, builder: Any, weights: Any, c: Any) -> Any:
    if weights[0].layout != "C" or weights[0].dtype != types.float64:
        raise TypingError(f"weights must be C-ordered float64, got {weights[0]}")
    return _row_pointer(context, builder, _array(context, builder, *weights), c[1], c[0])


def _sum_dense(context, builder, values, i, weights=None, c=None, *, squared=False):  # type: ignore[no-untyped-def]
    """Sum over a dense row; no ``weights``: of squares. Arguments are pairs (type, value)."""
    matrix = _array(context, builder, *values)
    x_start = _row_pointer(context, builder, matrix, i[1], i[0])
    lanes = _Lanes(context, builder)
    if weights is not None:
        w_start = _weights_pointer(context, builder, weights, c)

    def body(j, mask):  # type: ignore[no-untyped-def]
        if values[0].layout == "C":
            x = lanes.load(x_start, j, mask)
        else:
            columns = builder.add(lanes.spread(j), lanes.numbers())
            stride = lanes.spread(builder.extract_value(matrix.strides, 1))
            everywhere = ir.Constant(ir.VectorType(lanes.I1, LANES), [1] * LANES)
            x = lanes.gather(x_start, builder.mul(columns, stride), mask or everywhere)
        lanes.add(x, None if weights is None else lanes.load(w_start, j, mask), squared)

    lanes.each_group(builder.extract_value(matrix.shape, 1), body)
    return lanes.result()


def _sum_sparse(context, builder, values, columns, start, stop, weights, c, *, squared=False):  # type: ignore[no-untyped-def]
    """Sum over a sparse row; ``columns``, ``weights`` and ``c`` are None for squares."""
    first = context.cast(builder, start[1], start[0], types.intp)
    size = builder.sub(context.cast(builder, stop[1], stop[0], types.intp), first)
    x_start = builder.gep(_array(context, builder, *values).data, [first])
    lanes = _Lanes(context, builder)
    if weights is not None:
        columns_start = builder.gep(_array(context, builder, *columns).data, [first])
        w_start = _weights_pointer(context, builder, weights, c)
        weight_size = ir.Constant(ir.VectorType(lanes.intp, LANES), [8] * LANES)

    def weights_at(j, mask):  # type: ignore[no-untyped-def]
        if mask is not None:
            numbers = builder.sext(lanes.load(columns_start, j, mask), weight_size.type)
            return lanes.gather(w_start, builder.mul(numbers, weight_size), mask)
        values = ir.Constant(lanes.SUMS, ir.Undefined)  # single loads are faster than a gather
        for k in range(LANES):
            number = builder.load(builder.gep(columns_start, [builder.add(j, lanes.intp(k))]))
            value = builder.load(builder.gep(w_start, [builder.sext(number, lanes.intp)]))
            values = builder.insert_element(values, value, lanes.I32(k))
        return values

    def body(j, mask):  # type: ignore[no-untyped-def]
        w = None if weights is None else weights_at(j, mask)
        lanes.add(lanes.load(x_start, j, mask), w, squared)

    lanes.each_group(size, body)
    return lanes.result()


@intrinsic
def _dense_dot(_typing, values, i, weights, c):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _sum_dense(context, builder, *zip(signature.args, args, strict=True))

    return types.float64(values, i, weights, c), generate


@intrinsic
def _dense_square(_typing, values, i):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _sum_dense(context, builder, *zip(signature.args, args, strict=True))

    return types.float64(values, i), generate


@intrinsic
def _sparse_dot(_typing, values, columns, start, stop, weights, c):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _sum_sparse(context, builder, *zip(signature.args, args, strict=True))

    return types.float64(values, columns, start, stop, weights, c), generate


@intrinsic
def _dense_weighted_square(_typing, values, i, weights, c):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        arguments = zip(signature.args, args, strict=True)
        return _sum_dense(context, builder, *arguments, squared=True)

    return types.float64(values, i, weights, c), generate


@intrinsic
def _sparse_weighted_square(_typing, values, columns, start, stop, weights, c):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        arguments = zip(signature.args, args, strict=True)
        return _sum_sparse(context, builder, *arguments, squared=True)

    return types.float64(values, columns, start, stop, weights, c), generate


@intrinsic
def _sparse_square(_typing, values, start, stop):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        values, start, stop = zip(signature.args, args, strict=True)
        return _sum_sparse(context, builder, values, None, start, stop, None, None)

    return types.float64(values, start, stop), generate


def _prefetcher(level: int) -> Any:
    """What prefetches elements start .. stop-1, counted over the whole (contiguous) array."""

    def prefetch(_typing, array, start, stop):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            array_type, start_type, stop_type = signature.args
            intp, i32 = context.get_value_type(types.intp), ir.IntType(32)
            data = _array(context, builder, array_type, args[0]).data
            size = intp(context.get_abi_sizeof(data.type.pointee))
            first = builder.mul(context.cast(builder, args[1], start_type, types.intp), size)
            end = builder.mul(context.cast(builder, args[2], stop_type, types.intp), size)
            bytes_type = ir.IntType(8).as_pointer()
            address = builder.bitcast(data, bytes_type)
            function = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(ir.VoidType(), [bytes_type, i32, i32, i32]),
                "llvm.prefetch.p0",
            )
            read, locality, is_data = i32(0), i32(4 - level), i32(1)
            with cgutils.for_range_slice(builder, first, end, intp(CACHE_LINE), intp) as (at, _):
                builder.call(function, [builder.gep(address, [at]), read, locality, is_data])
            return context.get_dummy_value()

        return types.void(array, start, stop), generate

    return intrinsic(prefetch)


_prefetch, _prefetch_soon = _prefetcher(level=2), _prefetcher(level=1)


class _Experts:
    """Numbers of experts side by side, four at a time, and then two and one."""

    WIDTHS, I32, DOUBLE = (4, 2, 1), ir.IntType(32), ir.DoubleType()

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder
        self.intp = context.get_value_type(types.intp)

    def number(self, kind_and_value: Any) -> Any:
        kind, value = kind_and_value
        return self.context.cast(self.builder, value, kind, types.intp)

    def line(self, lines: Any, c: Any, j: Any) -> Any:
        """Where ``lines[c, j]`` begins."""
        array, builder = _array(self.context, self.builder, *lines), self.builder
        if lines[0].layout != "C" or lines[0].dtype != types.float64:
            raise TypingError(f"lines must be C-ordered float64, got {lines[0]}")
        offsets = (
            builder.mul(self.number(index), builder.extract_value(array.strides, axis))
            for axis, index in enumerate((c, j))
        )
        return cgutils.pointer_add(builder, array.data, builder.add(*offsets))

    def vector(self, array: Any, first: Any) -> Any:
        """Where the numbers of the first expert of a line are in a vector."""
        data = _array(self.context, self.builder, *array).data
        return self.builder.gep(data, [self.number(first)])

    def count(self, lines: Any) -> Any:
        """How many experts ``lines`` have."""
        return self.builder.extract_value(_array(self.context, self.builder, *lines).shape, 2)

    def each(self, first: Any, stop: Any, body: Any) -> None:
        """Call ``body(at, width)`` for all experts."""
        builder, intp = self.builder, self.intp
        for width in self.WIDTHS:
            whole = builder.and_(builder.sub(stop, first), intp(-width))
            end = builder.add(first, whole)
            with cgutils.for_range_slice(builder, first, end, intp(width), intp) as (at, _):
                body(at, width)
            first = end

    def address(self, pointer: Any, at: Any, width: int) -> Any:
        address = self.builder.gep(pointer, [at])
        if width == 1:
            return address
        return self.builder.bitcast(address, ir.VectorType(self.DOUBLE, width).as_pointer())

    def load(self, pointer: Any, at: Any, width: int) -> Any:
        return self.builder.load(self.address(pointer, at, width), align=8)

    def store(self, value: Any, pointer: Any, at: Any, width: int) -> None:
        self.builder.store(value, self.address(pointer, at, width), align=8)

    def same(self, scalar: Any, width: int) -> Any:
        """``scalar`` for each of so many experts."""
        if width == 1:
            return scalar
        undefined = ir.Constant(ir.VectorType(self.DOUBLE, width), ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, self.I32(0))
        places = ir.Constant(ir.VectorType(self.I32, width), [0] * width)
        return self.builder.shuffle_vector(first, undefined, places)

    def one(self, width: int) -> Any:
        return self.same(ir.Constant(self.DOUBLE, 1.0), width)

    def root(self, value: Any, width: int) -> Any:
        name = "llvm.sqrt.f64" if width == 1 else f"llvm.sqrt.v{width}f64"
        kind = ir.FunctionType(value.type, [value.type])
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, kind, name), [value]
        )


@intrinsic
def _add_line(_typing, lines, c, j, amount, totals, first):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        lines, c, j, amount, totals, first = zip(signature.args, args, strict=True)
        experts = _Experts(context, builder)
        line, sums = experts.line(lines, c, j), experts.vector(totals, first)

        def body(at, width):  # type: ignore[no-untyped-def]
            product = builder.fmul(experts.load(line, at, width), experts.same(amount[1], width))
            total = builder.fadd(experts.load(sums, at, width), product)
            experts.store(total, sums, at, width)

        experts.each(experts.intp(0), experts.count(lines), body)
        return context.get_dummy_value()

    return types.void(lines, c, j, types.float64, totals, first), generate


def _push(experts, span, weights, variances, c, j, x, peak, steps, gains, first):  # type: ignore[no-untyped-def]
    """Both kinds of steps; without a peak, variances are no roots."""
    builder = experts.builder
    w, sigma = experts.line(weights, c, j), experts.line(variances, c, j)
    steps, gains = experts.vector(steps, first), experts.vector(gains, first)

    def body(at, width):  # type: ignore[no-untyped-def]
        variance, value = experts.load(sigma, at, width), experts.same(x[1], width)
        along = builder.fmul(variance, value)
        step = builder.fmul(experts.load(steps, at, width), along)
        experts.store(builder.fadd(experts.load(w, at, width), step), w, at, width)
        if peak is None:
            square = builder.fmul(value, along)
        else:
            root = builder.fmul(experts.same(peak[1], width), along)
            square = builder.fmul(root, root)
        gained = builder.fmul(experts.load(gains, at, width), square)
        divisor = builder.fadd(experts.one(width), gained)
        if peak is not None:
            divisor = experts.root(divisor, width)
        experts.store(builder.fdiv(variance, divisor), sigma, at, width)

    experts.each(*span, body)
    return experts.context.get_dummy_value()


@intrinsic
def _push_confident(_typing, weights, variances, c, j, stop, x, steps, gains, first):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        weights, variances, c, j, stop, x, *rest = zip(signature.args, args, strict=True)
        experts = _Experts(context, builder)
        span = experts.intp(0), experts.number(stop)
        return _push(experts, span, weights, variances, c, j, x, None, *rest)

    return types.void(weights, variances, c, j, stop, types.float64, steps, gains, first), generate


@intrinsic
def _push_rooted(_typing, weights, variances, c, j, start, x, peak, steps, gains, first):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        weights, variances, c, j, start, *rest = zip(signature.args, args, strict=True)
        experts = _Experts(context, builder)
        span = experts.number(start), experts.count(weights)
        return _push(experts, span, weights, variances, c, j, *rest)

    numbers = types.float64, types.float64
    return types.void(weights, variances, c, j, start, *numbers, steps, gains, first), generate


def add_line(lines, c, j, amount, totals, first):  # type: ignore[no-untyped-def]
    return lambda lines, c, j, amount, totals, first: _add_line(lines, c, j, amount, totals, first)


def push_confident(weights, variances, c, j, stop, x, steps, gains, first):  # type: ignore[no-untyped-def]
    return lambda weights, variances, c, j, stop, x, steps, gains, first: _push_confident(
        weights, variances, c, j, stop, x, steps, gains, first
    )


def push_rooted(weights, variances, c, j, start, x, peak, steps, gains, first):  # type: ignore[no-untyped-def]
    return lambda weights, variances, c, j, start, x, peak, steps, gains, first: _push_rooted(
        weights, variances, c, j, start, x, peak, steps, gains, first
    )


def dense_dot(values, i, weights, c):  # type: ignore[no-untyped-def]
    return lambda values, i, weights, c: _dense_dot(values, i, weights, c)


def dense_square(values, i):  # type: ignore[no-untyped-def]
    return lambda values, i: _dense_square(values, i)


def sparse_dot(values, columns, start, stop, weights, c):  # type: ignore[no-untyped-def]
    return lambda values, columns, start, stop, weights, c: _sparse_dot(
        values, columns, start, stop, weights, c
    )


def sparse_square(values, start, stop):  # type: ignore[no-untyped-def]
    return lambda values, start, stop: _sparse_square(values, start, stop)


def dense_weighted_square(values, i, weights, c):  # type: ignore[no-untyped-def]
    return lambda values, i, weights, c: _dense_weighted_square(values, i, weights, c)


def sparse_weighted_square(values, columns, start, stop, weights, c):  # type: ignore[no-untyped-def]
    return lambda values, columns, start, stop, weights, c: _sparse_weighted_square(
        values, columns, start, stop, weights, c
    )


def prefetch_row(values, i):  # type: ignore[no-untyped-def]
    if values.layout != "C":  # a row is then spread over too many lines
        return lambda values, i: None
    return lambda values, i: _prefetch(values, i * values.shape[1], (i + 1) * values.shape[1])


def prefetch_span(array, start, stop):  # type: ignore[no-untyped-def]
    return lambda array, start, stop: _prefetch(array, start, stop)


def prefetch_soon(array, start, stop):  # type: ignore[no-untyped-def]
    return lambda array, start, stop: _prefetch_soon(array, start, stop)


@intrinsic
def byte_at(_typing: Any, text: Any, at: Any) -> Any:
    """``text[at]``, without the time that it takes to ask whether ``at`` is negative."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]], inbounds=True))

    return types.uint8(text, types.int64), generate


@intrinsic
def word_at(_typing: Any, text: Any, at: Any) -> Any:
    """The eight bytes that begin at ``text[at]``, the first one lowest; they must be there."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0]).data
        address = builder.gep(data, [args[1]], inbounds=True)
        pointer = builder.bitcast(address, ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(text, types.int64), generate


@intrinsic
def trailing_zeros(_typing: Any, number: Any) -> Any:
    """The number of zeros behind the last one of the 64 bits; 64 if there is none."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), generate


@intrinsic
def leading_zeros(_typing: Any, number: Any) -> Any:
    """The number of zeros before the first one of the 64 bits; 64 if there is none."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.IntType(1)(0))

    return types.uint64(types.uint64), generate
