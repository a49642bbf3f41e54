"""Tiles of te templates on a GPU where nothing was tuned.

Tiles divide their axes, so what suits depends on the factors of an extent: of a prime one the
tile is all of it or one element. A block should have threads enough, a device blocks enough, and
what passes through shared memory at a time should fit there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from autotune.utils.math import divisors

# Blocks that occupy all multiprocessors of a device.
_BLOCKS = 132
# How far loops of sums are unrolled: the statements, and whether in the text.
CUDA_UNROLL = (512, 1)
# The most threads of a block, and the most of one axis.
_MOST_THREADS, _MOST_OF_AXIS = 1024, 64
# Bytes of shared memory that slices of the reduction may take.
_SHARED_BYTES = 40 * 1024


@dataclass(frozen=True)
class Tile:
    """Sizes that suit the loops of an axis: virtual threads, threads, and a thread's own part."""

    virtual: int
    threads: int
    own: int


def output_tiles(
    extents: Sequence[int], wanted: Sequence[Tile], images: int = 1
) -> list[tuple[int, ...]]:
    """Return sizes for the axes of the output, as `te_common.define_tile` takes them.

    Args:
        extents: of the axes.
        wanted: what suits an axis whose extent has all factors. Where blocks are too few, threads
            have no virtual copies, then smaller parts.
        images: blocks of other axes.
    """
    smaller = [
        [*wanted],
        [Tile(1, each.threads, each.own) for each in wanted],
        [Tile(1, each.threads, (each.own + 1) // 2) for each in wanted],
        [Tile(1, each.threads, 1) for each in wanted],
    ]
    for tiles in smaller:
        sizes = _dividing(extents, tiles)
        blocks = images * math.prod(
            extent // math.prod(size) for extent, size in zip(extents, sizes, strict=True)
        )
        if blocks >= _BLOCKS:
            break
    return [(-1, *size) for size in sizes]


def _dividing(extents: Sequence[int], tiles: Sequence[Tile]) -> list[tuple[int, int, int]]:
    """Return (virtual threads, threads, part) of each axis: factors of its extent."""
    own = [_largest(extent, tile.own) for extent, tile in zip(extents, tiles, strict=True)]
    parts = [extent // each for extent, each in zip(extents, own, strict=True)]
    wanted = [tile.threads for tile in tiles]

    def cost(threads: Sequence[int]) -> float:
        apart = sum(_apart(count, want) for count, want in zip(threads, wanted, strict=True))
        return _apart(math.prod(threads), math.prod(wanted)) + apart / 10

    every = product(*([d for d in divisors(part) if d <= _MOST_OF_AXIS] for part in parts))
    threads = min((each for each in every if math.prod(each) <= _MOST_THREADS), key=cost)
    left = [part // each for part, each in zip(parts, threads, strict=True)]
    virtual = [_largest(rest, tile.virtual) for rest, tile in zip(left, tiles, strict=True)]
    return list(zip(virtual, threads, own, strict=True))


def slices(
    extents: Sequence[int], most: Sequence[int], staged: Callable[[Sequence[int]], int]
) -> list[int]:
    """Return slices of the axes of a reduction, which fit into shared memory.

    The last axis is filled first, each with the largest factor of its extent.

    Args:
        extents: of the axes.
        most: the largest slice of each.
        staged: bytes of shared memory that slices of all axes take.
    """
    sizes = [1] * len(extents)
    for axis in reversed(range(len(extents))):
        for size in (d for d in divisors(extents[axis]) if d <= most[axis]):
            if staged([*sizes[:axis], size, *sizes[axis + 1 :]]) <= _SHARED_BYTES:
                sizes[axis] = size
    return sizes


def _largest(extent: int, most: int) -> int:
    return max(d for d in divisors(extent) if d <= most)


def _apart(size: int, wanted: int) -> float:
    return abs(math.log(size / wanted))
