"""One operation's reads of another: their indices, and how these relate to its own axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary

from autotune.ir import Add, Call, Conditional, Expr, IntImm, Sub, Var, reads_in
from autotune.ir.structure import variables, walk
from autotune.te.tensor import ComputeOp, Operation

# Attribute of an operation: names of axes that index constant matrices.
CONSTANT_INDICES = "auto_scheduler_simplify_const_tensor_indices"
_EXPENSIVE = ("exp",)
# What operations read, and at which indices; rules ask it of each again and again.
Reads = Mapping[Operation, Sequence[tuple[Expr, ...]]]
_READS: WeakKeyDictionary[Operation, Reads] = WeakKeyDictionary()


@dataclass(frozen=True)
class IndexPattern:
    """The axes of a reader that index what it reads, dimension by dimension.

    Attributes:
        axes: for each index that is not constant, the number of the axis.
        count: how many axes the reader has.
    """

    axes: tuple[int, ...]
    count: int

    @property
    def same_order(self) -> bool:
        """Whether the axes stand in the order that the reader has them in."""
        return all(a <= b for a, b in pairwise(self.axes))

    @property
    def repeats(self) -> bool:
        """Whether one axis indexes two dimensions."""
        return len(set(self.axes)) < len(self.axes)

    @property
    def is_identity(self) -> bool:
        """Whether each axis is there, once, and in order."""
        return self.axes == tuple(range(self.count))


def reads_of(op: Operation) -> Reads:
    """Return the tensors that an operation reads, in order of first use, with all indices."""
    known = _READS.get(op)
    if known is None:
        known = _READS[op] = _found_reads(op)
    return known


def _found_reads(op: Operation) -> Reads:
    found: dict[Operation, list[tuple[Expr, ...]]] = {tensor.op: [] for tensor in op.input_tensors}
    for load in reads_in(*_values(op)):
        found[load.tensor.op].append(load.indices)
    return found


def index_pattern(reader: Operation, indices: Sequence[Expr]) -> IndexPattern | None:
    """Return which axes of ``reader`` the indices are, or None if one is something else."""
    axes = []
    for index in indices:
        if isinstance(index, IntImm):
            continue
        fitting = (i for i, axis in enumerate(reader.axis) if shifted_equal(axis.var, index))
        axis = next(fitting, None)
        if axis is None:
            return None
        axes.append(axis)
    return IndexPattern(tuple(axes), len(reader.axis))


def shifted_equal(var: Var, index: Expr) -> bool:
    """Whether an index is a variable plus or minus a constant."""
    match index:
        case Var():
            return index is var
        case Add(a, b):
            return (a is var and isinstance(b, IntImm)) or (b is var and isinstance(a, IntImm))
        case Sub(a, b):
            return a is var and isinstance(b, IntImm)
        case _:
            return False


def adds_columns(op: Operation) -> bool:
    """Whether neighbours in memory are terms of different results, in all that a sum reads."""
    over = {axis.var for axis in op.reduce_axis}
    last = [set(variables(load.indices[-1])) for load in reads_in(*_values(op)) if load.indices]
    return bool(last) and all(used and used.isdisjoint(over) for used in last)


def has_branch(op: ComputeOp) -> bool:
    """Whether its value depends on a condition."""
    return any(isinstance(node, Conditional) for node in walk(*_values(op)))


def has_expensive_call(op: ComputeOp) -> bool:
    """Whether it calls a function that should not be computed anew at each read."""
    return any(isinstance(node, Call) and node.name in _EXPENSIVE for node in walk(*_values(op)))


def _values(op: Operation) -> tuple[Expr, ...]:
    """Return what an operation computes; of a reduction, which all its outputs share, once."""
    if not isinstance(op, ComputeOp):
        return ()
    return op.body[:1] if op.reduce_axis else op.body
