"""Transposed convolutions of float32 in one kernel, by ``fmaf``.

Each result gathers the taps that reach it. Nothing is copied before or after, which for few
channels or pixels takes longer than the sums (`conv2d_transpose`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial
from typing import Any

from autotune import SourceKernel, Target, call

from .. import choices, common
from .conv2d_transpose import KNOB, Conv2dTranspose

# By what the estimate of phases is multiplied before it is compared. With it three of 18 layers on
# an H200 run by this kernel that took 1.36 to 1.51 times as long between copies.
SHARE = 1.05
# Loads of a thread that are in flight together, about.
IN_FLIGHT = 22
# What choices have that were made before a knob was added.
ADDED = {"columns": 1}


def is_chosen(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen for this kernel, and not for one of phases."""
    return "filters" in knobs and KNOB not in knobs


def is_faster(shape: Conv2dTranspose, phases: float, target: Target) -> bool:
    """Return whether it is estimated to be faster than phases between copies.

    On an H100 the faster of both forms is chosen for 39 of 41 layers.

    Args:
        phases: cycles by the estimate of `conv2d_transpose`.
    """
    return float(estimate(shape, default_choice(shape, target), target)) < SHARE * phases


def candidates(shape: Conv2dTranspose) -> dict[str, list[int]]:
    """Return the values each knob may take."""
    (ci, co, *_), (sy, sx) = shape.weight, shape.op.moves[0]
    return {
        "filters": common.up_to(co, (1, 2, 3, 4, 5, 6, 7, 8)),
        "pixels": common.up_to(common.ceil_div(shape.out[2], sy), (1, 2, 3, 4, 6, 8)),
        "columns": sorted({1, sx}),
        "lanes": [32, 64, 128, 256],
        "slices": common.up_to(ci, (1, 2, 4, 8, 16)),
        "unroll": common.up_to(ci, (1, 2, 4, 8)),
    }


def violation(shape: Conv2dTranspose, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(
    choice: Mapping[str, int], shape: Conv2dTranspose, target: Target
) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    c, limits = choice, target.limits
    threads, sums = c["lanes"] * c["slices"], _sums(c)
    shared = common.pick(c["slices"] > 1, 4 * threads * sums, 0)
    registers = sums + c["unroll"] * sum(_loads(shape, c))
    return [
        (threads > limits.threads_per_block, "too many threads"),
        (shared > limits.shared_bytes, "too much shared memory"),
        ((c["unroll"] > 1) & (registers > 160), "too many registers a thread"),
        ((c["unroll"] > 1) & (c["unroll"] * c["slices"] > shape.weight[0]), "unrolled beyond ci"),
    ]


def _sums(choice: Mapping[str, int]) -> int:
    """Return the sums of a thread."""
    return choice["filters"] * choice["pixels"] * choice["columns"]


def _taps(shape: Conv2dTranspose) -> tuple[int, int]:
    """Return the rows and columns of taps that reach a result."""
    (sy, sx), (kh, kw) = shape.op.moves[0], shape.weight[2:]
    return common.ceil_div(kh, sy), common.ceil_div(kw, sx)


def _loads(shape: Conv2dTranspose, choice: Mapping[str, int]) -> tuple[int, int]:
    """Return the elements of an input channel, and of its filters, that a thread loads."""
    high, wide = _taps(shape)
    of_row = common.pick(choice["columns"] > 1, shape.weight[3], wide)
    return wide * (choice["pixels"] + high - 1), of_row * high * choice["filters"]


def _across(shape: Conv2dTranspose, choice: Mapping[str, int]) -> int:
    """Return the tiles of a row of the result."""
    (_, sx), (_, columns), _ = shape.op.moves
    (left, _), wide = columns, shape.out[3]
    return common.pick(choice["columns"] > 1, (wide - 1 + left) // sx - left // sx + 1, wide)


def estimate(shape: Conv2dTranspose, choice: Mapping[str, int], target: Target) -> Any:
    """Return a rough number of cycles: the launch, latency of loads, and issue of all warps.

    The constants were fitted to 566 choices for 41 layers on an H100, when threads had pixels of
    one phase. Of 145 choices for 23 other layers on an H200, many with all phases of a row, errors
    are 21%: of those timed of a layer the choice of the least takes 1.09 times as long as the
    fastest (geometric mean).
    """
    c, (ci, co, *_), (sy, _) = choice, shape.weight, shape.op.moves[0]
    n, _, oh, _ = shape.out
    sums, (of_data, of_filters) = _sums(c), _loads(shape, c)
    tiles = n * common.ceil_div(co, c["filters"]) * _across(shape, c)
    tiles = tiles * sy * common.ceil_div(oh, sy * c["pixels"])
    blocks = common.ceil_div(tiles, c["lanes"])
    here = common.ceil_div(blocks, common.multiprocessors(target))
    warps = here * c["lanes"] * c["slices"] / 32
    channels = common.ceil_div(ci, c["slices"])
    loads = c["unroll"] * (of_data + of_filters) * _inside(shape) ** 0.5
    latency = common.ceil_div(channels, c["unroll"]) * common.larger(1.0, loads / IN_FLIGHT) * 394
    issued = 1.1 * of_data + 0.6 * of_filters + 0.2 * of_filters * c["pixels"]
    return 2100 + latency + warps * (channels * issued + 10 * sums)


def _inside(shape: Conv2dTranspose) -> float:
    """Return the share of taps that reach data: of few pixels many are outside."""
    (ih, iw), (oh, ow), (kh, kw) = shape.data[2:], shape.out[2:], shape.weight[2:]
    high, wide = _taps(shape)
    return min(1.0, ih * kh / (oh * high)) * min(1.0, iw * kw / (ow * wide))


def default_choice(shape: Conv2dTranspose, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    return choices.best_of_all(
        candidates(shape),
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Conv2dTranspose, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    (ci, co, kh, kw), (n, _, ih, iw), (_, _, oh, ow) = shape.weight, shape.data, shape.out
    (sy, sx), (rows, columns), _ = shape.op.moves
    knobs = {name.upper(): value for name, value in choice.items()}
    sizes = common.defines(
        n=n, ci=ci, co=co, ih=ih, iw=iw, oh=oh, ow=ow, kh=kh, kw=kw, sy=sy, sx=sx, top=rows[0],
        left=columns[0], threads=choice["lanes"] * choice["slices"],
    )  # fmt: skip
    tiles = n * common.ceil_div(co, choice["filters"]) * _across(shape, choice)
    tiles *= sy * common.ceil_div(oh, sy * choice["pixels"])
    blocks, threads = common.ceil_div(tiles, choice["lanes"]), (choice["lanes"], choice["slices"])
    calls = [call("conv2d_transpose", ["data", "weight", "out"], blocks, threads)]
    return common.cuda_kernel(shape, ["conv2d_transpose_direct.cu"], {**knobs, **sizes}, calls)
