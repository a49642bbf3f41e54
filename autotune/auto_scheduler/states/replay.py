"""Applies transform steps to a te schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from autotune.auto_scheduler.graph.compute_graph import ComputeGraph
from autotune.auto_scheduler.graph.online import online_graph
from autotune.auto_scheduler.states.loops import Annotation
from autotune.auto_scheduler.states.refusal import brief, check_loops
from autotune.errors import ScheduleError
from autotune.ir import IterVar
from autotune.te.intrinsics import thread_axis
from autotune.te.reindex import VIEW, Groups, groups_of, groups_text
from autotune.te.rewrite import PERMUTED
from autotune.te.schedule import Schedule, create_schedule
from autotune.te.stage import Stage
from autotune.te.tensor import Operation, Tensor

# Memory of each thread.
PRIVATE = "local"


def view_scope(groups: Groups) -> str:
    """Return the scope that says that a copy is a view of some dimensions, ``"matrix 0 1, 2"``.

    TVM knows no such step; its reader takes this one for a copy.
    """
    return f"{VIEW} {groups_text(groups)}"


def view_groups(scope: str) -> Groups | None:
    """Return the groups of axes of a view, None of a copy; see `Schedule.reindex`."""
    word, _, groups = scope.partition(" ")
    return groups_of(groups) if word == VIEW else None


def permuted_scope(order: Sequence[int]) -> str:
    """Return the scope that says that a copy has its dimensions in an order, ``"permuted 1 0"``.

    TVM knows no such step; its reader takes this one for a copy.
    """
    return f"{PERMUTED} {groups_text([order])}"


def permuted_order(scope: str) -> Sequence[int] | None:
    """Return the order of the dimensions of a copy, None if it is that of what is copied."""
    word, _, order = scope.partition(" ")
    groups = groups_of(order) if word == PERMUTED else ()
    return groups[0] if len(groups) == 1 else None


def parts_scope(dimension: int, length: int) -> str:
    """Return the scope that says that a cache has two dimensions for one, ``"local 1 32"``.

    TVM knows no such step.
    """
    return f"{PRIVATE} {dimension} {length}"


def parts_of(scope: str) -> tuple[str, tuple[int, int] | None]:
    """Return the scope of a cache, and the dimension that is two there with the inner's length."""
    word, *numbers = scope.split()
    if word != PRIVATE or len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
        return scope, None
    dimension, length = map(int, numbers)
    return word, (dimension, length)


def phases_scope() -> str:
    """Return the scope that says that a cache sums in phases; see `Schedule.phases`.

    TVM knows no such step.
    """
    return f"{PRIVATE} phases"


def wide_scope() -> str:
    """Return the scope that says that a cache sums in float32; see `Schedule.widen`.

    TVM knows no such step.
    """
    return f"{PRIVATE} wide"


class Replayable(Protocol):
    """A step of a state that can be applied to a schedule."""

    @property
    def stage_id(self) -> int:
        """The stage that it changes."""

    def replay(self, on: Replay) -> None:
        """Take the step; what was said before it has been done there."""


