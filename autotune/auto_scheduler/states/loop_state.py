"""Loop states: the loops of a graph's stages, and the steps that made them.

A `StateObject` is a frozen value; a step gives a new one that shares what did not change. The
face that scripts use, with primitives that change it in place, is
`autotune.auto_scheduler.states.state.State`.
Idea and names: Ansor (Zheng et al., OSDI 2020), https://arxiv.org/abs/2006.06762.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

from autotune.auto_scheduler.graph.compute_graph import ComputeGraph
from autotune.auto_scheduler.states.attach_map import AttachMap, with_inserted_stage
from autotune.auto_scheduler.states.loops import Iterator, Stage, stage_of
from autotune.auto_scheduler.states.refusal import check_loops, refuse
from autotune.auto_scheduler.states.replay import Replay
from autotune.auto_scheduler.states.state_text import state_text
from autotune.te.tensor import Operation

# How the fields of a step are read from a row, in their order; each raises ValueError.
Readers = tuple[Callable[[object], Any], ...]
# tag -> class, filled by the subclasses of `TransformStep` themselves.
STEPS: dict[str, type[TransformStep]] = {}


@dataclass(frozen=True)
class TransformStep:
    """Base of all steps; ``tag`` names the class in records, ``reads`` its fields."""

    tag: ClassVar[str] = ""
    reads: ClassVar[Readers] = ()
    # Whether the step adds a stage, so that later stages get other numbers.
    adds_stage: ClassVar[bool] = False
    stage_id: int

    def __init_subclass__(cls) -> None:
        STEPS[cls.tag] = cls

    @property
    def type_key(self) -> str:
        """The name that scripts of TVM know the class by, such as ``auto_scheduler.SplitStep``."""
        return f"auto_scheduler.{type(self).__name__}"

    def apply(self, state: StateObject) -> StateObject:
        """Return the state with this step taken."""
        raise NotImplementedError

    def replay(self, on: Replay) -> None:
        """Take the step on a schedule; what was said before it has been done there."""
        raise NotImplementedError

    def making_room(self, at: int) -> TransformStep:
        """Return the step with the stages from a number on called by the next one each."""
        return replace(self, stage_id=self.stage_id + (self.stage_id >= at))

    def to_row(self) -> list[object]:
        """Return the row of the step, ready for `json.dumps`."""
        values = [getattr(self, each.name) for each in fields(self)]
        return [self.tag, *(_plain(value) for value in values)]

    @cached_property
    def row_text(self) -> str:
        """The row as a record has it."""
        return json.dumps(self.to_row())

    @classmethod
    def from_row(cls, values: Sequence[object]) -> TransformStep:
        """Return the step of a row without its tag; a ValueError says what is ill-formed."""
        if len(values) != len(cls.reads):
            raise ValueError(f"number of values: expected {len(cls.reads)}, got {len(values)}")
        return cls(*[read(value) for read, value in zip(cls.reads, values, strict=True)])

    def __str__(self) -> str:
        return f"{type(self).__name__}{tuple(self.to_row()[1:])}"


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, int) else value


class HasSteps(Protocol):
    """A state from which a schedule can be made, also as a record holds it."""

    @property
    def transform_steps(self) -> tuple[TransformStep, ...]:
        """The steps from the initial state on."""


@dataclass(frozen=True, eq=False)
class StateObject:
    """Stages of a graph with their loops; two states are equal if their steps are.

    Attributes:
        dag: the graph that the state began with.
        stages: one for each operation, in the order of a te schedule.
        transform_steps: what was done, from the plain state on.
        attach: which stage is attached to which loop (stage, place among its loops).
        concrete: whether all lengths of splits are decided.
    """

    dag: ComputeGraph = field(repr=False)
    stages: tuple[Stage, ...]
    transform_steps: tuple[TransformStep, ...] = ()
    attach: AttachMap = field(default_factory=dict)
    concrete: bool = True

    @property
    def stage_ops(self) -> list[Operation]:
        """The operations of the stages; each reads tensors of the others."""
        return [stage.op for stage in self.stages]

    def after(self, steps: Iterable[TransformStep]) -> StateObject:
        """Return the state with more steps taken."""
        state = self
        for step in steps:
            state = step.apply(state)
        return state

    # For the steps.

    def stage(self, step: TransformStep, stage_id: int) -> Stage:
        """Return a stage that a step names."""
        if not 0 <= stage_id < len(self.stages):
            raise refuse(step, f"there is no stage {stage_id}; the state has {len(self.stages)}")
        return self.stages[stage_id]

    def compute_stage(self, step: TransformStep) -> Stage:
        """Return the stage that a step changes, which has to compute something."""
        stage = self.stage(step, step.stage_id)
        if not stage.is_compute:
            raise refuse(step, f"{stage.name} is a placeholder, which computes nothing")
        return stage

    def loop(self, step: TransformStep, stage: Stage, iter_id: int) -> Iterator:
        """Return a loop that a step names."""
        if not 0 <= iter_id < len(stage.iters):
            raise refuse(step, f"{stage.name} has only {len(stage.iters)} loops")
        return stage.iters[iter_id]

    def taken(self, step: TransformStep, attach: AttachMap | None = None) -> StateObject:
        """Return the state with a step noted."""
        return self._changed(self.stages, step, attach, self.concrete)

    def with_stage(
        self,
        step: TransformStep,
        stage: Stage,
        attach: AttachMap | None = None,
        concrete: bool | None = None,
    ) -> StateObject:
        """Return the state with the stage of a step replaced."""
        at, stages = step.stage_id, self.stages
        new = (*stages[:at], stage, *stages[at + 1 :])
        return self._changed(new, step, attach, self.concrete if concrete is None else concrete)

    def _changed(
        self,
        stages: tuple[Stage, ...],
        step: TransformStep,
        attach: AttachMap | None,
        concrete: bool,
    ) -> StateObject:
        # Tens of thousands are made before a first batch: `replace` takes three times as long.
        attach = self.attach if attach is None else attach
        return StateObject(self.dag, stages, (*self.transform_steps, step), attach, concrete)

    def with_loops(
        self,
        step: TransformStep,
        iters: tuple[Iterator, ...],
        attach: AttachMap | None = None,
        concrete: bool | None = None,
    ) -> StateObject:
        """Return the state with the loops of the stage of a step replaced."""
        check_loops(step, [loop.name for loop in iters])
        stage = self.stages[step.stage_id].with_iters(iters)
        return self.with_stage(step, stage, attach, concrete)

    def with_added_stage(
        self,
        step: TransformStep,
        at: int,
        ops: Sequence[Operation],
        new: dict[int, Stage],
    ) -> StateObject:
        """Return the state with a stage inserted.

        Args:
            step: that adds the stage.
            at: the number that the new stage gets.
            ops: the operations of all stages that there are then.
            new: the stages that begin anew, by their numbers.
        """
        rest = list(self.stages)
        rest.insert(at, new[at])
        stages = tuple([new.get(i) or stage.of(ops[i]) for i, stage in enumerate(rest)])
        return self._changed(stages, step, with_inserted_stage(self.attach, at), self.concrete)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateObject):
            return NotImplemented
        return self.transform_steps == other.transform_steps and self.dag is other.dag

    def __hash__(self) -> int:
        return hash(self.transform_steps)

    def __str__(self) -> str:
        return state_text(self.stages, self.attach)


def plain_state(dag: ComputeGraph) -> StateObject:
    """Return the plain state of a graph: each stage in loops of its own."""
    return StateObject(dag, tuple([stage_of(op) for op in dag.ops]))
