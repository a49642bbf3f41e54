"""Transposed convolutions of float32: phases are output channels or groups of a convolution.

As output channels all phases read the same windows of the data, and filters are padded with zeros:
36 taps for 4x4 with stride 2. As groups they have the 16 taps that there are, but each group needs
a shifted copy of the data. By name, weights are arranged in each call, so that with few pixels the
fewest taps are best. The knob ``apart`` selects the form, and the space has both; the other knobs
are those of the convolution.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Protocol

from autotune import SourceKernel, Target
from autotune.graph import ops
from autotune.graph.passes.sub_pixel import PhaseAxis

from .. import common
from .conv2d_shape import Conv2d
from .via_conv2d import Conv2dFamily, Copy, Layer, ViaConv2d, blocks_for

KNOB = "apart"
# Floats of shared memory for filters that are arranged, and most taps that one may have.
FILTER_FLOATS, MOST_TAPS = 9000, 4096


@dataclass(frozen=True)
class Conv2dTranspose(Layer):
    """A transposed convolution: one of stride 1 for each phase of the result, interleaved.

    Attributes:
        apart: whether phases are groups, which read shifted copies of the data, and not output
            channels, whose filters are padded with zeros to the taps of all phases: 16 taps for
            filters of 4x4 with stride 2, not 36.
    """

    op: ops.Conv2dTranspose
    apart: bool = False

    @property
    def text(self) -> str:
        """The file of the kernels that copy."""
        return "conv2d_transpose.cu"

    @cached_property
    def axes(self) -> tuple[PhaseAxis, PhaseAxis]:
        """The convolutions along rows and columns."""
        steps, sides, _ = self.op.moves
        rows, columns = (
            PhaseAxis.of(
                self.data[i + 2], self.out[i + 2], self.weight[i + 2], steps[i], sides[i][0]
            )
            for i in range(2)
        )
        return rows, columns

    @property
    def has_phases(self) -> bool:
        """Whether it can be computed so: paddings of the phases must not be negative."""
        y, x = self.axes
        return min(*y.padding, *x.padding) >= 0 and prod(self.weight[2:]) <= MOST_TAPS

    @property
    def is_supported(self) -> bool:
        """Returns whether it has phases, and arrays small enough for kernels."""
        return self.has_phases and super().is_supported

    @cached_property
    def conv2d(self) -> Conv2d:
        """The 2-D convolution of all phases."""
        (n, ci, h, w), (y, x), (sy, sx) = self.data, self.axes, self.op.moves[0]
        co = self.weight[1] * sy * sx
        if self.apart:
            (rows, columns), (high, wide) = self.results, self.phase_taps
            seen = (rows + high - 1, columns + wide - 1)
            return Conv2d(
                n, *seen, co, ci * sy * sx, high, wide, (1, 1), (0, 0), False, False,
                groups=sy * sx,
            )  # fmt: skip
        sides = (y.padding[0], x.padding[0], y.padding[1], x.padding[1])
        return Conv2d(n, h, w, co, ci, y.taps, x.taps, (1, 1), sides, False, False)

    @property
    def phase_taps(self) -> tuple[int, int]:
        """Rows and columns of taps of the filters of a phase."""
        if not self.apart:
            return self.axes[0].taps, self.axes[1].taps
        (sy, sx), (kh, kw) = self.op.moves[0], self.weight[2:]
        return common.ceil_div(kh, sy), common.ceil_div(kw, sx)

    @property
    def results(self) -> tuple[int, int]:
        """Rows and columns of the result of a phase."""
        (sy, sx), (h, w) = self.op.moves[0], self.out[2:]
        return common.ceil_div(h, sy), common.ceil_div(w, sx)

    @property
    def tiles(self) -> tuple[int, int]:
        """Input and output channels of a block that arranges filters."""
        ci, co, kh, kw = self.weight
        out = max(1, min(co, 64 // (kh * kw)))
        return max(1, min(ci, 32, FILTER_FLOATS // (out * kh * kw + 1))), out

    @property
    def copies(self) -> list[Copy]:
        """The copies: of the weight, and of the result unless the stride is 1."""
        conv2d, (ci, co) = self.conv2d, self.tiles
        size = conv2d.co * conv2d.ci // conv2d.groups * conv2d.taps
        blocks = common.ceil_div(self.weight[0], ci) * common.ceil_div(self.weight[1], co)
        copies = [Copy("weight", size, blocks)]
        if self.apart:
            data = conv2d.n * conv2d.ci * conv2d.h * conv2d.w
            copies.append(Copy("data", data, blocks_for(data), early=True))
        if self.op.moves[0] != (1, 1):
            copies.append(Copy("out", conv2d.outputs, blocks_for(prod(self.out)), early=True))
        return copies

    def defines(self) -> Mapping[str, int | str]:
        """Return the parameters of the kernels that copy."""
        (ci, co, kh, kw), (y, x) = self.weight, self.axes
        (sy, sx), (rows, columns), _ = self.op.moves
        defines: dict[str, int | str] = {}
        if (sy, sx) != (1, 1):
            defines |= common.defines(
                transpose_oh=self.out[2], transpose_ow=self.out[3],
                transpose_images=self.out[0] * co,
                transpose_phase_oh=self.conv2d.oh, transpose_phase_ow=self.conv2d.ow,
            )  # fmt: skip
        high, wide = self.phase_taps
        firsts = (1 - high, 1 - wide) if self.apart else (y.first, x.first)
        if self.apart:
            defines |= common.defines(
                transpose_n=self.data[0], transpose_ih=self.data[2], transpose_iw=self.data[3],
                transpose_phase_ih=self.conv2d.h, transpose_phase_iw=self.conv2d.w,
            )  # fmt: skip
        sizes = common.defines(
            transpose_ci=ci, transpose_co=co, transpose_kh=kh, transpose_kw=kw,
            transpose_phase_kh=high, transpose_phase_kw=wide, transpose_sy=sy, transpose_sx=sx,
            transpose_apart=self.apart,
            transpose_first_y=firsts[0], transpose_first_x=firsts[1], transpose_cut_y=rows[0],
            transpose_cut_x=columns[0], transpose_ci_tile=self.tiles[0],
            transpose_co_tile=self.tiles[1],
        )  # fmt: skip
        return {**sizes, **defines}


class EstimatedFamily(Conv2dFamily, Protocol):
    """A family with an estimate of the time."""

    def untuned_cycles(self, shape: Any, target: Target) -> float:
        """Return a rough number of cycles of the untuned choice."""

    def __hash__(self) -> int:
        """Return a hash: estimates are cached."""


def ways(shape: Conv2dTranspose) -> list[Conv2dTranspose]:
    """Return a transposed convolution with phases as channels and, if it differs, as groups."""
    apart = replace(shape, apart=True)
    differs = apart.phase_taps != shape.phase_taps and apart.is_supported
    return [shape, apart] if differs else [shape]


def chosen_before(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when phases were channels: old logs stay valid."""
    return KNOB not in knobs and ("rows" in knobs or "channels" in knobs)


