"""`State`, TVM's interface of loop states, whose primitives change a state in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from autotune.auto_scheduler.graph.compute_graph import ComputeGraph
from autotune.auto_scheduler.states.loop_state import StateObject, TransformStep
from autotune.auto_scheduler.states.loops import THREADS, Annotation, Iterator, Stage
from autotune.auto_scheduler.transform_steps import (
    AnnotationStep,
    CacheReadStep,
    CacheWriteStep,
    ComputeAtStep,
    ComputeInlineStep,
    ComputeRootStep,
    FollowFusedSplitStep,
    FollowSplitStep,
    FuseStep,
    OnlineStep,
    PragmaStep,
    ReorderStep,
    RfactorStep,
    SplitStep,
    StorageAlignStep,
)
from autotune.errors import ScheduleError
from autotune.te.tensor import Operation, Tensor
from autotune.utils.check import Check

StageKey = Operation | Tensor | int


class State:
    """A loop state with primitives that change it; `ComputeDAG.get_init_state` makes the first.

    Stages are named by a tensor, an operation or a number; ``s[C].iters`` are the loops of one.
    A loop that a primitive takes is one of these, and those that come of it are returned. An
    operation of an earlier version of the state still names its stage.

    Example::

        s = dag.get_init_state()
        i, j, k = s[C].iters
        io, ii = s.split(C, i, [16])
        s.reorder(C, [io, j, k, ii])

    Raises:
        ScheduleError: a step cannot be taken; the state is then as it was.
    """

    ANNOTATION_TRANS_TABLE: ClassVar[dict[str, int]] = {
        "none" if each is Annotation.NONE else each.text: int(each) for each in Annotation
    }

    def __init__(self, state_object: StateObject, dag: ComputeGraph | None = None) -> None:
        self.state_object = state_object
        self.compute_dag = state_object.dag if dag is None else dag
        self.stage_id_map: dict[Operation, int] = {}
        self._note_ops()

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages, in the order of a te schedule."""
        return self.state_object.stages

    @property
    def stage_ops(self) -> list[Operation]:
        """The operations of the stages."""
        return self.state_object.stage_ops

    @property
    def transform_steps(self) -> tuple[TransformStep, ...]:
        """The steps taken so far."""
        return self.state_object.transform_steps

    @property
    def concrete(self) -> bool:
        """Whether all lengths of splits are decided."""
        return self.state_object.concrete

    def copy(self) -> State:
        """Return a state that further primitives change apart from this one."""
        return self.with_object(self.state_object)

    def with_object(self, state_object: StateObject) -> State:
        """Return another state of the same stages, which operations of this one name too."""
        new = State(state_object, self.compute_dag)
        new.stage_id_map = {**self.stage_id_map, **new.stage_id_map}
        return new

    def __getitem__(self, key: StageKey) -> Stage:
        return self.stages[self.stage_id(key)]

    def stage_id(self, key: StageKey) -> int:
        """Return the number of a stage."""
        op = key.op if isinstance(key, Tensor) else key
        if isinstance(op, int) and not isinstance(op, bool):
            if -len(self.stages) <= op < len(self.stages):
                return op % len(self.stages)
        elif isinstance(op, Operation) and op in self.stage_id_map:
            return self.stage_id_map[op]
        names = ", ".join(stage.name for stage in self.stages)
        raise ScheduleError(
            f"{getattr(key, 'name', key)!r} is no stage of this state, which has {names}; "
            "expected a tensor, an operation or the number of a stage"
        )

    # Loops.

    def split(
        self,
        stage: StageKey,
        iterator: Iterator,
        lengths: Sequence[int | None],
        inner_to_outer: bool = True,
    ) -> list[Iterator]:
        """Split a loop in ``len(lengths) + 1``, which are returned from outermost to innermost.

        ``lengths`` are those of all but the outermost, or of all but the innermost if not
        ``inner_to_outer``; None leaves one to be decided.
        """
        at, loop = self._loop(stage, iterator)
        known = self.stages[at].iters[loop].extent or 0
        check = Check(ScheduleError, "State.split")
        decided = tuple(
            None if each is None else check.whole("lengths", each, 1)
            for each in check.sequence("lengths", lengths, "a list of lengths")
        )
        self._take(SplitStep(at, loop, known, decided, bool(inner_to_outer)))
        return self._loops(at, loop, len(decided) + 1)

    def follow_split(
        self, stage: StageKey, iterator: Iterator, src_step_id: int, n_split: int
    ) -> list[Iterator]:
        """Split a loop in ``n_split + 1`` by the lengths of an earlier split."""
        at, loop = self._loop(stage, iterator)
        check = Check(ScheduleError, "State.follow_split")
        source = check.whole("src_step_id", src_step_id, 0)
        self._take(FollowSplitStep(at, loop, source, check.whole("n_split", n_split, 1)))
        return self._loops(at, loop, n_split + 1)

    def follow_fused_split(
        self,
        stage: StageKey,
        iterator: Iterator,
        src_step_ids: Sequence[int],
        level: int,
        factor_or_nparts: bool,
    ) -> list[Iterator]:
        """Split a loop in two by the product of the lengths that earlier splits have at a level.

        It is the inner loop's extent if ``factor_or_nparts``, else the outer one's.
        """
        at, loop = self._loop(stage, iterator)
        check = Check(ScheduleError, "State.follow_fused_split")
        given = check.sequence("src_step_ids", src_step_ids, "a list of numbers of steps")
        sources = tuple(check.whole("src_step_ids", each, 0) for each in given)
        place = check.whole("level", level, 0)
        self._take(FollowFusedSplitStep(at, loop, sources, place, bool(factor_or_nparts)))
        return self._loops(at, loop, 2)

    def fuse(self, stage: StageKey, iters: Sequence[Iterator]) -> Iterator:
        """Fuse neighbouring loops, given from outer to inner; of none comes one iteration."""
        at = self.stage_id(stage)
        loops = Check(ScheduleError, "State.fuse").sequence("iters", iters, "a list of loops")
        places = tuple(self._loop(stage, each)[1] for each in loops)
        self._take(FuseStep(at, places))
        return self.stages[at].iters[places[0] if places else 0]

    def reorder(self, stage: StageKey, order: Sequence[Iterator]) -> None:
        """Put all loops of a stage in another order."""
        at = self.stage_id(stage)
        loops = Check(ScheduleError, "State.reorder").sequence("order", order, "a list of loops")
        self._take(ReorderStep(at, tuple(self._loop(stage, each)[1] for each in loops)))

    def bind(self, stage: StageKey, iterator: Iterator, thread_name: str) -> Iterator:
        """Let threads carry out a loop: ``blockIdx.x``, ``vthread``, ``threadIdx.y``, ..."""
        Check(ScheduleError, "State.bind").one_of("thread_name", thread_name, THREADS)
        return self._annotate(stage, iterator, THREADS[thread_name])

    def parallel(self, stage: StageKey, iterator: Iterator) -> Iterator:
        """Share a loop out to the cores of a CPU."""
        return self._annotate(stage, iterator, Annotation.PARALLEL)

    def unroll(
        self, stage: StageKey, iterator: Iterator, max_unroll: int | None = None
    ) -> Iterator:
        """Write a loop out; with ``max_unroll``, only if it has no more iterations than that."""
        at, loop = self._loop(stage, iterator)
        extent = self.stages[at].iters[loop].extent
        if max_unroll is not None:
            Check(ScheduleError, "State.unroll").whole("max_unroll", max_unroll)
        if max_unroll is not None and extent is not None and extent > max_unroll:
            return self.stages[at].iters[loop]
        return self._annotate(stage, iterator, Annotation.UNROLL)

    def vectorize(self, stage: StageKey, iterator: Iterator) -> Iterator:
        """Carry out a loop by vector operations."""
        return self._annotate(stage, iterator, Annotation.VECTORIZE)

    def pragma(self, stage: StageKey, iterator: Iterator, pragma_type: str) -> None:
        """Give a hint, such as ``auto_unroll_max_step$64``; see `PragmaStep`."""
        at, loop = self._loop(stage, iterator)
        check = Check(ScheduleError, "State.pragma")
        hint = check.text("pragma_type", pragma_type, "auto_unroll_max_step$64")
        self._take(PragmaStep(at, loop, hint))

    def storage_align(self, stage: StageKey, iterator: Iterator, factor: int, offset: int) -> None:
        """Make the stride of a dimension ``offset`` modulo ``factor``."""
        at, loop = self._loop(stage, iterator)
        check = Check(ScheduleError, "State.storage_align")
        stride = check.whole("factor", factor, 1), check.whole("offset", offset, 0)
        self._take(StorageAlignStep(at, loop, *stride))

    # Places.

    def compute_at(self, stage: StageKey, target_stage: StageKey, target_iter: Iterator) -> None:
        """Compute a stage inside a loop of a stage that reads it."""
        target, loop = self._loop(target_stage, target_iter)
        self._take(ComputeAtStep(self.stage_id(stage), target, loop))

    def compute_inline(self, stage: StageKey) -> None:
        """Compute a stage where it is read."""
        self._take(ComputeInlineStep(self.stage_id(stage)))

    def compute_root(self, stage: StageKey) -> None:
        """Compute a stage in loops of its own."""
        self._take(ComputeRootStep(self.stage_id(stage)))

    # Stages.

    def online(
        self, stage: StageKey, length: int, apart: int = 1, tile: int = 0, depth: int = 0
    ) -> None:
        """Compute a product of a softmax in parts of rows; it comes before all other steps.

        The stages are others from then on: see `autotune.te.online`.
        """
        check = Check(ScheduleError, "State.online")
        numbers = (check.whole("length", length, 1), check.whole("apart", apart, 1))
        ends = (check.whole("tile", tile, 0), check.whole("depth", depth, 0))
        step = OnlineStep(self.stage_id(stage), *numbers, *ends)
        self._take(step)
        self._note_ops()

    def cache_read(
        self, stage: StageKey, scope_name: str, reader_stages: Sequence[StageKey]
    ) -> Operation:
        """Let stages read a copy of another one; return the operation that copies."""
        at = self.stage_id(stage)
        check = Check(ScheduleError, "State.cache_read")
        scope = check.text("scope_name", scope_name, "shared")
        stages = check.sequence("reader_stages", reader_stages, "a list of stages")
        self._take(CacheReadStep(at, scope, tuple(self.stage_id(each) for each in stages)))
        return self._added(at + 1)

    def cache_write(self, stage: StageKey, scope_name: str) -> Operation:
        """Compute a stage in a cache, from which it then copies; return the cache's operation.

        It has to come before all other steps on the stage.
        """
        at = self.stage_id(stage)
        check = Check(ScheduleError, "State.cache_write")
        self._take(CacheWriteStep(at, check.text("scope_name", scope_name, "local")))
        return self._added(at)

    def rfactor(self, stage: StageKey, iterator: Iterator, factor_iter_id: int) -> Operation:
        """Reduce in two, one loop apart; return the operation of the first reduction.

        The split of the reduction that made the loop has to come right before it.
        """
        at, loop = self._loop(stage, iterator)
        place = Check(ScheduleError, "State.rfactor").whole("factor_iter_id", factor_iter_id, 0)
        self._take(RfactorStep(at, loop, place))
        return self._added(at)

    def _annotate(self, stage: StageKey, iterator: Iterator, annotation: Annotation) -> Iterator:
        at, loop = self._loop(stage, iterator)
        self._take(AnnotationStep(at, loop, annotation))
        return self.stages[at].iters[loop]

    def _take(self, step: TransformStep) -> None:
        self.state_object = step.apply(self.state_object)

    def _loop(self, key: StageKey, iterator: Iterator) -> tuple[int, int]:
        """Return the numbers of a stage and of one of its loops.

        A loop that was marked or moved since is found by its name, which is its own in a stage.
        """
        at = self.stage_id(key)
        loops = self.stages[at].iters
        for i, loop in enumerate(loops):
            if loop is iterator:
                return at, i
        named = [i for i, loop in enumerate(loops) if loop.name == getattr(iterator, "name", None)]
        if len(named) == 1:
            return at, named[0]
        raise ScheduleError(
            f"{getattr(iterator, 'name', iterator)!r} is no loop of {self.stages[at].name}; its "
            f"loops are now: {', '.join(loop.name for loop in loops)}"
        )

    def _loops(self, at: int, first: int, count: int) -> list[Iterator]:
        return list(self.stages[at].iters[first : first + count])

    def _added(self, at: int) -> Operation:
        for op, number in self.stage_id_map.items():
            self.stage_id_map[op] = number + (number >= at)
        self._note_ops()
        return self.stages[at].op

    def _note_ops(self) -> None:
        self.stage_id_map.update({stage.op: i for i, stage in enumerate(self.stages)})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return self.state_object == other.state_object

    def __hash__(self) -> int:
        return hash(self.state_object)

    def __str__(self) -> str:
        return str(self.state_object)

    __repr__ = __str__
