"""Attention where a device has both kinds of tensor core instruction.

One space holds both, as in `gemm_half`: the knob ``wgmma`` says which of the two reads the others,
which both share. Where there is only ``mma.sync``, that family's own space is used.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from autotune import SourceKernel, Target

from . import attention_cuda, attention_wgmma, common
from .attention_cuda import Attention
from .gemm_half import KNOB

# Up to as many keys, as of a prompt, chunks of 64 are hardly filled: on an H200 77 keys and
# 4096 queries of 20 heads took 19.0 us by wgmma, and 15.7 by ``mma.sync`` with chunks of 16.
FEW_KEYS = 96


def chosen_before(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when there was only ``mma.sync``: old logs stay valid."""
    return "warps" in knobs and KNOB not in knobs


def candidates(shape: Attention) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape, with either instruction."""
    mma, wgmma = attention_cuda.candidates(shape), attention_wgmma.candidates(shape)
    shared = {name: sorted({*mma[name], *wgmma[name]}) for name in mma}
    return {KNOB: [0, 1], **shared}


def violation(shape: Attention, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    family = attention_wgmma if choice[KNOB] else attention_cuda
    strange = [
        (common.is_none_of(choice[name], values), f"{name} of the other")
        for name, values in family.candidates(shape).items()
    ]
    return common.first_broken(strange) or family.violation(shape, choice, target)


def estimate(shape: Attention, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles."""
    if choice[KNOB]:
        return attention_wgmma.estimate(shape, choice, target)
    return attention_cuda.estimate(shape, choice, target)


def default_choice(shape: Attention, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    if shape.keys <= FEW_KEYS:
        return {KNOB: 0, **attention_cuda.default_choice(shape, target)}
    return {KNOB: 1, **attention_wgmma.default_choice(shape, target)}


def kernel(shape: Attention, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    if choice[KNOB]:
        return attention_wgmma.kernel(shape, choice)
    return attention_cuda.kernel(shape, choice)
