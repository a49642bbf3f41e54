"""Schedule steps: what a schedule is made of, as plain frozen data.

A step names a stage by its position among the schedule's stages, and an axis by its position
among the stage's leaf axes, both as they were when the step was taken. So a list of steps prints,
compares, goes through JSON, and replays on any graph of the same shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from autotune.errors import ScheduleError
from autotune.te.intrinsics import thread_axis

if TYPE_CHECKING:
    from autotune.te.schedule import Schedule
    from autotune.te.stage import Stage

# tag -> class, filled by the subclasses of `Step` themselves.
STEPS: dict[str, type[Step]] = {}


@dataclass(frozen=True)
class Step:
    """Base of all steps; ``tag`` names the class in JSON, ``stage`` is the stage it changes."""

    tag: ClassVar[str] = ""
    stage: int

    def __init_subclass__(cls) -> None:
        STEPS[cls.tag] = cls

    def apply(self, schedule: Schedule) -> None:
        """Take the step on a schedule by calling the primitive that records it."""
        raise NotImplementedError

    def to_json(self) -> list[Any]:
        """Return ``[tag, field, ...]``, ready for `json.dumps`."""
        values = [getattr(self, each.name) for each in fields(self)]
        return [self.tag, *(list(v) if isinstance(v, tuple) else v for v in values)]

    def __str__(self) -> str:
        shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self)]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _stage(self, schedule: Schedule) -> Stage:
        if self.stage >= len(schedule.stages):
            raise ScheduleError(f"{self}: the schedule has only {len(schedule.stages)} stages")
        return schedule.stages[self.stage]


def _leaf(step: Step, stage: Stage, position: int) -> Any:
    if position >= len(stage.leaf_iter_vars):
        raise ScheduleError(f"{step}: {stage.name} has only {len(stage.leaf_iter_vars)} axes")
    return stage.leaf_iter_vars[position]


@dataclass(frozen=True)
class Split(Step):
    """One axis became two; of ``factor`` and ``nparts``, the one not given is 0."""

    tag: ClassVar[str] = "split"
    axis: int
    factor: int
    nparts: int

    def apply(self, schedule: Schedule) -> None:
        """Split the axis."""
        stage = self._stage(schedule)
        stage.split(_leaf(self, stage, self.axis), self.factor or None, self.nparts or None)


@dataclass(frozen=True)
class Fuse(Step):
    """Neighbouring axes became one; of no axes, a loop of one iteration."""

    tag: ClassVar[str] = "fuse"
    axes: tuple[int, ...]

    def apply(self, schedule: Schedule) -> None:
        """Fuse the axes."""
        stage = self._stage(schedule)
        stage.fuse(*[_leaf(self, stage, i) for i in self.axes])


@dataclass(frozen=True)
class Reorder(Step):
    """The named axes took each other's places, in this order."""

    tag: ClassVar[str] = "reorder"
    axes: tuple[int, ...]

    def apply(self, schedule: Schedule) -> None:
        """Reorder the axes."""
        stage = self._stage(schedule)
        stage.reorder(*[_leaf(self, stage, i) for i in self.axes])


@dataclass(frozen=True)
class Bind(Step):
    """An axis was bound to a thread axis; ``extent`` is 0 where the thread axis says none."""

    tag: ClassVar[str] = "bind"
    axis: int
    thread: str
    extent: int

    def apply(self, schedule: Schedule) -> None:
        """Bind the axis."""
        stage = self._stage(schedule)
        thread = thread_axis(self.extent or None, self.thread)
        stage.bind(_leaf(self, stage, self.axis), thread)


@dataclass(frozen=True)
class Annotate(Step):
    """Base of the steps that mark how one loop is carried out."""

    axis: int


@dataclass(frozen=True)
class Unroll(Annotate):
    """A loop is written out."""

    tag: ClassVar[str] = "unroll"

    def apply(self, schedule: Schedule) -> None:
        """Unroll the axis."""
        stage = self._stage(schedule)
        stage.unroll(_leaf(self, stage, self.axis))


@dataclass(frozen=True)
class Vectorize(Annotate):
    """A loop is carried out by vector operations."""

    tag: ClassVar[str] = "vectorize"

    def apply(self, schedule: Schedule) -> None:
        """Vectorize the axis."""
        stage = self._stage(schedule)
        stage.vectorize(_leaf(self, stage, self.axis))


@dataclass(frozen=True)
class Parallel(Annotate):
    """A loop is shared out to the threads of a CPU."""

    tag: ClassVar[str] = "parallel"

    def apply(self, schedule: Schedule) -> None:
        """Make the axis parallel."""
        stage = self._stage(schedule)
        stage.parallel(_leaf(self, stage, self.axis))


@dataclass(frozen=True)
class Pragma(Step):
    """A loop got a hint for the compiler."""

    tag: ClassVar[str] = "pragma"
    axis: int
    key: str
    value: int | str

    def apply(self, schedule: Schedule) -> None:
        """Set the hint."""
        stage = self._stage(schedule)
        stage.pragma(_leaf(self, stage, self.axis), self.key, self.value)


