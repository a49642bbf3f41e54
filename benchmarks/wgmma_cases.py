"""Shapes and choices of knobs for kernels of `wgmma`: odd ones, which must be right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autotune.templates.attention import attention_wgmma
from autotune.templates.attention.attention_mma import Attention
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_half, gemm_padded, gemm_transposed
from autotune.templates.products.gemm_shape import Gemm
from autotune.templates.products.gemm_tma_form import Form

# What choices have in common; cases change some of it.
BASE = {
    "wgmma": 1, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 8, "chunk": 64, "stages": 2,
    "split": 1, "band": 1,
}  # fmt: skip
HALF, BRAIN = 4e-3, 2e-2
_F16, _BF16 = "float16", "bfloat16"
_FULL, _BIAS = Epilogue(True, True, True, "gelu", 0.5), Epilogue(True)
_SIMPLE = Epilogue(True, activation="gelu")
# Changes of `BASE` for products by TMA.
_ALONE, _MULTICAST = {"wgmma": Form(0, 1).knob}, {"wgmma": Form(0, 2).knob, "band": 4}
_LARGE = {"frags_n": 16, "stages": 4}
# Names, shapes, and changes of `BASE`.
Cases = Iterator[tuple[str, Any, dict[str, int]]]


def products() -> Cases:
    """Yield each form of operand, with and without an epilogue."""
    yield from _products_of_16_bits()
    yield from _tf32_products()
    yield from _padded_products()
    yield from _convolutions()


def _products_of_16_bits() -> Cases:

    yield "nn", Gemm(200, 136, 264, _F16), {}
    yield "nt", Gemm(200, 136, 264, _F16, 1, False, True), {"frags_n": 16, "stages": 3}
    yield "tn", Gemm(200, 136, 267, _F16, 1, True), {"frags_n": 24, "frags_m": 2}
    yield "tt", Gemm(200, 136, 264, _BF16, 1, True, True), {"warps_m": 8, "chunk": 128}
    yield (
        "nt epilogue", Gemm(197, 776, 136, _F16, 1, False, True, "", _FULL),
        {"frags_n": 32, "band": 4},
    )  # fmt: skip
    yield (
        "tt epilogue batch", Gemm(136, 264, 520, _BF16, 5, True, True, "b", _FULL),
        {"warps_m": 8, "frags_n": 16, "stages": 4},
    )  # fmt: skip
    yield (
        "tn batch", Gemm(136, 264, 77, _F16, 3, True, False, "a", _BIAS),
        {"frags_m": 2, "frags_n": 16},
    )  # fmt: skip
    yield "even n", Gemm(65, 58, 72, _F16, 2, False, True, "b", _FULL), {}
    yield (
        "odd n", Gemm(131, 1001, 520, _F16, 1, False, True, "", _FULL),
        {"frags_n": 24, "stages": 4},
    )  # fmt: skip
    yield (
        "nt split 2", Gemm(200, 136, 1032, _F16, 1, False, True, "", _FULL),
        {"split": 2, "stages": 4},
    )  # fmt: skip
    yield (
        "tt split 4 odd n", Gemm(200, 133, 1032, _F16, 2, True, True, "", _FULL),
        {"split": 4, "frags_n": 16, "stages": 4},
    )  # fmt: skip
    yield (
        "nn split 8", Gemm(512, 512, 8192, _F16),
        {"split": 8, "warps_m": 8, "frags_n": 16, "stages": 5},
    )  # fmt: skip
    yield "scores", Gemm(512, 512, 64, _F16, 6, False, True), {"frags_m": 2, "frags_n": 16}


def _tf32_products() -> Cases:
    """Yield products of float32 rounded to TF32."""
    yield (
        "tf32 nt", Gemm(200, 136, 268, "tf32", 1, False, True),
        {"chunk": 32, "stages": 4, "frags_n": 16},
    )  # fmt: skip
    yield (
        "tf32 nt rest odd n", Gemm(201, 135, 268, "tf32", 2, False, True, "", _FULL),
        {"chunk": 64, "frags_m": 2},
    )  # fmt: skip
    yield (
        "tf32 split", Gemm(200, 136, 2052, "tf32", 1, False, True, "", _BIAS),
        {"chunk": 32, "split": 2, "stages": 4},
    )  # fmt: skip
    yield "transposed tf32 nn", Gemm(200, 136, 267, "tf32"), {"chunk": 32, "stages": 4}
    yield (
        "transposed tf32 tn epilogue", Gemm(200, 135, 268, "tf32", 3, True, False, "b", _FULL),
        {"chunk": 64},
    )  # fmt: skip


def _padded_products() -> Cases:
    """Yield products that are padded, or have tiles of few columns."""
    yield "padded nn", Gemm(65, 77, 71, _F16), {}
    yield (
        "narrow nt",
        Gemm(197, 776, 136, _F16, 1, False, True, "", _BIAS),
        {"frags_n": 12, "warps_m": 8},
    )
    yield (
        "narrow split 2, odd n",
        Gemm(197, 777, 1032, _BF16, 1, False, True, "", _FULL),
        {"frags_n": 12, "warps_m": 8, "split": 2, "stages": 4},
    )
    yield (
        "padded tt rest", Gemm(67, 257, 511, _BF16, 2, True, True, "a", _FULL),
        {"frags_n": 16, "stages": 4},
    )  # fmt: skip
    yield "padded tn", Gemm(67, 77, 71, _BF16, 2, True, False, "", _FULL), {}


def _convolutions() -> Cases:
    """Yield convolutions as products."""
    yield (
        "windows 3x3",
        Conv2dNhwc(2, 28, 28, 128, 64, Window((3, 3), (1, 1), (1, 1, 1, 1)), _F16, _FULL),
        {"frags_m": 2, "frags_n": 16, "stages": 4},
    )
    yield (
        "windows 3x5",
        Conv2dNhwc(3, 19, 17, 72, 24, Window((3, 5), (2, 1), (1, 2, 0, 1), (1, 2)), _BF16, _BIAS),
        {"warps_m": 8, "frags_n": 16, "chunk": 128},
    )
    yield (
        "windows 1x1", Conv2dNhwc(2, 13, 13, 264, 72, Window((1, 1), (1, 1), (0, 0, 0, 0)), _F16),
        {"frags_n": 24, "stages": 3},
    )  # fmt: skip


def boxes() -> Cases:
    """Yield products by TMA, in each form."""
    yield from _by_tma()
    yield from _by_tma_split()
    yield from _by_tma_in_clusters()
    yield from _by_tma_in_columns()
    yield from _by_tma_swapped()
    yield from in_order()
    yield (
        "TMA scores", Gemm(512, 512, 64, _F16, 96, False, True),
        {**_LARGE, "wgmma": Form(2, 1).knob, "frags_m": 2},
    )  # fmt: skip


def _by_tma() -> Cases:

    yield "TMA nn", Gemm(200, 136, 264, _F16), _ALONE
    yield "TMA nt", Gemm(200, 136, 264, _F16, 1, False, True), {**_ALONE, "frags_n": 16}
    yield "TMA tn", Gemm(200, 136, 267, _F16, 1, True), {**_ALONE, "frags_n": 24, "frags_m": 2}
    yield "TMA tt", Gemm(200, 136, 264, _BF16, 1, True, True), {**_ALONE, "warps_m": 8}
    yield (
        "TMA tt epilogue batch", Gemm(136, 264, 520, _BF16, 5, True, True, "b", _FULL),
        {**_ALONE, **_LARGE, "warps_m": 8},
    )  # fmt: skip
    yield "TMA tn batch", Gemm(136, 264, 77, _F16, 3, True, False, "a", _FULL), _ALONE
    yield "TMA even n", Gemm(65, 58, 72, _F16, 2, False, True, "b", _FULL), _ALONE
    yield (
        "TMA odd n", Gemm(131, 1001, 520, _F16, 1, False, True, "", _FULL),
        {**_ALONE, "frags_n": 24, "stages": 4},
    )  # fmt: skip
    yield "TMA chunk 128", Gemm(200, 136, 1016, _F16, 2), {**_ALONE, "chunk": 128, "frags_n": 16}
    yield "padded TMA", Gemm(65, 77, 71, _BF16, 1, False, False, "", _FULL), _ALONE


def _by_tma_split() -> Cases:
    """Yield products whose K is split over blocks."""
    yield (
        "TMA split 2",
        Gemm(200, 136, 1032, _F16, 1, False, True, "", _FULL),
        {**_ALONE, "split": 2},
    )
    yield (
        "TMA split 4 odd n", Gemm(200, 133, 1032, _F16, 2, True, True, "", _FULL),
        {**_ALONE, **_LARGE, "split": 4},
    )  # fmt: skip
    yield (
        "TMA split 8 multicast", Gemm(520, 520, 8136, _BF16, 1, True),
        {**_MULTICAST, **_LARGE, "split": 8, "warps_m": 8},
    )  # fmt: skip
    reduced = {"wgmma": Form(0, 1, cluster_reduce=1).knob, "split": 2, "stages": 4}
    yield "TMA cluster reduction nn", Gemm(200, 136, 1032, _F16), reduced
    yield (
        "TMA cluster reduction nt batch", Gemm(333, 520, 2056, _BF16, 3, False, True, "", _SIMPLE),
        {**reduced, "frags_n": 24, "warps_m": 8, "split": 4},
    )  # fmt: skip
    yield (
        "TMA cluster reduction tt odd n", Gemm(200, 331, 1032, _F16, 1, True, True, "", _SIMPLE),
        {**reduced, "frags_m": 2, "frags_n": 12},
    )  # fmt: skip
    yield (
        "TMA cluster reduction of eight", Gemm(520, 264, 8136, _F16, 1, False, True),
        {**reduced, "frags_n": 32, "warps_m": 8, "split": 8},
    )  # fmt: skip


def _by_tma_in_clusters() -> Cases:
    """Yield products of clusters, and of persistent kernels."""
    yield "TMA multicast nn", Gemm(1000, 1000, 520, _F16), {**_MULTICAST, **_LARGE}
    yield (
        "TMA multicast tt odd n", Gemm(328, 1003, 520, _BF16, 3, True, True, "", _FULL),
        {**_MULTICAST, "frags_n": 32, "stages": 3},
    )  # fmt: skip
    yield "TMA cooperative", Gemm(2000, 2000, 200, _F16), {"wgmma": Form(1, 1).knob, "band": 4}
    yield (
        "TMA ping-pong", Gemm(1000, 1000, 136, _BF16, 5, False, True, "b", _FULL),
        {**_LARGE, "wgmma": Form(2, 1).knob},
    )  # fmt: skip
    yield (
        "TMA cooperative multicast", Gemm(3000, 3000, 264, _F16),
        {"wgmma": Form(1, 2).knob, "warps_m": 8, "frags_n": 32, "stages": 4, "band": 8},
    )  # fmt: skip
    yield (
        "TMA ping-pong multicast", Gemm(3000, 3000, 264, _F16, 1, True, True, "", _FULL),
        {**_LARGE, "wgmma": Form(2, 2).knob, "frags_m": 2, "band": 8},
    )  # fmt: skip


def _by_tma_in_columns() -> Cases:
    """Yield products with tiles of unusual numbers of columns."""
    yield "TMA some columns", Gemm(200, 1000, 264, _F16), {**_ALONE, "frags_n": 12}
    yield (
        "TMA some columns nt epilogue", Gemm(333, 1000, 264, _F16, 2, False, True, "", _FULL),
        {**_ALONE, "frags_n": 13, "warps_m": 12, "stages": 3},
    )  # fmt: skip
    yield (
        "TMA bias first", Gemm(333, 1000, 264, _BF16, 1, False, True, "", _SIMPLE),
        {**_ALONE, "frags_n": 25, "warps_m": 8, "stages": 3},
    )  # fmt: skip
    yield (
        "TMA multicast, a block without rows", Gemm(640, 640, 520, _F16, 1, False, True),
        {**_MULTICAST, "warps_m": 8, "stages": 4},
    )  # fmt: skip


def _by_tma_swapped() -> Cases:
    """Yield products whose operands are swapped."""
    for schedule, cluster in ((0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)):
        change = {"wgmma": Form(schedule, cluster, 1).knob, "stages": 4, "band": 4}
        name = f"TMA swap AB, schedule {schedule}, cluster of {cluster}"
        yield f"{name} nn", Gemm(2500, 2504, 264, _F16), {**change, "frags_n": 18}
        yield (
            f"{name} tt", Gemm(2504, 2504, 136, _BF16, 3, True, True, "b", _SIMPLE),
            {**change, "frags_n": 16},
        )  # fmt: skip
    yield (
        "TMA swap AB nt odd n", Gemm(77, 1003, 264, _F16, 1, False, True, "", _SIMPLE),
        {"wgmma": Form(0, 1, 1).knob, "frags_n": 10},
    )  # fmt: skip
    yield (
        "TMA swap AB tn", Gemm(1000, 1000, 264, _F16, 2, True, False, "a"),
        {"wgmma": Form(0, 1, 1).knob, "frags_m": 2, "frags_n": 13, "stages": 4},
    )  # fmt: skip


def in_order() -> Cases:
    """Yield products whose warpgroups multiply the last K tiles one after another."""

    two = {"warps_m": 8, "stages": 4}
    for schedule, cluster, swapped in (
        (0, 1, 0),
        (0, 2, 0),
        (1, 1, 0),
        (1, 2, 0),
        (0, 1, 1),
        (1, 2, 1),
    ):
        change = {**two, "wgmma": Form(schedule, cluster, swapped).knob, "frags_n": 32, "band": 4}
        name = f"in order, schedule {schedule}, cluster of {cluster}, swapped {swapped}"
        yield f"{name} nn", Gemm(3000, 3000, 520, _F16), change
        yield f"{name} nt", Gemm(2504, 2504, 2056, _BF16, 1, False, True, "", _SIMPLE), change
    yield (
        "in order, three warpgroups", Gemm(3072, 3072, 520, _F16),
        {"wgmma": Form(1, 1).knob, "warps_m": 12, "frags_n": 24, "stages": 3},
    )  # fmt: skip
    alone = {**two, "wgmma": Form(0, 1).knob, "frags_n": 16}
    yield "in order, epilogue", Gemm(1000, 1000, 520, _F16, 2, False, True, "b", _FULL), alone
    yield "in order, odd columns", Gemm(1000, 1003, 520, _BF16, 1, False, True), alone
    yield "in order, split", Gemm(520, 520, 2056, _F16), {**alone, "split": 2, "stages": 3}


def attentions() -> Cases:
    """Yield attention, each with its choice of knobs."""

    cases = (
        ("64", Attention(2, 3, 3, 333, 517, 64), (4, 64, 2)),
        ("64, two blocks", Attention(2, 3, 3, 333, 517, 64), (4, 128, 3)),
        ("64 causal", Attention(2, 4, 2, 300, 300, 64, True, 0.2, "bfloat16"), (8, 128, 4)),
        ("64, three groups", Attention(2, 4, 1, 300, 700, 64, True), (12, 64, 3)),
        ("128", Attention(2, 3, 3, 333, 517, 128), (8, 64, 3)),
        ("128 causal", Attention(2, 3, 3, 517, 517, 128, True), (8, 128, 2)),
        ("128 bfloat16", Attention(1, 8, 2, 400, 777, 128, True, 0.0, "bfloat16"), (8, 128, 3)),
        ("128, three groups", Attention(2, 3, 3, 333, 257, 128), (12, 64, 2)),
        ("128, one group", Attention(2, 3, 3, 133, 257, 128), (4, 64, 2)),
        ("few keys", Attention(2, 3, 3, 300, 33, 64, True), (8, 64, 2)),
    )
    for name, shape, (warps, keys, stages) in cases:
        choice = {"warps": warps, "keys": keys, "stages": stages, "split": 1}
        yield f"attention {name}", shape, choice


def kernels() -> Iterator[tuple[str, Any, float]]:
    """Yield names, kernels and the largest error that is right, relative to the largest result."""

    for name, shape, change in (*products(), *boxes()):
        family = gemm_transposed if name.startswith("transposed") else gemm_half
        if name.startswith("padded"):
            family = gemm_padded.Padded(gemm_half)
        bound = BRAIN if shape.dtype == "bfloat16" else HALF
        yield name, family.kernel(shape, {**BASE, **change}), bound
    for name, shape, choice in attentions():
        bound = BRAIN if shape.dtype == "bfloat16" else HALF
        yield name, attention_wgmma.kernel(shape, choice), bound
