"""Applies transform steps to a state one after another, and records which numbers stay open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.auto_scheduler.search.space.program import ChoiceSlot, FactorSlot, Program, Slot
from autotune.auto_scheduler.states.attach_map import attached_at
from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.states.loops import Annotation, IterKind, Stage
from autotune.auto_scheduler.transform_steps import (
    AnnotationStep,
    CacheReadStep,
    FollowFusedSplitStep,
    FuseStep,
    PragmaStep,
    SplitStep,
    TransformStep,
)
from autotune.auto_scheduler.transform_steps.loops import MIN_BLOCKS, PIPELINE


class Annotator:
    """A state on the way to a program.

    Args:
        sketch: what to begin with; its open lengths become slots.
        innermost: most iterations of an innermost loop.
        slots: those of open splits whose lengths are not just factors of the loop, by step.
    """

    def __init__(
        self,
        sketch: StateObject,
        innermost: int,
        slots: Mapping[int, Slot],
    ) -> None:
        self.state = sketch
        self.slots: list[Slot] = [
            slots.get(i) or FactorSlot(i, step.extent, len(step.lengths), innermost)
            for i, step in enumerate(sketch.transform_steps)
            if isinstance(step, SplitStep) and None in step.lengths
        ]

    def program(self) -> Program:
        """Return the program of the steps that were applied."""
        return Program(self.state, tuple(sorted(self.slots, key=lambda slot: slot.step)))

    def stage(self, stage_id: int) -> Stage:
        """Return a stage as it is now."""
        return self.state.stages[stage_id]

    def take(self, step: TransformStep) -> None:
        """Take a step."""
        self.state = step.apply(self.state)

    def choose(self, step: TransformStep, values: Sequence[int], follows: bool = False) -> None:
        """Take a step that has one open number, which may follow from others."""
        self.slots.append(ChoiceSlot(len(self.state.transform_steps), tuple(values), follows))
        self.take(step)

    def annotate(self, stage_id: int, iter_id: int, annotation: Annotation) -> None:
        """Say how a loop is carried out."""
        self.take(AnnotationStep(stage_id, iter_id, annotation))

    def fuse(self, stage_id: int, first: int, count: int) -> int:
        """Fuse neighbouring loops; return the place of the one they become."""
        if count != 1:
            self.take(FuseStep(stage_id, tuple(range(first, first + count))))
        return first

    def split(self, stage_id: int, iter_id: int, values: Sequence[int]) -> None:
        """Cut off an inner loop whose length is one of ``values``."""
        extent = self.stage(stage_id).iters[iter_id].extent or 0
        if len(values) == 1:
            self.take(SplitStep(stage_id, iter_id, extent, tuple(values)))
        else:
            self.choose(SplitStep(stage_id, iter_id, extent, (None,)), values)

    def follow(self, stage_id: int, iter_id: int, sources: Sequence[int], level: int) -> None:
        """Cut off as many iterations as some splits have together at a level."""
        self.take(FollowFusedSplitStep(stage_id, iter_id, tuple(sources), level, True))

    def unroll_limit(self, stage_id: int, values: Sequence[int]) -> None:
        """Leave open how far a stage is unrolled."""
        self.choose(PragmaStep(stage_id, 0, f"auto_unroll_max_step${values[0]}"), values)

    def pipeline(self, stage_id: int, iter_id: int, values: Sequence[int]) -> None:
        """Leave open how far ahead the copies that are attached to a loop are made."""
        self.choose(PragmaStep(stage_id, iter_id, f"{PIPELINE}${values[0]}"), values)

    def min_blocks(self, stage_id: int, values: Sequence[int]) -> None:
        """Note that how many blocks a multiprocessor is to hold follows from a stage's tiles."""
        self.choose(PragmaStep(stage_id, 0, f"{MIN_BLOCKS}${values[0]}"), values, follows=True)

    def outer_spatial(self, stage_id: int) -> int:
        """Return how many leading loops of a stage can be fused.

        They end before a reduction, a loop that is marked, or one with a stage attached inside.
        """
        count = 0
        for i, loop in enumerate(self.stage(stage_id).iters):
            if loop.iter_kind is IterKind.REDUCTION or loop.annotation is not Annotation.NONE:
                break
            if i and list(attached_at(self.state.attach, stage_id, i - 1)):
                break
            count += 1
        return count


def tiling_splits(state: StateObject, stage_id: int) -> list[int]:
    """Return the splits that tile the stage at whose loops a product is attached; ascending.

    Where groups of a product are a dimension of their own, the first split is into these. Tiles of
    a product that is computed for the rows of a block are those of the stage that has the block.
    """
    root = stage_id
    while root in state.attach:
        root, _ = state.attach[root]
    found = splits_of(state.transform_steps, root)
    if stage_id != root and state.attach[stage_id][0] != root:
        return found
    return found[len(state.stages[stage_id].op.axis) - len(state.stages[root].op.axis) :]


def splits_of(steps: Sequence[TransformStep], stage_id: int) -> list[int]:
    """Return the numbers of the split steps of a stage, whatever number it had then; ascending."""
    found = []
    for i in range(len(steps) - 1, -1, -1):
        step = steps[i]
        if step.adds_stage:
            added = step.stage_id + isinstance(step, CacheReadStep)
            if stage_id == added:
                break
            stage_id -= stage_id > added
        elif isinstance(step, SplitStep) and step.stage_id == stage_id:
            found.append(i)
    return found[::-1]
