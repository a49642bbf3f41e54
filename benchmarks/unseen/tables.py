"""Layers of the tables in docs/benchmarks_*.md that no other benchmark times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks.unseen.convs import Conv
from benchmarks.unseen.families import groups
from benchmarks.unseen.layer import PLAIN, After, Layer, Way
from benchmarks.unseen.lost import lost
from benchmarks.unseen.maps import attention, embedding, norm, permute, reduction
from benchmarks.unseen.odd import large_heads, odd_extents
from benchmarks.unseen.products import Product

_BIAS, _RELU = After(True), After(True, activation="relu")
_GELU, _SILU = After(True, activation="gelu"), After(True, activation="silu")
_ADDED, _ADDED_RELU = After(True, residual=True), After(True, residual=True, activation="relu")
_F16, _BF16 = "float16", "bfloat16"
# Batch, length, channels, filters, taps, dilation, stride.
_LINES = (
    (1, 4000, 64, 64, 3, 1, 1), (1, 4000, 64, 64, 3, 2, 1), (1, 4000, 64, 64, 3, 4, 1),
    (1, 8192, 64, 64, 7, 5, 1), (1, 8000, 24, 48, 3, 3, 1), (1, 16384, 256, 256, 3, 3, 1),
    (1, 3000, 80, 512, 3, 1, 1), (1, 3000, 512, 512, 3, 1, 2), (1, 1500, 384, 384, 3, 1, 1),
    (1, 8192, 128, 128, 11, 1, 1), (4, 8000, 64, 64, 3, 1, 1), (16, 512, 128, 128, 3, 1, 1),
    (8, 2000, 32, 64, 5, 1, 1), (1, 60000, 32, 32, 7, 1, 1), (1, 400, 512, 512, 5, 1, 1),
    (1, 300, 256, 256, 3, 1, 1), (1, 1000, 192, 192, 5, 1, 1), (1, 32000, 64, 64, 16, 1, 8),
    (1, 16000, 16, 32, 5, 1, 2), (1, 16000, 512, 512, 3, 1, 2), (2, 1500, 1024, 512, 3, 1, 1),
    (1, 100, 512, 1024, 3, 1, 1), (1, 2000, 128, 128, 4, 1, 2), (2, 999, 20, 70, 3, 1, 1),
    (1, 40000, 1, 64, 7, 1, 1),
)  # fmt: skip
_DILATED_LINES = (
    (1, 4000, 64, 64, 3, 512, 1), (1, 16000, 64, 128, 3, 64, 1), (1, 16000, 64, 64, 3, 8, 1),
    (4, 8000, 64, 64, 3, 128, 1), (1, 8192, 128, 128, 3, 27, 1), (1, 16384, 256, 256, 3, 16, 1),
    (1, 4001, 64, 64, 3, 12, 1),
)  # fmt: skip
# Batch, side, filters, channels, side of a filter, epilogue, type.
_FEW_FILTERS = (
    (1, 256, 3, 128, 3, _BIAS, _F16), (2, 64, 4, 320, 3, _BIAS, _F16),
    (1, 512, 3, 128, 3, _BIAS, _F16), (1, 128, 1, 64, 3, _BIAS, _BF16),
    (1, 96, 3, 64, 5, _BIAS, _F16), (8, 28, 2, 256, 3, _BIAS, _F16),
    (1, 192, 6, 64, 3, _BIAS, _F16), (1, 128, 8, 128, 3, _BIAS, _F16),
    (1, 64, 1, 1024, 3, _BIAS, _F16),
)  # fmt: skip
# The same, and the stride.
_HALF_IMAGES = (
    (2, 16, 1280, 2560, 3, _BIAS, _F16, 1), (2, 64, 320, 320, 3, _BIAS, _F16, 2),
    (1, 64, 512, 512, 3, _BIAS, _BF16, 1), (2, 64, 320, 320, 3, _BIAS, _F16, 1),
    (2, 32, 640, 640, 3, _BIAS, _F16, 1), (2, 8, 1280, 1280, 3, _BIAS, _F16, 1),
    (2, 32, 640, 1280, 3, _BIAS, _F16, 1), (8, 56, 64, 64, 3, _RELU, _F16, 1),
    (8, 28, 128, 128, 3, _RELU, _F16, 1), (8, 14, 256, 256, 3, _RELU, _F16, 1),
    (8, 7, 512, 512, 3, _RELU, _F16, 1), (8, 56, 128, 128, 3, _RELU, _F16, 2),
    (32, 56, 64, 64, 3, _RELU, _F16, 1), (32, 28, 128, 128, 3, _RELU, _F16, 1),
    (32, 14, 256, 256, 3, _RELU, _F16, 1), (8, 56, 256, 256, 3, _RELU, _F16, 1),
    (1, 256, 128, 256, 3, _BIAS, _BF16, 1), (1, 20, 512, 512, 3, _SILU, _F16, 1),
    (1, 64, 256, 256, 3, PLAIN, _F16, 1), (32, 56, 64, 64, 3, _ADDED_RELU, _F16, 1),
    (8, 14, 256, 256, 3, _ADDED_RELU, _F16, 1), (2, 32, 640, 640, 3, _ADDED, _F16, 1),
)  # fmt: skip
_TF32_IMAGES = (
    (8, 56, 64, 64, 1), (8, 28, 128, 128, 1), (8, 56, 128, 128, 2), (8, 14, 256, 256, 1),
    (1, 28, 128, 128, 1), (1, 14, 256, 256, 1), (1, 7, 512, 512, 1), (1, 56, 64, 64, 1),
)  # fmt: skip
# Rows, columns, K, whether each operand is transposed, epilogue.
_TF32_PRODUCTS = (
    (512, 512, 512, False, False, PLAIN), (256, 1024, 512, False, False, PLAIN),
    (2048, 64, 1024, False, False, PLAIN), (1024, 1024, 1024, False, False, PLAIN),
    (640, 1536, 2560, False, False, PLAIN), (2048, 2048, 2048, False, False, PLAIN),
    (1024, 4096, 1024, False, False, _BIAS), (4096, 4096, 4096, False, False, PLAIN),
    (2048, 2048, 2048, True, True, PLAIN), (2048, 2048, 2048, True, False, PLAIN),
    (896, 640, 1152, True, False, PLAIN), (1024, 1024, 1024, False, True, PLAIN),
    (2048, 2048, 2048, False, True, PLAIN), (1024, 4096, 1024, False, True, _BIAS),
    (4096, 4096, 4096, False, True, PLAIN), (512, 30522, 768, False, True, PLAIN),
)  # fmt: skip
# Batch, heads, kv heads, keys, size of a head, type.
_DECODING = (
    (1, 32, 8, 8192, 128, _BF16), (8, 32, 8, 4096, 128, _BF16), (32, 32, 8, 2048, 128, _F16),
    (1, 32, 8, 32768, 128, _F16), (1, 32, 8, 1024, 128, _F16), (1, 32, 32, 1024, 128, _F16),
    (1, 8, 8, 4096, 128, _F16), (8, 8, 8, 512, 128, _F16), (1, 28, 4, 2000, 128, _F16),
    (5, 20, 20, 1500, 64, _F16),
)  # fmt: skip
# Rows, columns, K, whether the second operand is transposed.
_FEW_ROWS = (
    (4, 4096, 4096, True), (8, 4096, 4096, True), (16, 4096, 4096, True), (16, 4096, 4096, False),
    (32, 4096, 4096, True), (64, 4096, 4096, True), (8, 11008, 4096, True),
    (16, 11008, 4096, True), (16, 11008, 4096, False), (32, 11008, 4096, True),
    (64, 11008, 4096, True), (16, 4096, 11008, True), (32, 4096, 11008, True),
    (16, 3072, 768, True), (16, 768, 3072, True), (16, 1024, 4096, True),
)  # fmt: skip
_SHORT_K = (
    (576, 2183, 95, _BF16), (419, 1730, 53, _F16), (1000, 3001, 64, _F16), (2000, 2001, 100, _F16),
    (4096, 1001, 128, _F16), (300, 513, 77, _BF16),
)  # fmt: skip
_WITH_GELU = (
    (1024, 1024, 1024), (577, 2304, 768), (197, 3072, 768), (768, 3072, 768), (1024, 4096, 1024),
    (2048, 2048, 2048), (4096, 4096, 1024), (1536, 6144, 1536),
)  # fmt: skip
# NHWC convolutions that were drawn and were slower than cuDNN once.
_LOST = (
    Conv(1, 15, 15, 42, 398, (1, 1), layout="NHWC", dtype="tf32", after=_RELU),
    Conv(1, 37, 37, 15, 321, (1, 7), (1, 1), (0, 9, 0, 9), (3, 3), 3, "NHWC", "tf32"),
    Conv(1, 75, 75, 413, 4, (2, 2), (2, 2), (1,) * 4, (2, 2), layout="NHWC", dtype=_BF16),
    Conv(4, 64, 64, 40, 120, (3, 3), (1, 1), (2,) * 4, (2, 2), layout="NHWC", dtype=_F16),
)
_PERMUTED = (
    ((8, 798, 42, 2), (0, 1, 3, 2), "int16"), ((16384, 2, 16), (0, 2, 1), "float32"),
    ((8192, 2, 56), (0, 2, 1), "float32"), ((30000, 3, 3), (0, 2, 1), "float32"),
    ((2048, 8, 32), (0, 2, 1), "float32"), ((128, 64, 8, 8), (0, 1, 3, 2), "float32"),
    ((4096, 16, 16), (0, 2, 1), _F16), ((1000, 4, 100, 2), (0, 2, 1, 3), "float32"),
    ((1000, 17, 5), (0, 2, 1), "float32"), ((64, 64, 49, 4), (0, 1, 3, 2), "float32"),
    ((512, 1024, 3), (0, 2, 1), "int8"), ((111, 57, 145, 9), (1, 2, 0, 3), "float32"),
)  # fmt: skip
_SHORT_ROWS = (
    ("log_softmax", 1165, 49, _F16), ("log_softmax", 20, 34, _F16),
    ("log_softmax", 300, 77, _BF16), ("softmax", 1165, 49, _F16),
    ("log_softmax", 4096, 29, "float32"),
)  # fmt: skip
# Beside torch.compile.
_MEMORY = (
    reduction("argmax", 2544, 925, 1), reduction("argmax", 10, 45, 148, _F16),
    reduction("sum", 9, 2629, 1), embedding(81387, 189, 81387),
    norm("rms_norm", 15044, 299), norm("layer_norm", 2961, 805, _BF16),
    norm("log_softmax", 1, 850, _F16),
)  # fmt: skip
_TE_DENSE = ((10, 16, 53), (128, 1000, 512), (1, 1000, 512), (53, 47, 1000), (300, 200, 97))
_TE_GEMM = ((170, 16, 184), (1024, 1024, 1024), (64, 4096, 256), (97, 1000, 300), (512, 512, 64))
# Batch, rows, columns, filters, channels, filter, stride, padding.
_TE_IMAGES = (
    (9, 9, 42, 64, 16, (5, 5), (1, 2), (1, 0, 2, 1)),
    (1, 7, 7, 512, 512, (3, 3), (1, 1), (1,) * 4),
    (1, 56, 56, 64, 64, (3, 3), (1, 1), (1,) * 4),
    (1, 224, 224, 64, 3, (7, 7), (2, 2), (3,) * 4),
    (2, 17, 19, 100, 36, (5, 5), (1, 1), (2,) * 4),
    (1, 28, 28, 128, 128, (3, 3), (1, 1), (1,) * 4),
    (4, 14, 14, 61, 48, (1, 1), (1, 1), (0,) * 4),
    (1, 13, 13, 384, 256, (3, 3), (1, 1), (1,) * 4),
)  # fmt: skip
# Batch, rows, columns, channels, filter, padding.
_TE_DEPTHWISE = (
    (1, 14, 14, 576, (3, 3), 1), (1, 7, 7, 960, (5, 5), 2), (1, 112, 112, 32, (3, 3), 1),
    (3, 45, 26, 203, (2, 3), 0),
)  # fmt: skip


def of_tables() -> Iterator[Layer]:
    """Yield layers, each with the name of its table as that of its network."""
    for table, layers in _tables():
        for layer in layers:
            made = layer.layer() if isinstance(layer, Conv | Product) else layer
            yield replace(made, network=table)


def _tables() -> Iterator[tuple[str, list[Any]]]:
    yield "1-D", [_line(*each) for each in _LINES]
    causal = Conv(1, 1, 8000, 64, 32, (1, 2), padding=(0, 256, 0, 0), dilation=(1, 256))
    yield "1-D, dilated", [causal, *(_line(*each) for each in _DILATED_LINES)]
    yield "few filters", [_image(*each) for each in _FEW_FILTERS]
    yield "NHWC, 16-bit", [_image(*each) for each in _HALF_IMAGES]
    yield (
        "NHWC, TF32",
        [_image(n, h, co, ci, 3, PLAIN, "tf32", step) for n, h, co, ci, step in _TF32_IMAGES],
    )
    yield "groups", [*groups()]
    yield "lost once", [*_LOST, *lost()]
    yield (
        "products, TF32",
        [Product(m, n, k, "tf32", 1, ta, tb, after) for m, n, k, ta, tb, after in _TF32_PRODUCTS],
    )
    yield (
        "decoding",
        [
            attention(batch, heads, 1, keys, size, kv_heads, False, dtype)
            for batch, heads, kv_heads, keys, size, dtype in _DECODING
        ],
    )
    yield "few rows", [Product(m, n, k, _F16, 1, False, tb) for m, n, k, tb in _FEW_ROWS]
    yield "short K", [Product(m, n, k, dtype) for m, n, k, dtype in _SHORT_K]
    yield "GELU", [Product(*each, _F16, 1, False, True, _GELU) for each in _WITH_GELU]
    yield "small planes", [permute(*each) for each in _PERMUTED]
    yield "short rows", [norm(*each) for each in _SHORT_ROWS]
    yield "memory", [*_MEMORY]
    yield "odd extents", [*odd_extents()]
    yield "decoding, large heads", [*large_heads()]
    yield "te", [*_te()]


def _line(
    n: int, length: int, channels: int, filters: int, taps: int, dilation: int, stride: int
) -> Conv:
    """Return a convolution along a line: of images of one row."""
    pad = (taps - 1) * dilation // 2
    moves = (1, stride), (0, pad, 0, pad), (1, dilation)
    return Conv(n, 1, length, filters, channels, (1, taps), *moves)


def _image(
    n: int, side: int, filters: int, channels: int, size: int, after: After, dtype: str,
    stride: int = 1,
) -> Conv:  # fmt: skip
    """Return a convolution of square NHWC images by square filters."""
    pads = (size // 2,) * 4
    return Conv(
        n, side, side, filters, channels, (size, size), (stride, stride), pads,
        layout="NHWC", dtype=dtype, after=after,
    )  # fmt: skip


def _te() -> Iterator[Layer]:
    """Yield what templates of tensor expressions compute."""
    for batch, out, k in _TE_DENSE:
        product = Product(batch, out, k, transpose_b=True)
        yield _by("te/dense.cuda", (batch, out, k), product)
    for m, n, k in _TE_GEMM:
        yield _by("te/gemm.cuda", (m, n, k), Product(m, n, k))
    for n, h, w, co, ci, size, stride, pad in _TE_IMAGES:
        conv = Conv(n, h, w, co, ci, size, stride, pad)
        yield _by("te/conv2d_nchw.cuda", (n, h, w, co, ci, *size, stride, pad), conv)
    for n, h, w, channels, size, around in _TE_DEPTHWISE:
        conv = Conv(n, h, w, 1, channels, size, padding=(around,) * 4, depthwise=True)
        args = (n, h, w, channels, 1, *size, (1, 1), around)
        yield _by("te/depthwise_conv2d_nchw.cuda", args, conv)


def _by(template: str, args: tuple[Any, ...], layer: Conv | Product) -> Layer:
    """Return a layer by a template of tensor expressions alone."""
    return replace(layer.layer(), kind="te", ways=(Way(template, args),))
