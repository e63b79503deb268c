"""Primitives in LLVM's instructions, each under the name of what it means in Python.

Sums are in eight lanes, which LLVM maps onto whatever vectors there are; see
`maxmargin.core.fixed_order_sums`. The numbers of adjacent experts go through the same steps; see
`maxmargin.experts.expert_lines`. Bytes are read eight at a time; see
`maxmargin.streams.text.words`.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin

from maxmargin.core.numba_backend.contract import LANES

CACHE_LINE = 64
I1, I32, DOUBLE = ir.IntType(1), ir.IntType(32), ir.DoubleType()
# Experts are taken four at a time, and then two and one.
EXPERT_WIDTHS = (4, 2, 1)

# By name: the type of the result, and what generates the code.
PRIMITIVES: dict[str, tuple[types.Type, Callable[..., Any]]] = {}


def instructions_for(result: types.Type) -> Callable[[Any], Any]:
    """Decorator: what generates a primitive's code from a `Code` and pairs of type and value."""

    def register(generate: Callable[..., Any]) -> Callable[..., Any]:
        PRIMITIVES[generate.__name__] = result, generate
        return generate

    return register


def implement(meaning: Callable[..., Any]):
    """Make compiled code that calls ``meaning`` run the primitive of its name."""
    result, generate = PRIMITIVES[meaning.__name__]

    def lower(context, builder, call, args):
        pairs = zip(call.args, args, strict=True)
        value = generate(Code(context, builder), *pairs)
        return context.get_dummy_value() if result is types.void else value

    class PrimitiveCall(AbstractTemplate):  # type: ignore[misc]
        key = meaning

        def generic(self, args: tuple[Any, ...], kws: dict[str, Any]):
            return signature(result, *args)

    infer_global(meaning, types.Function(PrimitiveCall))
    lower_builtin(meaning, types.VarArg(types.Any))(lower)


class Code:
    """Where instructions are added. Arguments of the compiled code are pairs of type and value."""

    def __init__(self, context, builder):
        self.context, self.builder = context, builder
        self.intp = context.get_value_type(types.intp)

    def array(self, pair):
        return self.context.make_array(pair[0])(self.context, self.builder, pair[1])

    def number(self, pair):
        return self.context.cast(self.builder, pair[1], pair[0], types.intp)

    def double(self, pair):
        return self.context.cast(self.builder, pair[1], pair[0], types.float64)

    def extent(self, array, axis: int):
        return self.builder.extract_value(self.array(array).shape, axis)

    def stride(self, array, axis: int):
        return self.builder.extract_value(self.array(array).strides, axis)

    def line(self, array, *indices):
        """Pointer to the first element of ``array[indices]``."""
        pointer = self.array(array).data
        for axis, index in enumerate(indices):
            offset = self.builder.mul(self.number(index), self.stride(array, axis))
            pointer = cgutils.pointer_add(self.builder, pointer, offset)
        return pointer

    def after(self, vector, first):
        """Pointer to ``vector[first]`` of a contiguous array."""
        return self.builder.gep(self.array(vector).data, [self.number(first)])

    def size_of(self, element) -> int:
        return self.context.get_abi_sizeof(element)

    def spread(self, scalar, width: int = LANES):
        """``scalar`` in all lanes."""
        if width == 1:
            return scalar
        undefined = ir.Constant(ir.VectorType(scalar.type, width), ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, I32(0))
        return self.builder.shuffle_vector(first, undefined, same(I32, 0, width))

    def steps(self, first, stop, step: int):
        """A loop in the compiled code, with the place in it and the step."""
        return cgutils.for_range_slice(self.builder, first, stop, self.intp(step), self.intp)

    def call(self, name: str, result, *args):
        """Call a function of LLVM."""
        kind = ir.FunctionType(result, [arg.type for arg in args])
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, kind, name), args
        )

    def load(self, pointer, j, mask):
        """Elements j .. j+7 behind ``pointer``; masked ones are zero and not read."""
        vector = ir.VectorType(pointer.type.pointee, LANES)
        address = self.builder.bitcast(self.builder.gep(pointer, [j]), vector.as_pointer())
        if mask is None:
            return self.builder.load(address, align=self.size_of(vector.element))
        return self.read("load", address, vector, mask, "p0")

    def gather(self, pointer, byte_offsets, mask):
        """The elements at ``pointer`` plus eight offsets; masked ones are zero and not read."""
        vector = ir.VectorType(pointer.type.pointee, LANES)
        start = self.spread(self.builder.ptrtoint(pointer, self.intp))
        addresses = self.builder.inttoptr(
            self.builder.add(start, byte_offsets), ir.VectorType(pointer.type, LANES)
        )
        return self.read("gather", addresses, vector, mask, f"v{LANES}p0")

    def read(self, how: str, address, vector, mask, pointers: str):
        size = self.size_of(vector.element)
        kind = "i" if isinstance(vector.element, ir.IntType) else "f"
        name = f"llvm.masked.{how}.v{LANES}{kind}{8 * size}.{pointers}"
        return self.call(name, vector, address, I32(size), mask, same(vector.element, 0))


