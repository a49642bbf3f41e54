"""The operations of a schedule, each reading the others as they are now.

Rewrites of a schedule (cache_read, cache_write, rfactor) leave operations that read an earlier
version of another one. A schedule knows which is which; an analysis should not have to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.ir import Expr, IterVar, ProducerLoad, Rewriter, Var, substitute
from autotune.te.rewrite import share_sources
from autotune.te.schedule import Schedule
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp


class _Current(Rewriter):
    """Makes reads of any version of an operation reads of the latest one."""

    def __init__(self, schedule: Schedule) -> None:
        self.stage_map = schedule.stage_map
        self.latest: dict[Operation, Operation] = {}

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        indices = self.rewrite_all(node.indices)
        tensor = node.tensor
        op = self.latest[self.stage_map[tensor.op].op]
        if op is tensor.op and indices is node.indices:
            return node
        return ProducerLoad(op.outputs[tensor.value_index], indices)


def linked_ops(
    schedule: Schedule,
    names: Sequence[str] | None = None,
    axes: Mapping[Operation, Sequence[str]] | None = None,
) -> tuple[Operation, ...]:
    """Return the operations of a schedule in the order of its stages.

    What a stage reads is the very operation that stands earlier in the result. Operations whose
    reads are current already are returned as they are.

    Args:
        schedule: whose operations they are.
        names: what to call them, one for each stage, if not by their own names.
        axes: of some of the operations, what to call their axes.
    """
    current = _Current(schedule)
    wanted = names or [stage.op.name for stage in schedule.stages]
    renamed = axes or {}
    for stage, name in zip(schedule.stages, wanted, strict=True):
        new = _link(stage.op, current)
        if name != new.name or stage.op in renamed:
            new = _rename(new, name, renamed.get(stage.op))
        current.latest[stage.op] = new
    return tuple(current.latest.values())


def _link(op: Operation, current: _Current) -> Operation:
    if not isinstance(op, ComputeOp):
        return op
    body = current.rewrite_all(op.body)
    if body is op.body:
        return op
    return ComputeOp(op.name, op.tag, op.attrs, op.axis, share_sources(body))


def _rename(op: Operation, name: str, axes: Sequence[str] | None) -> Operation:
    if not isinstance(op, ComputeOp):
        tensor = op.outputs[0]
        return PlaceholderOp(name, tensor.shape, tensor.dtype)
    if axes is None:
        return ComputeOp(name, op.tag, op.attrs, op.axis, op.body)
    axis = tuple(
        [
            IterVar(Var(new, old.dtype, old.kind), old.dom, old.kind)
            for old, new in zip(op.axis, axes, strict=True)
        ]
    )
    to: dict[Var, Expr] = {old.var: new.var for old, new in zip(op.axis, axis, strict=True)}
    body = tuple([substitute(each, to) for each in op.body])
    return ComputeOp(name, op.tag, op.attrs, axis, share_sources(body))
