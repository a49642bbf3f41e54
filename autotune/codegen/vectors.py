"""Vector stores split into wide loads and stores where the target has them, else into lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd
from typing import Protocol

from autotune.codegen.expressions import SUM, UNARY, ExpressionPrinter
from autotune.errors import LoweringError
from autotune.ir import (
    Add,
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Conditional,
    Expr,
    FloorDiv,
    FloorMod,
    Imm,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Ramp,
    Stmt,
    Store,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from autotune.ir.dtype import element_of, lanes_of, with_lanes
from autotune.kernel.kernel import item_bytes

# Built-in vector types whose lanes have names.
_NAMED = {
    "float32": "float", "float64": "double", "int32": "int", "uint32": "uint", "int16": "short",
    "uint16": "ushort", "int64": "longlong", "uint64": "ulonglong", "int8": "char",
    "uint8": "uchar", "bool": "uchar",
}  # fmt: skip
# What carries so many bytes of any other dtype.
_CARRIERS = {2: "ushort", 4: "unsigned int", 8: "uint2", 16: "uint4"}


def lanes_stored(node: Store) -> int:
    """Return how many lanes a store writes."""
    return max(lanes_of(node.indices[0].dtype), lanes_of(node.value.dtype))


def at_lane(expr: Expr, lane: int, temporaries: dict[Expr, list[Var]]) -> Expr:
    """Return the scalar value of one lane of a vector expression.

    ``temporaries`` are the variables for the lanes of what was loaded before.
    """
    if expr in temporaries:
        return temporaries[expr][lane]
    if lanes_of(expr.dtype) == 1:
        return expr

    def part(e: Expr) -> Expr:
        return at_lane(e, lane, temporaries)

    match expr:
        case Ramp(base, stride, _):
            return Add.fold(base, IntImm(lane * stride, base.dtype))
        case Broadcast(value, _):
            return value
        case BinaryOp(a, b):
            return type(expr).fold(part(a), part(b))
        case _:
            return _lanewise(expr, part, 1)


def slice_of(expr: Expr, first: int, lanes: int) -> Expr:
    """Return some lanes of a vector expression, as a narrower vector."""
    if lanes_of(expr.dtype) == 1:
        return expr

    def part(e: Expr) -> Expr:
        return slice_of(e, first, lanes)

    match expr:
        case Ramp(base, stride, _):
            return Ramp(Add.fold(base, IntImm(first * stride, base.dtype)), stride, lanes)
        case Broadcast(value, _):
            return Broadcast(value, lanes)
        case BinaryOp(a, b):
            return type(expr)(part(a), part(b))
        case _:
            return _lanewise(expr, part, lanes)


def _lanewise(expr: Expr, part: Callable[[Expr], Expr], lanes: int) -> Expr:
    """Return an elementwise operation on parts of its operands, of ``lanes`` lanes each."""
    match expr:
        case Load(buffer, indices):
            return Load(buffer, tuple(map(part, indices)))
        case Conditional(cond, then, other):
            return type(expr)(part(cond), part(then), part(other))
        case Not(a):
            return Not(part(a))
        case Cast(value, dtype):
            return Cast(part(value), with_lanes(dtype, lanes))
        case Call(name, args, dtype):
            return Call(name, tuple(map(part, args)), with_lanes(dtype, lanes))
        case _:
            raise LoweringError(f"no lanes of {type(expr).__name__} in {expr}")


def is_uniform(condition: Expr) -> bool:
    """Return whether a condition is the same in all lanes."""
    return lanes_of(condition.dtype) == 1 or isinstance(condition, Broadcast)


def factor_of(expr: Expr, known: Mapping[Expr, int]) -> int:
    """Return a number that divides the value of an index for certain; 0 divides by all.

    Args:
        expr: the index.
        known: such numbers of variables.
    """
    match expr:
        case IntImm(value, _):
            return abs(value)
        case Add(a, b) | Sub(a, b) | Min(a, b) | Max(a, b) | Conditional(_, a, b):
            return gcd(factor_of(a, known), factor_of(b, known))
        case Mul(a, b):
            return factor_of(a, known) * factor_of(b, known)
        case FloorMod(a, IntImm(c, _)) | TruncMod(a, IntImm(c, _)):
            return gcd(factor_of(a, known), c)
        case FloorDiv(a, IntImm(c, _)) | TruncDiv(a, IntImm(c, _)):
            whole = factor_of(a, known)
            return whole // c if c > 0 and whole % c == 0 else 1
        case Broadcast(a, _):
            return factor_of(a, known)
        case _:
            return known.get(expr, 1)


class Writer(Protocol):
    """The destination of lines: the statement printer."""

    def line(self, text: str) -> None:
        """Write one line."""

    def open(self) -> None:
        """Begin a scope, one level deeper."""

    def close(self) -> None:
        """End a scope."""

    def print(self, stmt: Stmt) -> None:
        """Write a statement, such as the store of one lane."""


class VectorPrinter:
    """Prints the vector stores of one function.

    Args:
        expressions: prints what is in the lanes.
        writer: takes the lines.
    """

    def __init__(self, expressions: ExpressionPrinter, writer: Writer) -> None:
        self.expressions = expressions
        self.writer = writer
        self._factors: dict[Expr, int] = {}

    # -- alignment ---------------------------------------------------------------------------

    def define(self, var: Var, value: Expr) -> None:
        """Remember what a named value is a multiple of."""
        self._factors[var] = self.factor(value)

    def factor(self, expr: Expr) -> int:
        """Return a number that divides the value of an index for certain; 0 divides by all."""
        return factor_of(expr, self._factors)

    def is_wide(self, buffer: Buffer, index: Expr) -> bool:
        """Return whether one instruction reads or writes all lanes: neighbours, and aligned."""
        limit = self.expressions.dialect.vector_bytes
        if not isinstance(index, Ramp) or index.stride != 1 or buffer.scope == "local":
            return False
        lanes = index.lanes
        if lanes & (lanes - 1) or not 2 <= lanes * item_bytes(buffer.dtype) <= limit:
            return False
        return self.factor(index.base) % lanes == 0

    # -- stores ------------------------------------------------------------------------------

    def store(self, node: Store) -> None:
        """Write a vector store, in parts as wide as the target takes."""
        lanes = lanes_stored(node)
        if not self.expressions.dialect.vector_bytes:
            self._lanes(node, lanes, {})
            return
        widest = max(item_bytes(element_of(d)) for d in _dtypes(node))
        width = max(1, self.expressions.dialect.vector_bytes // widest)
        if lanes <= width or lanes % width:
            self._part(node, lanes)
            return
        index, value = node.indices[0], node.value
        for first in range(0, lanes, width):
            part = slice_of(index, first, width), slice_of(value, first, width)
            self._part(Store(node.buffer, (part[0],), part[1]), width)

    def _part(self, node: Store, lanes: int) -> None:
        buffer, index = node.buffer, node.indices[0]
        wide = self.is_wide(buffer, index)
        if wide:
            text = self._vector_text(node.value, buffer.dtype, lanes)
            if text is not None:
                self.writer.line(f"{self._place(buffer, index, False)} = {text};")
                return
        loads = self._wide_loads(node.value)
        if not loads:  # no temporaries, so no scope
            write = self._store_lanes if wide else self._lanes
            write(node, lanes, {})
            return
        self.writer.line("{")
        self.writer.open()
        temporaries = {load: self._load(load, lanes) for load in loads}
        if wide:
            self._store_lanes(node, lanes, temporaries)
        else:
            self._lanes(node, lanes, temporaries)
        self.writer.close()
        self.writer.line("}")

    def _lanes(self, node: Store, lanes: int, temporaries: dict[Expr, list[Var]]) -> None:
        for lane in range(lanes):
            index = at_lane(node.indices[0], lane, {})
            self.writer.print(Store(node.buffer, (index,), at_lane(node.value, lane, temporaries)))

    def _store_lanes(self, node: Store, lanes: int, temporaries: dict[Expr, list[Var]]) -> None:
        """Compute each lane, then write all at once."""
        buffer, names = node.buffer, self.expressions.names
        values = [self.expressions.text(at_lane(node.value, i, temporaries)) for i in range(lanes)]
        place = self._place(buffer, node.indices[0], False)
        named = self._named(buffer.dtype, lanes)
        if named:
            self.writer.line(f"{place} = make_{named}({', '.join(values)});")
            return
        name = names.declare(object(), "lanes")
        self.writer.line(f"{self._array(buffer.dtype, lanes, name)} = {{{', '.join(values)}}};")
        self.writer.line(f"{place} = *(const {self._type(buffer.dtype, lanes)}*){name};")

    # -- wide loads --------------------------------------------------------------------------

    def _wide_loads(self, expr: Expr) -> list[Expr]:
        """Return the loads that can be wide vectors, each once, in the order of their use.

        Nothing under a condition that differs between lanes, as it may not be loaded at all.
        """
        found: dict[Expr, None] = {}
        self._search(expr, found)
        return list(found)

    def _search(self, expr: Expr, found: dict[Expr, None]) -> None:
        """Note the loads in an expression that can be wide vectors."""
        match expr:
            case Load() if self.is_wide(expr.buffer, expr.indices[0]):
                found[expr] = None
            case Conditional(dtype=dtype):
                if self._vector_text(expr, element_of(dtype), lanes_of(dtype)) is not None:
                    found[expr] = None
            case _:
                for value in _operands(expr):
                    self._search(value, found)

    def _load(self, expr: Expr, lanes: int) -> list[Var]:
        """Write the load of a vector into a temporary; return the variables of its lanes."""
        dtype, names = element_of(expr.dtype), self.expressions.names
        stem = names[expr.buffer] if isinstance(expr, Load) else "value"
        name = names.declare(object(), f"{stem}_lanes")
        text = self._vector_text(expr, dtype, lanes)
        named = self._named(dtype, lanes)
        if named:
            self.writer.line(f"const {named} {name} = {text};")
            parts = [f"{name}.{part}" for part in "xyzw"[:lanes]]
        else:
            self.writer.line(f"{self._array(dtype, lanes, name)};")
            self.writer.line(f"*({self._type(dtype, lanes)}*){name} = {text};")
            parts = [f"{name}[{i}]" for i in range(lanes)]
        variables = [Var(part, dtype) for part in parts]
        for var in variables:
            names.set(var, var.name)
        return variables

    def _vector_text(self, expr: Expr, dtype: str, lanes: int) -> str | None:
        """Return a vector as one value of its type: a wide load, a constant, a choice of them."""
        if element_of(expr.dtype) != dtype or self.expressions.dialect.vector_bytes == 0:
            return None
        if isinstance(expr, Load) and self.is_wide(expr.buffer, expr.indices[0]):
            return self._place(expr.buffer, expr.indices[0], True)
        if isinstance(expr, Broadcast):
            named = self._named(dtype, lanes)
            if named:
                value = self.expressions.text(expr.value)
                return f"make_{named}({', '.join([value] * lanes)})"
            is_zero = isinstance(expr.value, Imm) and expr.value.value == 0
            size = lanes * item_bytes(dtype)
            return (
                f"make_{_CARRIERS[size]}({', '.join('0' * (size // 4))})"
                if (is_zero and size in (8, 16))
                else None
            )
        if isinstance(expr, Conditional) and is_uniform(expr.cond):
            then = self._vector_text(expr.then, dtype, lanes)
            other = self._vector_text(expr.other, dtype, lanes)
            if then is None or other is None:
                return None
            cond = expr.cond.value if isinstance(expr.cond, Broadcast) else expr.cond
            return f"{self.expressions.text(cond, UNARY)} ? {then} : {other}"
        return None

    # -- texts -------------------------------------------------------------------------------

    def _place(self, buffer: Buffer, index: Expr, const: bool) -> str:
        assert isinstance(index, Ramp)
        kind = self._type(buffer.dtype, index.lanes)
        offset = self.expressions.text(index.base, SUM)
        name = self.expressions.names[buffer]
        address = name if offset == "0" else f"({name} + {offset})"
        return f"*({'const ' if const else ''}{kind}*){address}"

    def _named(self, dtype: str, lanes: int) -> str | None:
        """Return the built-in vector type with named lanes, if there is one."""
        return f"{_NAMED[dtype]}{lanes}" if dtype in _NAMED and lanes in (2, 4) else None

    def _type(self, dtype: str, lanes: int) -> str:
        return self._named(dtype, lanes) or _CARRIERS[lanes * item_bytes(dtype)]

    def _array(self, dtype: str, lanes: int, name: str) -> str:
        storage = self.expressions.scalar_of(dtype).storage
        return f"__align__({lanes * item_bytes(dtype)}) {storage} {name}[{lanes}]"


def _dtypes(node: Store) -> set[str]:
    """Return the dtypes of what a store writes and of all it loads."""
    return {node.buffer.dtype, *(load.buffer.dtype for load in _loads(node.value))}


def _loads(expr: Expr) -> Iterator[Load]:
    if isinstance(expr, Load):
        yield expr
    for value in _operands(expr):
        yield from _loads(value)


def _operands(expr: Expr) -> tuple[Expr, ...]:
    """Return the values that one is computed of in each lane: neither conditions nor indices."""
    match expr:
        case BinaryOp(a, b):
            return a, b
        case Cast():
            return (expr.value,)
        case Conditional():
            return expr.then, expr.other
        case Call():
            return expr.args
        case _:
            return ()
