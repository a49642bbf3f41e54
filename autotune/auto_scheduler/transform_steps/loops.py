"""Steps that fuse, reorder and mark loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

from autotune.auto_scheduler.states.attach_map import attached_at, detach_stage, move_attached
from autotune.auto_scheduler.states.loop_state import Readers, StateObject, TransformStep
from autotune.auto_scheduler.states.loops import (
    Annotation,
    Iterator,
    IterKind,
    IterRange,
    plain,
)
from autotune.auto_scheduler.states.refusal import refuse
from autotune.auto_scheduler.states.replay import Replay
from autotune.auto_scheduler.transform_steps.rows import positive, text, whole, wholes
from autotune.errors import ScheduleError

UNROLL = "auto_unroll_max_step"
PIPELINE = "software_pipeline"
# How many blocks a multiprocessor is to hold at once.
MIN_BLOCKS = "min_blocks"
TENSOR_CORE = "tensor_core"
WGMMA = "wgmma"
# The same instructions, of whose left operand threads pass what they read of shared memory.
WGMMA_PASSED = "wgmma_passed"
WARPGROUPS = (WGMMA, WGMMA_PASSED)
# A nest of a product becomes instructions of a warp, or of four.
_INSTRUCTIONS = (TENSOR_CORE, *WARPGROUPS)
# A loop is over the tiles of a persistent block.
PERSISTENT = "persistent"
SKIP_REGION = "debug_skip_region"
# Of an unroll limit: more than that is no number of statements.
_DIGITS = 9
# More buffers than this leave too little memory for each.
MOST_BUFFERS = 16
# No multiprocessor holds more blocks.
MOST_BLOCKS = 32


def _annotation(value: object) -> Annotation:
    """Return a field that has to be the number of an annotation."""
    return Annotation(whole(value))


@dataclass(frozen=True)
class AnnotationStep(TransformStep):
    """It was said how a loop is carried out: unrolled, vectorized, parallel, bound to a thread."""

    tag: ClassVar[str] = "AN"
    reads: ClassVar[Readers] = (whole, whole, _annotation)
    iter_id: int
    annotation: Annotation

    def apply(self, state: StateObject) -> StateObject:
        """Mark the loop, which must have no mark yet."""
        stage = state.compute_stage(self)
        loop = state.loop(self, stage, self.iter_id)
        if loop.annotation is not Annotation.NONE:
            raise refuse(
                self, f"loop {loop.name} of {stage.name} is {loop.annotation.text} already"
            )
        marked = replace(loop, annotation=self.annotation)
        before, after = stage.iters[: self.iter_id], stage.iters[self.iter_id + 1 :]
        return state.with_loops(self, (*before, marked, *after))

    def replay(self, on: Replay) -> None:
        """Mark the axis."""
        on.annotate(self.stage_id, self.iter_id, self.annotation)


@dataclass(frozen=True)
class FuseStep(TransformStep):
    """Neighbouring loops became one; of no loops came one of a single iteration."""

    tag: ClassVar[str] = "FU"
    reads: ClassVar[Readers] = (whole, wholes)
    fused_ids: tuple[int, ...]

    def apply(self, state: StateObject) -> StateObject:
        """Fuse the loops."""
        stage = state.compute_stage(self)
        if not self.fused_ids:
            single = Iterator("", IterRange(0, 1), IterKind.SPECIAL)
            attach = move_attached(state.attach, self.stage_id, lambda at: at + 1)
            return state.with_loops(self, (single, *stage.iters), attach=attach)
        first, last = self.fused_ids[0], self.fused_ids[-1]
        if self.fused_ids != tuple(range(first, first + len(self.fused_ids))):
            raise refuse(self, "expected neighbouring loops from outer to inner")
        loops = [state.loop(self, stage, each) for each in self.fused_ids]
        for each in self.fused_ids[:-1]:
            for attached in attached_at(state.attach, self.stage_id, each):
                name = state.stages[attached].name
                raise refuse(self, f"{name} is computed at one of its loops but the last")
        gone = last - first

        def place(at: int) -> int:
            return min(at, first) if at <= last else at - gone

        return state.with_loops(
            self,
            (*stage.iters[:first], fuse_iterators(loops), *stage.iters[last + 1 :]),
            attach=move_attached(state.attach, self.stage_id, place),
        )

    def replay(self, on: Replay) -> None:
        """Fuse the axes."""
        on.fuse(self.stage_id, self.fused_ids)


def fuse_iterators(loops: Sequence[Iterator]) -> Iterator:
    """Return the loop that fusing loops gives."""
    kinds = {loop.iter_kind for loop in loops}
    kind = kinds.pop() if len(kinds) == 1 else IterKind.MIXED
    ranges = [loop.range for loop in loops]
    known = [each.extent for each in ranges if each is not None]
    whole_range = None
    if len(known) == len(ranges):
        whole_range = IterRange(0, plain(reduce(lambda a, b: a * b, known)))
    name = "".join(f"{loop.name}@" for loop in loops)
    return Iterator(name, whole_range, kind, orig_iters=tuple(loops))


@dataclass(frozen=True)
class ReorderStep(TransformStep):
    """The loops were put in another order: ``after_ids`` are the old places in the new order."""

    tag: ClassVar[str] = "RE"
    reads: ClassVar[Readers] = (whole, wholes)
    after_ids: tuple[int, ...]

    def apply(self, state: StateObject) -> StateObject:
        """Reorder the loops; what is attached to one follows it."""
        stage = state.compute_stage(self)
        if sorted(self.after_ids) != list(range(len(stage.iters))):
            raise refuse(
                self, f"expected each of the {len(stage.iters)} loops of {stage.name} once"
            )
        return state.with_loops(
            self,
            tuple([stage.iters[each] for each in self.after_ids]),
            attach=move_attached(state.attach, self.stage_id, self.after_ids.index),
        )

    def replay(self, on: Replay) -> None:
        """Reorder the axes."""
        on.reorder(self.stage_id, self.after_ids)


@dataclass(frozen=True)
class PragmaStep(TransformStep):
    """A stage got a hint: ``auto_unroll_max_step$N``, ``software_pipeline$N``, or to be skipped.

    ``software_pipeline`` is ours, TVM knows none: the copies in shared memory attached to a loop
    are made ahead of their use, by asynchronous copies in N buffers, or, with N of 1, through
    registers in two. Without the step, as with N of 0, they are not. So is ``min_blocks``: threads
    get so few registers that a multiprocessor holds N blocks of the kernel at once.
    """

    tag: ClassVar[str] = "PR"
    reads: ClassVar[Readers] = (whole, whole, text)
    iter_id: int
    pragma_type: str

    @property
    def unroll(self) -> int | None:
        """The most statements to unroll to; None if the hint is another one."""
        return self._number(UNROLL)

    @property
    def pipeline(self) -> int | None:
        """The number of buffers of a pipeline; None if the hint is another one."""
        return self._number(PIPELINE)

    @property
    def min_blocks(self) -> int | None:
        """The number of blocks of a multiprocessor; None if the hint is another one."""
        return self._number(MIN_BLOCKS)

    def _number(self, wanted: str) -> int | None:
        key, _, value = self.pragma_type.partition("$")
        if key != wanted:
            return None
        known = value.isdecimal() and value.isascii() and len(value) <= _DIGITS
        return int(value) if known else None

    def apply(self, state: StateObject) -> StateObject:
        """Set the hint; those with a number are of the stage, so the loop does not matter."""
        stage = state.compute_stage(self)
        if self.pragma_type == SKIP_REGION:
            return state.taken(self, attach=detach_stage(state.attach, self.stage_id))
        if self.pragma_type in _INSTRUCTIONS:
            state.loop(self, stage, self.iter_id)
            attrs = replace(stage.attrs, tensor_core=self.pragma_type)
        elif self.pragma_type == PERSISTENT:
            state.loop(self, stage, self.iter_id)
            attrs = stage.attrs
        elif self.unroll is not None:
            attrs = replace(stage.attrs, auto_unroll_max_step=self.unroll)
        elif self.pipeline is not None and self.pipeline <= MOST_BUFFERS:
            state.loop(self, stage, self.iter_id)
            attrs = replace(stage.attrs, pipeline=self.pipeline)
        elif self.min_blocks is not None and self.min_blocks <= MOST_BLOCKS:
            attrs = replace(stage.attrs, min_blocks=self.min_blocks)
        else:
            raise self._unknown()
        return state.with_stage(self, replace(stage, attrs=attrs))

    def replay(self, on: Replay) -> None:
        """Set the hint on the axis."""
        if self.pragma_type == SKIP_REGION:
            on.pragma(self.stage_id, self.iter_id, SKIP_REGION, None)
        elif self.pragma_type in (*_INSTRUCTIONS, PERSISTENT):
            mark = WGMMA if self.pragma_type in WARPGROUPS else self.pragma_type
            on.pragma(self.stage_id, self.iter_id, mark, 1)
        elif self.unroll is not None:
            on.pragma(self.stage_id, self.iter_id, UNROLL, self.unroll)
            on.pragma(self.stage_id, self.iter_id, "unroll_explicit", True)
        elif self.pipeline is not None and self.pipeline <= MOST_BUFFERS:
            on.pipeline(self.stage_id, self.iter_id, self.pipeline)
        elif self.min_blocks is not None and self.min_blocks <= MOST_BLOCKS:
            on.pragma(self.stage_id, self.iter_id, MIN_BLOCKS, self.min_blocks)
        else:
            raise self._unknown()

    def _unknown(self) -> ScheduleError:
        return refuse(
            self,
            f"expected {UNROLL}$<number>, {PIPELINE}$<number up to {MOST_BUFFERS}>, "
            f"{MIN_BLOCKS}$<number up to {MOST_BLOCKS}>, {', '.join(_INSTRUCTIONS)}, {PERSISTENT} "
            f"or {SKIP_REGION}",
        )


@dataclass(frozen=True)
class StorageAlignStep(TransformStep):
    """The stride of a dimension became ``offset`` modulo ``factor``."""

    tag: ClassVar[str] = "SA"
    reads: ClassVar[Readers] = (whole, whole, positive, whole)
    iter_id: int
    factor: int
    offset: int

    def apply(self, state: StateObject) -> StateObject:
        """Note the offset."""
        stage = state.compute_stage(self)
        state.loop(self, stage, self.iter_id)
        attrs = replace(stage.attrs, storage_offset=self.offset)
        return state.with_stage(self, replace(stage, attrs=attrs))

    def replay(self, on: Replay) -> None:
        """Align the dimension."""
        on.storage_align(self.stage_id, self.iter_id, self.factor, self.offset)
