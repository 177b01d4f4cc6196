"""SIMD code that Numba's own vectoriser does not generate: sparse row gather and scatter, row copy.

Gather and scatter keep one dense row in vector registers while they iterate over the non-zeros of
one sparse row. They are as fast as ``torch.embedding_bag`` in float32, also support float64, and
can be called inside compiled loops.
"""

from __future__ import annotations

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_FUSE = ("contract",)  # allows fused multiply-add


class _Emitter:
    """Generates vector code; the length of the tuple in the first argument is the row width."""

    def __init__(self, context, builder, signature, arguments) -> None:
        self.context, self.builder = context, builder
        self.signature, self.arguments = signature, arguments
        self.width = signature.args[0].count

    def array(self, position: int):
        make = self.context.make_array(self.signature.args[position])
        return make(self.context, self.builder, self.arguments[position])

    def vector_type(self, position: int) -> ir.VectorType:
        dtype = self.signature.args[position].dtype
        return ir.VectorType(self.context.get_value_type(dtype), self.width)

    def bytes(self, position: int) -> int:
        return self.signature.args[position].dtype.bitwidth // 8

    def row(self, array, number, vector: ir.VectorType):
        start = self.builder.mul(number, ir.Constant(_I64, self.width))
        return self.builder.bitcast(self.builder.gep(array.data, [start]), vector.as_pointer())

    def index(self, array, k):
        value = self.builder.load(self.builder.gep(array.data, [k]))
        return value if value.type.width == 64 else self.builder.sext(value, _I64)

    def splat(self, array, k, vector: ir.VectorType):
        return self.repeat(self.builder.load(self.builder.gep(array.data, [k])), vector)

    def repeat(self, value, vector: ir.VectorType):
        undefined = ir.Constant(vector, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(_I32, 0))
        zeros = ir.Constant(ir.VectorType(_I32, self.width), None)
        return self.builder.shuffle_vector(first, undefined, zeros)

    def multiply_add(self, a, b, c):
        return self.builder.fadd(self.builder.fmul(a, b, flags=_FUSE), c, flags=_FUSE)

    def loop(self, begin, end, initial, body):
        """Emit: for k in [begin, end): accumulator = body(k, accumulator); return the accumulator.

        ``initial`` is None for a loop without an accumulator.
        """
        builder = self.builder
        before = builder.basic_block
        head, inside, after = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        k = builder.phi(_I64)
        k.add_incoming(begin, before)
        accumulator = None
        if initial is not None:
            accumulator = builder.phi(initial.type)
            accumulator.add_incoming(initial, before)
        builder.cbranch(builder.icmp_signed("<", k, end), inside, after)
        builder.position_at_end(inside)
        following = body(k, accumulator)
        k.add_incoming(builder.add(k, ir.Constant(_I64, 1)), builder.basic_block)
        if accumulator is not None:
            accumulator.add_incoming(following, builder.basic_block)
        builder.branch(head)
        builder.position_at_end(after)
        return accumulator


