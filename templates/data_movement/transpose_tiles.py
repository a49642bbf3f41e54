"""Permutations of axes for CUDA where the last ones are short: tiles of several axes.

A tile of two axes (`transpose_cuda`) reads or writes runs of a few bytes where one of them is
short. Here a tile has as many axes as make runs long: the last ones of the data and the last ones
of the result, the outermost of each in parts (packed tiles; Hynninen and Lyakh, "cuTT: a
high-performance tensor transpose library for CUDA compatible GPUs", 2017).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import lru_cache

from autotune import SourceKernel, Target, call

from .. import common
from . import transpose_cuda
from .tile_offsets import Tiles, TileText
from .transpose_shape import Transpose

# Bytes of a tile at most; of runs so short, a tile of two axes reads or writes parts of sectors.
MOST_BYTES, SHORT_BYTES, SECTOR = 40 * 1024, 64, 32
# The same of odd extents, which tiles of two axes move without vectors: 70 planes of 301x66x35
# halves, whose order is turned, took an H200 85 us by several axes, and 109 by two.
SHORT_ODD_BYTES = 96
# What tiles cost that do not divide the array, whose elements are compared with its extents.
RAGGED = 1.3
RUNS = (8, 16, 32, 64, 128, 256, 512, 1024)


def _part(extent: int, most: int) -> int:
    """Return an equal part of an axis of about so many elements; parts keep vectors aligned."""
    if extent <= most + most // 2:
        return extent
    part = common.ceil_div(extent, common.ceil_div(extent, most))
    return min(extent, 8 * common.ceil_div(part, 8) if part > 8 else part)


@lru_cache(maxsize=4096)
def _tiles(shape: Transpose, run_in: int, run_out: int) -> Tiles:
    """Return tiles whose runs have about so many elements on both sides."""
    extents, axes = shape.least
    tile = [1] * len(extents)
    for order, wanted in ((tuple(range(len(extents))), run_in), (axes, run_out)):
        for axis in reversed(order):
            if wanted <= 1:
                break
            tile[axis] = max(tile[axis], _part(extents[axis], wanted))
            wanted = common.ceil_div(wanted, tile[axis])
    return Tiles(extents, axes, tuple(tile))


def offered(shape: Transpose) -> bool:
    """Return whether tiles of two axes have short runs, and tiles of more have longer ones."""
    extents, axes = shape.least
    size = shape.element_bytes
    if len(extents) < 3 and extents[-1] * size >= SHORT_BYTES:
        return False
    pair = (extents[-1], extents[axes[-1]])
    odd = shape.moved and max(transpose_cuda.candidates(shape)["v"]) == 1
    short = SHORT_ODD_BYTES if odd else SHORT_BYTES
    if min(pair) * size >= short or shape.elements < 2**12:
        return False
    # Planes side by side in both arrays are one run of memory for tiles of two axes too.
    together = axes[:-2] == tuple(range(len(axes) - 2))
    if together and max(transpose_cuda.candidates(shape)["v"]) > 1:
        return False
    best = _tiles(shape, 64, 64)
    shortest = min(best.run(best.inward), best.run(axes))
    return shortest > min(pair) and best.elements * size <= MOST_BYTES


def chosen_before(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when tiles had two axes: old logs stay valid."""
    return "lanes_x" in knobs


def candidates(shape: Transpose) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    runs = common.up_to(max(8, shape.elements), RUNS)
    return {"run_in": runs, "run_out": runs, "threads": [64, 128, 256, 512]}


def violation(shape: Transpose, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    elements = _elements(shape, choice)
    rules = [
        (elements * shape.element_bytes > MOST_BYTES, "too large a tile"),
        ((choice["threads"] > 64) & (choice["threads"] > elements), "idle threads"),
    ]
    return common.first_broken(rules)


def _elements(shape: Transpose, choice: Mapping[str, int]) -> int:
    """Return the elements of a tile, of choices that are expressions too."""
    runs, total = candidates(shape)["run_in"], 0
    for run_in in runs:
        for run_out in runs:
            chosen = (choice["run_in"] == run_in) & (choice["run_out"] == run_out)
            total += chosen * _tiles(shape, run_in, run_out).elements
    return total


def estimate(shape: Transpose, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: latency, instructions or sectors, and launches of blocks.

    The numbers were fitted to 440 choices of 13 shapes on an H200; of each shape the choice of the
    least estimate took 1.05 times as long as the best, on average. `RAGGED` was fitted later, to
    410 choices of 14 shapes: 1.06 times, and 1.22 without it.
    """
    tiles, size = _tiles(shape, choice["run_in"], choice["run_out"]), shape.element_bytes
    v_in, v_out = (tiles.vector(order, size) for order in (tiles.inward, tiles.axes))
    warps = choice["threads"] / 32
    loads = common.ceil_div(tiles.elements // v_in, choice["threads"])
    stores = common.ceil_div(tiles.elements // v_out, choice["threads"])
    of_each = common.ceil_div(tiles.blocks, common.multiprocessors(target))
    shared = target.limits.shared_bytes_optin // (tiles.elements * size * 11 // 10 + 1024)
    resident = max(1, min(2048 // choice["threads"], shared, 32))
    alone = 300 + 500 * common.ceil_div(loads, 4) + 10 * loads + 80 * stores + 8 * warps
    waiting = max(1.0, of_each / resident) * alone
    issue = warps * (loads * (16 + 5 * v_in) + stores * (29 + 5 * v_out)) / 4
    sectors = _overhead(tiles.run(tiles.inward), size, 2.0)
    sectors += _overhead(tiles.run(tiles.axes), size, 2.2)
    working = of_each * (max(issue, sectors * tiles.elements * size / 17) + 62)
    ragged = any(e % t for e, t in zip(tiles.extents, tiles.tile, strict=True))
    return (max(waiting, working) + 0.55 * min(waiting, working)) * (RAGGED if ragged else 1.0)


def _overhead(run: int, size: int, weight: float) -> float:
    """Return the cost of a run by its length: neighbours share the sectors at its ends.

    A part of a sector that is written costs more than one that is read.
    """
    length = run * size
    shared = 0 if length % SECTOR == 0 else SECTOR - size
    return 1 + weight * shared / length


def default_choice(shape: Transpose, target: Target) -> dict[str, int]:
    """Return a good guess: long runs, in as many tiles as fill a device."""
    options = candidates(shape)
    every = (
        {"run_in": run_in, "run_out": run_out, "threads": threads}
        for run_in in options["run_in"]
        for run_out in options["run_out"]
        for threads in options["threads"]
    )
    able = (choice for choice in every if violation(shape, choice, target) is None)
    return min(able, key=lambda choice: estimate(shape, choice, target))


def kernel(shape: Transpose, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    tiles = _tiles(shape, choice["run_in"], choice["run_out"])
    text = TileText(tiles, shape.element_bytes)
    knobs: dict[str, int | str] = {
        "BYTES": shape.element_bytes, "ELEMENTS": shape.elements, "THREADS": choice["threads"],
        "TILE": tiles.elements, **text.defines(),
    }  # fmt: skip
    calls = [call("transpose_tiles", ["data", "out"], tiles.blocks, choice["threads"])]
    return common.cuda_kernel(shape, ["transpose_tiles.cu"], knobs, calls)