@dataclass(frozen=True)
class ComputeAt(Step):
    """A stage is computed inside a loop of another stage."""

    tag: ClassVar[str] = "compute_at"
    target: int
    axis: int

    def apply(self, schedule: Schedule) -> None:
        """Attach the stage."""
        target = schedule.stages[self.target]
        self._stage(schedule).compute_at(target, _leaf(self, target, self.axis))


@dataclass(frozen=True)
class ComputeInline(Step):
    """A stage is computed where it is read."""

    tag: ClassVar[str] = "compute_inline"

    def apply(self, schedule: Schedule) -> None:
        """Inline the stage."""
        self._stage(schedule).compute_inline()


@dataclass(frozen=True)
class ComputeRoot(Step):
    """A stage is computed in loops of its own."""

    tag: ClassVar[str] = "compute_root"

    def apply(self, schedule: Schedule) -> None:
        """Give the stage loops of its own."""
        self._stage(schedule).compute_root()


@dataclass(frozen=True)
class CacheRead(Step):
    """A copy of output ``output`` of a stage, which ``readers`` read instead."""

    tag: ClassVar[str] = "cache_read"
    output: int
    scope: str
    readers: tuple[int, ...]

    def apply(self, schedule: Schedule) -> None:
        """Insert the copy."""
        tensor = self._stage(schedule).op.outputs[self.output]
        readers = [schedule.stages[i].op for i in self.readers]
        schedule.cache_read(tensor, self.scope, readers)


@dataclass(frozen=True)
class CacheWrite(Step):
    """A stage's computation moved to a cache, from which the stage copies."""

    tag: ClassVar[str] = "cache_write"
    scope: str

    def apply(self, schedule: Schedule) -> None:
        """Insert the cache."""
        schedule.cache_write(list(self._stage(schedule).op.outputs), self.scope)


@dataclass(frozen=True)
class Rfactor(Step):
    """A reduction was done in two: partly along one axis, then over that axis."""

    tag: ClassVar[str] = "rfactor"
    axis: int
    factor_axis: int

    def apply(self, schedule: Schedule) -> None:
        """Factor the reduction."""
        stage = self._stage(schedule)
        tensor = stage.op.outputs[0]
        schedule.rfactor(tensor, _leaf(self, stage, self.axis), self.factor_axis)


@dataclass(frozen=True)
class StorageAlign(Step):
    """The stride of a dimension became ``offset`` modulo ``factor``."""

    tag: ClassVar[str] = "storage_align"
    dimension: int
    factor: int
    offset: int

    def apply(self, schedule: Schedule) -> None:
        """Align the dimension."""
        stage = self._stage(schedule)
        stage.storage_align(stage.op.axis[self.dimension], self.factor, self.offset)


@dataclass(frozen=True)
class DoubleBuffer(Step):
    """A stage got two buffers: one is filled while the other is read."""

    tag: ClassVar[str] = "double_buffer"

    def apply(self, schedule: Schedule) -> None:
        """Give the stage two buffers."""
        self._stage(schedule).double_buffer()


@dataclass(frozen=True)
class AsyncCopies(Step):
    """A shared stage is filled by asynchronous copies in a pipeline of ``stages`` buffers."""

    tag: ClassVar[str] = "async_copy"
    stages: int

    def apply(self, schedule: Schedule) -> None:
        """Make the copies asynchronous."""
        self._stage(schedule).async_copy(self.stages)


@dataclass(frozen=True)
class SetScope(Step):
    """A stage's result lives in another kind of memory."""

    tag: ClassVar[str] = "set_scope"
    scope: str

    def apply(self, schedule: Schedule) -> None:
        """Set the scope."""
        self._stage(schedule).set_scope(self.scope)


@dataclass(frozen=True)
class SetStorePredicate(Step):
    """A stage is stored only where a condition, written as text, holds."""

    tag: ClassVar[str] = "set_store_predicate"
    condition: str

    def apply(self, schedule: Schedule) -> None:
        """Set the condition."""
        stage = self._stage(schedule)
        stage.set_store_predicate(stage.read_condition(self.condition))


@dataclass(frozen=True)
class Normalize(Step):
    """Inlined stages were put into their readers; ``stage`` is 0 and means nothing."""

    tag: ClassVar[str] = "normalize"

    def apply(self, schedule: Schedule) -> None:
        """Put the inlined stages into their readers."""
        schedule.inline_now()


def step_from_json(row: Iterable[Any]) -> Step:
    """Return the step that `Step.to_json` wrote."""
    tag, *values = row
    cls = STEPS.get(tag)
    if cls is None:
        raise ScheduleError(f"step {tag!r} is unknown; expected one of {', '.join(STEPS)}")
    wanted = [each.name for each in fields(cls)]
    if len(values) != len(wanted):
        raise ScheduleError(f"step {tag!r}: expected {', '.join(wanted)}, got {values}")
    return _make(cls, [tuple(v) if isinstance(v, list) else v for v in values])


def _make(cls: Any, values: list[Any]) -> Step:
    step: Step = cls(*values)
    return step
