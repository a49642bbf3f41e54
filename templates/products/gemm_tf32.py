"""Products of floats as TF32: where kernels of float32 are faster.

Rows that are no multiple of 16 bytes cannot be loaded by TMA: they are copied first, or loaded by
copies of 4 bytes for ``mma.sync``. Kernels of float32 read them as they are, and split floats into
three of bfloat16 for tensor cores; their results are more exact than what TF32 asks for.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from autotune import Target

from ..epilogue import Epilogue
from . import gemm_float, gemm_tma, gemm_transposed
from .gemm_shape import TF32, Gemm
from .gemm_wgmma import has_wgmma

# Cycles of the estimates by TMA that a kernel before hides, since launches overlap.
OVERLAPPED = 2000


def as_float32(shape: Gemm) -> Gemm:
    """Return the same product of float32."""
    return replace(shape, dtype="float32")


def runs_as_float32(shape: Gemm, target: Target, knobs: Container[str]) -> bool:
    """Return whether a product as TF32 runs by kernels of float32.

    Args:
        knobs: names of the knobs that were chosen, if any: these tell.
    """
    if shape.dtype != TF32 or not has_wgmma(target):
        return False
    if any(knob in knobs for knob in gemm_float.KNOBS):
        return True
    if "warps_m" in knobs or gemm_tma.refusal(shape) is None:
        return False
    plain = replace(shape, epilogue=Epilogue())
    if gemm_transposed.is_needed(plain, target):
        choice = gemm_transposed.default_choice(plain, target)
        copied = gemm_transposed.estimate(plain, choice, target) - OVERLAPPED
        return gemm_float.cycles(as_float32(plain), target) < copied
    odd = shape.a_run % 4 > 0 or shape.b_run % 4 > 0
    return odd or shape.batch * shape.m * shape.n * shape.k > gemm_tma.TINY_FLOATS
