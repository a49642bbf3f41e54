"""Steps that split a loop: by given lengths, as another loop was, or as several were together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from autotune.auto_scheduler.states.attach_map import move_attached
from autotune.auto_scheduler.states.loop_state import Readers, StateObject, TransformStep
from autotune.auto_scheduler.states.loops import Iterator, IterRange, plain
from autotune.auto_scheduler.states.refusal import refuse
from autotune.auto_scheduler.states.replay import Replay
from autotune.auto_scheduler.transform_steps.rows import flag, positive, positives, whole, wholes
from autotune.errors import RecordError
from autotune.te.intrinsics import ceildiv
from autotune.utils.math import ceil_div

# No loop is longer: they are counted in 32 bits.
_MOST = 2**31 - 1
# Lengths of loops; None where it is not decided yet.
Lengths = tuple[int | None, ...]


@dataclass(frozen=True)
class SplitStep(TransformStep):
    """One loop became ``len(lengths) + 1`` loops.

    Attributes:
        iter_id: the loop.
        extent: its extent if that was known and constant, else 0.
        lengths: those of all loops but the outermost if ``inner_to_outer``, else of all but the
            innermost. A length of None is not decided yet, which no record can hold.
        inner_to_outer: from which side the loop is cut.
    """

    tag: ClassVar[str] = "SP"
    reads: ClassVar[Readers] = (whole, whole, whole, positives, flag)
    iter_id: int
    extent: int
    lengths: Lengths
    inner_to_outer: bool = True

    def apply(self, state: StateObject) -> StateObject:
        """Split the loop."""
        return split_state(state, self, self.iter_id, self.lengths, self.inner_to_outer)

    def replay(self, on: Replay) -> None:
        """Split the axis."""
        on.split(
            self.stage_id, self.iter_id, require_lengths(self, self.lengths), self.inner_to_outer
        )

    def to_row(self) -> list[object]:
        """Return the row; raise if a length is not decided."""
        if None in self.lengths:
            raise RecordError(f"a split of undecided lengths {self.lengths} has no record")
        return super().to_row()

    def __str__(self) -> str:
        fields = (self.stage_id, self.iter_id, self.extent, self.lengths, self.inner_to_outer)
        return f"SplitStep{fields}"


@dataclass(frozen=True)
class FollowSplitStep(TransformStep):
    """A loop was split in ``n_split + 1`` loops by the first lengths of an earlier split."""

    tag: ClassVar[str] = "FSP"
    reads: ClassVar[Readers] = (whole, whole, whole, positive)
    iter_id: int
    src_step_id: int
    n_split: int

    def lengths(self, steps: Sequence[object]) -> Lengths:
        """Return the lengths: the last one is the quotient of the source's by the others."""
        source = _source(self, steps, self.src_step_id)
        if not 1 <= self.n_split <= len(source.lengths) + 1:
            raise refuse(self, f"n_split must be in 1..{len(source.lengths) + 1}")
        rest = source.lengths[self.n_split - 1 :]
        last = None if None in rest else prod(length for length in rest if length)
        return (*source.lengths[: self.n_split - 1], last)

    def apply(self, state: StateObject) -> StateObject:
        """Split the loop."""
        return split_state(state, self, self.iter_id, self.lengths(state.transform_steps), True)

    def replay(self, on: Replay) -> None:
        """Split the axis."""
        on.split(self.stage_id, self.iter_id, require_lengths(self, self.lengths(on.steps)), True)


@dataclass(frozen=True)
class FollowFusedSplitStep(TransformStep):
    """A loop was split in two by the product of one length of several earlier splits.

    So the loop that copies to shared memory gets as many threads as the loops have that read it.
    The product is the extent of the inner loop if ``factor_or_nparts``, else of the outer one.
    """

    tag: ClassVar[str] = "FFSP"
    reads: ClassVar[Readers] = (whole, whole, wholes, whole, flag)
    iter_id: int
    src_step_ids: tuple[int, ...]
    level: int
    factor_or_nparts: bool

    def length(self, steps: Sequence[object]) -> int | None:
        """Return the product; None while a length of it is not decided."""
        lengths = [_source(self, steps, each).lengths for each in self.src_step_ids]
        if any(self.level >= len(each) for each in lengths):
            raise refuse(self, f"a split that it follows has no length {self.level}")
        at_level = [each[self.level] for each in lengths]
        return None if None in at_level else prod(length for length in at_level if length)

    def apply(self, state: StateObject) -> StateObject:
        """Split the loop."""
        lengths = (self.length(state.transform_steps),)
        return split_state(state, self, self.iter_id, lengths, self.factor_or_nparts)

    def replay(self, on: Replay) -> None:
        """Split the axis."""
        lengths = require_lengths(self, (self.length(on.steps),))
        on.split(self.stage_id, self.iter_id, lengths, self.factor_or_nparts)


def _source(step: TransformStep, steps: Sequence[object], number: int) -> SplitStep:
    found = steps[number] if number < len(steps) else None
    if not isinstance(found, SplitStep):
        raise refuse(step, f"step {number} is no split that it could follow, but {found}")
    return found


def require_lengths(step: TransformStep, lengths: Lengths) -> tuple[int, ...]:
    """Return lengths that are all known; raise if one is not."""
    known = tuple([length for length in lengths if length is not None])
    if len(known) < len(lengths):
        raise refuse(step, "a length is not decided yet; fill in all before it becomes a schedule")
    _check_lengths(step, known)
    return known


def _check_lengths(step: TransformStep, lengths: Lengths) -> None:
    if any(length is not None and not 1 <= length <= _MOST for length in lengths):
        raise refuse(step, f"lengths must be at least 1 and at most {_MOST}, got {lengths}"[:200])


def split_state(
    state: StateObject, step: TransformStep, iter_id: int, lengths: Lengths, inner_to_outer: bool
) -> StateObject:
    """Return a state in which a loop is split."""
    stage = state.compute_stage(step)
    loop = state.loop(step, stage, iter_id)
    _check_lengths(step, lengths)
    parts = split_parts(loop, lengths, inner_to_outer)
    iters = (*stage.iters[:iter_id], *parts, *stage.iters[iter_id + 1 :])
    extra = len(lengths)
    return state.with_loops(
        step,
        iters,
        attach=move_attached(state.attach, step.stage_id, lambda at: at + extra * (at >= iter_id)),
        concrete=state.concrete and None not in lengths,
    )


def split_parts(loop: Iterator, lengths: Lengths, inner_to_outer: bool) -> list[Iterator]:
    """Return the loops that a split makes, from outermost to innermost.

    What is beyond an undecided length is unknown too. The loop that is cut off first keeps the
    least value of the split one.
    """
    left, low = (None, None) if loop.range is None else (loop.range.extent, loop.range.min)
    ranges: list[IterRange | None] = []
    for length in reversed(lengths) if inner_to_outer else lengths:
        if length is None or left is None or low is None:
            ranges.append(None)
            left = low = None
            continue
        ranges.append(IterRange(low, length))
        low = 0
        left = ceil_div(left, length) if isinstance(left, int) else plain(ceildiv(left, length))
    ranges.append(None if left is None or low is None else IterRange(low, left))
    ordered = reversed(ranges) if inner_to_outer else ranges
    return [Iterator(f"{loop.name}.{i}", each, loop.iter_kind) for i, each in enumerate(ordered)]
