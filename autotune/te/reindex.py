"""Reading a tensor through a view whose dimensions are axes of the reader, fused.

In this way a convolution becomes a matrix product: the part of the image that it reads is a matrix
with a row for each position of the output and a column for each term of its sum ("im2col";
Chellapilla, Puri and Simard, 2006), which is never stored if the view is inlined. TVM's tensor IR
has the same primitive, without fusing the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autotune.errors import ScheduleError
from autotune.ir import (
    Conditional,
    Expr,
    IntImm,
    IterVar,
    ProducerLoad,
    Range,
    Reduce,
    Var,
    as_expr,
    substitute,
)
from autotune.ir.structure import same, variables, walk
from autotune.ir.visitor import Rewriter, reads_in
from autotune.te.relation import extent_of
from autotune.te.stage_state import ScheduleOwner, StageState
from autotune.te.tensor import ComputeOp, Tensor

Groups = Sequence[Sequence[int]]
# What the name of a view, and the key of its stage, add to those of the tensor that it shows.
VIEW = "matrix"


def groups_text(groups: Groups) -> str:
    """Return the text of groups of axes, ``"0 1 2, 4 5 6"``."""
    return ", ".join(" ".join(map(str, group)) for group in groups)


def groups_of(text: str) -> tuple[tuple[int, ...], ...]:
    """Return the groups of axes from the text that `groups_text` writes.

    Raises:
        ScheduleError: the text is malformed.
    """
    parts = [part.split() for part in text.split(",")]
    if not all(parts) or not all(word.isdecimal() for part in parts for word in part):
        raise ScheduleError(f"reindex: expected groups of axes such as '0 1, 2', got {text!r}")
    return tuple(tuple(map(int, part)) for part in parts)


def make_reindex(
    schedule: ScheduleOwner, tensor: Tensor, name: str, reader: StageState, groups: Groups
) -> ComputeOp:
    """Return the operation of a view, of a given name, and make a stage read it.

    Args:
        schedule: of the stages.
        tensor: what the stage reads so far.
        name: of the view.
        reader: the stage that reads.
        groups: the numbers of its axes, data before reductions, by dimension of the view.
    """
    op = reader.op
    if not isinstance(op, ComputeOp):
        raise _refusal(tensor, f"{reader.name} computes nothing; expected a stage that reads it")
    load = _only_read(schedule, tensor, op)
    chosen = _grouped_axes(tensor, op, load, groups)
    extents = [[_extent(tensor, axis) for axis in group] for group in chosen]
    own = tuple([_dimension(i, prod(each)) for i, each in enumerate(extents)])
    values: dict[Var, Expr] = {}
    for axis, group, sizes in zip(own, chosen, extents, strict=True):
        values |= _apart(axis.var, group, sizes)
    at = tuple([substitute(index, values) for index in load.indices])
    view = ComputeOp(name, "", {}, own, (ProducerLoad(load.tensor, at),))
    together = [_together(group, sizes) for group, sizes in zip(chosen, extents, strict=True)]
    new = ProducerLoad(view.outputs[0], tuple(together))
    body = _ReadView(load, new).rewrite_all(op.body)
    schedule.replace_op(reader, ComputeOp(op.name, op.tag, op.attrs, op.axis, body))
    return view


def _grouped_axes(
    tensor: Tensor, op: ComputeOp, load: ProducerLoad, groups: Groups
) -> list[list[IterVar]]:
    """Return the axes of each dimension of the view, which are all that the read depends on."""
    chosen = [[_axis(tensor, op, number) for number in group] for group in groups]
    flat = [axis for group in chosen for axis in group]
    if len(set(flat)) < len(flat) or not all(chosen):
        raise _refusal(tensor, f"expected groups of different axes, got {groups_text(groups)}")
    needed = {axis.var for axis in (*op.axis, *op.reduce_axis)} & set(variables(load))
    missing = needed - {axis.var for axis in flat}
    if missing:
        names = ", ".join(sorted(var.name for var in missing))
        raise _refusal(tensor, f"{op.name} reads it by axes that no group has: {names}")
    return chosen


class _ReadView(Rewriter):
    """Reads a view in place of what it shows."""

    def __init__(self, old: ProducerLoad, new: ProducerLoad) -> None:
        self.old, self.new = old, new

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Read the view."""
        return self.new if same(node, self.old) else node


def _only_read(schedule: ScheduleOwner, tensor: Tensor, op: ComputeOp) -> ProducerLoad:
    """Return the one read of a tensor by an operation, which no condition may leave out."""
    stage, stage_of = schedule.stage_map[tensor.op], schedule.stage_map
    loads = reads_in(*op.body)
    found: list[ProducerLoad] = []
    for load in loads:
        if stage_of[load.tensor.op] == stage and not any(same(load, each) for each in found):
            found.append(load)
    if len(found) != 1 or found[0].tensor.value_index != tensor.value_index:
        raise _refusal(
            tensor, f"expected that {op.name} reads it at one place, got {len(found)} places"
        )
    if _is_conditional(found[0], op):
        raise _refusal(
            tensor,
            f"{op.name} reads it where a condition holds, which the view would not ask; expected "
            "a read of each element, such as one of a stage that pads",
        )
    return found[0]


def _is_conditional(load: ProducerLoad, op: ComputeOp) -> bool:
    """Return whether an operation makes a read only where a condition holds."""
    for node in walk(*op.body):
        parts: tuple[Expr, ...] = ()
        if isinstance(node, Conditional):
            parts = node.then, node.other
        elif isinstance(node, Reduce) and not isinstance(node.condition, IntImm):
            parts = node.sources
        if any(same(each, load) for each in reads_in(*parts)):
            return True
    return False


def _axis(tensor: Tensor, op: ComputeOp, number: int) -> IterVar:
    axes = (*op.axis, *op.reduce_axis)
    if not 0 <= number < len(axes):
        raise _refusal(tensor, f"{op.name} has {len(axes)} axes, none has the number {number}")
    return axes[number]


def _extent(tensor: Tensor, axis: IterVar) -> int:
    extent = extent_of(axis)
    if extent is None:
        raise _refusal(tensor, f"axis {axis.name!r} has no constant extent")
    return extent


def _dimension(i: int, extent: int) -> IterVar:
    return IterVar(Var(f"ax{i}", "int32", "data"), Range(0, extent), "data")


def _first(axis: IterVar) -> Expr:
    return as_expr(0) if axis.dom is None else axis.dom.min


def _apart(whole: Var, axes: Sequence[IterVar], extents: Sequence[int]) -> dict[Var, Expr]:
    """Return what axes are of a dimension in which they are fused."""
    values: dict[Var, Expr] = {}
    rest: Expr = whole
    for place in range(len(axes) - 1, -1, -1):
        value = rest % extents[place] if place else rest
        rest = rest // extents[place]
        values[axes[place].var] = value + _first(axes[place])
    return values


def _together(axes: Sequence[IterVar], extents: Sequence[int]) -> Expr:
    """Return the index of a dimension in which axes are fused."""
    index: Expr = IntImm(0)
    for axis, extent in zip(axes, extents, strict=True):
        index = index * extent + (axis.var - _first(axis))
    return index


def _refusal(tensor: Tensor, why: str) -> ScheduleError:
    return ScheduleError(f"reindex({tensor.name}): {why}")
