"""The step that computes a softmax, and the product that it weights, in parts of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autotune.auto_scheduler.graph.online import online_graph
from autotune.auto_scheduler.states.loop_state import (
    Readers,
    StateObject,
    TransformStep,
    plain_state,
)
from autotune.auto_scheduler.states.refusal import refuse
from autotune.auto_scheduler.states.replay import Replay
from autotune.auto_scheduler.transform_steps.rows import whole


@dataclass(frozen=True)
class OnlineStep(TransformStep):
    """A product of a softmax is computed in parts of rows; it comes before all other steps.

    The stages are those of another graph from then on (`graph.online`). TVM knows no such step.

    Attributes:
        length: of the parts.
        apart: how far apart columns are that are joined together; 0 in records of versions that
            had other stages.
        tile: of how many the products compute a multiple of rows and columns; 0: as they are.
        depth: of how many columns and steps of scores instead; 0: of ``tile``.
    """

    tag: ClassVar[str] = "ONL"
    reads: ClassVar[Readers] = (whole, whole, whole, whole, whole)
    adds_stage: ClassVar[bool] = True
    length: int
    apart: int
    tile: int = 0
    depth: int = 0

    def to_row(self) -> list[object]:
        """Return the row, which ends with what is not 0."""
        row = super().to_row()
        return row if self.depth else row[:-1] if self.tile else row[:-2]

    @classmethod
    def from_row(cls, values: Sequence[object]) -> TransformStep:
        """Return the step of a row; one without ``apart`` is of stages that there are no more."""
        left = len(cls.reads) - len(values)
        return super().from_row([*values, *[0] * left] if 1 <= left <= 3 else values)

    def apply(self, state: StateObject) -> StateObject:
        """Begin with the stages of that graph."""
        self._check()
        found = online_graph(
            state.dag, self.stage_id, self.length, self.apart, self.tile, self.depth
        )
        if state.transform_steps:
            raise refuse(self, "it has to come before all other steps")
        if found is None:
            why = "it has to name a product of a softmax, and divisors of its rows and columns"
            raise refuse(self, why)
        stages = plain_state(found.graph).stages
        return StateObject(state.dag, stages, (self,))

    def replay(self, on: Replay) -> None:
        """Begin with a schedule of that graph."""
        self._check()
        on.online(self.stage_id, self.length, self.apart, self.tile, self.depth)

    def _check(self) -> None:
        """Refuse a step of stages that there are no more."""
        if not self.apart:
            raise refuse(
                self,
                "it was recorded by a version that computed parts of rows in other stages, which "
                "the steps after it are of; tune the task again",
            )
