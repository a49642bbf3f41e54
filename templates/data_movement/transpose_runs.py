"""Transposes of planes of odd extents: a block moves runs of bytes that are contiguous.

Where an extent is odd, tiles (`transpose_cuda`) have no vectors along it. The bytes of whole
planes are one run in the data and in the result, whatever the extents; of large planes with a
short axis a block moves a part of the longer one, which is a run on one side.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any

from autotune import SourceKernel, Target, call

from .. import common
from . import transpose_cuda
from .transpose_shape import Transpose

# Bytes of the planes of a block: of more, too few blocks share a multiprocessor.
MOST_BYTES = 96 * 1024
# Whole planes are moved where there are enough for all multiprocessors, of so many bytes each;
# else parts, if one axis is as short and the other as long (400 planes of 65x257 floats take an
# H100 21 us so, and 36 by tiles). Fewer bytes in all take as long as tiles (one H200).
LEAST_PLANES, PLANE_BYTES, LEAST_BYTES = 132, 40 * 1024, 256 * 1024
SHORT_AXIS, LONG_AXIS = 160, 128
# Bytes and elements of a run, and least blocks, where nothing was tuned.
USUAL_BYTES, USUAL_ELEMENTS, USUAL_BLOCKS, USUAL_PARTS = 8192, 4096, 200, 400


def offered(shape: Transpose) -> bool:
    """Return whether runs are faster than tiles: tiles have no vectors, and runs are many."""
    extents, axes = shape.least
    if axes not in ((1, 0), (0, 2, 1)) or max(transpose_cuda.candidates(shape)["v"]) > 1:
        return False
    large = extents[-2] * extents[-1] >= 2**30  # kernels index a plane by 32 bits
    if large or shape.elements * shape.element_bytes < LEAST_BYTES:
        return False
    shorter, longer = sorted(extents[-2:])
    return _has_whole_planes(shape) or (shorter <= SHORT_AXIS and longer >= LONG_AXIS)


def chosen_before(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when there were tiles only: old logs stay valid."""
    return "lanes_x" in knobs


def _sizes(shape: Transpose) -> tuple[int, int, int]:
    """Return planes, and the rows and columns of one."""
    *batch, rows, columns = shape.least[0]
    return math.prod(batch), rows, columns


def _plane_bytes(shape: Transpose) -> int:
    _, rows, columns = _sizes(shape)
    return rows * columns * shape.element_bytes


def _has_whole_planes(shape: Transpose) -> bool:
    """Return whether blocks move whole planes."""
    return _sizes(shape)[0] >= LEAST_PLANES and _plane_bytes(shape) <= PLANE_BYTES


def _run_bytes(shape: Transpose, choice: Mapping[str, int]) -> int:
    """Return the bytes of the run of a block."""
    _, rows, columns = _sizes(shape)
    of_part = choice["part"] * common.smaller(rows, columns) * shape.element_bytes
    return common.pick(choice["part"] > 0, of_part, choice["planes"] * _plane_bytes(shape))


def candidates(shape: Transpose) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    (batch, rows, columns), size = _sizes(shape), shape.element_bytes
    words = [word for word in (1, 2, 4, 8, 16) if word >= size]
    if _has_whole_planes(shape):
        most = min(batch, MOST_BYTES // _plane_bytes(shape))
        return {
            "planes": common.up_to(most, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
            "part": [0],
            "threads": [64, 128, 256, 512],
            "gather": [0, 1],
            "word": [word for word in words if word >= 4],
        }
    longer = max(rows, columns)
    return {
        "planes": [1],
        "part": common.up_to(longer, (32, 64, 128, 256, 512, 1024, 2048, 4096)),
        "threads": [64, 128, 256, 512],
        "gather": [int(rows > columns)],
        "word": [word for word in words if longer * size % word == 0],
    }


def violation(shape: Transpose, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    run, threads = _run_bytes(shape, choice), choice["threads"]
    rules = [
        (run > MOST_BYTES, "too many planes, or too large a part"),
        (_shared_bytes(run) > target.limits.shared_bytes_optin, "too much shared memory"),
        (threads > target.limits.threads_per_block, "too many threads"),
        ((threads > 64) & (threads * 8 > run), "threads without words"),
    ]
    return common.first_broken(rules)


def _shared_bytes(run: int) -> int:
    """Return the shared memory of a run of so many bytes, which may not be aligned."""
    return 16 * (common.ceil_div(run, 16) + 1)


def _gathers(shape: Transpose) -> int:
    """Return whether whole planes are transposed on their way out: where banks conflict less.

    Where they do so alike, single planes are faster on their way in: an H200 took 32 us for 3000
    of 73x131 halves so, and 42 on their way out.
    """
    _, rows, columns = _sizes(shape)
    into, out = math.gcd(rows, 32), math.gcd(columns, 32)
    single = 2 * _plane_bytes(shape) > min(USUAL_BYTES, USUAL_ELEMENTS * shape.element_bytes)
    return int(out < into or (out == into and not single))


def default_choice(shape: Transpose, target: Target) -> dict[str, int]:
    """Return a good guess: runs of some thousand bytes, and the side with fewer bank conflicts."""
    options, size = candidates(shape), shape.element_bytes
    whole = options["part"] == [0]
    gather = _gathers(shape) if whole else options["gather"][0]
    widest = max(4, size) if gather and not whole else max(4, 4 * size)
    word = max(w for w in options["word"] if w <= widest)
    runs = [
        {"planes": planes, "part": part, "gather": gather, "word": word}
        for planes in options["planes"]
        for part in options["part"]
    ]
    most = min(USUAL_BYTES, USUAL_ELEMENTS * size)
    most = min(most, shape.elements * size // (USUAL_BLOCKS if whole else USUAL_PARTS))
    usual = [run for run in runs if _run_bytes(shape, run) <= most]
    best = max(usual, key=lambda run: _run_bytes(shape, run), default=runs[0])
    choices = [{**best, "threads": each} for each in (256, 128, 64)]
    return next(choice for choice in choices if violation(shape, choice, target) is None)


def kernel(shape: Transpose, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    batch, rows, columns = _sizes(shape)
    knobs: dict[str, Any] = {name.upper(): value for name, value in choice.items()}
    sizes = common.defines(
        bytes=shape.element_bytes, elements=shape.elements, batch=batch, rows=rows, columns=columns
    )
    parts = common.ceil_div(max(rows, columns), choice["part"]) if choice["part"] else 1
    blocks = common.ceil_div(batch, choice["planes"]) * parts
    launch = blocks, choice["threads"], _shared_bytes(_run_bytes(shape, choice))
    calls = [call("transpose_runs", ["data", "out"], *launch)]
    return common.cuda_kernel(shape, ["transpose_runs.cu"], {**knobs, **sizes}, calls)
