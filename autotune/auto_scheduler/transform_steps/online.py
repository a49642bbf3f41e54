"""The step that computes a softmax, and the product that it weights, in parts of rows."""

from __future__ import annotations

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
    """

    tag: ClassVar[str] = "ONL"
    reads: ClassVar[Readers] = (whole, whole)
    adds_stage: ClassVar[bool] = True
    length: int

    def apply(self, state: StateObject) -> StateObject:
        """Begin with the stages of that graph."""
        found = online_graph(state.dag, self.stage_id, self.length)
        if state.transform_steps:
            raise refuse(self, "it has to come before all other steps")
        if found is None:
            raise refuse(self, "it has to name a product of a softmax, and a divisor of its rows")
        stages = plain_state(found.graph).stages
        return StateObject(state.dag, stages, (self,))

    def replay(self, on: Replay) -> None:
        """Begin with a schedule of that graph."""
        on.online(self.stage_id, self.length)
