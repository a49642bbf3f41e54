"""Convolutions NHWC on tensor cores: `conv2d_rows` beside the family that runs otherwise.

Which of them is faster for narrow or odd pixels depends on much; estimates choose, and the space
of a layer has both.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from autotune import SourceKernel, Target

from ..alternatives import KNOB, Alternatives, Family, Near
from ..products import gemm_cuda, gemm_float, gemm_half, gemm_padded
from ..products.gemm_half import KNOB as INSTRUCTION
from ..products.gemm_shape import Gemm
from . import conv2d_padded, conv2d_rows
from .conv2d_nhwc import Conv2dNhwc

# The value of the knob that selects `conv2d_rows`: others may be alternatives themselves.
ROWS = 2


@dataclass(frozen=True)
class OfShape:
    """A family of another view of a convolution, such as the product that it is.

    Attributes:
        family: of kernels.
        of: the shape that it takes.
    """

    family: Family
    of: Any

    def candidates(self, shape: Conv2dNhwc) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        return self.family.candidates(self.of)

    def violation(
        self, shape: Conv2dNhwc, choice: Mapping[str, int], target: Target
    ) -> str | None:
        """Return why a choice cannot run, or None."""
        return self.family.violation(self.of, choice, target)

    def default_choice(self, shape: Conv2dNhwc, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        return self.family.default_choice(self.of, target)

    def kernel(self, shape: Conv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice of knobs, with the arrays of the convolution."""
        made = self.family.kernel(self.of, choice)
        sizes = [each.shape for each in shape.arguments()]
        args = [replace(one, shape=size) for one, size in zip(made.args, sizes, strict=True)]
        return replace(made, args=args, reference=shape.reference())


def offered(shape: Conv2dNhwc, family: Any, of: Any, knobs: Container[str]) -> bool:
    """Return whether a space has both: unless knobs were chosen when there was one family."""
    chosen = KNOB not in knobs and any(name in knobs for name in family.candidates(of))
    return conv2d_rows.offered(shape) and not chosen


def with_rows(shape: Conv2dNhwc, family: Any, of: Any, target: Target) -> Alternatives:
    """Return the space of a family, or of its alternatives, and of `conv2d_rows`."""
    inner = family.families if isinstance(family, Alternatives) else (family,)
    near = [Near(each, 1, (), target) if each is gemm_cuda else each for each in inner]
    others = [cast(Family, OfShape(each, of)) for each in near]
    numbers = (*range(len(others)), ROWS)
    untuned = family.untuned if isinstance(family, Alternatives) else 0
    # By which epilogue a sum ends hardly tells which is faster.
    if conv2d_rows.untuned_cycles(shape, target) < cycles(cast(Any, inner[untuned]), of, target):
        untuned = ROWS
    return Alternatives((*others, cast(Family, conv2d_rows)), untuned, numbers)


@lru_cache(maxsize=1024)
def cycles(family: Any, of: Any, target: Target) -> float:
    """Return the estimate of the untuned choice of the other family."""
    if isinstance(of, Gemm) and of.dtype == "float32":
        return float(gemm_float.cycles(of, target))
    choice, copied, copying = family.default_choice(of, target), of, 0.0
    if isinstance(family, gemm_padded.Padded):
        copied, copying = gemm_padded.padded(of), conv2d_padded.COPIES
    if isinstance(family, conv2d_padded.Padded):
        copied = conv2d_padded.copied(of, choice.get(INSTRUCTION, 0))
        copying = conv2d_padded.copying_cycles(of, copied, target)
    by_mma = "warps_m" in choice and choice.get(INSTRUCTION, 0) == 0
    if isinstance(family, conv2d_padded.Padded) and not by_mma and conv2d_padded.suits_words(of):
        return conv2d_padded.cycles_on_copies(of, target)
    if not by_mma:
        kernels = gemm_half if copying else family
        return copying + float(kernels.estimate(copied, choice, target))
    return copying + conv2d_padded.mma_cycles(of, copied, choice, target)
