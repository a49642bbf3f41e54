"""Shapes that no other benchmark and no shipped record has: drawn from a seed, and nasty ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from benchmarks.unseen.convs import Conv
from benchmarks.unseen.layer import HALVES, After, Layer
from benchmarks.unseen.maps import (
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

# Operations and elements above which a drawn layer is drawn again, so that a run ends.
_MOST_FLOP, _MOST_ELEMENTS = 3e10, 3e7


def drawn(seed: int, of_each: int) -> Iterator[Layer]:
    """Yield layers of every kind with drawn shapes."""
    rng = random.Random(seed)
    for draw, share in _DRAWS:
        for _ in range(max(1, round(of_each * share))):
            yield draw(rng)


def _extent(rng: random.Random, low: int, high: int) -> int:
    """Return an extent, evenly by its logarithm; one in three is odd whatever it was."""
    value = round(low * (high / low) ** rng.random())
    return value | 1 if rng.random() < 1 / 3 else value


def _after(rng: random.Random, activations: tuple[str, ...]) -> After:
    plain = rng.random() < 1 / 3
    if plain:
        return After()
    residual = rng.random() < 0.3
    return After(True, residual, rng.random() < 0.2, rng.choice(activations))


_SIZES = ((1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (1, 7), (7, 1), (7, 7), (2, 2), (3, 1))
_FOLLOWING = ("none", "relu", "relu6", "silu", "gelu")


def _conv(rng: random.Random) -> Layer:
    while True:
        size = rng.choice(_SIZES)
        dilation = rng.choice((1, 1, 1, 2))
        pad = [(each - 1) * dilation // 2 for each in size]
        uneven = rng.choice((0, 0, 0, 1))
        padding = (pad[0], pad[1], pad[0] + uneven, pad[1] + uneven)
        groups, layout = rng.choice((1, 1, 1, 1, 2, 4)), rng.choice(("NCHW", "NHWC"))
        dtype = "float32" if layout == "NCHW" else rng.choice(("float32", "tf32", *HALVES))
        groups = 1 if layout == "NHWC" else groups
        stride, extent = rng.choice(((1, 1), (1, 1), (2, 2), (2, 1))), _extent(rng, 7, 130)
        conv = Conv(
            rng.choice((1, 1, 1, 2, 4, 8)), extent, extent + rng.choice((0, 0, 3)),
            _extent(rng, 8, 600) * groups, _extent(rng, 3, 600) * groups, size, stride, padding,
            (dilation, dilation), groups, layout, dtype, _after(rng, _FOLLOWING),
        )  # fmt: skip
        if min(conv.outputs) >= 1 and 1e6 < conv.flop < _MOST_FLOP:
            return conv.layer()


def _depthwise(rng: random.Random) -> Layer:
    side = rng.choice((3, 3, 5, 7))
    extent, stride = _extent(rng, 7, 120), rng.choice((1, 2))
    return Conv(
        rng.choice((1, 1, 2, 8)), extent, extent, rng.choice((1, 1, 2)), _extent(rng, 16, 1000),
        (side, side), (stride, stride), (side // 2,) * 4, layout=rng.choice(("NCHW", "NHWC")),
        after=_after(rng, _FOLLOWING), depthwise=True,
    ).layer()  # fmt: skip


def _product(rng: random.Random) -> Layer:
    while True:
        dtype = rng.choice(("float32", "float32", "tf32", "float16", "float16", "bfloat16"))
        batch = rng.choice((1, 1, 1, 8, 48))
        most = 4000 if batch == 1 else 600
        m, n, k = (_extent(rng, low, most) for low in (1 if batch == 1 else 32, 16, 16))
        after = _after(rng, _FOLLOWING) if batch == 1 else After(alpha=0.125)
        given = Product(
            m,
            n,
            k,
            dtype,
            batch,
            rng.random() < 0.2,
            rng.random() < 0.6,
            after,
            "" if batch == 1 else rng.choice(("", "", "b")),
        )
        if 1e6 < 2 * batch * m * n * k < _MOST_FLOP:
            return given.layer()


def _rows(rng: random.Random) -> Layer:
    dtype = rng.choice(("float32", "float16", "bfloat16"))
    columns = _extent(rng, 20, 60000)
    rows = _extent(rng, 1, max(2, min(20000, int(_MOST_ELEMENTS / columns))))
    kind = rng.choice(("softmax", "log_softmax", "layer_norm", "rms_norm", "group", "scan"))
    if kind == "group":
        return group_norm(rng.choice((1, 2, 8)), 32 * rng.randint(1, 20), _extent(rng, 16, 4000),
                          rng.choice((1, 32)), dtype)  # fmt: skip
    return scan(rows, columns, dtype) if kind == "scan" else norm(kind, rows, columns, dtype)


def _reduction(rng: random.Random) -> Layer:
    dtype = rng.choice(("float32", "float32", "float16"))
    inner = rng.choice((1, 1, _extent(rng, 2, 3000)))
    depth = _extent(rng, 5, 30000)
    outer = _extent(rng, 1, max(2, min(30000, int(_MOST_ELEMENTS / (inner * depth)))))
    return reduction(rng.choice(("sum", "mean", "max", "argmax")), outer, depth, inner, dtype)


def _move(rng: random.Random) -> Layer:
    dtype = rng.choice(("float32", "float16"))
    shape = tuple(_extent(rng, 2, 200) for _ in range(rng.choice((2, 3, 4))))
    while max(shape) < 1e3 and len(shape) < 4 and _count(shape) < 1e5:
        shape = (*shape, _extent(rng, 2, 200))
    while _count(shape) > _MOST_ELEMENTS:
        shape = tuple(max(2, each // 2) for each in shape)
    axes = rng.sample(range(len(shape)), len(shape))
    while axes == sorted(axes):  # PyTorch copies nothing then
        axes = rng.sample(range(len(shape)), len(shape))
    return permute(shape, tuple(axes), dtype)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for each in shape:
        count *= each
    return count


def _pool(rng: random.Random) -> Layer:
    size, extent = rng.choice((2, 3, 3, 7)), _extent(rng, 7, 150)
    return pool(
        rng.choice(("max", "avg")), rng.choice((1, 4)), (extent, extent), _extent(rng, 16, 600),
        size, rng.choice((1, 2)), size // 2, rng.choice(("NCHW", "NHWC")),
    )  # fmt: skip


def _attention(rng: random.Random) -> Layer:
    heads, group = rng.choice((4, 8, 12, 16)), rng.choice((1, 1, 4))
    causal, keys = rng.random() < 0.5, _extent(rng, 50, 3000)
    queries = keys if causal else rng.choice((1, keys, _extent(rng, 7, 500)))
    return attention(
        rng.choice((1, 2, 4)), heads, queries, keys, rng.choice((64, 128)), heads // group,
        causal, rng.choice(HALVES),
    )  # fmt: skip


_DRAWS: tuple[tuple[Callable[[random.Random], Layer], float], ...] = (
    (_conv, 2.0), (_product, 2.0), (_depthwise, 0.7), (_rows, 1.0), (_reduction, 0.6),
    (_move, 0.4), (_pool, 0.5), (_attention, 0.8),
)  # fmt: skip


def nasty() -> Iterator[Layer]:
    """Yield layers that were chosen because they might be slow, refused or wrong."""
    yield from (conv.layer() for conv in _NASTY_CONVS)
    yield from (product.layer() for product in _NASTY_PRODUCTS)
    yield norm("softmax", 2048, 50_257, "float16")
    for name in ("softmax", "layer_norm"):
        yield norm(name, 7, 250_001)
        yield norm(name, 100_000, 33, "float16")
    yield norm("softmax", 12 * 577, 577, "float16")
    yield norm("rms_norm", 3, 4099, "bfloat16")
    yield group_norm(2, 96, 7 * 9, 32)
    yield group_norm(2, 320, 64 * 64, 32, "float16")
    yield scan(1, 1_000_003)
    yield scan(50_000, 17, "float16")
    yield reduction("argmax", 1, 50257, 1)
    yield reduction("sum", 1, 1_000_003, 7)
    yield reduction("mean", 8, 3136, 96)
    yield permute((8, 197, 12, 64), (0, 2, 1, 3), "float16")
    yield permute((4099, 3), (1, 0))
    yield permute((5, 7, 11, 13, 17), (4, 2, 0, 3, 1))
    yield pool("max", 1, (224, 224), 3, 7, 4, 3, "NCHW")
    yield pool("avg", 2, (13, 29), 77, 3, 1, 1, "NHWC")
    yield pool("max", 8, (112, 112), 64, 3, 2, 1, "NHWC", "float16")
    yield embedding(50257, 768, 4096, "float16")
    yield embedding(1001, 33, 7)
    image = (8, 96, 28, 28)
    channels = (1, 96, 1, 1)
    arrays = (("a", image), ("s", channels), ("t", channels), ("b", image))
    yield chain("relu(a * s + t) + b", arrays, "float32")
    yield chain("a * sigmoid(a) * b", (("a", (4096, 11008)), ("b", (4096, 11008))), "float16")
    yield chain("tanh(a + s) * 0.5", (("a", (577, 1031)), ("s", (1031,))), "float32")
    yield attention(1, 12, 197, 197, 64, 12, False)
    yield attention(2, 16, 1000, 1000, 128, 4, True, "bfloat16")
    yield attention(1, 32, 1, 777, 128, 8, False)
    yield attention(16, 8, 1, 4095, 64, 8, False)
    yield attention(1, 8, 33, 3000, 64, 8, False)
    yield attention(1, 8, 1024, 1024, 40, 8, False)
    yield attention(2, 16, 729, 729, 72, 16, False, "bfloat16")


_RELU, _SILU = After(True, activation="relu"), After(True, activation="silu")
_NASTY_CONVS = (
    Conv(1, 224, 224, 64, 3, (11, 11), (4, 4), (2, 2, 2, 2), after=_RELU),
    Conv(8, 224, 224, 64, 3, (11, 11), (4, 4), (2, 2, 2, 2), layout="NHWC", dtype="float16"),
    Conv(1, 224, 224, 32, 3, (3, 3), (2, 2), (0, 0, 1, 1), after=After(True, activation="relu6")),
    Conv(1, 17, 17, 192, 768, (1, 7), padding=(0, 3, 0, 3), after=_RELU),
    Conv(1, 17, 17, 192, 160, (7, 1), padding=(3, 0, 3, 0), after=_RELU),
    Conv(2, 35, 35, 64, 48, (5, 5), padding=(2, 2, 2, 2), after=_RELU),
    Conv(1, 28, 28, 512, 512, (3, 3), padding=(2, 2, 2, 2), dilation=(2, 2), after=_RELU),
    Conv(1, 33, 33, 256, 2048, (3, 3), padding=(12,) * 4, dilation=(12, 12), layout="NHWC",
         dtype="float16"),
    Conv(1, 56, 56, 128, 128, (3, 3), padding=(1,) * 4, groups=32, after=_RELU),
    Conv(4, 28, 28, 240, 240, (1, 1), groups=3, after=_RELU),
    Conv(1, 1, 1, 480, 120, (1, 1), after=_SILU),
    Conv(1, 7, 7, 2048, 512, (1, 1), after=After(True, residual=True, activation="relu")),
    Conv(1, 3, 3, 37, 53, (3, 3), padding=(1,) * 4),
    Conv(8, 14, 14, 1024, 256, (1, 1), layout="NHWC", dtype="float16",
         after=After(True, residual=True, activation="relu")),
    Conv(8, 7, 7, 512, 512, (3, 3), padding=(1,) * 4, layout="NHWC", dtype="bfloat16",
         after=_RELU),
    Conv(1, 64, 64, 320, 320, (3, 3), padding=(1,) * 4, layout="NHWC", dtype="float16",
         after=_SILU),
    Conv(1, 64, 64, 4, 320, (3, 3), padding=(1,) * 4, layout="NHWC", dtype="float16"),
    Conv(1, 65, 63, 19, 21, (3, 3), padding=(1,) * 4, layout="NHWC", dtype="tf32"),
    Conv(1, 14, 14, 2, 512, (3, 3), (2, 2), (1,) * 4, depthwise=True),
    Conv(8, 112, 112, 1, 64, (3, 3), (2, 2), (0, 0, 1, 1), layout="NHWC", depthwise=True,
         after=After(True, activation="relu6")),
    Conv(1, 56, 56, 1, 96, (7, 7), padding=(3,) * 4, depthwise=True, after=After(True)),
    Conv(1, 28, 28, 1, 77, (5, 5), (2, 2), (2,) * 4, depthwise=True, after=_SILU),
    Conv(1, 28, 28, 1, 192, (3, 3), (1, 1), (1,) * 4, depthwise=True, dtype="float16",
         layout="NHWC", after=After(True, activation="relu6")),
    Conv(4, 56, 56, 1, 144, (3, 3), (2, 2), (1,) * 4, depthwise=True, dtype="bfloat16"),
)  # fmt: skip
_NASTY_PRODUCTS = (
    Product(128, 768, 768, "float16", 1, False, True, After(True, residual=True)),
    Product(577, 2304, 768, "float16", 1, False, True, After(True)),
    Product(77, 3072, 768, "bfloat16", 1, False, True, After(True, activation="gelu")),
    Product(1000, 1000, 1000, "float16"),
    Product(333, 4097, 511, "float16", 1, False, True),
    Product(64, 64, 16384, "float16", 1, True, False),
    Product(4096, 32, 4096, "bfloat16", 1, False, True),
    Product(1, 32000, 4096, "float16", 1, False, True),
    Product(5, 4096, 11008, "bfloat16", 1, False, True),
    Product(12, 1001, 2048, "float32", 1, False, True, After(True)),
    Product(128, 3072, 768, "float32", 1, False, True, After(True, activation="gelu")),
    Product(384, 384, 64, "float16", 96, False, True, After(alpha=0.125)),
    Product(384, 64, 384, "float16", 96),
    Product(49, 49, 32, "float16", 512, False, True, After(alpha=0.17)),
    Product(100, 100, 100, "float32", 200),
    Product(2049, 2047, 33, "float32"),
    Product(256, 256, 50_000, "float32", 1, True, False),
    Product(1023, 1023, 1023, "tf32", 1, False, True),
    Product(512, 30522, 768, "tf32", 1, False, True),
    Product(999, 1001, 1004, "int8", 1, False, True),
    Product(32, 4096, 4096, "int8", 1, False, True),
    Product(200, 300, 100, "float16", 16, False, False, After(), "b"),
)  # fmt: skip
