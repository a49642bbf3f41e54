"""Groups of stages that are moved together, as TVM's `create_group` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.errors import ScheduleError
from autotune.ir import IterVar
from autotune.te.dag import post_order
from autotune.te.scan import reading
from autotune.te.stage import Stage
from autotune.te.tensor import ComputeOp, Operation


@dataclass(frozen=True)
class StageGroup:
    """Stages of a schedule, producers first.

    A primitive of a group is that of each stage in it which is not computed inside another one:
    the steps of a schedule name the stages, not the group.
    """

    stages: tuple[Stage, ...]

    def compute_at(self, parent: Stage, scope: IterVar) -> StageGroup:
        """Compute the group inside a loop of a stage that reads it, just what is read there."""
        for stage in self._outer():
            stage.compute_at(parent, scope)
        return self

    def compute_root(self) -> StageGroup:
        """Compute the group in loops of its own."""
        for stage in self._outer():
            stage.compute_root()
        return self

    def _outer(self) -> list[Stage]:
        members = set(map(id, self.stages))
        return [
            stage
            for stage in self.stages
            if stage.attach_type != "inline" and id(stage.attach_stage) not in members
        ]


def group_of(
    stages: Sequence[Stage], ends: Sequence[Operation], begins: Sequence[Operation], whole: bool
) -> StageGroup:
    """Return the group of all stages that outputs are computed by, from inputs on.

    Args:
        stages: of the schedule.
        ends: the operations that the group computes.
        begins: those that it reads; what ``ends`` need besides is not part of it.
        whole: whether ``begins`` that are computed are part of it.

    Raises:
        ScheduleError: no output depends on an input.
    """
    members = [op for op in reading(post_order(ends), set(begins)) if isinstance(op, ComputeOp)]
    if not members:
        raise ScheduleError(
            f"create_group: {', '.join(op.name for op in ends)} depends on none of the inputs "
            f"{', '.join(op.name for op in begins) or '(none)'}; expected tensors that it reads"
        )
    chosen = {*members, *(op for op in begins if whole and isinstance(op, ComputeOp))}
    return StageGroup(tuple([stage for stage in stages if stage.op in chosen]))
