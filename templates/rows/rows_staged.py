"""Softmax and norms of many short rows for CUDA, whose rows vectors do not fill.

Lanes that load a row of three elements, or of 31 halves, load few bytes each, and their stores
leave parts of sectors to others. Here the rows of a block, which are one run of memory, pass
through shared memory in vectors of 16 bytes (`rows_staged.cu`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from autotune import SourceKernel, Target, call

from .. import common
from . import rows_cuda
from .rows_shape import Rows

# Longest rows, in elements, and fewest elements in all: of fewer the two barriers take longer than
# they save. Rows of up to `TINY` elements leave most lanes of a warp idle, or load little each: an
# H200 took 1.6 us for 50000 x 3 staged, 2.3 otherwise, and for 400000 x 4 3.0 and 5.1.
LONGEST, FEWEST, TINY, FEWEST_TINY = 256, 2**19, 6, 2**16
# Untuned: elements of a row that a lane has at most, threads, bytes of a run, and blocks that fill
# a device. On an H200 softmax of 236309 x 4 in bfloat16 took 2.94 us by 231 blocks, 2.1 by 924.
USUAL_EACH, USUAL_BLOCK, USUAL_BYTES, WANTED = 16, 128, 8192, 1056
MOST_BYTES = 48 * 1024


def offered(shape: Rows) -> bool:
    """Return whether rows are many, and tiny, or short and not divided by vectors of 16 bytes."""
    elements = shape.rows * shape.columns
    if shape.columns <= TINY:
        return elements >= FEWEST_TINY
    short = shape.columns <= LONGEST and elements >= FEWEST
    return short and shape.columns * shape.element_bytes % 16 > 0


def chosen_before(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when rows were not staged: old logs stay valid."""
    return "keep" in knobs


def candidates(shape: Rows) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "threads": [t for t in (1, 2, 4, 8, 16) if t == 1 or t < 2 * shape.columns],
        "rows": [8, 16, 32, 64, 128, 256],
        "times": [1, 2, 4, 8],
        "vec": [v for v in (1, 2, 4, 8) if _divides(shape, v)],
    }


def _divides(shape: Rows, vec: int) -> bool:
    return shape.columns % vec == 0 and vec * shape.element_bytes <= 16


def violation(shape: Rows, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    threads = choice["threads"] * choice["rows"]
    sweep = choice["threads"] * choice["vec"]
    held = common.ceil_div(shape.columns, sweep) * choice["vec"]
    rules = [
        (threads > 512, "too many threads"),
        (threads % 32 > 0, "threads that are no whole warps"),
        (held > 64, "too many elements a lane"),
        ((choice["threads"] > 1) & (sweep >= 2 * shape.columns), "lanes beyond the row"),
        (_run_bytes(shape, choice) > MOST_BYTES, "too much shared memory"),
    ]
    return common.first_broken(rules)


def _run_bytes(shape: Rows, choice: Mapping[str, int]) -> int:
    return choice["rows"] * choice["times"] * shape.columns * shape.element_bytes


def default_choice(shape: Rows, target: Target) -> dict[str, int]:
    """Return a good guess: a lane for each row, or some for longer ones, and runs of 8 KB."""
    options = candidates(shape)
    enough = [t for t in options["threads"] if t * USUAL_EACH >= shape.columns]
    threads = min(enough, default=max(options["threads"]))
    vec = max(v for v in options["vec"] if v == 1 or threads * v < 2 * shape.columns)
    rows = {"threads": threads, "rows": USUAL_BLOCK // threads, "vec": vec}
    able = [each for e in options["times"] if _fits(shape, each := {**rows, "times": e}, target)]
    most = max(1, shape.rows // (rows["rows"] * WANTED))
    few = [each for each in able if each["times"] <= most]
    usual = [each for each in few if _run_bytes(shape, each) <= USUAL_BYTES]
    return (usual or able[:1])[-1]


def _fits(shape: Rows, choice: Mapping[str, int], target: Target) -> bool:
    return violation(shape, choice, target) is None


def kernel(shape: Rows, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    names = ["data", "gain" if shape.gain else "data", "shift" if shape.shift else "data", "out"]
    blocks = common.ceil_div(shape.rows, choice["rows"] * choice["times"])
    calls = [call("rows", names, blocks, (choice["threads"], choice["rows"]))]
    texts = [*rows_cuda.TEXTS, "staged_run.h", "rows_staged.cu"]
    knobs = rows_cuda.defines(shape, choice)
    knobs |= common.defines(
        block=choice["threads"] * choice["rows"], plane=shape.columns, pad=0,
        run=choice["rows"] * choice["times"] * shape.columns,
    )  # fmt: skip
    return common.cuda_kernel(shape, texts, knobs, calls)
