"""Reductions for CUDA: sum, product, min, max, argmin and argmax, along rows or down columns.

One kernel text, ``reduce.cu``, with the reducers of ``reducers.h``. Where outputs are too few to
fill a device, the reduction is split among blocks and a second kernel combines their partial
results (Harris, "Optimizing parallel reduction in CUDA", 2007, with warp shuffles). Reduced axes
that are no neighbours are one for the kernel, whose elements it finds by quotients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from autotune import SourceKernel, Target, call, workspace

from .. import common
from .reduction_shape import Reduction

SPLITS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
# Outputs up to which a warp, not a thread, combines the partial results of one.
FEW_OUTPUTS = 2048
# Length from which on vectors need not divide rows.
RAGGED = 64
# Memory bandwidth of an H200, per cycle, and bytes of a sector.
BYTES_A_CYCLE, SECTOR = 2700, 32


class ReductionTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Reduction, choice: Mapping[str, int]) -> None:
        c = choice
        self.shape, self.choice = shape, choice
        self.threads = c["threads"] * c["rows"]
        # A multiple of 8 keeps the ranges of a split aligned for 16-byte reads.
        self.per_split = 8 * common.ceil_div(common.ceil_div(shape.depth, c["split"]), 8)
        tile = c["threads"] * c["vec"]
        if shape.inner == 1:
            self.blocks = common.ceil_div(shape.outer, c["rows"])
            warps = common.ceil_div(c["threads"], 32)
            self.shared_bytes = warps * c["rows"] * 4 * shape.state_words
            self.sweep = tile
        else:
            self.blocks = shape.outer * common.ceil_div(shape.inner, tile)
            self.shared_bytes = tile * c["rows"] * 4 * shape.state_words
            self.sweep = c["rows"]

    @property
    def registers(self) -> int:
        """Estimate of the registers of a thread: loads in flight, states, and addresses."""
        c = self.choice
        states = c["unroll"] if self.shape.inner == 1 else c["vec"]
        held = c["unroll"] * c["vec"] * common.ceil_div(self.shape.element_bytes, 4)
        return held + states * self.shape.state_words + 24

    @property
    def joiners(self) -> int:
        """Threads that combine the partial results of an output."""
        return 32 if self.shape.outputs <= FEW_OUTPUTS and self.choice["split"] >= 8 else 1

    def kernel(self) -> SourceKernel:
        """Return the kernel of this tiling."""
        s, c = self.shape, self.choice
        knobs: dict[str, int | str] = {name.upper(): value for name, value in c.items()}
        knobs |= s.defines()
        knobs |= common.defines(per_split=self.per_split, joiners=self.joiners)
        knobs |= _places(s)
        # Without a split there are no partial results.
        names = ["data", "out", "partial"] if c["split"] > 1 else ["data", "out", "out"]
        block = (c["threads"], c["rows"])
        calls = [call("reduce", names, (self.blocks, c["split"]), block)]
        parts = (s.state_words, c["split"], s.outputs)
        if c["split"] > 1:
            blocks = common.ceil_div(s.outputs * self.joiners, 128)
            calls.append(call("reduce_join", ["partial", "out"], blocks, 128, early=True))
        return SourceKernel(
            "reduce",
            common.text("dependent_launch.h", "device.h", *s.texts, "reduce.cu"),
            defines=knobs,
            args=s.arguments(),
            calls=calls,
            workspace=[workspace("partial", parts)] if c["split"] > 1 else [],
            reference=s.reference(),
            flags=common.CUDA_FLAGS,
            language="cuda",
        )


def _places(shape: Reduction) -> dict[str, int | str]:
    """Return the offsets of planes and of rows as text, where they are not multiples."""
    if not shape.apart:
        return {}
    extents = shape.extents
    strides = [math.prod(extents[i + 1 :]) for i in range(len(extents))]
    return {
        "PLANE_AT": _offset("outer", extents[:-1:2], strides[:-1:2]),
        "ROW_AT": _offset("at", extents[1:-1:2], strides[1:-1:2]),
    }


def _offset(index: str, extents: Sequence[int], strides: Sequence[int]) -> str:
    """Return the offset of an index into several axes; the last of them varies fastest."""
    terms, inner = [], 1
    for place in reversed(range(len(extents))):
        own = index if inner == 1 else f"{index} / {inner}"
        own = own if place == 0 else f"{own} % {extents[place]}"
        terms.append(f"static_cast<size_t>({own}) * {strides[place]}")
        inner *= extents[place]
    return f"({' + '.join(terms)})"


def candidates(shape: Reduction) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    widest = 16 // shape.element_bytes
    across = shape.run if shape.inner == 1 else shape.inner
    # Rows so long may begin anywhere in vectors.
    ragged = shape.inner == 1 and not shape.apart and shape.depth >= RAGGED
    threads = [4, 8, 16, 32, 64, 128, 256]
    if shape.inner == 1:
        threads = [*common.lanes(shape.depth), 32, 64, 128, 256, 512, 1024]
    return {
        "threads": threads,
        "rows": [1, 2, 4, 8, 16, 32, 64],
        "vec": [v for v in (1, 2, 4, 8) if v <= widest and (across % v == 0 or ragged)],
        "unroll": [1, 2, 4, 8, 16],
        "split": common.up_to(max(1, shape.depth // 64), SPLITS),
    }


def least_threads(shape: Reduction) -> int:
    """Return how many threads a block has at least: two warps, or as many as have work."""
    least = min(64, shape.outputs * shape.depth)
    if shape.inner == 1:
        return least
    options, chunk = candidates(shape), 8 * common.ceil_div(shape.depth, 8)
    across = max(t for t in options["threads"] if t <= 4 or t < 2 * shape.inner)
    down = max(r for r in options["rows"] if r == 1 or r < 2 * chunk)
    return min(least, across * down)


def violation(shape: Reduction, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    tiling, c, limits = ReductionTiling(shape, choice), choice, target.limits
    rows = shape.outer if shape.inner == 1 else tiling.per_split
    least = least_threads(shape)
    apart = c["unroll"] * tiling.sweep
    wide = (c["threads"] > (32 if shape.inner == 1 else 4)) & (
        c["threads"] * c["vec"] >= 2 * (tiling.per_split if shape.inner == 1 else shape.inner)
    )
    states = c["split"] * shape.outputs * shape.state_words
    rules = [
        (tiling.threads > limits.threads_per_block, "too many threads"),
        (tiling.threads < least, "too few threads"),
        ((shape.inner == 1) & (tiling.threads % 32 > 0), "threads that are no whole warps"),
        (tiling.registers > 200, "too many registers a thread"),
        (tiling.registers * tiling.threads > limits.registers, "too many registers"),
        (tiling.shared_bytes > limits.shared_bytes, "too much shared memory"),
        ((c["rows"] > 1) & (c["rows"] >= 2 * rows), "rows beyond the array"),
        (wide, "threads beyond the array"),
        ((c["split"] > 1) & (states >= 2**31), "states beyond 32-bit indices"),
        ((c["unroll"] > 1) & (apart >= 2 * tiling.per_split), "unrolled beyond the reduction"),
    ]
    return common.first_broken(rules)


def estimate(shape: Reduction, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: latency of loads, and combining."""
    tiling, c = ReductionTiling(shape, choice), choice
    blocks = tiling.blocks * c["split"]
    occupied = common.occupancy(target, blocks, tiling.threads, tiling.registers, 0)
    steps, unroll = common.ceil_div(tiling.per_split, tiling.sweep), c["unroll"]
    # Threads differ by one load at most, and the remainder after the last unrolled round is loaded
    # one by one: where a round takes all loads of some threads, the others do all theirs so.
    fewer = tiling.per_split // tiling.sweep
    rounds = max(steps // unroll + steps % unroll, fewer // unroll + fewer % unroll)
    # Elements before and behind the vectors of a row that these do not divide.
    rounds = rounds + (shape.run % c["vec"] > 0 if shape.inner == 1 else 0)
    flight = occupied.together * tiling.threads * c["unroll"] * c["vec"] * shape.element_bytes
    # A multiprocessor needs some 32 KiB in flight; narrow loads cost more issue slots.
    waiting = 700 * rounds * max(1.0, flight / 32768)
    issue = (
        steps
        * c["vec"]
        * (2 + shape.work)
        * occupied.together
        * tiling.threads
        / 128
        * (1 + 1 / c["vec"])
    )
    narrow = 1.0
    if shape.inner > 1:
        # Of rows that are no whole sectors a block shares the first and the last one with others:
        # 80000 rows of 1001 floats took an H200 123 us by 8 columns a block, 77 by 64.
        across = c["threads"] * c["vec"] * shape.element_bytes
        odd = shape.inner * shape.element_bytes % SECTOR > 0
        shared = SECTOR - c["vec"] * shape.element_bytes if odd else 0
        narrow = max(1.0, SECTOR / across, (across + shared) / across)
    alone = occupied.waves * (max(waiting, issue) * narrow + 800)
    if shape.place:  # bound by instructions, not by memory
        return alone + (3000.0 + 4 * c["split"] if c["split"] > 1 else 0.0)
    parts = common.ceil_div(c["split"], tiling.joiners)
    joining = 1600.0 + 600 * common.ceil_div(parts, 8) if c["split"] > 1 else 0.0
    # Where memory is the limit, the choice with less exposed latency is preferred.
    return max(alone, (alone + 3 * shape.bytes / BYTES_A_CYCLE) / 4) + joining


def default_choice(shape: Reduction, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best of a fixed sample."""
    return common.best_drawn(
        candidates(shape),
        5000,
        partial(violation, shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Reduction, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    return ReductionTiling(shape, choice).kernel()
