"""A state as records hold it: its steps, without the loops that they make of a graph."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from autotune.auto_scheduler.states.loop_state import HasSteps, TransformStep
from autotune.auto_scheduler.transform_steps import step_from_row
from autotune.errors import RecordError

# Hexadecimal digits of a hash of steps.
_DIGITS = 16
# Steps, and stages added by them, that a record may have; searches take a tenth of that. What adds
# stages is taken anew by each that follows.
_STEPS, _ADDED = 1000, 64


@dataclass(frozen=True)
class RecordedState:
    """The steps of a state: a candidate for the workload whose graph they fit.

    Two are equal if their steps are. `ComputeDAG` gives the loops (`infer_bound_from_state`), the
    schedule (`apply_steps_from_state`) and the text (`print_python_code_from_state`).
    """

    transform_steps: tuple[TransformStep, ...]

    @cached_property
    def key(self) -> str:
        """A hash of the steps, the same in every process."""
        text = f"[{', '.join([step.row_text for step in self.transform_steps])}]"
        return f"state-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"

    @property
    def stages(self) -> tuple[()]:
        """No stages: as in TVM, the state of a record has none before it is rebuilt."""
        return ()

    def to_json(self) -> list[list[object]]:
        """Returns the steps as rows of a record.

        Raises:
            RecordError: the length of a loop is not decided yet.
        """
        return [step.to_row() for step in self.transform_steps]

    @staticmethod
    def from_json(rows: Iterable[object]) -> RecordedState:
        """Returns the state whose steps stand in a record.

        Raises:
            RecordError: a step is unknown or ill-formed, or there are too many to be taken.
        """
        steps = tuple([step_from_row(row) for row in rows])
        if len(steps) > _STEPS or sum(step.adds_stage for step in steps) > _ADDED:
            raise RecordError(
                f"a state has at most {_STEPS} steps, of which {_ADDED} add stages; this one has "
                f"{len(steps)}"
            )
        return RecordedState(steps)

    def __str__(self) -> str:
        return "\n".join(map(str, self.transform_steps))


def recorded(state: HasSteps) -> RecordedState:
    """Returns what a record holds of a state."""
    if isinstance(state, RecordedState):
        return state
    return RecordedState(tuple(state.transform_steps))