@intrinsic
def gather_row(typing_context, lanes, begin, end, indices, values, dense, start, out, row):
    """Set ``out[row] = start + sum of values[k] * dense[indices[k]]`` for k in [begin, end).

    The length of the tuple ``lanes`` is the row width; ``dense`` and ``out`` are C-contiguous (n,
    width), ``start`` is (width,). Bounds are not checked.
    """
    signature = types.void(lanes, begin, end, indices, values, dense, start, out, row)

    def generate(context, builder, signature, arguments):
        emit = _Emitter(context, builder, signature, arguments)
        indices, values, dense, start, out = (emit.array(position) for position in range(3, 8))
        vector, align = emit.vector_type(5), emit.bytes(5)

        def body(k, total):
            source = emit.row(dense, emit.index(indices, k), vector)
            loaded = builder.load(source, align=align)
            return emit.multiply_add(emit.splat(values, k, vector), loaded, total)

        first = builder.load(emit.row(start, ir.Constant(_I64, 0), vector), align=align)
        total = emit.loop(arguments[1], arguments[2], first, body)
        builder.store(total, emit.row(out, arguments[8], vector), align=align)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def scatter_row(typing_context, lanes, begin, end, indices, values, dense, row, out):
    """Add ``values[k] * dense[row]`` to ``out[indices[k]]`` for k in [begin, end).

    The transpose of ``gather_row``, under the same conditions.
    """
    signature = types.void(lanes, begin, end, indices, values, dense, row, out)

    def generate(context, builder, signature, arguments):
        emit = _Emitter(context, builder, signature, arguments)
        indices, values, dense, out = (emit.array(position) for position in (3, 4, 5, 7))
        vector, align = emit.vector_type(5), emit.bytes(5)
        source = builder.load(emit.row(dense, arguments[6], vector), align=align)

        def body(k, _):
            target = emit.row(out, emit.index(indices, k), vector)
            loaded = builder.load(target, align=align)
            product = emit.multiply_add(emit.splat(values, k, vector), source, loaded)
            builder.store(product, target, align=align)

        emit.loop(arguments[1], arguments[2], None, body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def copy_row(typing_context, lanes, source, row, out, out_row):
    """Set ``out[out_row] = source[row]``; both C-contiguous, row width ``len(lanes)``."""
    signature = types.void(lanes, source, row, out, out_row)

    def generate(context, builder, signature, arguments):
        emit = _Emitter(context, builder, signature, arguments)
        vector, align = emit.vector_type(1), emit.bytes(1)
        loaded = builder.load(emit.row(emit.array(1), arguments[2], vector), align=align)
        builder.store(loaded, emit.row(emit.array(3), arguments[4], vector), align=align)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_row(typing_context, lanes, factor, source, row, out, out_row):
    """Add ``factor * source[row]`` to ``out[out_row]``; the row width is ``len(lanes)``.

    ``factor`` has the dtype of ``source``. The product is rounded once before it is added to a
    wider ``out``.
    """
    signature = types.void(lanes, factor, source, row, out, out_row)

    def generate(context, builder, signature, arguments):
        emit = _Emitter(context, builder, signature, arguments)
        vector, align = emit.vector_type(2), emit.bytes(2)
        wide, wide_align = emit.vector_type(4), emit.bytes(4)
        source = builder.load(emit.row(emit.array(2), arguments[3], vector), align=align)
        target = emit.row(emit.array(4), arguments[5], wide)
        before = builder.load(target, align=wide_align)
        factor = emit.repeat(arguments[1], vector)
        if vector == wide:
            total = emit.multiply_add(factor, source, before)
        else:
            total = builder.fadd(builder.fpext(builder.fmul(factor, source), wide), before)
        builder.store(total, target, align=wide_align)
        return context.get_dummy_value()

    return signature, generate


class Row(types.Type):
    """A float32 row in vector registers, as a value; ``+``, ``-`` and ``*`` give rows."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Row({width})")


@register_model(Row)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager, row: Row) -> None:
        super().__init__(manager, row, ir.VectorType(ir.FloatType(), row.width))


def _of_rows(instruction: str):
    """Return an operation on two rows that compiled code can call."""

    @intrinsic
    def apply(typing_context, a, b):
        def generate(context, builder, signature, arguments):
            return getattr(builder, instruction)(*arguments, flags=_FUSE)

        return a(a, b), generate

    def typed(a, b):
        if isinstance(a, Row) and isinstance(b, Row):
            return lambda a, b: apply(a, b)

    return typed


for _operator, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"),
                                (operator.mul, "fmul")):  # fmt: skip
    overload(_operator)(_of_rows(_instruction))


@intrinsic
def load_row(typing_context, lanes, source, number):
    """Return row ``number`` of ``source``: C-contiguous float32, row width ``len(lanes)``."""

    def generate(context, builder, signature, arguments):
        emit = _Emitter(context, builder, signature, arguments)
        pointer = emit.row(emit.array(1), arguments[2], emit.vector_type(1))
        return builder.load(pointer, align=emit.bytes(1))

    return Row(len(lanes))(lanes, source, number), generate


@intrinsic
def store_row(typing_context, lanes, value, out, number):
    """Set row ``number`` of ``out``, with the conditions of ``load_row``."""

    def generate(context, builder, signature, arguments):
        emit = _Emitter(context, builder, signature, arguments)
        pointer = emit.row(emit.array(2), arguments[3], emit.vector_type(2))
        builder.store(arguments[1], pointer, align=emit.bytes(2))
        return context.get_dummy_value()

    return types.void(lanes, value, out, number), generate


@intrinsic
def row_of(typing_context, lanes, value):
    """Return a row of width ``len(lanes)`` filled with the float32 ``value``."""

    def generate(context, builder, signature, arguments):
        emit = _Emitter(context, builder, signature, arguments)
        return emit.repeat(arguments[1], ir.VectorType(ir.FloatType(), emit.width))

    return Row(len(lanes))(lanes, types.float32), generate


@intrinsic
def row_total(typing_context, row):
    """Return the sum of a row."""

    def generate(context, builder, signature, arguments):
        vector = arguments[0].type
        kind = ir.FunctionType(vector.element, [vector.element, vector])
        name = f"llvm.vector.reduce.fadd.v{vector.count}f32"
        total = cgutils.get_or_insert_function(builder.module, kind, name)
        start = ir.Constant(vector.element, 0)
        return builder.call(total, [start, arguments[0]], fastmath=("reassoc",))

    return types.float32(row), generate


@intrinsic
def where_positive(typing_context, row, above, otherwise):
    """Return a row: ``above`` where ``row`` is above 0, ``otherwise`` elsewhere."""

    def generate(context, builder, signature, arguments):
        zero = ir.Constant(arguments[0].type, None)
        return builder.select(builder.fcmp_ordered(">", arguments[0], zero), *arguments[1:])

    return row(row, above, otherwise), generate
