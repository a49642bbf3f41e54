"""Makes programs of sketches for GPUs: binds loops to threads, and leaves numbers open.

The rules are those by which TVM annotates sketches at random; what it draws is a slot here. New
are the choice of threads for stages that are not tiled, and that of the width of copies.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from itertools import pairwise

from autotune.auto_scheduler.graph.access import AccessAnalyzer
from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.problem.hardware_params import HardwareParams
from autotune.auto_scheduler.search.space.program import ChoiceSlot, Program, Slot
from autotune.auto_scheduler.search.space.rounded_tiles import rounded_tiles
from autotune.auto_scheduler.search.space.steps import Annotator, splits_of, tiling_splits
from autotune.auto_scheduler.sketch.products import COLUMNS, ROWS, Product, product_of
from autotune.auto_scheduler.sketch.transposed_tiles import is_transposed_copy
from autotune.auto_scheduler.sketch.warpgroups import WARPS
from autotune.auto_scheduler.states.loop_state import StateObject, plain_state
from autotune.auto_scheduler.states.loops import (
    Annotation,
    ComputeAtKind,
    Iterator,
    IterKind,
    Stage,
)
from autotune.auto_scheduler.states.step_trie import StepTrie
from autotune.auto_scheduler.transform_steps import (
    AnnotationStep,
    PragmaStep,
    ReorderStep,
    SplitStep,
    StorageAlignStep,
)
from autotune.auto_scheduler.transform_steps.loops import PERSISTENT, TENSOR_CORE, WARPGROUPS
from autotune.ir.structure import variables
from autotune.te.relation import extent_of

UNROLL_LIMITS = (0, 16, 64, 512, 1024)
# More products on tensor cores take a compiler half a minute, and are no faster.
PRODUCT_UNROLL_LIMITS = UNROLL_LIMITS[:-1]
VECTOR_LENGTHS = (1, 2, 4)
# Buffers of the copies in shared memory: none ahead, two through registers, asynchronous ones.
PIPELINES = (0, 1, 2, 3, 4)
# Small tiles of products on tensor cores are done with a chunk sooner than the next has come.
PRODUCT_PIPELINES = (*PIPELINES, 6)
# Rows of other tiles may be longer, so that they begin in different banks: their length is then
# this modulo `ROW_UNIT`, which leaves vectors of four words in place.
ROW_OFFSETS = (0, 4)
ROW_UNIT = 8
# Bytes of a float, which instructions read along the reduction only.
_WORD = 4
# Persistent blocks of a multiprocessor.
RESIDENT = (1, 2)
THREADS = (32, 64, 128, 256, 512, 1024)
# Blocks of tiles that a multiprocessor is to hold at least.
MIN_BLOCKS = (0, 2, 3, 4, 5, 6, 8, 10, 12, 16)
_NO_SPLIT = "auto_scheduler_no_split_at_inner"
_ALWAYS_UNROLL = "auto_scheduler_always_unroll_inner"


def gpu_program(
    sketch: StateObject,
    params: HardwareParams,
    innermost: int = 64,
    sms: int = 132,
    start: StepTrie | None = None,
) -> Program:
    """Return the program of a sketch.

    Args:
        sketch: a state whose splits may be undecided.
        params: of the device.
        innermost: most iterations of an innermost loop.
        sms: multiprocessors of the device.
        start: the plain state of its graph, from which other sketches took steps.
    """
    shared_out = _shared_reductions(sketch)
    sketch = _opened(sketch, shared_out, start or StepTrie(plain_state(sketch.dag)))
    resident = tuple(sms * n for n in RESIDENT)
    slots: dict[int, Slot] = {i: ChoiceSlot(i, _threads(sketch, i, params)) for i in shared_out}
    slots |= {i: ChoiceSlot(i, resident) for i in _in_turn(sketch)}
    work = Annotator(sketch, innermost, slots | rounded_tiles(sketch, innermost))
    roots = tiling_roots(sketch)
    for stage_id in range(len(sketch.stages) - 1, -1, -1):
        _bind(work, stage_id, roots, params)
    for stage_id in range(len(sketch.stages)):
        _unroll(work, stage_id)
        _pipeline(work, stage_id)
    if not any(each.attrs.tensor_core for each in sketch.stages):
        for stage_id in roots.values():
            work.min_blocks(stage_id, MIN_BLOCKS)
    return work.program()


def _shared_reductions(sketch: StateObject) -> list[int]:
    """Return the splits of decided length that say how many threads reduce together."""
    steps = sketch.transform_steps
    return [
        i
        for i, (step, after) in enumerate(pairwise(steps))
        if isinstance(step, SplitStep)
        and len(step.lengths) == 1
        and isinstance(after, AnnotationStep)
        and (after.stage_id, after.iter_id) == (step.stage_id, step.iter_id + 1)
        and after.annotation is Annotation.THREAD_X
    ]


def _in_turn(sketch: StateObject) -> list[int]:
    """Return the splits that fix the number of persistent blocks: the last before the mark."""
    found, last = [], 0
    for i, step in enumerate(sketch.transform_steps):
        if isinstance(step, SplitStep):
            last = i
        elif isinstance(step, PragmaStep) and step.pragma_type == PERSISTENT:
            found.append(last)
    return found


def _opened(sketch: StateObject, places: list[int], start: StepTrie) -> StateObject:
    """Return a sketch in which the lengths of some splits are open."""
    if not places:
        return sketch
    steps = [
        replace(step, lengths=(None,)) if i in places and isinstance(step, SplitStep) else step
        for i, step in enumerate(sketch.transform_steps)
    ]
    return start.after(steps)


def _threads(sketch: StateObject, place: int, params: HardwareParams) -> tuple[int, ...]:
    """Return the numbers of threads that a split may be for."""
    step = sketch.transform_steps[place]
    extent = step.extent if isinstance(step, SplitStep) and step.extent else THREADS[-1]
    most = min(params.max_threads_per_block, max(extent, params.warp_size))
    return tuple(n for n in THREADS if n <= most) or (params.warp_size,)


def tiling_roots(state: StateObject) -> dict[int, int]:
    """Return the stages at whose loops tiled stages are attached: root -> the tiled stage."""
    access = AccessAnalyzer(state.stage_ops)
    found = {}
    for stage_id, stage in enumerate(state.stages):
        if access.needs_multi_level_tiling(stage.op) and stage_id in state.attach:
            found[state.attach[stage_id][0]] = stage_id
    return found


def _bind(work: Annotator, stage_id: int, roots: Set[int] | dict[int, int],
          params: HardwareParams) -> None:  # fmt: skip
    stage = work.stage(stage_id)
    if not stage.is_compute or stage.compute_at is ComputeAtKind.INLINED:
        return
    at_root = stage.compute_at is ComputeAtKind.ROOT
    if _reduces_across_threads(work.state, stage_id):
        if at_root:
            work.fuse(stage_id, 0, work.outer_spatial(stage_id))
            work.annotate(stage_id, 0, Annotation.BLOCK_X)
    elif any(loop.annotation is Annotation.THREAD_X for loop in stage.iters):
        return
    elif at_root and stage_id in roots:
        _bind_tiles(work, stage_id)
    elif at_root:
        _bind_plain(work, stage_id, params)
    elif stage.name.endswith(".shared"):
        _copy_together(work, stage_id)


def _bind_plain(work: Annotator, stage_id: int, params: HardwareParams) -> None:
    """Share out the data loops of a stage that is not tiled."""
    work.fuse(stage_id, 0, work.outer_spatial(stage_id))
    extent = work.stage(stage_id).iters[0].extent
    if extent is not None and extent <= params.warp_size:
        work.annotate(stage_id, 0, Annotation.THREAD_X)
        return
    most = params.max_threads_per_block
    values = [n for n in THREADS if n <= most and (extent is None or n <= extent)]
    work.split(stage_id, 0, values or [params.warp_size])
    work.annotate(stage_id, 0, Annotation.BLOCK_X)
    work.annotate(stage_id, 1, Annotation.THREAD_X)


def _bind_tiles(work: Annotator, stage_id: int) -> None:
    """Bind the three outer levels of tiles to blocks, virtual threads and threads."""
    levels = (Annotation.BLOCK_X, Annotation.VTHREAD, Annotation.THREAD_X)
    for level, annotation in enumerate(levels):
        stage = work.stage(stage_id)
        count = 0
        for loop in stage.iters[level:]:
            if not loop.name.endswith(f".{level}"):
                break
            count += 1
        work.fuse(stage_id, level, count)
        work.annotate(stage_id, level, annotation)


def _copy_together(work: Annotator, stage_id: int) -> None:
    """Let all threads of a block fill a tile of shared memory, some elements at a time."""
    target = _multiplied(work, stage_id)
    instructions = work.stage(target).attrs.tensor_core
    if instructions:
        _copy_by_warps(work, stage_id, target, instructions)
        return
    sources = spatial_splits(work.state, target)
    dimension = _row_dimension(work, stage_id, target)
    if dimension is not None and len(ROW_OFFSETS) > 1:
        work.choose(StorageAlignStep(stage_id, dimension, ROW_UNIT, 0), ROW_OFFSETS)
    if is_transposed_copy(work.state, stage_id):
        _transpose_patches(work, stage_id)
    else:
        work.fuse(stage_id, 0, len(work.stage(stage_id).iters))
        work.split(stage_id, 0, VECTOR_LENGTHS)
        work.annotate(stage_id, 1, Annotation.VECTORIZE)
    work.follow(stage_id, 0, sources[::-1], 1)
    work.annotate(stage_id, 1, Annotation.THREAD_X)


def _multiplied(work: Annotator, stage_id: int) -> int:
    """Return the stage whose tile a copy is of: that which reads it, if it is a marked product.

    It may be copied further out than that stage is computed.
    """
    op = work.stage(stage_id).op
    for each, stage in enumerate(work.state.stages):
        if stage.attrs.tensor_core and op in reads_of(stage.op):
            return each
    return work.state.attach[stage_id][0]


def _row_dimension(work: Annotator, stage_id: int, target: int) -> int | None:
    """Return the dimension of a tile along which threads read rows, if they read none across."""
    op = work.stage(target).op
    data = {axis.var for axis in op.axis if (extent_of(axis) or 2) > 1}
    found = None
    for indices in reads_of(op).get(work.stage(stage_id).op, ()):
        by_threads = [not data.isdisjoint(variables(index)) for index in indices]
        if not by_threads or by_threads[-1] or not any(by_threads):
            return None
        last = max(i for i, each in enumerate(by_threads) if each)
        found = last if found is None else min(found, last)
    return found


def row_gap(product: Product, transposed: bool) -> tuple[int, int]:
    """Return the unit and the rest by which rows of a tile are long, so that banks differ.

    Threads of a warp that read together are rows apart, or steps apart.
    """
    if product.passed and transposed:
        return 32, 8
    if product.item == _WORD and transposed:
        return product.vector * 2, product.vector
    return 16, 8


def _copy_by_warps(work: Annotator, stage_id: int, target: int, instructions: str) -> None:
    """Let the warps of a block fill a tile, by vectors.

    Rows that threads read begin in different banks; what ``wgmma`` reads is laid out by lowering,
    which turns floats that are not contiguous along the reduction: those are copied one by one.
    """
    product = product_of(work.stage(target).op, instructions)
    assert product is not None
    copied = work.stage(stage_id).op
    transposed = product.is_transposed(copied)
    passed = product.passed and copied is product.operands[0]
    rows = len(work.stage(stage_id).iters) - 2
    if instructions == TENSOR_CORE or passed:
        work.take(StorageAlignStep(stage_id, rows, *row_gap(product, transposed)))
    if instructions in WARPGROUPS and transposed and product.item == _WORD and not passed:
        _share_patches(work, stage_id)
    else:
        work.fuse(stage_id, 0, len(work.stage(stage_id).iters))
        work.split(stage_id, 0, [product.vector])
        work.annotate(stage_id, 1, Annotation.VECTORIZE)
        for length, thread in ((COLUMNS, Annotation.THREAD_X), (ROWS, Annotation.THREAD_Y)):
            work.split(stage_id, 0, [length])
            work.annotate(stage_id, 1, thread)
    splits = tiling_splits(work.state, target)
    if instructions in WARPGROUPS:
        work.split(stage_id, 0, [WARPS])
        work.follow(stage_id, 0, splits[2:3], 1)
        work.fuse(stage_id, 1, 2)
    else:
        work.follow(stage_id, 0, splits[-2:], 1)
    work.annotate(stage_id, 1, Annotation.THREAD_Z)


def _share_patches(work: Annotator, stage_id: int) -> None:
    """Let a warp copy 8 neighbours, 32 bytes, of 4 rows: transposed they are in 32 banks."""
    last = len(work.stage(stage_id).iters) - 1
    work.split(stage_id, last, [ROWS])
    work.split(stage_id, last - 1, [COLUMNS])
    # outer rows, rows, outer neighbours, neighbours
    order = (*range(last - 1), last - 1, last + 1, last + 2, last)
    work.take(ReorderStep(stage_id, order))
    work.annotate(stage_id, last + 1, Annotation.THREAD_Y)
    work.annotate(stage_id, last + 2, Annotation.THREAD_X)
    work.fuse(stage_id, 0, last + 1)


def _transpose_patches(work: Annotator, stage_id: int) -> None:
    """Fuse loops so that a warp copies 8 neighbours, 32 bytes, of 4 rows each, to 32 banks."""
    last = len(work.stage(stage_id).iters) - 1
    work.choose(StorageAlignStep(stage_id, last - 1, ROW_UNIT, 0), ROW_OFFSETS[-1:])
    work.split(stage_id, last, [COLUMNS])
    work.split(stage_id, last - 1, [ROWS])
    # outer neighbours, neighbours, outer rows, rows
    order = (*range(last - 1), last - 1, last + 1, last + 2, last)
    work.take(ReorderStep(stage_id, order))
    work.fuse(stage_id, 0, last + 3)


def spatial_splits(state: StateObject, stage_id: int) -> list[int]:
    """Return the numbers of the steps that tile the data axes of a stage, ascending."""
    op = state.stages[stage_id].op
    whole = op.attrs.get(_NO_SPLIT, ())
    reductions = sum(axis.name not in whole for axis in op.reduce_axis)
    found = splits_of(state.transform_steps, stage_id)
    return found[: len(found) - reductions]


def _unroll(work: Annotator, stage_id: int) -> None:
    stage = work.stage(stage_id)
    if not stage.is_compute or stage.compute_at is ComputeAtKind.INLINED:
        return
    if stage.attrs.tensor_core in WARPGROUPS:
        return
    names = stage.op.attrs.get(_ALWAYS_UNROLL)
    if names:
        _unroll_inner(work, stage_id, stage, set(names))
    if any(loop.iter_kind is IterKind.REDUCTION for loop in stage.iters):
        multiplies = stage.attrs.tensor_core == TENSOR_CORE
        work.unroll_limit(stage_id, PRODUCT_UNROLL_LIMITS if multiplies else UNROLL_LIMITS)


def _unroll_inner(work: Annotator, stage_id: int, stage: Stage, names: Set[str]) -> None:
    """Unroll the innermost loops that come of some axes, one for each axis."""
    left = set(names)
    for i in range(len(stage.iters) - 1, -1, -1):
        loop = stage.iters[i]
        base = loop.name.partition(".")[0]
        if base not in left and base in names:
            return
        if base in left and loop.annotation is Annotation.NONE:
            left.discard(base)
            work.annotate(stage_id, i, Annotation.UNROLL)


def _pipeline(work: Annotator, stage_id: int) -> None:
    """Leave open how far ahead of their use the copies of a stage's tiles are made.

    The loops over chunks of reductions become one before: all but the first few chunks are then
    copied while others are in use.
    """
    places = [
        loop
        for copy, (target, loop) in work.state.attach.items()
        if target == stage_id and work.stage(copy).name.endswith(".shared")
    ]
    if not places:
        return
    loops = work.stage(stage_id).iters
    first = last = max(places)
    while first and _is_plain_reduction(loops[first - 1]) and first - 1 not in places:
        first -= 1
    if not _is_plain_reduction(loops[last]):
        return
    work.fuse(stage_id, first, last - first + 1)
    product = work.stage(stage_id).attrs.tensor_core
    work.pipeline(stage_id, first, PRODUCT_PIPELINES if product else PIPELINES)


def _is_plain_reduction(loop: Iterator) -> bool:
    return loop.iter_kind is IterKind.REDUCTION and loop.annotation is Annotation.NONE


def _reduces_across_threads(state: StateObject, stage_id: int) -> bool:
    """Whether threads reduce together in a stage, or in one that is attached to it."""
    family = [stage_id, *(key for key, place in state.attach.items() if place[0] == stage_id)]
    return any(
        loop.iter_kind is IterKind.REDUCTION and loop.annotation is Annotation.THREAD_X
        for each in family
        for loop in state.stages[each].iters
    )
