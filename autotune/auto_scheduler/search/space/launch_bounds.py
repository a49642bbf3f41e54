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
# What stands for a number: nothing is asked for, one block, which compilers take as leave to have
# more registers, or as many as there is room for.
NONE, ONE, ALL = ASKED = 0, 1, 2


def is_large_stage(stage: Stage) -> bool:
    """Return whether a stage has so many multiply-adds that multiprocessors are busy."""
    axes = (*stage.op.axis, *stage.op.reduce_axis)
    return prod([extent_of(axis) or 1 for axis in axes]) >= LARGE
