"""Makes programs of sketches for CPUs: parallel, vectorised and unrolled loops.

The rules are those by which TVM annotates sketches at random, with two choices taken out: all
outer tiles of a stage become one parallel loop, whose length the tiles decide, and the innermost
loop of a tiled stage is always a vector.
"""

from __future__ import annotations

from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.problem.hardware_params import HardwareParams
from autotune.auto_scheduler.search.space.program import FactorSlot, Program, Slot
from autotune.auto_scheduler.search.space.steps import Annotator
from autotune.auto_scheduler.sketch.lanes import SHARING
from autotune.auto_scheduler.sketch.packing import packed_dimension
from autotune.auto_scheduler.sketch.stage_queries import is_tiled
from autotune.auto_scheduler.states.attach_map import attached_at, attached_to
from autotune.auto_scheduler.states.loop_state import StateObject, plain_state
from autotune.auto_scheduler.states.loops import Annotation, ComputeAtKind, IterKind, Stage
from autotune.auto_scheduler.transform_steps import PragmaStep, ReorderStep, SplitStep
from autotune.auto_scheduler.transform_steps.loops import UNROLL
from autotune.utils.math import round_up

UNROLL_LIMITS = (0, 16, 64, 512)
# So many vectors of a finished tile are copied in a row.
_COPY_UNROLL = 16
# A parallel loop should have so many iterations for each core.
_PER_CORE = 16


def cpu_program(
    sketch: StateObject, params: HardwareParams, innermost: int = 64, vector: int = 16
) -> Program:
    """Return the program of a sketch.

    Args:
        sketch: a state whose splits may be undecided.
        params: of the device.
        innermost: most iterations of an innermost loop.
        vector: most lanes of a vector.
    """
    work = Annotator(sketch, innermost, _runs(sketch, innermost))
    for stage_id in range(len(sketch.stages)):
        if _at_root(work.stage(stage_id)):
            _parallel(work, stage_id, params)
    for stage_id in range(len(sketch.stages)):
        if _computed(work.stage(stage_id)):
            _unroll(work, stage_id)
    for stage_id in range(len(sketch.stages)):
        if _computed(work.stage(stage_id)):
            _vectorize(work, stage_id, vector)
    return work.program()


def _runs(sketch: StateObject, innermost: int) -> dict[int, Slot]:
    """Return the slots of splits of runs of elements whose number is rounded up."""
    found: dict[int, Slot] = {}
    state = plain_state(sketch.dag)
    for number, step in enumerate(sketch.transform_steps):
        if isinstance(step, SplitStep) and None in step.lengths:
            loop = state.stages[step.stage_id].iters[step.iter_id]
            run = loop.iter_kind is IterKind.SPATIAL and loop.name.count("@") > 1
            extent = loop.extent or 1
            if run and all(extent % n for n in SHARING):  # one that divides needs no rounding
                rounded = min(round_up(extent, n) for n in SHARING)
                found[number] = FactorSlot(number, rounded, len(step.lengths), innermost, True)
        state = step.apply(state)
    return found


def _computed(stage: Stage) -> bool:
    return stage.is_compute and stage.compute_at is not ComputeAtKind.INLINED


def _at_root(stage: Stage) -> bool:
    return stage.is_compute and stage.compute_at is ComputeAtKind.ROOT


def _copied_in_tiles(stage: Stage) -> bool:
    """Whether a stage is computed for tiles, so that its extents are not known yet."""
    attached = stage.compute_at is ComputeAtKind.ITER
    return attached and not is_tiled(stage) and len(stage.iters) == len(stage.op.axis) > 0


def _lanes_apart(work: Annotator, stage_id: int) -> int | None:
    """Return the loop of a copy that its reader's lanes index, if it is strided in the source."""
    state = work.state
    source = state.stages[stage_id].op
    readers = [each for each in state.stages if is_tiled(each) and source in reads_of(each.op)]
    return packed_dimension(readers[0], source) if len(readers) == 1 else None


def _parallel(work: Annotator, stage_id: int, params: HardwareParams) -> None:
    """Fuse outer data loops until there is enough to share out, and share them out."""
    stage = work.stage(stage_id)
    enough = _PER_CORE * max(params.num_cores, 1)
    count, product = 0, 1
    for i, loop in enumerate(stage.iters):
        whole_level = is_tiled(stage) and not loop.name.endswith(".0")
        if loop.iter_kind is IterKind.REDUCTION or loop.annotation is not Annotation.NONE:
            break
        if product > enough or whole_level:
            break
        count += 1
        product *= loop.extent or 1
        if list(attached_at(work.state.attach, stage_id, i)):
            break
    if count:
        work.fuse(stage_id, 0, count)
        work.annotate(stage_id, 0, Annotation.PARALLEL)


def _unroll(work: Annotator, stage_id: int) -> None:
    """Leave open how far sums are written out; the tile that takes them is, as far as is usual.

    A tile that is read by loops cannot stay in registers.
    """
    stage = work.stage(stage_id)
    if any(loop.iter_kind is IterKind.REDUCTION for loop in stage.iters):
        work.unroll_limit(stage_id, UNROLL_LIMITS)
    elif is_tiled(stage) and _at_root(stage) and list(attached_to(work.state.attach, stage_id)):
        work.take(PragmaStep(stage_id, 0, f"{UNROLL}${_COPY_UNROLL}"))


def _vectorize(work: Annotator, stage_id: int, most: int) -> None:
    """Carry out inner data loops as one vector."""
    stage = work.stage(stage_id)
    if _copied_in_tiles(stage):
        last = len(stage.iters) - 1
        far = _lanes_apart(work, stage_id)
        if far is None:
            work.annotate(stage_id, last, Annotation.VECTORIZE)
        else:  # one of each lane is read in turn, and all are written at once
            order = [i for i in range(len(stage.iters)) if i != far]
            work.take(ReorderStep(stage_id, (*order, far)))
            # One long loop: around short ones compilers make less of the many streams.
            work.annotate(stage_id, work.fuse(stage_id, 0, last) + 1, Annotation.UNROLL)
        return
    count, product = 0, 1
    for i in range(len(stage.iters) - 1, -1, -1):
        loop = stage.iters[i]
        if list(attached_at(work.state.attach, stage_id, i)):
            break
        if loop.iter_kind is IterKind.REDUCTION or loop.annotation is not Annotation.NONE:
            break
        product *= loop.extent or 1
        if product > most:
            break
        count += 1
        if is_tiled(stage):
            break
    if count:
        first = len(stage.iters) - count
        work.fuse(stage_id, first, count)
        work.annotate(stage_id, first, Annotation.VECTORIZE)
