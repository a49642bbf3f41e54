"""The rewrite of computes behind compute_inline, once all primitives are known."""

from __future__ import annotations

from autotune.errors import ScheduleError
from autotune.ir import Expr, ProducerLoad, Rewriter, substitute
from autotune.te.rewrite import share_sources, with_body
from autotune.te.stage_state import ScheduleOwner
from autotune.te.tensor import ComputeOp


class _Inline(Rewriter):
    """Puts the values of inlined stages where these are read."""

    def __init__(self, schedule: ScheduleOwner) -> None:
        self.stage_map = schedule.stage_map

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        indices = self.rewrite_all(node.indices)
        stage = self.stage_map[node.tensor.op]
        if stage.attach_type == "inline":
            op = stage.op
            assert isinstance(op, ComputeOp)
            variables = [axis.var for axis in op.axis]
            mapping = dict(zip(variables, indices, strict=True))
            value: Expr = op.body[node.tensor.value_index]
            return substitute(value, mapping)
        return node if indices is node.indices else ProducerLoad(node.tensor, indices)


def inline_stages(schedule: ScheduleOwner) -> None:
    """Put the inlined stages of a schedule into their readers."""
    inline = [stage for stage in schedule.stages if stage.attach_type == "inline"]
    for stage in inline:
        for other in stage.attached():
            raise ScheduleError(
                f"compute_inline({stage.name}): {other.name} is computed at one of its loops, "
                "which an inlined stage does not have"
            )
    if not inline:
        return
    rewriter = _Inline(schedule)
    for stage in schedule.stages:
        op = stage.op
        if isinstance(op, ComputeOp):
            body = rewriter.rewrite_all(op.body)
            if body is not op.body:
                schedule.replace_op(stage, with_body(op, share_sources(body)))
