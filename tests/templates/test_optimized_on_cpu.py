"""Each way of the templates for a CPU, compiled as users have it.

Only then are loops reordered, unrolled and in vectors as they will be; most other cases are
compiled with `on_cpu.LEVEL`.
"""

import pytest
from autotune.templates.attention import attention_cpu
from autotune.templates.attention.attention_cpu import FloatAttention
from autotune.templates.convolutions import conv2d_cpu, window_cpu
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.convolutions.window_shape import Depthwise, Pool, Window
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_batched_cpu, gemm_cpu, gemm_packed_cpu
from autotune.templates.products.gemm_packed_cpu import PackedGemm
from autotune.templates.products.gemm_shape import Gemm

from tests.templates import on_cpu

LANES = [4, 8, 16]
TILE = {"rows": 3, "vectors": 2, "block_m": 32}
# Panels, which have a tail of their own or read images in place; lines, which are copied or
# streamed; and filters in vectors, which copy lines or read them in place.
PIXELS = {
    "panels": {"panels": 2, "tail": 0, "lines": 0, "across": 0, "in_place": 0},
    "tail": {"panels": 1, "tail": 1, "lines": 0, "across": 0, "in_place": 0},
    "panels-in-place": {"panels": 2, "tail": 0, "lines": 0, "across": 0, "in_place": 1},
    "streamed": {"panels": 1, "tail": 0, "lines": 2, "across": 0, "in_place": 2},
}
TAPS = {
    "panels": PIXELS["panels"],
    "lines": {"panels": 1, "tail": 0, "lines": 3, "across": 0, "in_place": 0},
    "filters": {"panels": 1, "tail": 0, "lines": 2, "across": 1, "in_place": 0},
    "filters-in-place": {"panels": 1, "tail": 0, "lines": 2, "across": 1, "in_place": 1},
}
ATTENTION = [
    {"rows": 3, "vectors": 4, "lanes": 16, "key_block": 64},
    {"rows": 5, "vectors": 2, "lanes": 8, "key_block": 32},
    {"rows": 14, "vectors": 1, "lanes": 4, "key_block": 256},
]
WINDOW = Window((3, 3), (2, 2), (1, 1, 1, 1))
HARD_SWISH, MISH = "a * min(max(a + 3, 0), 6) / 6", "a * tanh(log(1 + exp(a)))"
WINDOWS = {
    "depthwise": Depthwise(2, 17, 19, 3, WINDOW, epilogue=Epilogue(True, activation=MISH)),
    "max": Pool(2, 13, 12, 3, WINDOW, "NCHW", "max"),
    "avg": Pool(2, 13, 12, 3, WINDOW, "NCHW", "avg"),
}


def run(shape, family, choice, target="llvm"):
    on_cpu.run_over_nan(shape, family, choice, target, optimized=True)


@pytest.mark.parametrize("optimized", [False, True])
def test_kernels_are_as_users_have_them_only_where_that_is_asked_for(optimized, monkeypatch):
    built = []
    build = on_cpu.build
    monkeypatch.setattr(on_cpu, "build", lambda k, name: built.append(k) or build(k, name=name))
    shape, choice = Gemm(3, 40, 5), TILE | {"lanes": 4, "panels": 1, "depth": 8, "pack": 0}
    choice["split_k"] = 1
    on_cpu.run_over_nan(shape, gemm_cpu, choice, optimized=optimized)
    assert [k.flags for k in built] == [() if optimized else (on_cpu.LEVEL,)]


@pytest.mark.many_cases
@pytest.mark.parametrize("pack", range(7))
def test_optimized_products_give_the_right_sums(pack):
    choice = TILE | {"lanes": LANES[pack % 3], "panels": 2, "depth": 16, "pack": pack}
    run(Gemm(37, 70, 50), gemm_cpu, choice | {"split_k": 1 + pack % 2})


