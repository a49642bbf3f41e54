"""The state that the passes over one kernel share, besides its statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from autotune.ir.expr import Expr, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer
from autotune.lowering.function import LoweredKernel
from autotune.lowering.passes.ownership import Slot
from autotune.lowering.plan import Thread
from autotune.target import Limits

Slots = dict[tuple[Buffer, Expr], Slot]


@dataclass
class Draft:
    """State shared by all passes over one kernel.

    Attributes:
        name: of the kernel.
        stage: the name of the stage that it computes, for messages.
        simplifier: of the lowering; it knows the ranges of all variables.
        gpu: whether it runs on a GPU.
        params: all global buffers and numbers; the kernel will take those that it uses.
        threads: its thread axes.
        grid: extents of the axes of blocks, by tag.
        vthreads: how many virtual threads there were.
        min_blocks: blocks that a multiprocessor is to hold at least; 0 if nothing is said.
        limits: of the device; None where they are not checked.
        by_hand: whether a script wrote its statements (`te.extern`), in which threads may write
            what others wrote.
        private: global buffers of which each thread reads only what it wrote itself.
        of_warps: shared buffers that were asked for as memory of a warp, until it is known which
            of them are registers.
        slots: which slot an index of a pipelined buffer is in; the pass that makes pipelines
            tells the one that places barriers.
        kernel: launch, parameters and memory, as the pass `describe` has found them.
    """

    name: str
    stage: str
    simplifier: Simplifier
    gpu: bool = False
    params: Sequence[Buffer | Var] = ()
    threads: Sequence[Thread] = ()
    grid: Mapping[str, int | Expr] = field(default_factory=dict)
    vthreads: int = 1
    min_blocks: int = 0
    limits: Limits | None = None
    by_hand: bool = False
    private: Set[Buffer] = frozenset()
    of_warps: Set[Buffer] = frozenset()
    slots: Slots = field(default_factory=dict)
    kernel: LoweredKernel | None = None
