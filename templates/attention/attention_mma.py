"""Attention for CUDA, forward: scores are never written to memory.

A block loops over tiles of keys and values with online softmax (Dao, "FlashAttention-2", 2023), on
tensor cores by ``mma.sync``. Queries of heads that share keys (grouped-query attention) are rows
of one matrix, so that few queries, as in decoding, fill tiles better. With few rows the
keys are split among blocks, and a second kernel combines their partial results (Dao et al.,
"Flash-Decoding", 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from autotune import SourceKernel, Target, arg, call
from autotune.errors import TemplateError
from autotune.kernel import Argument, KernelCall

from .. import common
from ..common import Array
from ..products.gemm_shape import HALVES

OWNER = "attention"
# Of q, k, v and the result: heads before rows, or after them, as products write them; a packed
# array (batch, rows, heads, size) has the heads of q, then those of k, then those of v.
LAYOUTS = ("BHSD", "BSHD", "packed")
# Bytes of keys and values of which the L2 cache holds most, while blocks of all of them run.
SECTION_BYTES = 52 * 2**20
# Keys of the least tiles, and registers of a thread that they always fit in.
LEAST_KEYS, MOST_REGISTERS = 16, 250
# Floats of a sector of memory, of which partial results of a row are whole ones.
SECTOR = 8
# One of so many ranges of a split may be without keys: few splits divide the tiles of keys.
MOST_EMPTY = 16


@dataclass(frozen=True)
class Attention:
    """softmax(q k^T * scale + bias) v of each head.

    Attributes:
        heads, kv_heads: of q, and of k and v; ``heads / kv_heads`` of q share one of k and v.
        queries, keys: rows of q, and of k and v.
        size: of a head.
        causal: whether query i attends to keys up to i + keys - queries only; to none gives 0.
        scale: of scores; 0 means 1 / sqrt(size).
        layout: of the arrays, one of `LAYOUTS`.
        bias: extents of the bias (batch, heads, queries) before the keys, each of which may be 1;
            none without a bias.
        bias_dtype: of the bias; empty for that of the other arrays.
    """

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    causal: bool = False
    scale: float = 0.0
    dtype: str = "float16"
    layout: str = LAYOUTS[0]
    bias: tuple[int, ...] = ()
    bias_dtype: str = ""

    def __post_init__(self) -> None:
        extents = (self.batch, self.heads, self.kv_heads, self.queries, self.keys, self.size)
        if min(extents) < 1:
            raise TemplateError(f"{OWNER}: extents must be at least 1, got {self}")
        if self.heads % self.kv_heads:
            raise TemplateError(f"{OWNER}: kv_heads must divide heads, got {self}")
        self.check_elements()
        if not 0 <= self.scale < math.inf:
            raise TemplateError(f"{OWNER}: scale must be a number from 0 on, got {self.scale!r}")
        if self.layout not in LAYOUTS:
            raise TemplateError(
                f"{OWNER}: layout must be one of {', '.join(LAYOUTS)}, got {self.layout!r}"
            )
        if self.layout == "packed" and self.queries != self.keys:
            raise TemplateError(
                f"{OWNER}: a packed array must have as many queries as keys, got {self}"
            )
        self._check_bias()
        most = common.ceil_div(self.rows, 16) * self.matrices
        if self.keys + self.rows > 2**30 or most > 2**31 - 1:
            raise TemplateError(f"{OWNER}: kernels index rows and blocks by 32 bits, got {self}")

    def _check_bias(self) -> None:
        scores = (self.batch, self.heads, self.queries)
        fits = len(self.bias) == len(scores) and all(
            n in (1, m) for n, m in zip(self.bias, scores, strict=True)
        )
        if self.bias and not fits:
            raise TemplateError(
                f"{OWNER}: bias must be extents of {scores}, each of which may be 1, or (), "
                f"got {self.bias}"
            )
        known = ("", "float32", self.dtype) if self.bias else ("",)
        if self.bias_dtype not in known:
            raise TemplateError(
                f"{OWNER}: bias_dtype must be one of {', '.join(map(repr, known))}, "
                f"got {self.bias_dtype!r}"
            )

    def check_elements(self) -> None:
        """Raise `TemplateError` for sizes and types that kernels do not have."""
        if self.size % 2 or self.size > 256:
            raise TemplateError(f"{OWNER}: size must be an even number up to 256, got {self.size}")
        if self.dtype not in HALVES:
            raise TemplateError(f"{OWNER}: dtype must be float16 or bfloat16, got {self.dtype!r}")

    @property
    def group(self) -> int:
        """Heads that share keys."""
        return self.heads // self.kv_heads

    @property
    def rows(self) -> int:
        """Rows of q that attend to the same keys."""
        return self.queries * self.group

    @property
    def matrices(self) -> int:
        """Matrices of keys."""
        return self.batch * self.kv_heads

    @property
    def key_pitch(self) -> int:
        """Elements from a row of k, or of v, to the next of the same head."""
        heads = {"BHSD": 1, "BSHD": self.kv_heads, "packed": self.heads + 2 * self.kv_heads}
        return heads[self.layout] * self.size

    @property
    def factor(self) -> float:
        """The factor of the scores."""
        return self.scale or self.size**-0.5

    @property
    def flop(self) -> int:
        """Multiplications and additions of both products, without masked keys."""
        pairs = self.queries * self.keys
        if self.causal:
            first = self.keys - self.queries + 1
            pairs = sum(range(max(first, 0), self.keys + 1))
        return 4 * self.batch * self.heads * pairs * self.size

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        return sum(a.bytes for a in self.arguments())

    def arguments(self) -> list[Argument]:
        """Return q, k and v, or qkv; the bias if there is one; and out."""
        first = self.layout != "BHSD"

        def shape(heads: int, rows: int) -> tuple[int, ...]:
            return (self.batch, *((rows, heads) if first else (heads, rows)), self.size)

        last = [arg("out", shape(self.heads, self.queries), self.dtype, role="out")]
        if self.bias:
            last.insert(0, arg("bias", (*self.bias, self.keys), self.bias_dtype or self.dtype))
        if self.layout == "packed":
            every = shape(self.heads + 2 * self.kv_heads, self.keys)
            return [arg("qkv", every, self.dtype), *last]
        heads = {"q": (self.heads, self.queries)}
        heads |= dict.fromkeys("kv", (self.kv_heads, self.keys))
        return [*(arg(name, shape(*each), self.dtype) for name, each in heads.items()), *last]

    @property
    def read(self) -> list[str]:
        """Names of the arrays that kernels take as q, k and v, and as the bias."""
        arrays = ["qkv"] * 3 if self.layout == "packed" else ["q", "k", "v"]
        return [*arrays, "bias"] if self.bias else arrays

    @property
    def bias_pitches(self) -> dict[str, int]:
        """Elements from a batch, a head and a query of the bias to the next; 0 where it is one."""
        pitches, pitch = dict[str, int](), self.keys
        for name, extent in zip(("row", "head", "batch"), reversed(self.bias), strict=True):
            pitches[f"bias_{name}"] = pitch if extent > 1 else 0
            pitch *= extent
        return pitches

    def heads_first(self, arrays: Sequence[Array]) -> list[Array]:
        """Return q, k and v, heads before rows."""
        if self.layout == "packed":
            bounds = (self.heads, self.heads + self.kv_heads)
            arrays = np.split(arrays[0], bounds, axis=2)
        return [x if self.layout == "BHSD" else x.swapaxes(1, 2) for x in arrays]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out, in float32 at least."""

        def attention(*arrays: Array) -> Array:
            count = 1 if self.layout == "packed" else 3
            q, k, v = self.heads_first(arrays[:count])
            kind = np.float64 if q.dtype == np.float64 else np.float32
            keys, values = (np.repeat(x.astype(kind), self.group, axis=1) for x in (k, v))
            scores = q.astype(kind) @ keys.swapaxes(2, 3) * kind(self.factor)
            for bias in arrays[count:]:
                scores = scores + bias.astype(kind)
            if self.causal:
                last = np.arange(self.queries)[:, None] + self.keys - self.queries
                scores = np.where(np.arange(self.keys) <= last, scores, -np.inf)
            most = scores.max(axis=3, keepdims=True)
            powers = np.exp(scores - np.where(np.isinf(most), 0, most))
            sums = powers.sum(axis=3, keepdims=True)
            # Tensor cores multiply powers of the type of the values.
            weighted = powers.astype(q.dtype).astype(kind) @ values
            result: Array = (weighted / np.where(sums > 0, sums, 1)).astype(q.dtype)
            return result if self.layout == "BHSD" else result.swapaxes(1, 2)

        return attention


class AttentionTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Attention, choice: Mapping[str, int]) -> None:
        c = choice
        self.threads, self.tile_q = 32 * c["warps"], 16 * c["warps"]
        self.tiles = common.ceil_div(shape.rows, self.tile_q)
        self.key_tiles = common.ceil_div(shape.keys, c["keys"])
        self.per_split = common.ceil_div(self.key_tiles, c["split"])
        self.empty_ranges = c["split"] - common.ceil_div(self.key_tiles, self.per_split)
        staged = self.tile_q + 2 * c["stages"] * c["keys"]
        deep = 16 * common.ceil_div(shape.size, 16)
        self.shared_bytes = 2 * staged * (deep + 8)
        every = deep * 3 // 4 + c["keys"] // 2 + bias_registers(shape, c["keys"]) + 48
        # Of a bias beside the widest heads one warp of the least tiles spills a few, others none.
        least = c["keys"] == LEAST_KEYS
        self.registers = common.pick(least, common.smaller(every, MOST_REGISTERS), every)
        self.blocks = self.tiles * shape.matrices


def bias_registers(shape: Attention, keys: int) -> int:
    """Return the registers of a thread for the bias of its scores of a tile of keys."""
    return (keys // 2 if shape.bias_dtype == "float32" else keys // 4) if shape.bias else 0


def section(shape: Attention) -> int:
    """Return how many matrices have their causal tiles in one order, from the longest on."""
    if not shape.causal:
        return shape.matrices
    sections = common.ceil_div(4 * shape.keys * shape.size * shape.matrices, SECTION_BYTES)
    return common.ceil_div(shape.matrices, min(sections, shape.matrices))


def candidates(shape: Attention) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "warps": [1, 2, 4, 8],
        "keys": [LEAST_KEYS, 32, 64, 128],
        "stages": [2, 3, 4],
        "split": common.up_to(max(1, shape.keys // 32), (1, 2, 4, 8, 16, 32, 64)),
    }


def violation(shape: Attention, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    tiling, c = AttentionTiling(shape, choice), choice
    rules = [
        *common.limit_rules(tiling, target.limits),
        ((c["warps"] > 1) & (tiling.tile_q >= 2 * shape.rows), "rows beyond the queries"),
        ((c["keys"] > 16) & (c["keys"] >= 2 * shape.keys), "keys beyond the last"),
        (tiling.empty_ranges * MOST_EMPTY > c["split"], "empty ranges"),
        (
            (c["stages"] > 2) & (c["stages"] > tiling.per_split + 1),
            "more stages than tiles",
        ),
    ]
    return common.first_broken(rules)


def estimate(shape: Attention, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: tensor cores, exponentials, staging, and combining."""
    tiling, c = AttentionTiling(shape, choice), choice
    occupied = common.occupancy(
        target, tiling.blocks * c["split"], tiling.threads, tiling.registers, tiling.shared_bytes
    )
    busy = max(occupied.together * c["warps"] / 4, 1.0)
    # A scheduler starts a product every 7 cycles or so, an exponential every 8, with six more
    # operations each; every tile rescales the accumulators. An ldmatrix serves two products,
    # and occupies the multiprocessor for 4.
    products = 7 * 2 * c["keys"] * shape.size / 128
    powers = 16 * c["keys"] / 32 * 14 + shape.size / 2 + 80
    scheduled = common.overlapped_cycles(products, powers, 0.8 if busy >= 2 else 0.2) * busy
    loads = 2 * c["keys"] * shape.size * 2 / 128 * occupied.together * c["warps"]
    compute = tiling.per_split * (max(scheduled, loads) + 300)
    staging = tiling.per_split * occupied.together * 4 * c["keys"] * shape.size / 42
    # The latency of the first tile is exposed. Of 280 configurations of ten layers, most of
    # decoding, timed on an H200, the least estimates were 1.06 times as slow as the best (rank
    # correlation 0.90).
    first = 0.03 * 4 * c["keys"] * shape.size * occupied.together
    waiting = 350 / (c["stages"] - 1) / occupied.together * tiling.per_split
    combining = combining_cycles(shape, c["split"], occupied.multiprocessors)
    seen = 0.6 if shape.causal and shape.queries > 1 else 1.0
    work = common.overlapped_cycles(compute, staging, 0.8) + waiting
    return occupied.waves * (work * seen + first + 1500) + combining


def combining_cycles(shape: Attention, split: int, multiprocessors: int) -> float:
    """Return the cycles in which partial results of ranges of keys are written and combined."""
    elements = split * shape.matrices * shape.rows * (shape.size + 2)
    return 2500.0 + 8 * elements / (20 * multiprocessors) if split > 1 else 0.0


def default_choice(shape: Attention, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best of a fixed sample."""
    return common.best_drawn(
        candidates(shape),
        1000,
        partial(violation, shape, target=target),
        partial(estimate, shape, target=target),
    )


def defines(
    shape: Attention, choice: Mapping[str, int], threads: int, padded_to: int = 16
) -> dict[str, int | str]:
    """Return the parameters of ``attention.h`` and of the kernels that include it.

    Args:
        padded_to: columns of a head in shared memory are a multiple of so many.
    """
    c = choice
    return {
        **common.defines(
            batch=shape.batch, kv_heads=shape.kv_heads, group=shape.group, d=shape.size,
            queries=shape.queries, causal=shape.causal, threads=threads, warps=c["warps"],
            tile_k=c["keys"], stages=c["stages"], split=c["split"],
            bfloat16=shape.dtype == "bfloat16", rows_first=shape.layout != "BHSD",
            packed=shape.layout == "packed", padded_to=padded_to,
        ),
        "KEYS": shape.keys,
        "SECTION": section(shape),
        **_scaling(shape),
        "RESULT": "float" if c["split"] > 1 else "unsigned short",
    }  # fmt: skip


def _scaling(shape: Attention) -> dict[str, int | str]:
    """Return the factors of scores, and where the bias is.

    A bias is added to scores that are scaled already; all else is left to the exponentials.
    """
    if not shape.bias:
        return {"SCALE_LOG2": f"{shape.factor * math.log2(math.e)!r}f"}
    wide = shape.bias_dtype == "float32"
    return {
        "SCALE_LOG2": f"{math.log2(math.e)!r}f", "BIASED": 1, "SCALE": f"{shape.factor!r}f",
        "BIAS_ELEMENT": "float" if wide else "unsigned short",
        **common.defines(**shape.bias_pitches),
    }  # fmt: skip


class _Tiling(Protocol):
    """The sizes of a launch."""

    blocks: int
    threads: int
    shared_bytes: int


def launches(
    shape: Attention, entry: str, tiling: _Tiling, split: int
) -> tuple[list[KernelCall], tuple[int, int] | None]:
    """Return a kernel's call, that of the combining kernel, and the shape of partial results."""
    names = [*shape.read, "partial" if split > 1 else "out"]
    grid = (tiling.blocks, split)
    calls = [call(entry, names, grid, tiling.threads, tiling.shared_bytes)]
    if split == 1:
        return calls, None
    rows = shape.matrices * shape.rows
    blocks = common.ceil_div(rows * shape.size // 2, 128)
    calls.append(call("attention_join", ["partial", "out"], blocks, 128, early=True))
    return calls, (split, rows * SECTOR * common.ceil_div(shape.size + 2, SECTOR))


def kernel(shape: Attention, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    tiling, c = AttentionTiling(shape, choice), choice
    calls, parts = launches(shape, "attention", tiling, c["split"])
    texts = ["dependent_launch.h", "mma.h", "exp2.h", "attention.h", "attention_mma.cu"]
    return common.cuda_kernel(shape, texts, defines(shape, c, tiling.threads), calls, parts)
