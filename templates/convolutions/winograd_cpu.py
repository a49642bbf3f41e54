"""Winograd convolution for a CPU: a product of matrices for each point, of tiles in cache.

A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2016). Tiles of 4x4
outputs need a quarter of the multiplications of a 3x3 filter, tiles of 2x2 outputs 4/9. All
points of a few tiles are transformed, multiplied and transformed back while they are in L2
(Z. Jia, A. Zlateski, F. Durand and K. Li, "Optimizing N-dimensional, Winograd-based
Convolution for Manycore CPUs", 2018). Filters are transformed ahead of time, as for CUDA.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import common, cpu_tiles
from ..common import Array
from . import winograd_cuda
from .winograd_cuda import FILTER, OWNER, matrices

# Bytes of a task: of its transformed input, untuned; of that and of the sums, at most.
_NEAR, _MOST = 1 << 18, 1 << 22
# The largest sums a task may have, untuned.
_SUMS = 5 << 17


@dataclass(frozen=True)
class Winograd(winograd_cuda.Winograd):
    """A convolution by 3x3 filters, with stride 1; counts the operations of the products."""

    @property
    def flop(self) -> int:
        """Multiplications and additions of the products, which every kernel has to do."""
        return self.product.flop

    @property
    def each(self) -> int:
        """Tiles of an image."""
        return self.tiles // self.images


def check(shape: Winograd) -> None:
    """Raise `TemplateError` for what the kernel does not compute."""
    if shape.epilogue.activation not in ("none", "relu"):
        raise TemplateError(
            f"{OWNER}: activation must be none or relu on a CPU, got {shape.epilogue.activation!r}"
        )


def tile_of(rows: int, columns: int) -> int:
    """Return the tile for images of so many outputs: 4, or 2 where that fills no two vectors."""
    return 4 if common.ceil_div(rows, 4) * common.ceil_div(columns, 4) >= 16 else 2


def candidates(shape: Winograd) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "rows": common.up_to(shape.co, cpu_tiles.ROWS),
        "vectors": list(cpu_tiles.VECTORS),
        "lanes": list(cpu_tiles.LANES),
        "block_m": common.up_to(2 * shape.co, (4, 8, 16, 32, 64, 128, 256, 512)),
        "panels": [1, 2, 3, 4, 8],
        "channels": common.up_to(2 * shape.ci, (8, 16, 32, 64, 128, 256, 512)),
    }


def violation(shape: Winograd, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice is sure to be slow, or None."""
    c, unit = choice, cpu_tiles.vector_unit(target)
    width = c["vectors"] * c["lanes"]
    kept = 4 * shape.alpha**2 * c["panels"] * width * (c["channels"] + c["block_m"] + c["rows"])
    return common.first_broken([
        (unit.spills(c["rows"], c["vectors"], c["lanes"]), "more sums than registers"),
        (c["block_m"] < c["rows"], "a tile beyond its block"),
        (width >= shape.each + c["lanes"], "tiles beyond the output"),
        ((c["panels"] > 1) & (c["panels"] * width >= 2 * shape.each), "panels beyond the output"),
        (kept > _MOST, "sums beyond the cache"),
    ])  # fmt: skip


def default_choice(shape: Winograd, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options = candidates(shape)
    rows, vectors, lanes = cpu_tiles.tile(cpu_tiles.vector_unit(target), shape.co, shape.each)
    width = vectors * lanes
    column = 4 * shape.alpha**2 * width
    covering = [b for b in options["block_m"] if b >= rows] or [max(options["block_m"])]
    blocks = [b for b in covering if column * b <= _SUMS] or covering[:1]
    panels = [p for p in options["panels"] if p == 1 or p * width < 2 * shape.each]

    # Data are transformed again for each block, and filters are reloaded for each group, of which
    # a remainder is computed in whole vectors.
    def copying(high: int, wide: int) -> float:
        beyond = max(0.0, high * wide / 2048 - 1)
        return 10 / high + 4 / max(wide, width) + beyond * 0.02

    block_m, together = cpu_tiles.tasks(
        target, blocks, panels, (shape.co, shape.each), width, copying, shape.images
    )
    fits = [c for c in options["channels"] if column * together * c <= _NEAR * 5 // 4]
    return {
        "rows": rows,
        "vectors": vectors,
        "lanes": lanes,
        "block_m": block_m,
        "panels": together,
        "channels": max(fits, default=min(options["channels"])),
    }


def kernel(shape: Winograd, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, epilogue, (oh, ow) = shape, shape.epilogue, shape.results
    a, b, _ = matrices(s.tile)
    group = choice["panels"] * choice["vectors"] * choice["lanes"]
    extents = common.defines(
        batch=s.images, co=s.co, ci=s.ci, ih=s.h, iw=s.w, oh=oh, ow=ow, kernel=FILTER,
        tile=s.tile, py=s.padding[0], px=s.padding[1], bias=epilogue.bias,
        residual=epilogue.residual, affine=epilogue.affine, relu=epilogue.activation == "relu",
        lda=s.ci, ldc=group, group=group, pitch=group + choice["lanes"], most_runs=1,
        rows_left=s.co % choice["rows"], **choice,
    )  # fmt: skip
    return SourceKernel(
        "winograd_conv2d",
        common.text("vectors.h", "tile.h", "panel.h", "strip.h", "winograd.c"),
        defines={**extents, "INPUT_MATRIX": _literal(b.T), "OUTPUT_MATRIX": _literal(a.T)},
        args=s.arguments(),
        # Operands that are not there are never read; the filters are passed instead.
        calls=[call("winograd_conv2d", ["data", "weight", *epilogue.names("weight"), "out"])],
        reference=s.reference(),
        language="c",
    )


def _literal(matrix: Array) -> str:
    """Return a matrix as C writes it."""
    rows = (", ".join(f"{value!r}f" for value in row) for row in matrix.tolist())
    return "{" + ", ".join(f"{{{row}}}" for row in rows) + "}"
