"""Attention for a CPU: scores of some queries stay in the cache, and nothing is packed.

Queries are lanes of vectors while scores are made, so that maxima and sums need no reduction of
lanes; keys come in parts, with an online softmax (Dao, "FlashAttention-2", 2023).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import common, cpu_tiles
from .attention_mma import OWNER, Attention

# Bytes of the scores of a task, untuned, which stay in the L2 cache; columns of values that a
# kernel has, at most.
_SCORES, _LARGEST = 128 << 10, 1024


@dataclass(frozen=True)
class FloatAttention(Attention):
    """Attention in float32, of heads of any size up to 1024."""

    dtype: str = "float32"

    def check_elements(self) -> None:
        """Raise `TemplateError` for sizes and types that kernels do not have."""
        if self.size > _LARGEST:
            raise TemplateError(f"{OWNER}: size must be at most {_LARGEST}, got {self.size}")
        if self.dtype != "float32":
            raise TemplateError(f"{OWNER}: dtype must be float32 on a CPU, got {self.dtype!r}")


def candidates(shape: Attention) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "rows": list(cpu_tiles.ROWS),
        "vectors": list(cpu_tiles.VECTORS),
        "lanes": list(cpu_tiles.LANES),
        "key_block": [32, 64, 128, 256, 512, 1024],
    }


def violation(shape: Attention, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice is sure to be slow, or None."""
    c, unit = choice, cpu_tiles.vector_unit(target)
    width = c["vectors"] * c["lanes"]
    return common.first_broken([
        (unit.spills(c["rows"], c["vectors"], c["lanes"]), "more sums than registers"),
        (
            (c["vectors"] > 1) & (width >= max(shape.queries, shape.size) + c["lanes"]),
            "queries beyond the last",
        ),
        (c["key_block"] >= 2 * max(shape.keys, 32), "keys beyond the last"),
    ])  # fmt: skip


def default_choice(shape: Attention, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    unit = cpu_tiles.vector_unit(target)
    rows, vectors, lanes = cpu_tiles.tile(
        unit, max(shape.size, max(cpu_tiles.ROWS)), shape.queries
    )
    fits = [n for n in candidates(shape)["key_block"] if n < 2 * max(shape.keys, 32)]
    near = [n for n in fits if 4 * n * vectors * lanes <= _SCORES]
    tile = {"rows": rows, "vectors": vectors, "lanes": lanes}
    return tile | {"key_block": max(near, default=fits[0])}


def kernel(shape: Attention, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, first = shape, shape.layout != "BHSD"
    of_q, of_k = s.heads, s.kv_heads
    if s.layout == "packed":
        of_q = of_k = s.heads + 2 * s.kv_heads

    def pitches(name: str, heads: int, rows: int) -> dict[str, int]:
        """Return elements between neighbours: images, heads and rows."""
        head, row = (s.size, heads * s.size) if first else (rows * s.size, s.size)
        each = {"batch": heads * rows * s.size, "head": head, "row": row}
        return {f"{name}_{axis}": pitch for axis, pitch in each.items()}

    packed = s.layout == "packed"
    extents = common.defines(
        batch=s.batch, heads=s.heads, group=s.group, queries=s.queries, keys=s.keys, size=s.size,
        causal=s.causal, keys_from=packed * s.heads * s.size,
        values_from=packed * (s.heads + s.kv_heads) * s.size,
        **pitches("query", of_q, s.queries), **pitches("key", of_k, s.keys),
        **pitches("out", s.heads, s.queries), biased=bool(s.bias),
        **(s.bias_pitches if s.bias else {}), **choice,
    )  # fmt: skip
    # Of the tile of products, which has no epilogue here.
    unused = common.defines(
        bias=0, residual=0, affine=0, relu=0, most_runs=1, lda=1, ldc=1, block_m=1
    )
    parts = ("vectors.h", "shuffle.h", "rows.h", "tile.h", "transpose_vectors.h", "rank_one.h")
    return SourceKernel(
        "attention",
        common.text(*parts, "power.h", "attention.c"),
        defines={**extents, **unused, "SCALE": f"{s.factor!r}f"},
        args=s.arguments(),
        calls=[call("attention", [*s.read, "out"])],
        reference=s.reference(),
        language="c",
    )
