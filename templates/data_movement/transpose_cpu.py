"""Permutations of axes for a CPU: squares of as many rows as a vector has lanes, in registers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autotune import SourceKernel, Target

from .. import common, cpu_tiles
from .transpose_shape import Transpose, strides_of

# Planes from which on an inner loop takes some of them, whose offsets are sums.
_MANY = 64
# Rows or columns of a task, and tasks of a core where nothing was tuned.
_PER_TASK, _TASKS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096), 4


class Planes:
    """The plane of two axes that is transposed, and the others, over which it is repeated.

    Where the last axis stays, a plane is one row of it.
    """

    def __init__(self, shape: Transpose) -> None:
        extents, axes = shape.least
        last, transposed = len(extents) - 1, axes[-1]
        strides, result = strides_of(extents), strides_of([extents[a] for a in axes])
        into = {axis: result[i] for i, axis in enumerate(axes)}
        self.columns = extents[last]
        self.rows = extents[transposed] if shape.moved else 1
        self.in_pitch, self.out_pitch = strides[transposed], into[last]
        # In the order of the result: threads write to parts of it that are far apart.
        others = [(extents[a], strides[a], into[a]) for a in axes if a not in (last, transposed)]
        many = math.prod(extent for extent, _, _ in others[:-1]) >= _MANY
        self.near, self.in_step, self.out_step = others.pop() if many else (1, 0, 0)
        self.far = math.prod(extent for extent, _, _ in others)
        self.in_offset = _offset([(extent, stride) for extent, stride, _ in others])
        self.out_offset = _offset([(extent, stride) for extent, _, stride in others])


def _offset(axes: Sequence[tuple[int, int]]) -> str:
    """Return the offset of ``far`` as text: the last of (extent, stride) varies fastest."""
    terms, inner = ["0"], 1
    for extent, stride in reversed(axes):
        terms.append(f"far / {inner} % {extent} * {stride}")
        inner *= extent
    return "(" + " + ".join(terms) + ")"


def candidates(shape: Transpose) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    planes = Planes(shape)
    least = min(planes.rows, planes.columns)
    fits = [n for n in cpu_tiles.LANES if n <= least and n * shape.element_bytes <= 64]
    return {
        "side": fits or [1],
        "per_task": common.up_to(max(planes.rows, planes.columns), _PER_TASK),
    }


def violation(shape: Transpose, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run: every one can."""
    return None


def default_choice(shape: Transpose, target: Target) -> dict[str, int]:
    """Return a good guess: the widest vectors, and as large tasks as give each core some."""
    options, planes = candidates(shape), Planes(shape)
    widest = 4 * cpu_tiles.vector_unit(target).floats
    side = max(n for n in options["side"] if n <= 4 or n * shape.element_bytes <= widest)
    along = max(planes.rows, planes.columns) if side == 1 else planes.columns
    wanted = common.ceil_div(_TASKS * max(target.limits.sm_count, 1), planes.far)
    fits = (n for n in options["per_task"] if n * wanted <= along)
    return {"side": side, "per_task": max(fits, default=options["per_task"][0])}


def kernel(shape: Transpose, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    planes = Planes(shape)
    knobs: dict[str, int | str] = {name.upper(): value for name, value in choice.items()}
    knobs |= common.defines(
        bytes=shape.element_bytes, moved=shape.moved, rows=planes.rows, columns=planes.columns,
        in_pitch=planes.in_pitch, out_pitch=planes.out_pitch, far=planes.far, near=planes.near,
        in_step=planes.in_step, out_step=planes.out_step, lanes=max(4, choice["side"]),
    )  # fmt: skip
    knobs |= {"IN_OFFSET": planes.in_offset, "OUT_OFFSET": planes.out_offset}
    return SourceKernel(
        "transpose",
        common.text("vectors.h", "shuffle.h", "transpose.c"),
        defines=knobs,
        args=shape.arguments(),
        reference=shape.reference(),
        language="c",
    )
