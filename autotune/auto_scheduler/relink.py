"""The operations of a schedule, each reading the others as they are now.

Rewrites of a schedule (cache_read, cache_write, rfactor) leave operations that read an earlier
version of another one. A schedule knows which is which; an analysis should not have to.
"""

from __future__ import annotations

from autotune.ir import Expr, ProducerLoad, Rewriter
from autotune.te.rewrite import share_sources
from autotune.te.schedule import Schedule
from autotune.te.tensor import ComputeOp, Operation


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


def linked_ops(schedule: Schedule) -> tuple[Operation, ...]:
    """Return the operations of a schedule in the order of its stages.

    What a stage reads is the very operation that stands earlier in the result. Operations whose
    reads are current already are returned as they are.
    """
    current = _Current(schedule)
    for stage in schedule.stages:
        current.latest[stage.op] = _linked(stage.op, current)
    return tuple(current.latest.values())


def _linked(op: Operation, current: _Current) -> Operation:
    if not isinstance(op, ComputeOp):
        return op
    body = current.rewrite_all(op.body)
    if body is op.body:
        return op
    return ComputeOp(op.name, op.tag, op.attrs, op.axis, share_sources(body))
