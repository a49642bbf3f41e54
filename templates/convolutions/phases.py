"""Transposed convolutions by name, whose phases are channels of one convolution or groups of it.

As channels, all phases see the same windows of the data, and filters have zeros where only those
of another phase have taps: 36 taps for 4x4 with stride 2. As groups they have the 16 that there
are, but each group gets a copy of the data, moved to where its filters begin. Weights that are
not known ahead are arranged in each call, so that few pixels want the fewest taps. The knob
``apart`` says which it is, and the space has both; the other knobs are those of the convolution.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

from autotune import SourceKernel, Target

from .. import common
from .via_conv2d import AsImages, Images
from .volumes import Spread

KNOB = "apart"
# Cycles that a kernel which copies takes besides its bytes, of which 16 a cycle are read or
# written by a multiprocessor.
LAUNCH_CYCLES, BYTES_A_CYCLE, MULTIPROCESSORS = 2500, 16, 132


class Estimated(Images, Protocol):
    """A family of convolutions of images that knows about how long they take."""

    def estimate(self, shape: Any, choice: Mapping[str, int], target: Target) -> float:
        """Return a rough number of cycles."""

    def __hash__(self) -> int:
        """Return the same for the same family: what it says is kept."""


def ways(shape: Spread) -> list[Spread]:
    """Return a transposed convolution with phases as channels and, if it differs, as groups."""
    apart = replace(shape, apart=True)
    differs = apart.phase_taps != shape.phase_taps and apart.is_taken
    return [shape, apart] if differs else [shape]


def chosen_before(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when phases were channels: old logs stay valid."""
    return KNOB not in knobs and ("rows" in knobs or "channels" in knobs)


@lru_cache(maxsize=1024)
def cycles(family: Estimated, shape: Spread, target: Target) -> float:
    """Return the estimate of the untuned choice, with the copies before and after.

    On an H200 512x8x8 to 256 by 4x4 with stride 2 took 30 us with phases as channels, 21 as
    groups, and 64x128x128 to 3 took 21 and 28.
    """
    multiprocessors = target.limits.sm_count if target.limits.sm_count > 1 else MULTIPROCESSORS
    moved = sum(8 * each.size for each in shape.copies)
    launches = LAUNCH_CYCLES * sum(not each.early for each in shape.copies)
    copies = launches + moved / (BYTES_A_CYCLE * multiprocessors)
    choice = family.default_choice(shape.images, target)
    return family.estimate(shape.images, choice, target) + copies


@dataclass(frozen=True)
class Phases:
    """A family of convolutions of images, applied to all phases of a transposed one.

    Attributes:
        family: of the convolutions of images.
        offered: values of the knob ``apart`` that it serves.
    """

    family: Estimated
    offered: tuple[int, ...]

    def candidates(self, shape: Spread) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        options = [self.family.candidates(_way(shape, apart).images) for apart in self.offered]
        return {KNOB: list(self.offered), **_joined(options)}

    def violation(self, shape: Spread, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""
        images = _way(shape, choice[KNOB]).images
        strange = [
            (common.is_none_of(choice[name], values), f"{name} of the other")
            for name, values in self.family.candidates(images).items()
        ]
        broken = common.first_broken(strange)
        return broken or self.family.violation(images, choice, target)

    def default_choice(self, shape: Spread, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        best = min(
            (_way(shape, apart) for apart in self.offered),
            key=lambda way: cycles(self.family, way, target),
        )
        return {KNOB: int(best.apart), **self.family.default_choice(best.images, target)}

    def kernel(self, shape: Spread, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of a choice: copies, the convolution, and a copy."""
        return AsImages(self.family).kernel(_way(shape, choice[KNOB]), choice)


def _way(shape: Spread, apart: int) -> Spread:
    return replace(shape, apart=True) if apart else shape


def _joined(options: Sequence[Mapping[str, list[int]]]) -> dict[str, list[int]]:
    """Return the values that any of some families' knobs take."""
    return {name: sorted({v for each in options for v in each[name]}) for name in options[0]}
