"""A workload that is a graph of tensor expressions, and schedules of it as candidates."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from autotune.errors import SpaceError, TemplateError
from autotune.ir.dtype import bits_of
from autotune.target import Target
from autotune.te import (
    ComputeOp,
    FlopError,
    Schedule,
    Step,
    Tensor,
    compute_flop,
    create_schedule,
    replay,
    step_from_json,
    workload_key,
)
from autotune.workload.realisation import Computed, Realisation

# Hexadecimal digits of a hash of steps.
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
        text = json.dumps(self.to_json())
        return f"steps-{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"

    def to_json(self) -> list[Any]:
        """Return each step as ``[tag, field, ...]``."""
        return [step.to_json() for step in self.steps]

    @staticmethod
    def from_json(rows: Iterable[Any]) -> ScheduleSteps:
        """Read what `to_json` gave.

        Raises:
            ScheduleError: a step is unknown.
        """
        return ScheduleSteps(tuple(map(step_from_json, rows)))

    def schedule(self, tensors: Sequence[Tensor]) -> Schedule:
        """Take the steps on the plain schedule of a graph.

        Raises:
            ScheduleError: a step cannot be taken.
        """
        return replay(_outputs(tensors), self.steps)


@dataclass(frozen=True, eq=False)
class GraphWorkload:
    """What the computes behind some tensors say, on a target; no template is needed.

    Two are equal when their computes and shapes are, and their targets.

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
    def key(self) -> str:
        """Hash and shapes of the graph, as the auto-scheduler's logs have them."""
        return workload_key(self.tensors)

    @cached_property
    def flop(self) -> float:
        """Operations of the computes; 0 where they cannot be counted."""
        try:
            return float(compute_flop(create_schedule(_outputs(self.tensors))))
        except FlopError:
            return 0.0

    @cached_property
    def bytes(self) -> float:
        """Bytes of all arguments, each read or written once; 0 where a shape is not known."""
        total = 0
        for tensor in self.tensors:
            extents = [n for n in tensor.shape if isinstance(n, int)]
            if len(extents) < len(tensor.shape):
                return 0.0
            total += math.prod(extents) * ((bits_of(tensor.dtype) + 7) // 8)
        return float(total)

    def realise(self, candidate: Scheduler) -> Realisation:
        """Schedule the graph as a candidate says.

        Raises:
            SpaceError: it says nothing of schedules.
            ScheduleError: it does not fit this graph.
        """
        schedule = getattr(candidate, "schedule", None)
        if schedule is None:
            raise SpaceError(
                f"workload {self.name!r}: expected a candidate that schedules its graph, such as "
                f"ScheduleSteps, got {candidate!r}"
            )
        what = schedule(self.tensors), list(self.tensors)
        return Realisation(what, Computed(self.tensors), self.flop, self.bytes)

    def examples(self) -> tuple[ScheduleSteps, ...]:
        """Return the plain schedule."""
        return (ScheduleSteps(()),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphWorkload) and (
            (self.key, self.target) == (other.key, other.target)
        )

    def __hash__(self) -> int:
        return hash((self.key, self.target))


def _outputs(tensors: Sequence[Tensor]) -> list[Any]:
    return [tensor.op for tensor in tensors if isinstance(tensor.op, ComputeOp)]
