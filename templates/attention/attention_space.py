"""The space of attention where a shape has two families of kernels.

As in `gemm_half` one space holds both: a knob selects the family, and the other knobs are shared.
Besides `attention_mma`, many queries have `attention_wgmma` on sm_90, and few `attention_decode`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Protocol

from autotune import SourceKernel, Target

from .. import common
from . import attention_decode, attention_mma, attention_wgmma
from .attention_mma import Attention

# Up to as many keys a tile of 64 is not full, which costs wgmma more where queries are few too: an
# H200 took 4.8 us for 60 keys and 1000 queries of 16 heads, 8.1 by ``mma.sync``, but for 40 keys
# and 100 queries of 8 heads 2.84, and 2.35.
FEW_KEYS, FEW_QUERY_ROWS = 64, 2048


class Family(Protocol):
    """The interface of a family of attention kernels."""

    def offered(self, shape: Attention, target: Target) -> bool:
        """Return whether a target can run these, and they suit a shape."""

    def candidates(self, shape: Attention) -> dict[str, list[int]]:
        """Return the values each knob may take for a shape."""

    def violation(self, shape: Attention, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""

    def estimate(self, shape: Attention, choice: Mapping[str, int], target: Target) -> float:
        """Return a rough number of cycles."""

    def default_choice(self, shape: Attention, target: Target) -> dict[str, int]:
        """Return a good guess for a shape that was never tuned."""

    def kernel(self, shape: Attention, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice of knobs."""


@dataclass(frozen=True)
class Both:
    """The kernels of `attention_mma` and of another family.

    Attributes:
        knob: name of the knob that selects: 0 for `attention_mma`, 1 for the other family.
        other: the other family.
        suits: whether a shape uses the other family where nothing was tuned.
    """

    knob: str
    other: Family
    suits: Callable[[Attention], bool]

    @property
    def ADDED(self) -> dict[str, int]:
        """The family of records from before there were two."""
        return {self.knob: 0}

    def chosen_before(self, knobs: Container[str]) -> bool:
        """Return whether knobs were chosen when there was one family only: old logs stay valid."""
        return "warps" in knobs and self.knob not in knobs

    def candidates(self, shape: Attention) -> dict[str, list[int]]:
        """Return the values each knob may take for a shape, in either family."""
        one, other = attention_mma.candidates(shape), self.other.candidates(shape)
        return {self.knob: [0, 1], **{name: sorted({*one[name], *other[name]}) for name in one}}

    def violation(self, shape: Attention, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run or is sure to be slow, or None."""
        family = self.other if choice[self.knob] else attention_mma
        foreign = [
            (common.is_none_of(choice[name], values), f"{name} of the other family")
            for name, values in family.candidates(shape).items()
        ]
        return common.first_broken(foreign) or family.violation(shape, choice, target)

    def estimate(self, shape: Attention, choice: Mapping[str, int], target: Target) -> float:
        """Return a rough number of cycles."""
        if choice[self.knob]:
            return self.other.estimate(shape, choice, target)
        return attention_mma.estimate(shape, choice, target)

    def default_choice(self, shape: Attention, target: Target) -> dict[str, int]:
        """Return a good guess for a shape that was never tuned."""
        if self.suits(shape):
            return {self.knob: 1, **self.other.default_choice(shape, target)}
        return {self.knob: 0, **attention_mma.default_choice(shape, target)}

    def kernel(self, shape: Attention, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice of knobs."""
        if choice[self.knob]:
            return self.other.kernel(shape, choice)
        return attention_mma.kernel(shape, choice)


def _fills_tiles(shape: Attention) -> bool:
    return shape.keys > FEW_KEYS or shape.rows * shape.matrices >= FEW_QUERY_ROWS


MANY_QUERIES = Both("wgmma", attention_wgmma, _fills_tiles)
FEW_QUERIES = Both("apart", attention_decode, lambda shape: True)


def both_of(shape: Attention, target: Target) -> Both | None:
    """Return the two families of a shape on a target, or None if there is `attention_mma` only."""
    offered = (both for both in (MANY_QUERIES, FEW_QUERIES) if both.other.offered(shape, target))
    return next(offered, None)
