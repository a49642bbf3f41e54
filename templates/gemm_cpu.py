"""Matrix multiplication for a CPU: packed panels in cache, a tile of sums in vector registers."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target

from . import common
from .gemm_shape import Gemm


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "rows": common.up_to(shape.m, (1, 2, 4, 6, 8, 12, 14)),
        "vectors": [1, 2, 3, 4],
        "lanes": [4, 8, 16],
        "block_m": common.up_to(2 * shape.m, (4, 16, 32, 64, 128, 256, 512, 1024)),
        "panels": [1, 2, 4, 8, 16],
        "depth": common.up_to(2 * shape.k, (32, 64, 128, 256, 512, 1024, 2048)),
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice is sure to be slow, or None."""
    c = choice
    width = c["vectors"] * c["lanes"]
    rules = [
        (common.spills(c["rows"], c["vectors"]), "more sums than registers"),
        (c["block_m"] < c["rows"], "a tile beyond its block"),
        (width >= shape.n + c["lanes"], "columns beyond the output"),
        (c["panels"] > 1 and c["panels"] * width >= 2 * shape.n, "panels beyond the output"),
        (4 * c["panels"] * width * c["depth"] > 1 << 21, "panels beyond the cache"),
    ]
    return common.first_broken(rules)


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    rows, vectors, lanes = common.cpu_tile(shape.m, shape.n)
    depth = min(512, max(candidates(shape)["depth"]))
    return {
        "rows": rows,
        "vectors": vectors,
        "lanes": lanes,
        "block_m": max(b for b in candidates(shape)["block_m"] if b <= max(512, rows)),
        "panels": 2 if shape.n >= 4 * vectors * lanes else 1,
        "depth": depth,
    }


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    extents = {"m": shape.m, "n": shape.n, "k": shape.k, "lda": shape.k, "ldc": shape.n}
    return SourceKernel(
        "gemm_nn",
        common.text("tile.h", "gemm_nn.c"),
        defines=common.defines(**extents, bias=0, residual=0, affine=0, relu=0, **choice),
        args=shape.arguments(),
        reference=shape.reference(),
        language="c",
    )