@pytest.mark.parametrize("by_panels", [0, 1])
def test_optimized_products_with_packed_weights_give_the_right_sums(by_panels):
    shape = PackedGemm(40, 100, 130, epilogue=Epilogue(True, True, False, "relu"), columns=8)
    block = {"block_m": 16, "panels": 2, "depth": 64, "by_panels": by_panels}
    run(shape, gemm_packed_cpu, {"rows": 5, "vectors": 2, **block})


@pytest.mark.parametrize("lanes", LANES)
def test_optimized_products_of_batches_give_the_right_sums(lanes):
    shape = Gemm(13, 64, 33, "float32", 2, lanes > 4, lanes < 16, "b")
    run(shape, gemm_batched_cpu, {**TILE, "block_m": 16, "lanes": lanes, "depth": 64})


@pytest.mark.parametrize("way", PIXELS)
def test_optimized_convolutions_of_every_second_pixel_give_the_right_sums(way):
    choice = {**TILE, "lanes": LANES[[*PIXELS].index(way) % 3], "channels": 4, **PIXELS[way]}
    shape = Conv2d(2, 9, 41, 21, 13, 1, 1, (2, 2), (0, 0), True, True, True, True)
    run(shape, conv2d_cpu, choice)


def test_optimized_convolutions_read_every_second_pixel_in_place_by_shorter_vectors_too():
    shape = Conv2d(2, 9, 41, 11, 13, 1, 1, (2, 2), (0, 0), True, True, True, True)
    choice = {**TILE, "lanes": 8, "channels": 4, **PIXELS["panels-in-place"]}
    run(shape, conv2d_cpu, choice, "llvm -mcpu=x86-64-v3")


@pytest.mark.parametrize("way", ["tail", "streamed"])
def test_optimized_convolutions_of_pixels_apply_a_function(way):
    shape = Conv2d(2, 7, 21, 9, 6, 1, 1, (2, 2), (0, 0), True, False, activation=HARD_SWISH)
    run(shape, conv2d_cpu, {**TILE, "lanes": 8, "channels": 4, **PIXELS[way]})


@pytest.mark.parametrize("way", ["lines", "filters"])
def test_optimized_convolutions_of_several_taps_apply_a_function(way):
    shape = Conv2d(2, 7, 11, 9, 6, 3, 3, (1, 1), (1, 1), True, False, activation=HARD_SWISH)
    run(shape, conv2d_cpu, {**TILE, "lanes": 8, "channels": 4, **TAPS[way]})


@pytest.mark.many_cases
@pytest.mark.parametrize("way", TAPS)
def test_optimized_convolutions_of_several_taps_give_the_right_sums(way):
    """With padding, and but for those in place with groups and distances too."""
    choice = {**TILE, "lanes": LANES[([*TAPS].index(way) + 1) % 3], "channels": 4, **TAPS[way]}
    follows = (True, True, True, True)
    run(Conv2d(2, 9, 30, 21, 5, 3, 3, (1, 1), (1, 1), *follows), conv2d_cpu, choice)
    if way != "filters-in-place":
        spread = Conv2d(2, 12, 10, 14, 10, 3, 3, (2, 2), (2, 2), *follows, (2, 2), 2)
        run(spread, conv2d_cpu, choice)


@pytest.mark.many_cases
@pytest.mark.parametrize("copied", [0, 1])
@pytest.mark.parametrize("window", WINDOWS)
def test_optimized_windows_match_their_reference(window, copied):
    run(WINDOWS[window], window_cpu, {"lanes": 8, "lines": 3, "copied": copied})


@pytest.mark.parametrize("tile", range(len(ATTENTION)))
def test_optimized_attention_gives_the_right_sums(tile):
    bias = (2, 4, 37) if tile else ()
    shape = FloatAttention(2, 4, 2, 37, 70, 24, tile < 2, 0.3, layout="BSHD", bias=bias)
    run(shape, attention_cpu, ATTENTION[tile])
