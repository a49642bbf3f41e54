"""Layers of every family but convolutions, by classes: skinny, tiny, long, odd, huge.

Each class has a generator of its own, so that more of one leave the others as they are.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from benchmarks.unseen.layer import HALVES, PLAIN, After, Layer
from benchmarks.unseen.maps import (
    CHAINS,
    attention,
    chain,
    embedding,
    group_norm,
    norm,
    permute,
    pool,
    reduction,
    scan,
)
from benchmarks.unseen.products import Product

# Operations and elements above which a layer is drawn again, so that a run ends.
_MOST_FLOP, _MOST_ELEMENTS = 4e10, 4e7
_FLOATS = ("float32", *HALVES)


def broad(seed: int, of_each: int) -> Iterator[Layer]:
    """Yield ``of_each`` layers of each class, or the share of them that its weight is."""
    for name, (draw, weight) in _CLASSES.items():
        rng = random.Random(f"{seed} {name}")
        for _ in range(max(1, round(of_each * weight))):
            yield replace(draw(rng), kind=name)


def _extent(rng: random.Random, low: float, high: float, step: int = 1) -> int:
    """Return a multiple of a number, evenly by its logarithm."""
    return max(1, round(low * (high / low) ** rng.random() / step)) * step


def _product(
    dtype: str, *sizes: tuple[int, int], batch: tuple[int, int] = (1, 1)
) -> Callable[[random.Random], Layer]:
    """Return a draw of products whose m, n and k lie within bounds."""

    def draw(rng: random.Random) -> Layer:
        while True:
            # Rows of 16-bit numbers that are not aligned are a subject of their own.
            steps = {"int8": (16, 16, 4, 1), **dict.fromkeys(HALVES, (64, 8, 8))}
            step = rng.choice(steps.get(dtype, (32, 4, 1, 1)))
            m, n, k = (_extent(rng, *bounds, min(step, bounds[1])) for bounds in sizes)
            m = max(1, m + rng.randint(-3, 3)) if rng.random() < 0.3 else m
            count = _extent(rng, *batch)
            turned_a = rng.random() < 0.3 and m % 8 == 0
            given = Product(
                m, n, k, dtype, count, turned_a, rng.random() < 0.5, _after(rng, dtype, count),
                rng.choice(("", "", "b")) if count > 1 else "",
            )  # fmt: skip
            if 2 * count * m * n * k < _MOST_FLOP and count * (m * k + n * k + m * n) < 1e9:
                return given.layer()

    return draw


def _after(rng: random.Random, dtype: str, batch: int) -> After:
    if dtype == "int8" or rng.random() < 0.6:
        return PLAIN
    if batch > 1:
        return After(alpha=0.125)
    activation = rng.choice(("none", "relu", "gelu", "silu"))
    return After(rng.random() < 0.8, rng.random() < 0.3, False, activation)


def _norm(rng: random.Random) -> Layer:
    columns = _extent(rng, 2, 300_000)
    rows = _extent(rng, 1, max(2, min(3e6, _MOST_ELEMENTS / columns)))
    name = rng.choice(("softmax", "log_softmax", "layer_norm", "rms_norm"))
    return norm(name, rows, columns, rng.choice(_FLOATS))


def _group_norm(rng: random.Random) -> Layer:
    groups = rng.choice((1, 4, 32))
    channels, pixels = groups * rng.randint(1, 20), _extent(rng, 7, 10_000)
    return group_norm(rng.choice((1, 2, 8)), channels, pixels, groups, rng.choice(_FLOATS))


def _reduction(inner: tuple[int, int]) -> Callable[[random.Random], Layer]:
    def draw(rng: random.Random) -> Layer:
        within, depth = _extent(rng, *inner), _extent(rng, 2, 100_000)
        most = max(2.0, _MOST_ELEMENTS / (within * depth))
        outer = _extent(rng, 1, min(most, 1e6))
        name = rng.choice(("sum", "mean", "max", "min", "argmax"))
        if outer * depth * within > _MOST_ELEMENTS:
            return draw(rng)
        return reduction(name, outer, depth, within, rng.choice(_FLOATS))

    return draw


def _scan(rng: random.Random) -> Layer:
    columns = _extent(rng, 2, 1_000_000)
    rows = _extent(rng, 1, max(2, min(3e6, _MOST_ELEMENTS / columns)))
    return scan(rows, columns, rng.choice(_FLOATS))


def _move(rng: random.Random) -> Layer:
    rank = rng.choice((2, 3, 3, 4, 4, 5))
    while True:
        shape = tuple(_extent(rng, 2, 4000 if rank < 3 else 400) for _ in range(rank))
        axes = tuple(rng.sample(range(rank), rank))
        if 1e3 < prod(shape) < _MOST_ELEMENTS and axes != tuple(sorted(axes)):
            dtype = rng.choice(("float32", "float16", "int8", "float64", "int32"))
            return permute(shape, axes, dtype)


def _embedding(rng: random.Random) -> Layer:
    rows, columns = _extent(rng, 10, 200_000), _extent(rng, 3, 3000)
    return embedding(rows, columns, _extent(rng, 1, 30_000), rng.choice(_FLOATS))


def _pool(rng: random.Random) -> Layer:
    size, extent = rng.choice((2, 3, 5, 7, 9)), _extent(rng, 9, 250)
    n, channels = rng.choice((1, 2, 8)), _extent(rng, 3, 600)
    while n * extent * extent * channels > _MOST_ELEMENTS:
        extent = extent // 2 + 5
    name, before = rng.choice(("max", "avg")), rng.randint(0, size // 2)
    even, uneven = size // 2, (before, size // 2, size // 2, before)
    return pool(
        name, n, (extent, extent + rng.randint(-2, 9)), channels, size,
        rng.choice((1, 2, 3)), rng.choice((even, uneven)) if name == "max" else even,
        rng.choice(("NCHW", "NHWC")), rng.choice(_FLOATS),
    )  # fmt: skip


def _chain(rng: random.Random) -> Layer:
    rank = rng.choice((1, 2, 3, 4))
    while True:
        shape = tuple(
            _extent(rng, 2, {1: 3e7, 2: 5000, 3: 400, 4: 100}[rank]) for _ in range(rank)
        )
        if 1e3 < prod(shape) < _MOST_ELEMENTS:
            break
    text = rng.choice([*CHAINS])
    names = [name for name in "astb" if re.search(rf"\b{name}\b", text)]

    def broadcast(name: str) -> tuple[int, ...]:
        """Return the whole shape, or, of s and t, one with some extents of 1."""
        if name in "ab":
            return shape
        return tuple(1 if rng.random() < 0.5 else extent for extent in shape)

    return chain(text, tuple((name, broadcast(name)) for name in names), rng.choice(_FLOATS))


def _attention(rng: random.Random) -> Layer:
    size, group = rng.choice((64, 128, 64, 128, 32, 80, 96, 256)), rng.choice((1, 1, 2, 4, 8))
    heads, causal = group * rng.choice((1, 2, 5, 8)), rng.random() < 0.5
    keys = _extent(rng, 30, 4000)
    queries = keys if causal or rng.random() < 0.6 else _extent(rng, 2, 3000)
    batch = rng.choice((1, 2, 4, 7))
    if 4 * batch * heads * queries * keys * size > _MOST_FLOP:
        return _attention(rng)
    return attention(batch, heads, queries, keys, size, heads // group, causal, rng.choice(HALVES))


def _decoding(rng: random.Random) -> Layer:
    size, group = rng.choice((64, 128, 128, 96)), rng.choice((1, 4, 8, 7))
    kv_heads, batch = rng.choice((1, 2, 4, 8, 16)), rng.choice((1, 1, 2, 8, 30))
    keys = _extent(rng, 100, 100_000)
    while batch * kv_heads * keys * size > 2e8:
        keys //= 2
    return attention(batch, kv_heads * group, 1, keys, size, kv_heads, False, rng.choice(HALVES))


def _unusual() -> list[Layer]:
    wide = (("a", (12_000, 6000)), ("b", (12_000, 6000)), ("s", (1, 6000)))
    return [
        norm("softmax", 1, 10_000_000), norm("softmax", 10_000_000, 3),
        norm("layer_norm", 10_000_000, 3), norm("layer_norm", 1, 10_000_001, "float16"),
        norm("rms_norm", 70_000, 1023), norm("softmax", 20_000, 4096),
        reduction("sum", 10_000_000, 3, 1), reduction("max", 3, 10_000_000, 1),
        reduction("sum", 1, 10_000_000, 3), reduction("mean", 1, 3, 10_000_000),
        reduction("argmax", 1, 100_000_000, 1, "float16"), reduction("sum", 80_000, 1001, 1),
        reduction("sum", 1, 80_000, 1001), scan(10_000_000, 3), scan(1, 70_000_000),
        scan(70_000, 1001), permute((10_000_000, 3), (1, 0)), permute((3, 10_000_000), (1, 0)),
        permute((9001, 8001), (1, 0)), permute((64, 90, 130, 101), (0, 3, 1, 2)),
        embedding(1_000_000, 128, 600_000), chain("a + s * b", wide, "float32"),
        pool("max", 32, (112, 112), 192, 3, 2, 1, "NHWC"),
        pool("avg", 32, (112, 112), 192, 3, 2, 1, "NCHW"),
    ]  # fmt: skip


_MIDDLE, _LARGE = (64, 4096), (512, 20_000)
_CLASSES: dict[str, tuple[Callable[[random.Random], Layer], float]] = {
    **{f"product {d}": (_product(d, _MIDDLE, _MIDDLE, _MIDDLE), 1.5)
       for d in ("float32", "tf32", "float16", "bfloat16", "int8")},
    **{f"product {d}, skinny": (_product(d, (1, 64), _LARGE, _LARGE), 1.0)
       for d in ("float32", "tf32", "float16", "bfloat16", "int8")},
    **{f"product {d}, long k": (_product(d, (16, 512), (16, 512), (6000, 100_000)), 0.5)
       for d in ("float32", "tf32", "float16", "bfloat16", "int8")},
    **{f"product {d}, short k": (_product(d, (200, 9000), (200, 9000), (8, 96)), 0.4)
       for d in ("float32", "tf32", "float16", "bfloat16")},
    **{f"product {d}, tiny": (_product(d, (1, 100), (8, 100), (8, 100)), 0.3)
       for d in ("float32", "tf32", "float16", "int8")},
    **{f"product {d}, batched":
       (_product(d, (8, 700), (16, 700), (16, 700), batch=(2, 300)), 1.0)
       for d in ("float32", "tf32", "float16", "bfloat16")},
    "rows": (_norm, 3.0), "group norm": (_group_norm, 1.0),
    "reductions of rows": (_reduction((1, 1)), 2.0),
    "reductions of columns": (_reduction((2, 5000)), 2.0),
    "scans": (_scan, 1.5), "moves": (_move, 4.0), "embedding": (_embedding, 0.7),
    "pooling": (_pool, 2.0), "chains": (_chain, 2.0),
    "attention": (_attention, 2.0), "decoding": (_decoding, 1.5),
}  # fmt: skip


def huge() -> Iterator[Layer]:
    """Yield layers of one row, of rows of three elements, and of more than 256 MB."""
    yield from (replace(layer, kind="huge") for layer in _unusual())