def same(element, value, width: int = LANES):
    """A constant in all lanes."""
    return ir.Constant(ir.VectorType(element, width), [value] * width)


# Eight terms of a sum, by their place and mask.
Terms = Callable[[Any, Any], Any]


def sum_in_lanes(code, size, x: Terms, w: Terms | None, squared: bool = False):
    """The sum of ``x * w``, of ``x * x * w`` if ``squared``, or without ``w`` of ``x * x``."""
    builder, intp = code.builder, code.intp
    sums = ir.VectorType(DOUBLE, LANES)
    total = cgutils.alloca_once_value(builder, same(DOUBLE, 0.0))

    def add(j, mask):
        weights, values = w and w(j, mask), x(j, mask)
        if values.type != sums:
            values = builder.fpext(values, sums)
        product = builder.fmul(values, values if squared or weights is None else weights)
        if squared:
            product = builder.fmul(product, weights)
        builder.store(builder.fadd(builder.load(total), product), total)

    whole = builder.and_(size, intp(-LANES))
    with code.steps(intp(0), whole, LANES) as (j, _):
        add(j, None)
    left = builder.sub(size, whole)
    with builder.if_then(builder.icmp_signed(">", left, intp(0))):
        add(whole, builder.icmp_signed("<", lane_numbers(code), code.spread(left)))
    return folded(builder, builder.load(total))


def lane_numbers(code):
    return ir.Constant(ir.VectorType(code.intp, LANES), list(range(LANES)))


def folded(builder, lanes):
    """The sum over all lanes, in halves."""
    half = LANES // 2
    while half:
        low, high = (
            builder.shuffle_vector(lanes, lanes, ir.Constant(ir.VectorType(I32, half), numbers))
            for numbers in (list(range(half)), list(range(half, 2 * half)))
        )
        lanes = builder.fadd(low, high)
        half //= 2
    return builder.extract_element(lanes, I32(0))


def dense(code, matrix, i) -> Terms:
    """The elements of row ``i`` of a matrix of any layout."""
    builder, start = code.builder, code.line(matrix, i)
    if matrix[0].layout == "C":
        return lambda j, mask: code.load(start, j, mask)

    def strided(j, mask):
        columns = builder.add(code.spread(j), lane_numbers(code))
        offsets = builder.mul(columns, code.spread(code.stride(matrix, 1)))
        return code.gather(start, offsets, same(I1, 1) if mask is None else mask)

    return strided


def scattered(code, weights, c, columns, first) -> Terms:
    """The weights of the columns from ``columns[first]`` on."""
    if weights[0].layout != "C" or weights[0].dtype != types.float64:
        raise TypingError(f"weights must be C-ordered float64, got {weights[0]}")
    builder, intp = code.builder, code.intp
    start, columns_start = code.line(weights, c), code.after(columns, first)

    def weights_at(j, mask):
        sizes = same(intp, 8)
        if mask is not None:
            numbers = builder.sext(code.load(columns_start, j, mask), sizes.type)
            return code.gather(start, builder.mul(numbers, sizes), mask)
        # Single loads are faster than a gather.
        values = ir.Constant(ir.VectorType(DOUBLE, LANES), ir.Undefined)
        for k in range(LANES):
            number = builder.load(builder.gep(columns_start, [builder.add(j, intp(k))]))
            value = builder.load(builder.gep(start, [builder.sext(number, intp)]))
            values = builder.insert_element(values, value, I32(k))
        return values

    return weights_at


@instructions_for(types.float64)
def dense_dot(code, values, i, weights, c):
    size = code.extent(values, 1)
    return sum_in_lanes(code, size, dense(code, values, i), dense(code, weights, c))


@instructions_for(types.float64)
def dense_square(code, values, i):
    return sum_in_lanes(code, code.extent(values, 1), dense(code, values, i), None)


@instructions_for(types.float64)
def dense_weighted_square(code, values, i, weights, c):
    size = code.extent(values, 1)
    return sum_in_lanes(code, size, dense(code, values, i), dense(code, weights, c), squared=True)


def sparse_sum(code, values, start, stop, w: Terms | None, squared: bool = False):
    size = code.builder.sub(code.number(stop), code.number(start))
    first = code.after(values, start)
    return sum_in_lanes(code, size, lambda j, mask: code.load(first, j, mask), w, squared)


@instructions_for(types.float64)
def sparse_dot(code, values, columns, start, stop, weights, c):
    return sparse_sum(code, values, start, stop, scattered(code, weights, c, columns, start))


@instructions_for(types.float64)
def sparse_square(code, values, start, stop):
    return sparse_sum(code, values, start, stop, None)


@instructions_for(types.float64)
def sparse_weighted_square(code, values, columns, start, stop, weights, c):
    w = scattered(code, weights, c, columns, start)
    return sparse_sum(code, values, start, stop, w, squared=True)


