"""A workload that is a graph of tensor expressions, and schedules of it as candidates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from autotune.errors import ScheduleError, SpaceError, TemplateError
from autotune.target import Target
from autotune.te import (
    ComputeOp,
    FlopError,
    Schedule,
    Step,
    Tensor,
    compute_bytes,
    compute_flop,
    create_schedule,
    replay,
    step_from_json,
)
from autotune.te.dag import dag_text
from autotune.te.stage_state import IMPORTS
from autotune.te.step import Pragma
from autotune.te.tensor import Operation
from autotune.workload.candidate import Candidate
from autotune.workload.realisation import Computed, Realisation

# Hexadecimal digits of a hash.
_DIGITS = 16


class Scheduler(Protocol):
    """A candidate of a graph: something that schedules it."""

    def schedule(self, tensors: Sequence[Tensor]) -> Schedule:
        """Return a new schedule of a graph whose arguments are given, in order."""
        ...


@dataclass(frozen=True)
class ScheduleSteps:
    """A fixed list of schedule steps, taken on the plain schedule of a graph.

    Example::

        schedule = te.create_schedule(C.op)
        schedule[C].split(C.op.axis[0], 8)
        ScheduleSteps(schedule.steps)
    """

    steps: tuple[Step, ...]

    @cached_property
    def key(self) -> str:
        """A hash of the steps."""
        return f"steps-{_digest(json.dumps(self.to_json()))}"

    def to_json(self) -> list[object]:
        """Return each step as ``[tag, field, ...]``."""
        return [step.to_json() for step in self.steps]

    @staticmethod
    def from_json(rows: Iterable[Iterable[object]]) -> ScheduleSteps:
        """Read what `to_json` gave.

        Raises:
            ScheduleError: a step is unknown, or imports text, which a log cannot: it would run.
        """
        steps = tuple(map(step_from_json, rows))
        for step in steps:
            if isinstance(step, Pragma) and step.key in IMPORTS:
                raise ScheduleError(
                    f"step pragma {step.key}: text of functions is taken from a script only, not "
                    "from a log; build the schedule by the script that wrote it"
                )
        return ScheduleSteps(steps)

    def schedule(self, tensors: Sequence[Tensor]) -> Schedule:
        """Take the steps on the plain schedule of a graph.

        Raises:
            ScheduleError: a step cannot be taken.
        """
        return replay(_outputs(tensors), self.steps)


class TensorGraph:
    """A workload known by the text and the shapes of its computes.

    Two are equal when their keys and their targets are.
    """

    key: str
    target: Target

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorGraph) and (self.key, self.target) == (
            other.key,
            other.target,
        )

    def __hash__(self) -> int:
        return hash((self.key, self.target))


@dataclass(frozen=True, eq=False)
class RecordedGraph(TensorGraph):
    """A graph of which a log gives no more than the key; it equals the `GraphWorkload`."""

    key: str
    target: Target
    name: str
    flop: float = 0.0
    bytes: float = 0.0

    def realise(self, candidate: Scheduler) -> Realisation:
        """Refuse, since the computes are unknown.

        Raises:
            TemplateError: always.
        """
        raise TemplateError(
            f"workload {self.name!r} was read from a log, which does not hold its computes; make "
            "the GraphWorkload and let that realise the candidate"
        )

    def examples(self) -> tuple[ScheduleSteps, ...]:
        """Return none."""
        return ()

    def default(self) -> None:
        """Return none."""

    def own(self, candidate: Candidate) -> Candidate:
        """Return the candidate unchanged."""
        return candidate


@dataclass(frozen=True, eq=False)
class GraphWorkload(TensorGraph):
    """The workload of the computes behind some tensors, on a target; no template is needed.

    Attributes:
        tensors: inputs and outputs, as the arguments of the kernel, in order.
        target: what kernels are built for.
        name: for messages.

    Raises:
        TemplateError: there are no tensors, or none of them is computed.
    """

    tensors: tuple[Tensor, ...]
    target: Target
    name: str = "graph"

    def __post_init__(self) -> None:
        if not self.tensors or not all(isinstance(one, Tensor) for one in self.tensors):
            raise TemplateError(
                f"GraphWorkload: expected the tensors that are arguments, got {self.tensors!r}"
            )
        if not _outputs(self.tensors):
            raise TemplateError("GraphWorkload: none of the tensors is computed: list the outputs")

    @cached_property
    def key(self) -> str:  # type: ignore[override]
        """A hash of the computes, their shapes and dtypes, and the order of the arguments."""
        outputs = [tensor.op for tensor in self.tensors if isinstance(tensor.op, ComputeOp)]
        names = [tensor.name for tensor in self.tensors]
        return f"graph-{_digest(json.dumps([names, dag_text(outputs)]))}"

    @cached_property
    def flop(self) -> float:
        """Operations of the computes; 0 where they cannot be counted."""
        try:
            return float(compute_flop(create_schedule(_outputs(self.tensors))))
        except FlopError:
            return 0.0

    @cached_property
    def bytes(self) -> float:
        """Bytes that must be moved at least, see `compute_bytes`; 0 where a shape is not known."""
        return float(compute_bytes(self.tensors))

    def realise(self, candidate: Scheduler) -> Realisation:
        """Schedule the graph as a candidate says.

        Raises:
            SpaceError: it says nothing of schedules.
            ScheduleError: it does not fit this graph.
        """
        what = _schedule_of(self, candidate)(self.tensors), list(self.tensors)
        return Realisation(what, Computed(self.tensors), self.flop, self.bytes)

    def examples(self) -> tuple[ScheduleSteps, ...]:
        """Return the plain schedule."""
        return (ScheduleSteps(()),)

    def default(self) -> ScheduleSteps:
        """Return the plain schedule."""
        return ScheduleSteps(())

    def own(self, candidate: Candidate) -> Candidate:
        """Return the candidate unchanged; realising it will show whether its steps apply.

        Raises:
            SpaceError: the candidate is not a list of schedule steps.
        """
        _schedule_of(self, candidate)
        return candidate


def _schedule_of(workload: GraphWorkload, candidate: object) -> Callable[..., Schedule]:
    schedule: Callable[..., Schedule] | None = getattr(candidate, "schedule", None)
    if schedule is None:
        raise SpaceError(
            f"workload {workload.name!r}: expected a candidate that schedules its graph, such as "
            f"ScheduleSteps, got {candidate!r}"
        )
    return schedule


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _outputs(tensors: Sequence[Tensor]) -> list[Operation]:
    return [tensor.op for tensor in tensors if isinstance(tensor.op, ComputeOp)]
