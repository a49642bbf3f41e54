"""Reductions of many small planes for CUDA: of rows of a few elements, or down short columns.

A block of `reduce_cuda` has some rows of a plane each, or a part of one plane; of small planes
that is little work. Here a block has many planes, which are one run of memory: they are copied
to shared memory in vectors of 16 bytes, and reduced there (`reduce_staged.cu`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import lru_cache

from autotune import SourceKernel, Target, call

from .. import common
from ..bank_conflicts import WARP, wavefronts
from .reduction_shape import Reduction

# Longest rows, and longest that vectors of 16 bytes do not divide; largest planes, fewest of them,
# and widest rows of a plane, in bytes: wider ones are read coalesced by blocks of a plane. An H200
# takes as long either way for 20000 planes of 3 x 500 floats, half so for 3000 of 5 x 300 halves.
LONGEST, LONGEST_ODD, PLANE_BYTES, FEWEST, WIDEST = 128, 512, 8192, 512, 1024
# Fewest elements in all.
FEWEST_ELEMENTS = 2**16
MOST_BYTES, OUTERS = 47 * 1024, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)


def offered(shape: Reduction) -> bool:
    """Return whether planes are many, and so small that a block of one has little to do."""
    if shape.apart or shape.outer < FEWEST:
        return False
    if shape.outputs * shape.depth < FEWEST_ELEMENTS:
        return False
    if candidates(shape)["outers"][0] * (_plane_bytes(shape) + 16) > MOST_BYTES:
        return False
    if shape.inner == 1:
        odd = _plane_bytes(shape) % 16 > 0
        return shape.depth <= (LONGEST_ODD if odd else LONGEST)
    return _plane_bytes(shape) <= PLANE_BYTES and shape.inner * shape.element_bytes < WIDEST


def chosen_before(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when planes were not staged: old logs stay valid."""
    return "unroll" in knobs


def _plane_bytes(shape: Reduction) -> int:
    return shape.depth * shape.inner * shape.element_bytes


def _vec(shape: Reduction) -> int:
    """Return the widest vector of a row."""
    widest = 16 // shape.element_bytes
    if shape.inner > 1:
        return 1
    return max(v for v in (1, 2, 4, 8) if v <= widest and shape.depth % v == 0)


def candidates(shape: Reduction) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape; runs are of whole vectors."""
    return {
        "threads": [t for t in (1, 2, 4, 8, 16) if t * _vec(shape) < 2 * shape.depth] or [1],
        "outers": [n for n in OUTERS if n * _plane_bytes(shape) % 16 == 0],
        "block": [64, 128, 256],
    }


def violation(shape: Reduction, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    outputs = choice["outers"] * shape.inner * choice["threads"]
    most = choice["outers"] * (_plane_bytes(shape) + 16)
    several = choice["outers"] > candidates(shape)["outers"][0]
    rules = [
        (several & (most > MOST_BYTES), "too much shared memory"),
        (several & (choice["outers"] >= 2 * shape.outer), "planes beyond the last"),
        ((choice["block"] > 64) & (2 * outputs <= choice["block"]), "threads without outputs"),
    ]
    return common.first_broken(rules)


def estimate(shape: Reduction, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: latency of a block, instructions, and launches."""
    threads, block, run = choice["threads"], choice["block"], _run_bytes(shape, choice)
    blocks = common.ceil_div(shape.outer, choice["outers"])
    of_each = common.ceil_div(blocks, common.multiprocessors(target))
    shared = target.limits.shared_bytes_optin // (run + 1024)
    resident = max(1, min(2048 // block, shared, 32))
    vec = _vec(shape)
    steps = common.ceil_div(shape.depth, threads * vec)
    levels = threads.bit_length() - 1
    passes = common.ceil_div(choice["outers"] * shape.inner * threads, block)
    each = ((8 if shape.place else 2) + shape.work) * vec + 4
    loads = common.ceil_div(run // 16, block)
    reducing = passes * (60 + steps * each * 1.5 + 30 * levels * shape.state_words)
    alone = 700 + 300 * common.ceil_div(loads, 4) + reducing
    taken, _ = _layout(shape, threads)
    issue = passes * (steps * max(each, taken * 4) + 12 * levels * shape.state_words + 20)
    working = of_each * (max(block / 32 * issue / 4, run / 17) + 62)
    waiting = max(1.0, of_each / resident) * alone
    return max(waiting, working) + 0.5 * min(waiting, working)


def default_choice(shape: Reduction, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: that of the least estimate."""
    options = candidates(shape)
    every = (
        {"threads": threads, "outers": outers, "block": block}
        for threads in options["threads"]
        for outers in options["outers"]
        for block in options["block"]
    )
    able = [choice for choice in every if violation(shape, choice, target) is None]
    return min(able, key=lambda choice: estimate(shape, choice, target))


def _run_bytes(shape: Reduction, choice: Mapping[str, int]) -> int:
    return choice["outers"] * _plane_bytes(shape)


@lru_cache(maxsize=256)
def _layout(shape: Reduction, threads: int) -> tuple[int, int]:
    """Return the least wavefronts of a load, and how many vectors to leave between planes."""
    size, vec = shape.element_bytes, _vec(shape)
    plane = shape.depth * shape.inner

    def taken(pad: int) -> int:
        pitch = plane * size + 16 * pad
        outputs = [(lane // threads, lane % threads) for lane in range(WARP)]
        addresses = [
            o // shape.inner * pitch + (o % shape.inner + lane * vec * shape.inner) * size
            for o, lane in outputs
        ]
        return wavefronts(addresses, vec * size)

    pads = range(9 if plane * size % 16 == 0 else 1)
    return min((taken(pad), pad) for pad in pads)


def kernel(shape: Reduction, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    knobs: dict[str, int | str] = {name.upper(): value for name, value in choice.items()}
    knobs |= shape.defines()
    knobs |= common.defines(
        vec=_vec(shape), plane=shape.depth * shape.inner, pad=_layout(shape, choice["threads"])[1],
        run=choice["outers"] * shape.depth * shape.inner,
    )  # fmt: skip
    blocks = common.ceil_div(shape.outer, choice["outers"])
    calls = [call("reduce", ["data", "out"], blocks, choice["block"])]
    texts = [*shape.texts, "staged_run.h", "reduce_staged.cu"]
    return common.cuda_kernel(shape, texts, knobs, calls)