def prefetch(code, array, start, stop, level: int = 2):
    """Prefetch elements start .. stop-1, counted over the whole (contiguous) array."""
    builder, data = code.builder, code.array(array).data
    size = code.intp(code.size_of(data.type.pointee))
    address = builder.bitcast(data, ir.IntType(8).as_pointer())
    read, locality, is_data = I32(0), I32(4 - level), I32(1)
    with code.steps(builder.mul(start, size), builder.mul(stop, size), CACHE_LINE) as (at, _):
        place = builder.gep(address, [at])
        code.call("llvm.prefetch.p0", ir.VoidType(), place, read, locality, is_data)


@instructions_for(types.void)
def prefetch_row(code, values, i):
    if values[0].layout == "C":  # else a row is spread over too many lines
        start = code.builder.mul(code.number(i), code.extent(values, 1))
        prefetch(code, values, start, code.builder.add(start, code.extent(values, 1)))


@instructions_for(types.void)
def prefetch_span(code, array, start, stop):
    prefetch(code, array, code.number(start), code.number(stop))


@instructions_for(types.void)
def prefetch_soon(code, array, start, stop):
    prefetch(code, array, code.number(start), code.number(stop), level=1)


class Experts:
    """The numbers of some experts, ``width`` of them from the place ``at`` on."""

    def __init__(self, code, at, width: int):
        self.code, self.at, self.width = code, at, width

    def address(self, pointer):
        address = self.code.builder.gep(pointer, [self.at])
        if self.width == 1:
            return address
        return self.code.builder.bitcast(address, ir.VectorType(DOUBLE, self.width).as_pointer())

    def load(self, pointer):
        return self.code.builder.load(self.address(pointer), align=8)

    def store(self, value, pointer):
        self.code.builder.store(value, self.address(pointer), align=8)

    def all(self, scalar):
        """``scalar`` for each of them."""
        return self.code.spread(scalar, self.width)

    def root(self, value):
        name = "llvm.sqrt.f64" if self.width == 1 else f"llvm.sqrt.v{self.width}f64"
        return self.code.call(name, value.type, value)


def each_expert(code, span: tuple[Any, Any], body: Callable[[Experts], None]):
    """Let ``body`` add the code for the experts from the first to before the second place."""
    first, stop = span
    for width in EXPERT_WIDTHS:
        whole = code.builder.and_(code.builder.sub(stop, first), code.intp(-width))
        end = code.builder.add(first, whole)
        with code.steps(first, end, width) as (at, _):
            body(Experts(code, at, width))
        first = end


@instructions_for(types.void)
def add_line(code, lines, c, j, amount, totals, first):
    line, sums, factor = code.line(lines, c, j), code.after(totals, first), code.double(amount)

    def body(some):
        product = code.builder.fmul(some.load(line), some.all(factor))
        some.store(code.builder.fadd(some.load(sums), product), sums)

    each_expert(code, (code.intp(0), code.extent(lines, 2)), body)


def push(code, span, w, sigma, x, peak, steps, gains):
    """Both kinds of steps; without a peak, variances are no roots. Arrays are pointers."""
    builder = code.builder

    def body(some):
        variance, value = some.load(sigma), some.all(x)
        along = builder.fmul(variance, value)
        step = builder.fmul(some.load(steps), along)
        some.store(builder.fadd(some.load(w), step), w)
        if peak is None:
            square = builder.fmul(value, along)
        else:
            root = builder.fmul(some.all(peak), along)
            square = builder.fmul(root, root)
        gained = builder.fmul(some.load(gains), square)
        divisor = builder.fadd(some.all(DOUBLE(1.0)), gained)
        if peak is not None:
            divisor = some.root(divisor)
        some.store(builder.fdiv(variance, divisor), sigma)

    each_expert(code, span, body)


@instructions_for(types.void)
def push_confident(code, weights, variances, c, j, stop, x, *rest):
    *vectors, first = rest
    steps, gains = (code.after(vector, first) for vector in vectors)
    w, sigma = code.line(weights, c, j), code.line(variances, c, j)
    push(code, (code.intp(0), code.number(stop)), w, sigma, code.double(x), None, steps, gains)


@instructions_for(types.void)
def push_rooted(code, weights, variances, c, j, start, x, *rest):
    peak, *vectors, first = rest
    steps, gains = (code.after(vector, first) for vector in vectors)
    w, sigma = code.line(weights, c, j), code.line(variances, c, j)
    span = code.number(start), code.extent(weights, 2)
    push(code, span, w, sigma, code.double(x), code.double(peak), steps, gains)


@instructions_for(types.uint64)
def word_at(code, text, at):
    pointer = code.builder.bitcast(code.after(text, at), ir.IntType(64).as_pointer())
    return code.builder.load(pointer, align=1)


@instructions_for(types.uint64)
def trailing_zeros(code, number):
    return code.builder.cttz(number[1], I1(0))


@instructions_for(types.uint64)
def leading_zeros(code, number):
    return code.builder.ctlz(number[1], I1(0))
