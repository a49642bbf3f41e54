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
from .rows_shape import Reduction

# Longest rows; largest planes, fewest of them, and widest rows of a plane, in bytes: wider ones
# are read coalesced by blocks of a plane.
LONGEST, PLANE_BYTES, FEWEST, WIDEST = 64, 5632, 2048, 256
# Fewest elements in all, as of `rows_staged`.
FEWEST_ELEMENTS = 2**17
# Untuned: steps of a lane at most, bytes of a run, and blocks and threads that fill a device.
USUAL_STEPS, USUAL_BYTES, WANTED, RESIDENT = 40, 12 * 1024, 528, 132 * 2048
MOST_BYTES, OUTERS = 47 * 1024, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)


def offered(shape: Reduction) -> bool:
    """Return whether planes are many, and so small that a block of one has little to do."""
    if shape.outer < FEWEST or shape.outputs * shape.depth < FEWEST_ELEMENTS:
        return False
    if shape.inner == 1:
        return shape.depth <= LONGEST
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


def default_choice(shape: Reduction, target: Target) -> dict[str, int]:
    """Return a good guess: runs of 12 KB at most, in as many blocks as fill a device.

    Lanes share an output where outputs alone would not fill it, and where columns are long.
    """
    options = candidates(shape)
    steps = USUAL_STEPS * _vec(shape)
    threads = options["threads"][0]
    for more in options["threads"][1:]:
        if threads * steps < shape.depth or more * shape.outputs <= RESIDENT:
            threads = more
    most = min(USUAL_BYTES // _plane_bytes(shape), shape.outer // WANTED, 2 * shape.outer - 1)
    outers = max((n for n in options["outers"] if n <= most), default=min(options["outers"]))
    work = outers * shape.inner * threads
    block = max(b for b in options["block"] if b == 64 or b < min(2 * work, 512))
    choice = {"threads": threads, "outers": outers, "block": block}
    return choice if violation(shape, choice, target) is None else choice | {"block": 64}


@lru_cache(maxsize=256)
def _padding(shape: Reduction, threads: int) -> int:
    """Return how many vectors to leave between planes: those with fewest bank conflicts."""
    size, vec = shape.element_bytes, _vec(shape)
    plane = shape.depth * shape.inner
    if plane * size % 16 > 0:
        return 0

    def taken(pad: int) -> int:
        pitch = plane * size + 16 * pad
        outputs = [(lane // threads, lane % threads) for lane in range(WARP)]
        addresses = [
            o // shape.inner * pitch + (o % shape.inner + lane * vec * shape.inner) * size
            for o, lane in outputs
        ]
        return wavefronts(addresses, vec * size)

    return min(range(9), key=taken)


def kernel(shape: Reduction, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    knobs: dict[str, int | str] = {name.upper(): value for name, value in choice.items()}
    knobs |= shape.defines()
    knobs |= common.defines(
        vec=_vec(shape), plane=shape.depth * shape.inner, pad=_padding(shape, choice["threads"]),
        run=choice["outers"] * shape.depth * shape.inner,
    )  # fmt: skip
    blocks = common.ceil_div(shape.outer, choice["outers"])
    calls = [call("reduce", ["data", "out"], blocks, choice["block"])]
    texts = [*shape.texts, "staged_run.h", "reduce_staged.cu"]
    return common.cuda_kernel(shape, texts, knobs, calls)