class Replay:
    """A schedule on which steps are taken one after another.

    Loops are found by their numbers in the state, which differ from those of the schedule only
    after a reduction was factored. How loops are carried out is set at the end (`finish`): a loop
    that was marked and then split or fused has no mark in a state, but would refuse it here.

    Attributes:
        dag: the graph whose schedule it is: another one after an `OnlineStep`.
        schedule: the te schedule.
        names: the names of the stages' operations as TVM has them.
        steps: those taken so far.
        axes: the loops of each stage, in the order that they have in a state.
        marks: how loops are to be carried out, until `finish`.
    """

    def __init__(self, dag: ComputeGraph) -> None:
        self.steps: list[Replayable] = []
        self._begin(dag)

    def _begin(self, dag: ComputeGraph) -> None:
        """Begin with the plain schedule of a graph."""
        self.dag = dag
        self.schedule: Schedule = create_schedule(list(dag.outputs))
        self.names: list[str] = [stage.op.name for stage in self.schedule.stages]
        self.axes: list[list[IterVar]] = [
            [*stage.op.axis, *stage.op.reduce_axis] for stage in self.schedule.stages
        ]
        # Of a stage whose reduction was factored: the names TVM gives the axes.
        self.renamed_axes: dict[Operation, tuple[str, ...]] = {}
        self.marks: dict[IterVar, tuple[Stage, Annotation]] = {}

    def take(self, step: Replayable) -> None:
        """Take a step; a `ScheduleError` names the step that cannot be taken."""
        try:
            step.replay(self)
            if step.stage_id < len(self.axes):
                check_loops(step, [axis.name for axis in self.axes[step.stage_id]])
        except IndexError:
            raise ScheduleError(f"{brief(step)}: there is no such stage or loop") from None
        except ScheduleError as error:
            raise ScheduleError(f"{brief(step)}: {error}") from error
        self.steps.append(step)

    def copy(self) -> Replay:
        """Return a replay that goes on from here apart from this one."""
        new = Replay.__new__(Replay)
        new.dag = self.dag
        new.schedule = self.schedule.copy()
        new.names, new.axes = self.names[:], [axes[:] for axes in self.axes]
        new.renamed_axes, new.steps = self.renamed_axes.copy(), self.steps[:]
        new.marks = {
            axis: (new.schedule[stage.op], annotation)
            for axis, (stage, annotation) in self.marks.items()
        }
        return new

    def finish(self) -> Schedule:
        """Mark the loops that are left as the steps said, and return the schedule."""
        for axis, (stage, annotation) in self.marks.items():
            if axis not in stage.leaf_iter_vars:
                continue
            match annotation:
                case Annotation.NONE:
                    continue
                case Annotation.UNROLL:
                    stage.unroll(axis)
                case Annotation.VECTORIZE:
                    stage.vectorize(axis)
                case Annotation.PARALLEL:
                    stage.parallel(axis)
                case Annotation.TENSORIZE:
                    raise ScheduleError(f"{stage.name}: tensorize is not supported")
                case _:
                    stage.bind(axis, thread_axis(annotation.text))
        self.marks.clear()
        return self.schedule

    # One method a primitive.

    def online(self, stage_id: int, length: int, apart: int, tile: int, depth: int) -> None:
        """Begin anew with a graph in which a stage is computed in parts of rows."""
        found = online_graph(self.dag, stage_id, length, apart, tile, depth)
        if self.steps or found is None:
            raise ScheduleError(
                "it has to come before all other steps, and to name a product of a softmax and a "
                "divisor of its rows"
            )
        self._begin(found.graph)

    def split(
        self, stage_id: int, iter_id: int, lengths: Sequence[int], inner_to_outer: bool
    ) -> None:
        """Split an axis in ``len(lengths) + 1``."""
        stage, left = self.schedule.stages[stage_id], self.axes[stage_id][iter_id]
        parts: list[IterVar] = []
        for length in reversed(lengths) if inner_to_outer else lengths:
            if inner_to_outer:
                left, part = stage.split(left, factor=length)
            else:
                part, left = stage.split(left, nparts=length)
            parts.append(part)
        parts.append(left)
        self.axes[stage_id][iter_id : iter_id + 1] = parts[::-1] if inner_to_outer else parts

    def fuse(self, stage_id: int, iter_ids: Sequence[int]) -> None:
        """Fuse neighbouring axes; of none comes a single iteration, outermost."""
        axes = self.axes[stage_id]
        fused = self.schedule.stages[stage_id].fuse(*[axes[each] for each in iter_ids])
        first = iter_ids[0] if iter_ids else 0
        axes[first : first + len(iter_ids)] = [fused]

    def reorder(self, stage_id: int, iter_ids: Sequence[int]) -> None:
        """Reorder all axes."""
        axes = [self.axes[stage_id][each] for each in iter_ids]
        self.schedule.stages[stage_id].reorder(*axes)
        self.axes[stage_id] = axes

    def annotate(self, stage_id: int, iter_id: int, annotation: Annotation) -> None:
        """Say how an axis is carried out."""
        stage = self.schedule.stages[stage_id]
        self.marks[self.axes[stage_id][iter_id]] = (stage, annotation)

    def pragma(self, stage_id: int, iter_id: int, key: str, value: int | None) -> None:
        """Give an axis a hint; one that does not exist gets none, as in TVM."""
        if iter_id < len(self.axes[stage_id]):
            self.schedule.stages[stage_id].pragma(self.axes[stage_id][iter_id], key, value)

    def pipeline(self, stage_id: int, iter_id: int, buffers: int) -> None:
        """Make the copies in shared memory that are attached at an axis ahead of their use."""
        parent, axis = self.schedule.stages[stage_id], self.axes[stage_id][iter_id]
        for at, stage in enumerate(self.schedule.stages):
            is_attached = stage.attachment is not None and stage.attachment == (parent, axis)
            if is_attached and stage.scope == "shared":
                self.copy_ahead(at, buffers)

    def copy_ahead(self, stage_id: int, buffers: int) -> None:
        """Fill a shared stage in several buffers, or through registers where there is one."""
        stage = self.schedule.stages[stage_id]
        if buffers == 1:
            stage.double_buffer()
        elif buffers:
            stage.async_copy(buffers)

    def storage_align(self, stage_id: int, iter_id: int, factor: int, offset: int) -> None:
        """Pad what is inside a dimension; nothing is inside a loop that is none, as in TVM."""
        if self.is_dimension(stage_id, iter_id):
            stage = self.schedule.stages[stage_id]
            stage.storage_align(self.axes[stage_id][iter_id], factor, offset)

    def is_dimension(self, stage_id: int, iter_id: int) -> bool:
        """Return whether a loop runs along a dimension of what its stage computes."""
        axis = self.axes[stage_id][iter_id]
        return any(each is axis for each in self.schedule.stages[stage_id].op.axis)

    def compute_at(self, stage_id: int, target_id: int, iter_id: int) -> None:
        """Compute a stage in a loop of another one."""
        stages = self.schedule.stages
        stages[stage_id].compute_at(stages[target_id], self.axes[target_id][iter_id])

    def compute_inline(self, stage_id: int) -> None:
        """Compute a stage where it is read."""
        self.schedule.stages[stage_id].compute_inline()

    def compute_root(self, stage_id: int) -> None:
        """Compute a stage in loops of its own."""
        self.schedule.stages[stage_id].compute_root()

    def cache_read(self, stage_id: int, scope: str, reader_ids: Sequence[int]) -> None:
        """Let stages read a copy of a stage, or one stage a view of it.

        See `permuted_scope` and `view_scope`.
        """
        stages = self.schedule.stages
        tensor = stages[stage_id].op.outputs[0]
        readers = [stages[each].op for each in reader_ids]
        groups, order = view_groups(scope), permuted_order(scope)
        if groups is not None and len(readers) != 1:
            raise ScheduleError(f"expected one stage that reads a view, got {len(readers)}")
        if groups is not None:
            copy, scope = self.schedule.reindex(tensor, readers[0], groups), VIEW
        elif order is not None:
            copy, scope = self.schedule.permute(tensor, readers, order), PERMUTED
        else:
            copy = self.schedule.cache_read(tensor, scope, readers)
        several = stages[stage_id].op.num_outputs > 1
        name = f"{self.names[stage_id]}{'.v0' if several else ''}"
        self.names.insert(stage_id + 1, self._free(name, scope))
        self.axes.insert(stage_id + 1, list(copy.op.axis))

    def _free(self, name: str, scope: str) -> str:
        """Return the name of a copy; a second one of a tensor is ``X.d.scope``, as in TVM."""
        while f"{name}.{scope}" in self.names:
            name += ".d"
        return f"{name}.{scope}"

    def cache_write(self, stage_id: int, scope: str) -> None:
        """Let a stage copy from a cache, in which its values are computed."""
        stage = self.schedule.stages[stage_id]
        if scope == phases_scope():
            scope = PRIVATE
            self._sum_in_phases(stage)
        elif scope == wide_scope():
            scope = PRIVATE
            self.schedule.widen(stage.op.outputs[0], scope)
        else:
            scope, parts = parts_of(scope)
            self.schedule.cache_write(list(stage.op.outputs), scope, parts)
        cache = self.schedule.stages[stage_id].op
        self.names.insert(stage_id, f"{self.names[stage_id]}.{scope}")
        self.axes.insert(stage_id, [*cache.axis, *cache.reduce_axis])
        self.axes[stage_id + 1] = list(stage.op.axis)

    def _sum_in_phases(self, stage: Stage) -> None:
        """Let a stage sum in a cache without zeros, which what it reads has no more then."""
        before = [(at, each, each.op) for at, each in enumerate(self.schedule.stages)]
        self.schedule.phases(stage.op.outputs[0], PRIVATE)
        for at, each, op in before:
            if each.op is not op:
                self.axes[at] = [*each.op.axis, *each.op.reduce_axis]

    def rfactor(self, stage_id: int, iter_id: int, place: int) -> None:
        """Reduce in two."""
        stage = self.schedule.stages[stage_id]
        self.schedule.rfactor(stage.op.outputs[0], self.axes[stage_id][iter_id], place)
        first, name = self.schedule.stages[stage_id].op, self.names[stage_id]
        self.names[stage_id : stage_id + 1] = [f"{name}.rf", f"{name}.repl"]
        self.axes.insert(stage_id, [*first.axis, *first.reduce_axis])
        self.axes[stage_id + 1] = [*stage.op.axis, *stage.op.reduce_axis]
        self.renamed_axes[stage.op] = tuple(f"ax{i}" for i in range(len(stage.op.axis)))


def apply_steps(
    dag: ComputeGraph, steps: Iterable[Replayable]
) -> tuple[Schedule, tuple[Tensor, ...]]:
    """Return a te schedule on which steps were taken, and the tensors that a kernel of it takes.

    Raises:
        ScheduleError: a step cannot be taken; the message names it.
    """
    replay = Replay(dag)
    for step in steps:
        replay.take(step)
    return replay.finish(), replay.dag.tensors