@lru_cache(maxsize=1024)
def cycles(family: EstimatedFamily, shape: Conv2dTranspose, target: Target) -> float:
    """Return the estimate of the untuned choice, with the copies before and after.

    On an H200 512x8x8 to 256 by 4x4 with stride 2 took 30 us with phases as channels, 21 as
    groups, and 64x128x128 to 3 took 21 and 28.
    """
    return family.untuned_cycles(shape.conv2d, target) + shape.copying_cycles(target)


@dataclass(frozen=True)
class Phases:
    """A family of kernels of 2-D convolutions, applied to all phases of a transposed one.

    Attributes:
        family: of the 2-D convolutions.
        offered: values of the knob ``apart`` that it serves.
    """

    family: EstimatedFamily
    offered: tuple[int, ...]

    def candidates(self, shape: Conv2dTranspose) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        options = [self.family.candidates(_way(shape, apart).conv2d) for apart in self.offered]
        return {KNOB: list(self.offered), **_joined(options)}

    def violation(
        self, shape: Conv2dTranspose, choice: Mapping[str, int], target: Target
    ) -> str | None:
        """Return why a choice cannot run, or None."""
        conv2d = _way(shape, choice[KNOB]).conv2d
        foreign = [
            (common.is_none_of(choice[name], values), f"{name} is no value of this form")
            for name, values in self.family.candidates(conv2d).items()
        ]
        broken = common.first_broken(foreign)
        return broken or self.family.violation(conv2d, choice, target)

    def default_choice(self, shape: Conv2dTranspose, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        best = min(self._ways(shape), key=lambda way: cycles(self.family, way, target))
        return {KNOB: int(best.apart), **self.family.default_choice(best.conv2d, target)}

    def estimate(self, shape: Conv2dTranspose, target: Target) -> float:
        """Return a rough number of cycles where nothing was tuned."""
        return min(cycles(self.family, way, target) for way in self._ways(shape))

    def _ways(self, shape: Conv2dTranspose) -> list[Conv2dTranspose]:
        return [_way(shape, apart) for apart in self.offered]

    def kernel(self, shape: Conv2dTranspose, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of a choice: copies, the convolution, and a copy."""
        # Families define what they are given in their text, where other names must not collide.
        own = {name: value for name, value in choice.items() if name != KNOB}
        return ViaConv2d(self.family).kernel(_way(shape, choice[KNOB]), own)


def _way(shape: Conv2dTranspose, apart: int) -> Conv2dTranspose:
    return replace(shape, apart=True) if apart else shape


def _joined(options: Sequence[Mapping[str, list[int]]]) -> dict[str, list[int]]:
    """Return the values that any of some families' knobs take."""
    return {name: sorted({v for each in options for v in each[name]}) for name in options[0]}
