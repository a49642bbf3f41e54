"""A check, when a recurrence is defined, of which rows its steps read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from autotune.errors import ExpressionError
from autotune.ir import (
    Conditional,
    Expr,
    IntImm,
    IterVar,
    LogicalOp,
    Node,
    ProducerLoad,
    Reduce,
    Var,
    reads_in,
    walk,
)
from autotune.ir.visitor import Visitor, substitute
from autotune.te.location import user_line
from autotune.te.tensor import ComputeOp, Tensor

# Of more steps as many of the first and as many of the last are looked at.
_STEPS = 128


def of_own_row(ops: Iterable[ComputeOp], updates: Iterable[Tensor]) -> list[ComputeOp]:
    """Return those of ``ops`` of which a step reads the row of its own number alone.

    These are the updates, and what one of these reads with its first axis as the first index, and
    nothing else reads.

    Args:
        ops: what depends on states, each after all that it reads.
        updates: the updates, which are among them.
    """
    found = {tensor.op for tensor in updates}
    others = set()
    listed = list(ops)
    for op in reversed(listed):
        for load in reads_in(*op.body):
            own = op in found and op not in others and op.axis and bool(load.indices)
            if own and load.indices[0] is op.axis[0].var:
                found.add(load.tensor.op)
            else:
                others.add(load.tensor.op)
    return [op for op in listed if op in found and op not in others and op.axis]


def check_rows(
    name: str, ops: Iterable[ComputeOp], states: Iterable[tuple[Tensor, Tensor]]
) -> None:
    """Raise if a step reads a row that has not been computed by then, or one before the first.

    Where the number of a row depends on other axes too, their first and last values are looked at.
    Rows whose numbers depend on data, and reads under conditions that depend on more than the
    step, are not.

    Args:
        name: of the scan.
        ops: what is computed for each step, its number being the first axis.
        states: the states, with what each begins with.

    Raises:
        ExpressionError: there is such a step.
    """
    inits = {state: init for init, state in states}
    for op in ops:
        values = [value for value in op.body if _reads_any(value, inits)]
        if not values:
            continue
        first = next(iter(inits.values())).shape[0]
        assert isinstance(first, int)
        ends = ends_of(op, op.axis[1:])
        for step in _steps(first, op.outputs[0].shape[0]):
            at: dict[Var, Expr] = {op.axis[0].var: IntImm(step, op.axis[0].var.dtype)}
            reads = certain_reads(substitute(value, at) for value in values)
            of_states = (load for load in reads if load.tensor in inits)
            for state, row in _known_rows(of_states, ends):
                if not 0 <= row < step:
                    why = _why(row, step, first, inits[state].name)
                    raise ExpressionError(
                        f"{user_line()}: {name}: at step {step}, {op.name} reads row {row} of "
                        f"{state.name}, which is {why}"
                    )


def _known_rows(
    loads: Iterable[ProducerLoad], ends: Sequence[dict[Var, Expr]]
) -> Iterator[tuple[Tensor, int]]:
    """Yield what is read and of which row, at the first and last values of the other axes."""
    for load in loads:
        for row in (substitute(load.indices[0], end) for end in ends):
            if isinstance(row, IntImm):
                yield load.tensor, row.value


def _reads_any(value: Node, tensors: Iterable[Tensor]) -> bool:
    return any(load.tensor in tensors for load in reads_in(value))


def _steps(first: int, rows: object) -> Iterator[int]:
    if not isinstance(rows, int):
        yield from range(first, first + _STEPS)
    elif rows - first <= 2 * _STEPS:
        yield from range(first, rows)
    else:
        yield from range(first, first + _STEPS)
        yield from range(rows - _STEPS, rows)


def ends_of(op: ComputeOp, data: Sequence[IterVar]) -> list[dict[Var, Expr]]:
    """Return the first values of some axes of an operation and of its reductions, and the last."""
    reductions = (node for value in op.body for node in walk(value) if isinstance(node, Reduce))
    first: dict[Var, Expr] = {}
    last: dict[Var, Expr] = {}
    for axis in (*data, *(axis for node in reductions for axis in node.axes)):
        least, extent = axis.dom.min if axis.dom else None, axis.extent
        if isinstance(least, IntImm) and isinstance(extent, IntImm) and extent.value > 0:
            first[axis.var] = least
            last[axis.var] = IntImm(least.value + extent.value - 1, axis.var.dtype)
    return [first, last]


def _why(row: int, step: int, first: int, init: str) -> str:
    if row >= step:
        return "not computed by then; a step reads rows before its own, such as t - 1"
    return (
        f"before the first row, as {init} gives {first}; let it give {first - row}, or read the "
        "row under a condition (te.if_then_else)"
    )


def certain_reads(values: Iterable[Node]) -> list[ProducerLoad]:
    """Return the reads that no condition may leave out."""
    reads = _CertainReads()
    for value in values:
        reads.visit(value)
    return reads.found


class _CertainReads(Visitor):
    def __init__(self) -> None:
        self.found: list[ProducerLoad] = []

    def visit_ProducerLoad(self, node: ProducerLoad) -> None:
        self.generic(node)
        self.found.append(node)

    def visit_Conditional(self, node: Conditional) -> None:
        self.visit(node.cond)

    def visit_LogicalOp(self, node: LogicalOp) -> None:
        self.visit(node.a)  # which may decide it

    def visit_Reduce(self, node: Reduce) -> None:
        self.visit(node.condition)
        if isinstance(node.condition, IntImm) and node.condition.value:
            self.generic(node)
