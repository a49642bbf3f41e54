"""Which tiles of te templates a GPU can run: threads, registers and shared memory of a block."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from autotune import Target, te
from autotune.ir import (
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    ProducerLoad,
    Var,
    bits_of,
    reads_in,
)
from autotune.task import ConfigSpace, TemplateConfig, smaller

# Registers of a thread: one that sums more values has them in memory.
_REGISTERS = 255

Point = Mapping[str, Any]
Sizes = Mapping[Var, int]


@dataclass(frozen=True)
class Block:
    """What a block takes; while a filter is followed its numbers are symbols.

    Attributes:
        threads: of the block.
        deep: threads along z.
        sums: values that each thread adds up at a time.
        shared_bytes: shared memory.
    """

    threads: int
    deep: int
    sums: int
    shared_bytes: int


def keep_possible(cfg: TemplateConfig, block_of: Callable[[Point], Block]) -> None:
    """Leave out points whose blocks the device of the current target cannot run.

    A point that is given is made all the same: an older log may have one that spills its sums, and
    for what is too large the limits of the target say by how much.

    Args:
        cfg: the space.
        block_of: returns the block of a point, by arithmetic that a filter may have.
    """
    if not isinstance(cast(Any, cfg), ConfigSpace):
        return
    limits = (Target.current() or Target("cuda")).limits
    most_shared = max(limits.shared_bytes, limits.shared_bytes_optin)

    def fits(c: Point) -> bool:
        block = block_of(c)
        # What more is refused anyway, and its product would not fit in 64 bits.
        threads = smaller(block.threads, limits.threads_per_block)
        sums = smaller(block.sums, _REGISTERS)
        return (
            (block.threads <= limits.threads_per_block)
            & (block.deep <= limits.block_dim[2])
            & (block.sums <= _REGISTERS)
            & (threads * sums < limits.registers)
            & (block.shared_bytes <= most_shared)
        )

    cfg.multi_filter(fits)


def block_part(c: Point, knob: str) -> int:
    """Return how many elements of an axis a block has, by the knob of `te_common.on_threads`."""
    size = c[knob].size
    part: int = size[1] * size[2] * size[3]
    return part


def thread_part(c: Point, knob: str) -> int:
    """Return how many elements of an axis a thread has, virtual threads included."""
    size = c[knob].size
    part: int = size[1] * size[3]
    return part


def shared_part(c: Point, knob: str) -> int:
    """Return how long slices of a sum are whose parts `te_common.share_sum` gives to threads."""
    size, sharing = c[knob].size[1], c["sharing"].val
    part: int = (size + sharing - 1) // sharing * sharing
    return part


def staged_bytes(total: te.Tensor, sizes: Sizes) -> int:
    """Return the bytes of what a part of a sum of products reads.

    Args:
        total: the sum.
        sizes: how much of each axis the part has; 1 of those that are not there.
    """
    assert isinstance(total.op, te.ComputeOp)
    return sum(_bytes_of(load, sizes) for load in reads_in(*total.op.body))


def _bytes_of(load: ProducerLoad, sizes: Sizes) -> int:
    return bits_of(load.dtype) // 8 * math.prod(_last(each, sizes) + 1 for each in load.indices)


def _last(index: Expr, sizes: Sizes) -> int:
    """Return the largest value of an index; the smallest is 0."""
    match index:
        case Var():
            return sizes.get(index, 1) - 1
        case IntImm():
            return index.value
        case Add():
            return _last(index.a, sizes) + _last(index.b, sizes)
        case Mul():
            return _last(index.a, sizes) * _last(index.b, sizes)
        case FloorDiv():
            return _last(index.a, sizes) // _last(index.b, sizes)
        case FloorMod():
            return smaller(_last(index.a, sizes), _last(index.b, sizes) - 1)
    raise AssertionError(f"an index of a sum of products: {index}")
