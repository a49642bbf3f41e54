"""Whether a tiled stage asks for blocks that a multiprocessor is to hold at once."""

from __future__ import annotations

from math import prod

from autotune.auto_scheduler.states.loops import Stage
from autotune.te.relation import extent_of

# Multiply-adds from which on kernels keep multiprocessors busy: others wait for latencies, which
# estimates know less of.
LARGE = 2**30
# Blocks of tiles that a multiprocessor is to hold at least; 0 says nothing.
MIN_BLOCKS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
# What stands for a number: what is usual, one block only, and all that there is room for.
USUAL, ONE, ALL = 0, 1, 2


def asking(stage: Stage) -> tuple[int, ...]:
    """Return what rows of a tiled stage are drawn with, and what mutations put in its place.

    Large kernels usually ask for as many blocks as there is room for, others for none: their
    threads mostly hide latencies better by more registers. One block is no bound of registers, but
    compilers do otherwise with it. Trials decide.
    """
    axes = (*stage.op.axis, *stage.op.reduce_axis)
    large = prod([extent_of(axis) or 1 for axis in axes]) >= LARGE
    return (USUAL, ONE) if large else (USUAL, ONE, ALL)
