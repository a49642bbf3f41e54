"""Permutations of axes for CUDA: tiles transposed in registers, and through shared memory.

Loads of the rows of a tile and stores of its columns are coalesced (Ruetsch and Micikevicius,
"Optimizing matrix transpose in CUDA", 2009); shared memory is swizzled against bank conflicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

from autotune import SourceKernel, Target, call

from .. import common
from .transpose_shape import Transpose, strides_of

# Knobs that were added, with the values that kernels had before: old logs stay valid.
ADDED = {"planes": 1, "times": 1}
# Lanes of a plane up to which a block has several planes where nothing was tuned, its threads, and
# bytes of their vectors: 8192 planes of 8x8 floats took 1.97 us so on an H200, and 2.38 to 2.53
# with vectors of 16 bytes.
_FEW_LANES, _THREADS, _SHORT_VECTOR = 64, 256, 8
# Bytes that a thread holds, of several vectors; and where nothing was tuned, least blocks of such
# threads. 8191x4093 floats took an H200 88 us so, 141 by threads of one, halves 60 and 123.
_MOST_HELD, _LEAST_BLOCKS = 128, 528


class Planes:
    """The plane of two axes that is transposed, and the others, over which it is repeated."""

    def __init__(self, shape: Transpose) -> None:
        extents, axes = shape.least
        last = len(extents) - 1
        strides = strides_of(extents)
        result = strides_of([extents[a] for a in axes])
        into = {axis: result[place] for place, axis in enumerate(axes)}
        transposed = axes[-1]
        self.columns, self.rows = extents[last], extents[transposed]
        self.in_pitch, self.out_pitch = strides[transposed], into[last]
        others = [a for a in axes if a not in (last, transposed)]
        self.batch = math.prod(extents[a] for a in others)
        self.in_offset = _offset([(extents[a], strides[a]) for a in others])
        self.out_offset = _offset([(extents[a], into[a]) for a in others])


def _offset(axes: Sequence[tuple[int, int]]) -> str:
    """Return the offset of ``plane`` as text: the last of (extent, stride) varies fastest."""
    terms, inner = ["0"], 1
    for extent, stride in reversed(axes):
        terms.append(f"static_cast<size_t>(plane / {inner} % {extent}) * {stride}")
        inner *= extent
    return "(" + " + ".join(terms) + ")"


def _blocks(shape: Transpose, choice: Mapping[str, int]) -> int:
    planes, v = Planes(shape), choice["v"]
    threads = choice["lanes_x"] * choice["lanes_y"]
    if not shape.moved:
        vectors = planes.batch * planes.columns // v
        return common.ceil_div(vectors, threads * choice["times"])
    return common.ceil_div(planes.batch, choice["planes"]) * _tiles(planes, choice)


def _tiles(planes: Planes, choice: Mapping[str, int]) -> int:
    """Return the tiles of a plane."""
    across = common.ceil_div(planes.columns, choice["lanes_x"] * choice["v"])
    return across * common.ceil_div(planes.rows, choice["lanes_y"] * choice["times"] * choice["v"])


def _power(least: int) -> int:
    """Return the least power of two that is at least so many."""
    return 1 << (least - 1).bit_length()


def kernel(shape: Transpose, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    planes, threads = Planes(shape), choice["lanes_x"] * choice["lanes_y"] * choice["planes"]
    knobs: dict[str, int | str] = {name.upper(): value for name, value in choice.items()}
    knobs |= common.defines(
        bytes=shape.element_bytes, elements=shape.elements, moved=shape.moved, rows=planes.rows,
        columns=planes.columns, batch=planes.batch, in_pitch=planes.in_pitch,
        out_pitch=planes.out_pitch, threads=threads,
    )  # fmt: skip
    knobs |= {"IN_OFFSET": planes.in_offset, "OUT_OFFSET": planes.out_offset}
    calls = [call("transpose", ["data", "out"], _blocks(shape, choice), threads)]
    return common.cuda_kernel(shape, ["transpose.cu"], knobs, calls)


def candidates(shape: Transpose) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    planes = Planes(shape)
    both = (planes.rows, planes.columns) if shape.moved else (planes.columns,)
    widest = 16 // shape.element_bytes
    fits = [v for v in (1, 2, 4, 8, 16) if v <= widest and all(e % v == 0 for e in both)]
    # Vectors of 16 elements would need 16 registers for each of 16 rows.
    return {
        "v": [v for v in fits if not shape.moved or v <= 8],
        "lanes_x": [1, 2, 4, 8, 16, 32, 64],
        "lanes_y": [1, 2, 4, 8, 16, 32, 64],
        "staged": [0, 1] if shape.moved else [0],
        "planes": common.up_to(planes.batch, (1, 2, 4, 8, 16, 32, 64)) if shape.moved else [1],
        "times": [1, 2, 4, 8],
    }


def violation(shape: Transpose, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    planes, limits, moved, v = Planes(shape), target.limits, shape.moved, choice["v"]
    lanes_x, lanes_y = choice["lanes_x"], choice["lanes_y"]
    threads = lanes_x * lanes_y * choice["planes"]
    plane = planes.columns * (planes.rows if moved else 1)
    times = choice["times"]
    held = times * v * shape.element_bytes * (v if moved else 1)
    shared = choice["staged"] * threads * times * v * v * shape.element_bytes
    rules = [
        (threads > limits.threads_per_block, "too many threads"),
        (threads < min(32, max(1, plane // 8)), "too few threads"),
        (shared > limits.shared_bytes, "too much shared memory"),
        (moved & (lanes_x > 1) & (lanes_x * v >= 2 * planes.columns), "columns beyond the plane"),
        (
            moved & (lanes_y * times > 1) & (lanes_y * times * v >= 2 * planes.rows),
            "rows beyond the plane",
        ),
        ((times > 1) & (held > _MOST_HELD), "too many vectors of a thread"),
        ((choice["planes"] > 1) & (_tiles(planes, choice) > 1), "several planes of several tiles"),
    ]
    return common.first_broken(rules)


def default_choice(shape: Transpose, target: Target) -> dict[str, int]:
    """Return a good guess: the widest vectors, square tiles, through shared memory.

    In planes of a few rows or columns a thread transposes its whole tile in registers. A block has
    as many small planes as give it threads enough. Where extents are odd, a thread has several
    vectors.
    """
    options, planes = candidates(shape), Planes(shape)
    few = shape.moved and min(planes.rows, planes.columns) in options["v"]
    staged = 0 if few else max(options["staged"])
    v = max(v for v in options["v"] if v == 1 or v * shape.element_bytes <= _SHORT_VECTOR)
    x, y = (_power(common.ceil_div(extent, v)) for extent in (planes.columns, planes.rows))
    if shape.moved and planes.batch > 1 and x * y <= _FEW_LANES:
        several = max(p for p in options["planes"] if p * x * y <= _THREADS)
        tile = {"v": v, "lanes_x": x, "lanes_y": y, "staged": staged}
        return {**tile, "planes": several, "times": 1}
    first = ((16, 16), (8, 16), (16, 8), (8, 8), (32, 4), (4, 32), (32, 2), (2, 32))
    flat = ((64, 1), (1, 64), (32, 1), (1, 32))
    lanes = (*(flat if few else ()), *first, *product(options["lanes_x"], options["lanes_y"]))
    single = [
        {"v": v, "lanes_x": x, "lanes_y": y, "staged": staged, "planes": 1, "times": 1}
        for v in options["v"][::-1]
        for x, y in lanes
    ]
    every = [*([] if few else _several(shape, max(options["v"]), staged)), *single]
    return next(choice for choice in every if violation(shape, choice, target) is None)


def _several(shape: Transpose, v: int, staged: int) -> list[dict[str, int]]:
    """Return choices of several vectors a thread, so that as many bytes are in flight.

    That is where vectors are narrow, and blocks are enough.
    """
    if v > 1 and v * shape.element_bytes > 4:
        return []
    shared = {"v": v, "staged": staged, "planes": 1}
    lanes = {"lanes_x": 16, "lanes_y": 16, "times": 4}
    if v * shape.element_bytes == 1:
        lanes = {"lanes_x": 32, "lanes_y": 8, "times": 8}
    choice = {**shared, **lanes}
    return [choice] if _blocks(shape, choice) >= _LEAST_BLOCKS else []
