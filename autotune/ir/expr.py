"""All expression nodes, exported from one module."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, ClassVar

from autotune.ir.base import (
    BinaryOp,
    Call,
    Cast,
    Expr,
    ExprLike,
    FloatImm,
    Imm,
    IntImm,
    Not,
    Operand,
    Var,
    as_expr,
    cast,
    const,
    match_types,
)
from autotune.ir.dtype import element_of, lanes_of, with_lanes
from autotune.ir.itervar import IterVar, Range, whole
from autotune.ir.node import Below, Node, only
from autotune.ir.operators import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    CompareOp,
    Div,
    FloorDiv,
    FloorMod,
    IntDivision,
    LogicalOp,
    Max,
    Min,
    Mul,
    Or,
    Sub,
    TruncDiv,
    TruncMod,
)

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "And",
    "BinaryOp",
    "Broadcast",
    "Call",
    "Cast",
    "Combiner",
    "CompareOp",
    "Conditional",
    "Div",
    "Expr",
    "ExprLike",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "IfThenElse",
    "Imm",
    "IntDivision",
    "IntImm",
    "IterVar",
    "Load",
    "LogicalOp",
    "Max",
    "Min",
    "Mul",
    "Node",
    "Not",
    "Operand",
    "Or",
    "ProducerLoad",
    "Ramp",
    "Range",
    "Reduce",
    "Select",
    "Sub",
    "TruncDiv",
    "TruncMod",
    "Var",
    "as_expr",
    "cast",
    "const",
    "match_types",
    "whole",
]


class Conditional(Expr):
    """``then`` if ``cond`` holds, or else ``other``."""

    __slots__ = ("cond", "other", "then")
    __match_args__ = ("cond", "then", "other")
    below: ClassVar[Below] = attrgetter("cond", "then", "other")

    def __init__(self, cond: Expr, then: Expr, other: Expr) -> None:
        self.cond = cond
        self.then = then
        self.other = other
        self.dtype = then.dtype

    @classmethod
    def fold(cls, cond: Expr, then: Expr, other: Expr) -> Expr:
        """Choose at once where the condition is a constant; both values have one dtype."""
        if isinstance(cond, Imm):
            return then if cond.value else other
        return cls(cond, then, other)


class Select(Conditional):
    """A choice between two values that may both be computed."""

    __slots__ = ()


class IfThenElse(Conditional):
    """A choice of which only the taken side is computed: it guards loads out of bounds."""

    __slots__ = ()


class Load(Expr):
    """A read of a buffer. After flattening there is one index, which may be a vector."""

    __slots__ = ("buffer", "indices")
    __match_args__ = ("buffer", "indices")
    below: ClassVar[Below] = attrgetter("indices")

    def __init__(self, buffer: Any, indices: tuple[Expr, ...]) -> None:
        self.buffer = buffer
        self.indices = indices
        self.dtype = buffer.dtype
        if indices and indices[-1].dtype != "int32":
            self.dtype = with_lanes(buffer.dtype, lanes_of(indices[-1].dtype))


class ProducerLoad(Expr):
    """A read of one element of a tensor, before lowering."""

    __slots__ = ("indices", "tensor")
    __match_args__ = ("tensor", "indices")
    below: ClassVar[Below] = attrgetter("indices")

    def __init__(self, tensor: Any, indices: tuple[Expr, ...]) -> None:
        self.tensor = tensor
        self.indices = indices
        self.dtype = tensor.dtype


class Combiner:
    """The combiner of a reduction of two (tuples of) values, and its identity.

    ``result`` is written in the variables ``lhs`` and ``rhs``; ``name`` is ``"sum"``, ``"min"``,
    ``"max"`` or ``"custom"``.
    """

    __slots__ = ("identity", "lhs", "name", "result", "rhs")

    def __init__(
        self,
        name: str,
        lhs: tuple[Var, ...],
        rhs: tuple[Var, ...],
        result: tuple[Expr, ...],
        identity: tuple[Expr, ...],
    ) -> None:
        self.name = name
        self.lhs = lhs
        self.rhs = rhs
        self.result = result
        self.identity = identity


class Reduce(Expr):
    """Value ``value_index`` of reducing ``sources`` over ``axes`` where ``condition`` holds.

    ``init`` is empty, or the values to begin with instead of the identity. A reduction stands
    only at the top of the body of a compute.
    """

    __slots__ = ("axes", "combiner", "condition", "init", "sources", "value_index")
    __match_args__ = ("combiner", "sources", "axes", "condition", "value_index", "init")

    def __init__(
        self,
        combiner: Combiner,
        sources: tuple[Expr, ...],
        axes: tuple[IterVar, ...],
        condition: Expr,
        value_index: int = 0,
        init: tuple[Expr, ...] = (),
    ) -> None:
        self.combiner = combiner
        self.sources = sources
        self.axes = axes
        self.condition = condition
        self.value_index = value_index
        self.init = init
        self.dtype = sources[value_index].dtype


class Ramp(Expr):
    """The vector ``base, base + stride, ...`` of so many lanes."""

    __slots__ = ("base", "lanes", "stride")
    __match_args__ = ("base", "stride", "lanes")
    below: ClassVar[Below] = only("base")

    def __init__(self, base: Expr, stride: int, lanes: int) -> None:
        self.base = base
        self.stride = stride
        self.lanes = lanes
        self.dtype = f"{element_of(base.dtype)}x{lanes}"


class Broadcast(Expr):
    """The vector that holds ``value`` in each of its lanes."""

    __slots__ = ("lanes", "value")
    __match_args__ = ("value", "lanes")

    def __init__(self, value: Expr, lanes: int) -> None:
        self.value = value
        self.lanes = lanes
        self.dtype = f"{element_of(value.dtype)}x{lanes}"
