"""Depthwise convolutions of 8-bit integers, with their requantisation: no tensor cores.

Each channel has one filter, so that no operand is read by several products of an instruction;
threads keep filters in registers, and `conv2d_int8_planes.cu` says how. Shapes, arguments and
reference are those of `conv2d_int8`.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target, call

from .. import common
from .conv2d_int8 import IntegerConv2dNhwc, definitions

# Elements of a window up to which filters fit in registers.
MOST_TAPS = 25
# Of a thread, beside filters and sums.
REGISTERS, MOST_REGISTERS = 40, 255


def suits(shape: IntegerConv2dNhwc) -> bool:
    """Return whether each channel has one filter, of a size that fits in registers."""
    return 1 < shape.groups == shape.ci == shape.co and shape.window.taps <= MOST_TAPS


def _count(shape: IntegerConv2dNhwc) -> int:
    """Return the channels of a thread."""
    return 1 if shape.co % 4 else 4


def candidates(shape: IntegerConv2dNhwc) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {"pixels": common.up_to(shape.out[1], (1, 2, 4, 8)), "threads": [64, 128, 256]}


def violation(shape: IntegerConv2dNhwc, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    held = _count(shape) * (shape.window.taps + choice["pixels"]) + REGISTERS
    return common.first_broken([
        (held > MOST_REGISTERS, "sums that are spilled"),
        (choice["threads"] > target.limits.threads_per_block, "too many threads"),
    ])  # fmt: skip


def _threads(shape: IntegerConv2dNhwc, pixels: int) -> int:
    """Return the threads of all blocks that have work."""
    vectors = shape.co // _count(shape)
    return shape.images * shape.out[0] * common.ceil_div(shape.out[1], pixels) * vectors


def default_choice(shape: IntegerConv2dNhwc, target: Target) -> dict[str, int]:
    """Return as many pixels of a thread as leave two blocks for each multiprocessor."""
    fits = [
        pixels
        for pixels in candidates(shape)["pixels"]
        if violation(shape, {"pixels": pixels, "threads": 64}, target) is None
    ]
    enough = 2 * 128 * common.multiprocessors(target)
    busy = [pixels for pixels in fits if _threads(shape, pixels) >= enough and pixels <= 4]
    few = _threads(shape, 1) < enough
    return {"pixels": max(busy, default=min(fits)), "threads": 64 if few else 128}


def kernel(shape: IntegerConv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, threads = shape, choice["threads"]
    blocks = common.ceil_div(_threads(s, choice["pixels"]), threads)
    more = common.defines(
        images=s.images, kh=s.window.size[0], count=_count(s), threads=threads,
        pixels=choice["pixels"],
    )  # fmt: skip
    names = [each.name for each in s.arguments()]
    return SourceKernel(
        "conv2d_int8_planes",
        common.text("device.h", "requantise.h", "conv2d_int8_planes.cu"),
        defines={**definitions(s), **more, **s.end.defines()},
        args=s.arguments(),
        calls=[call("conv2d_int8_planes", names, blocks, threads)],
        reference=s.reference(),
        flags=common.CUDA_FLAGS,
        language="cuda",
    )
