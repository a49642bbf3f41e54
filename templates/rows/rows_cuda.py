"""Softmax and norms of rows for CUDA: one or several warps a row, one read and one write.

There is one kernel, ``rows.cu``; the operation is a map of ``row_maps.h``, which defines how the
states of two parts of a row are combined (as in online softmax, Milakov and Gimelshein, 2018).
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target, call

from .. import common
from .rows_shape import DTYPES, MAPS, Rows

# Elements of a row that a thread keeps in registers, at most.
MOST_KEPT = 128
# Vectors that a thread loads at a time of a row that is not kept in registers.
SWEPT = 4
# Untuned: rows that do not fill a device, and threads of a block of short rows.
FEW_ROWS, USUAL_BLOCK = 264, 128
# Untuned: lanes that a row has, unless fewer load all of it at once; rows so short and few are
# loaded by scalars, since most of their vectors are partial.
LANES, SHORT, FEW_ELEMENTS = 4, 128, 2**19
TEXTS = ("elements.h", "reducers.h", "row_maps.h")
# Untuned, of rows that vectors do not divide: length from which on 16-bit elements are loaded 16
# bytes at a time, and threads have twice as many elements as here at most; and threads that keep
# rows in registers which are too long for 1024.
LONG, LEAST_EACH, KEEPING = 4096, 20, 512
# Untuned: rows of 16-bit elements beyond which threads have as many elements of long ones.
MANY_ROWS = 2048
# Floats of the largest state of a part of a row.
STATE_WORDS = 3


def kernel(shape: Rows, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    names = ["data", "gain" if shape.gain else "data", "shift" if shape.shift else "data", "out"]
    blocks = common.ceil_div(shape.rows, choice["rows"])
    calls = [call("rows", names, blocks, (choice["threads"], choice["rows"]))]
    return common.cuda_kernel(shape, [*TEXTS, "rows.cu"], defines(shape, choice), calls)


def split_kernel(
    shape: Rows, choice: Mapping[str, int], split: int, per_split: int
) -> SourceKernel:
    """Return the kernels that split a row into ``split`` ranges (`split_rows`)."""
    knobs = defines(shape, choice) | {"SPLIT": split, "PER_SPLIT": per_split}
    names = ["data", "gain" if shape.gain else "data", "shift" if shape.shift else "data"]
    grid = (split, shape.rows)
    calls = [
        call("row_states", ["data", "partial"], grid, choice["threads"]),
        call("rows", [*names, "partial", "out"], grid, choice["threads"], early=True),
    ]
    parts = (shape.rows * split, STATE_WORDS)
    texts = ["dependent_launch.h", *TEXTS, "rows_split.cu"]
    return common.cuda_kernel(shape, texts, knobs, calls, parts)


def defines(shape: Rows, choice: Mapping[str, int]) -> dict[str, int | str]:
    """Return the parameters of the kernels of rows."""
    knobs: dict[str, int | str] = {name.upper(): value for name, value in choice.items()}
    knobs |= common.defines(
        batch=shape.rows, depth=shape.columns, element=list(DTYPES).index(shape.dtype),
        gain=shape.gain, shift=shape.shift, groups=shape.groups, channels=shape.row_channels,
        spatial=shape.columns // shape.row_channels,
    )  # fmt: skip
    return knobs | {"EPSILON": repr(shape.epsilon), "MAP": MAPS[shape.operation]}


def candidates(shape: Rows) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    widest = 16 // shape.element_bytes
    return {
        "threads": [*common.lanes(shape.columns), 32, 64, 128, 256, 512, 1024],
        "rows": [r for r in common.side_by_side(shape.columns) if r < 2 * shape.rows],
        "vec": [v for v in (1, 2, 4, 8) if v <= widest],
        "keep": [0, 1],
    }


def violation(shape: Rows, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(rules(shape, choice, target, shape.columns))


def rules(
    shape: Rows, choice: Mapping[str, int], target: Target, columns: int
) -> list[tuple[bool, str]]:
    """Return what may be wrong with a choice: whether it is, and in words.

    Args:
        columns: elements of a row that a block has.
    """
    limits, threads = target.limits, choice["threads"] * choice["rows"]
    sweep = choice["threads"] * choice["vec"]
    ragged = (columns % choice["vec"] > 0) * (choice["vec"] - 1)
    kept = common.ceil_div(columns + ragged, sweep) * choice["vec"]
    held = common.pick(choice["keep"], kept, SWEPT * choice["vec"])
    return [
        (threads > limits.threads_per_block, "too many threads"),
        (held > MOST_KEPT, "a row too long for registers"),
        ((held + 24) * threads > limits.registers, "too many registers"),
        ((choice["threads"] > 32) & (sweep >= 2 * columns), "threads beyond the row"),
        (threads % 32 > 0, "threads that are no whole warps"),
    ]


def default_choice(shape: Rows, target: Target) -> dict[str, int]:
    """Return a good guess: 16-byte loads, about eight elements a thread, the row in registers.

    Where rows do not fill a device, a thread has a vector or two. Many short rows share warps and
    blocks; one warp has a row of up to 768 elements. Odd rows are loaded in vectors of four, and
    where they are short and few by scalars: an H200 took 1.70 us for 4096x29 so, 2.05 in vectors.
    Of long odd ones a thread keeps more: 2048x50257 float32 took 215 us by 512 threads, which keep
    a row, and 292 by 1024, which read it twice. Of many long rows of 16-bit elements it does so
    too: layer norm of 8192x8192 float16 took 68 us by 256 threads, and 126 by 1024.
    """
    options = candidates(shape)
    whole = [v for v in options["vec"] if shape.columns % v == 0]
    short = shape.columns < SHORT and shape.rows * shape.columns <= FEW_ELEMENTS
    usual = [t for t in options["threads"] if t >= LANES]
    ragged = max(whole) < 4 <= shape.columns / min(usual) and not short
    long = ragged and shape.columns >= LONG and shape.rows > FEW_ROWS
    vec = max(whole)
    if ragged:
        vec = max(options["vec"]) if long else min(4, max(options["vec"]))
    filled = [t for t in options["threads"] if t * vec >= shape.columns]
    threads = min(*usual, *filled)
    while threads < 1024 and _is_wider(shape, 2 * threads, vec, long):
        threads *= 2
    rows = max(r for r in options["rows"] if r == 1 or r * threads <= USUAL_BLOCK)
    choice = {"threads": max(threads, 32 // rows), "rows": rows, "vec": vec, "keep": 1}
    fewer = choice | {"threads": min(threads, KEEPING)}
    kept = [choice, *([fewer] if long else [])]
    able = [each for each in kept if violation(shape, each, target) is None]
    return able[0] if able else choice | {"keep": 0}


def _is_wider(shape: Rows, threads: int, vec: int, long: bool) -> bool:
    """Return whether a row has enough elements for so many threads, as measured on an H200."""
    many = vec == 8 and shape.rows > MANY_ROWS and shape.columns >= LONG
    if long or many:
        return threads * LEAST_EACH <= shape.columns
    if shape.rows <= FEW_ROWS:
        return threads * vec <= shape.columns
    if threads <= 32:
        each = 2.5 if vec <= 2 and shape.rows * shape.columns <= FEW_ELEMENTS else 6
        return threads * each <= shape.columns
    if shape.columns <= 1024:
        return threads * 12 < shape.columns
    return threads * max(8, vec) <= shape.columns
