"""Matrix multiplication for a CPU: packed panels in cache, a tile of sums in vector registers."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target

from . import common, cpu_tiles
from .gemm_shape import Gemm


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "rows": common.up_to(shape.m, cpu_tiles.ROWS),
        "vectors": list(cpu_tiles.VECTORS),
        "lanes": list(cpu_tiles.LANES),
        "block_m": common.up_to(2 * shape.m, (4, 16, 32, 64, 128, 256, 512, 1024)),
        "panels": [1, 2, 4, 8, 16, 32],
        "depth": common.up_to(2 * shape.k, (32, 64, 128, 256, 384, 512, 1024, 2048)),
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice is sure to be slow, or None."""
    c = choice
    width = c["vectors"] * c["lanes"]
    rules = [
        (cpu_tiles.spills(c["rows"], c["vectors"], c["lanes"]), "more sums than registers"),
        (c["block_m"] < c["rows"], "a tile beyond its block"),
        (width >= shape.n + c["lanes"], "columns beyond the output"),
        (c["panels"] > 1 and c["panels"] * width >= 2 * shape.n, "panels beyond the output"),
        (4 * c["panels"] * width * c["depth"] > 1 << 21, "panels beyond the cache"),
    ]
    return common.first_broken(rules)


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options = candidates(shape)
    rows, vectors, lanes = cpu_tiles.tile(shape.m, shape.n)
    width = vectors * lanes
    blocks = [b for b in options["block_m"] if b >= rows] or [max(options["block_m"])]
    panels = [p for p in options["panels"] if p <= common.ceil_div(shape.n, width)]
    # A panel is packed for each block anew, and rows come from far away for each group of panels.
    block_m, together = cpu_tiles.tasks(
        target, blocks, panels, (shape.m, shape.n), width,
        lambda high, wide: 8 / high + 4 / wide + 1e-4 * wide,
    )  # fmt: skip
    return {
        "rows": rows,
        "vectors": vectors,
        "lanes": lanes,
        "block_m": block_m,
        "panels": together,
        "depth": max(d for d in options["depth"] if d <= max(384, min(options["depth"]))),
    }


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    extents = {"m": shape.m, "n": shape.n, "k": shape.k, "lda": shape.k, "ldc": shape.n}
    nothing_follows = {"bias": 0, "residual": 0, "affine": 0, "relu": 0, "most_runs": 1}
    return SourceKernel(
        "gemm_nn",
        common.text("tile.h", "panel.h", "strip.h", "gemm_nn.c"),
        defines=common.defines(**extents, **nothing_follows, **choice),
        args=shape.arguments(),
        reference=shape.reference(),
        language="c",
    )
