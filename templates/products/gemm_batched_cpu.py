"""Batches of products on a CPU, of operands that may be transposed, and of unknown weights."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target, call

from .. import common, cpu_tiles
from .gemm_shape import Gemm

# Bytes of a part of a panel, untuned: it stays in L1 with rows of a.
_PANEL = 32 << 10


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "rows": common.up_to(shape.m, cpu_tiles.ROWS),
        "vectors": list(cpu_tiles.VECTORS),
        "lanes": list(cpu_tiles.LANES),
        "block_m": common.up_to(max(2 * shape.m, 16), (16, 32, 64, 128, 256, 512, 1024)),
        "depth": common.up_to(max(2 * shape.k, 64), (64, 96, 128, 192, 256, 384, 512, 1024)),
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    c, unit = choice, cpu_tiles.vector_unit(target)
    width = c["vectors"] * c["lanes"]
    return common.first_broken([
        (unit.spills(c["rows"], c["vectors"], c["lanes"]), "more sums than registers"),
        (c["block_m"] < c["rows"], "a tile beyond its block"),
        ((c["vectors"] > 1) & (width >= shape.n + c["lanes"]), "columns beyond the result"),
    ])  # fmt: skip


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options, unit = candidates(shape), cpu_tiles.vector_unit(target)
    rows, vectors, lanes = cpu_tiles.tile(unit, shape.m, shape.n, narrow=True)
    near = [d for d in options["depth"] if 4 * d * vectors * lanes <= _PANEL]
    blocks = [b for b in options["block_m"] if b >= rows]
    # Each block packs the panel anew.
    block, _ = cpu_tiles.tasks(
        target, blocks, [1], (shape.m, shape.n), vectors * lanes,
        lambda high, wide: 16 / high + cpu_tiles.BORDER / (shape.k * wide), shape.batch,
        (rows, vectors * lanes),
    )  # fmt: skip
    tile = {"rows": rows, "vectors": vectors, "lanes": lanes}
    return tile | {"block_m": block, "depth": max(near or options["depth"][:1])}


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s = shape
    several_a, several_b = (int(name != s.shared) for name in "ab")
    extents = common.defines(
        batch=s.batch, m=s.m, n=s.n, k=s.k, transpose_a=s.transpose_a, transpose_b=s.transpose_b,
        a_stride=several_a * s.m * s.k, b_stride=several_b * s.k * s.n,
        rows_left=s.m % choice["rows"], **choice,
    )  # fmt: skip
    # Of the tile of products, which has no epilogue here.
    unused = common.defines(bias=0, residual=0, affine=0, relu=0, most_runs=1, lda=1, ldc=1)
    parts = ("vectors.h", "shuffle.h", "tile.h", "transpose_vectors.h", "rank_one.h")
    return SourceKernel(
        "gemm",
        common.text(*parts, "even_parts.h", "gemm_batched.c"),
        defines={**extents, **unused},
        args=s.arguments(),
        calls=[call("gemm", ["a", "b", "c"])],
        reference=s.reference(),
        language="c",
    )
