"""Products by mma.sync: how the reduction is divided among the blocks of a split."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_mma
from autotune.templates.products.gemm_shape import Gemm

from autotune.emulator import run_emulated
from autotune.target import Target
from tests.templates.emulated import arrays_of

CHOICE = {
    "warps_m": 1, "warps_n": 1, "frags_m": 1, "frags_n": 2, "chunk": 16, "stages": 2, "band": 1,
}  # fmt: skip
LENGTHS = (8, 64, 72, 1000, 1016, 1048, 4096)


@pytest.mark.parametrize(("k", "split"), [*itertools.product(LENGTHS, (1, 2, 4, 8, 16))])
def test_the_ranges_of_a_split_cover_the_reduction_and_begin_at_aligned_addresses(k, split):
    tiling = gemm_mma.MmaTiling(Gemm(64, 64, k, "float16"), {**CHOICE, "split": split})
    # Copies of 16 bytes take 8 elements, and begin where a multiple of 8 does.
    assert tiling.per_split % 8 == 0
    assert tiling.per_split * split >= k
    assert tiling.per_split - 8 < k / split


@pytest.mark.parametrize(("k", "split"), [*itertools.product((1000, 1016), (2, 4, 8, 16))])
def test_a_kernel_is_told_of_the_aligned_range_and_copies_no_more_than_it(k, split):
    kernel = gemm_mma.kernel(Gemm(64, 64, k, "float16"), {**CHOICE, "split": split})
    defines = {name.lower(): value for name, value in kernel.defines.items()}
    per_split = defines["k_per_split"]
    assert per_split % 8 == 0
    # Words are of two 16-bit elements.
    assert defines["a_words"] > 1
    assert per_split % (2 * defines["a_words"]) == 0


@pytest.mark.parametrize(
    "shape",
    [Gemm(225, 42, 398, "tf32"), Gemm(450, 27, 525, "tf32"), Gemm(81, 44, 1026, "float16")],
    ids=str,
)
def test_several_warps_share_copies_of_words_where_nothing_was_tuned(shape):
    choice = gemm_mma.default_choice(shape, Target("cuda -arch=sm_90"))
    assert gemm_mma.MmaTiling(shape, choice).threads >= 128


def test_no_warp_alone_gathers_long_sums_and_few_blocks_gather_short_ones_untuned():
    target = Target("cuda -arch=sm_90")
    long = Conv2dNhwc(1, 18, 18, 24, 144, Window((7, 1), (1, 1), (3, 0, 3, 0)), "tf32")
    choice = gemm_mma.default_choice(long, target)
    assert gemm_mma.MmaTiling(long, choice).threads > 32
    assert choice["split"] > 1
    short = Conv2dNhwc(8, 136, 136, 16, 4, Window((3, 1), (1, 1), (1, 0, 1, 0)), "float16")
    choice = gemm_mma.default_choice(short, target)
    assert gemm_mma.MmaTiling(short, choice).tile_m >= 256


# Extents reach into tiles of 32 x 64; four fragments of a warp's are side by side.
FOUR_BESIDE = CHOICE | {"warps_n": 2, "frags_m": 2, "frags_n": 4, "split": 1}
FINISHED = {
    "alone, batched": (Gemm(33, 104, 16, "float16", 2), {}),
    "bfloat16, turned": (Gemm(34, 104, 16, "bfloat16", transpose_a=True), {}),
    "gelu of a residual": (
        Gemm(
            37, 72, 24, "float16", transpose_b=True, epilogue=Epilogue(True, True, False, "gelu")
        ),
        {},
    ),
    "silu": (Gemm(33, 72, 16, "float16", epilogue=Epilogue(True, False, True, "silu")), {}),
    "tanh": (Gemm(20, 40, 16, "float16", epilogue=Epilogue(True, False, False, "gelu_tanh")), {}),
    "split": (Gemm(20, 40, 128, "float16", epilogue=Epilogue(activation="gelu")), {"split": 2}),
    "rows that 8 does not divide": (
        Gemm(20, 42, 16, "float16", epilogue=Epilogue(activation="relu")),
        {},
    ),
}


@pytest.mark.many_cases
@pytest.mark.parametrize(("shape", "other"), FINISHED.values(), ids=FINISHED)
def test_results_of_16_bit_floats_are_right_up_to_the_edges_however_they_are_written(shape, other):
    source = gemm_mma.kernel(shape, FOUR_BESIDE | other)
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    *given, out = (np.asarray(each, np.float64) for each in arrays)
    assert np.allclose(out, source.reference(*given), rtol=1e-2, atol=1e-2)


# Rows that are no whole sectors of 32 bytes, of floats, and odd ones of 16-bit floats.
REST = Epilogue(True, True, True, "silu")
IN_STRIPS = {
    "tf32": (Gemm(37, 45, 24, "tf32", 2, epilogue=REST), None, {"frags_m": 2}),
    "tf32, two fragments": (Gemm(512, 36, 16, "tf32"), None, {"frags_n": 2}),
    "windows in groups": (
        Conv2dNhwc(1, 6, 7, 33, 9, Window((3, 2)), "tf32", REST, 3), None, {"frags_n": 2},
    ),
    "tf32, split": (Gemm(20, 41, 128, "tf32", epilogue=REST), None, {"split": 2}),
    "16 bits, split": (Gemm(410, 42, 128, "bfloat16", epilogue=REST), None, {"split": 2}),
    "16 bits on copies": (
        Gemm(37, 46, 24, "float16", epilogue=REST), Gemm(37, 45, 24, "float16", epilogue=REST),
        {"frags_m": 2},
    ),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", IN_STRIPS)
def test_rows_that_are_no_whole_sectors_are_written_in_strips(name):
    shape, asked, other = IN_STRIPS[name]
    source = gemm_mma.kernel(shape, FOUR_BESIDE | other, asked)
    assert source.defines["STRIPS"] == 1
    arrays = arrays_of(source)
    if asked is not None:  # as the kernel that copies would have padded it
        kernel = source.kernel("cuda")
        padded = np.pad(arrays[1], ((0, 0), (0, 1)))
        args = [replace(a, shape=padded.shape) if a.name == "b" else a for a in kernel.args]
        kernel = replace(kernel, args=tuple(args))
        run_emulated(kernel, [arrays[0], padded, *arrays[2:]], orders=(0,))
    else:
        run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    *given, out = (np.asarray(each, np.float64) for each in arrays)
    assert np.allclose(out, source.reference(*given), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(512, 48, 32, "tf32"),
        Gemm(6, 28, 48, "tf32"),
        Gemm(64, 46, 32, "float16"),
        Gemm(64, 44, 32, "int8"),
    ],
)
def test_other_rows_are_written_from_registers(shape):
    assert gemm_mma.kernel(shape, FOUR_BESIDE).defines["STRIPS"] == 0


ACROSS = {
    "both across, an odd k": Gemm(36, 44, 33, "int8", transpose_a=True),
    "both across, batched": Gemm(36, 44, 40, "int8", 2, transpose_a=True),
    "b across, shared": Gemm(20, 72, 36, "int8", 2, shared="b"),
    "a across": Gemm(68, 13, 68, "int8", transpose_a=True, transpose_b=True),
    "both across, an odd k, batched": Gemm(64, 64, 129, "int8", 2, transpose_a=True, shared="a"),
    "whole tiles": Gemm(64, 64, 64, "int8", transpose_a=True),
    "few rows": Gemm(3, 8, 4, "int8"),
    "one place along K": Gemm(4, 4, 1, "int8", transpose_a=True),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("extra", [{}, {"warps_n": 2, "frags_m": 2, "frags_n": 4, "stages": 3}])
@pytest.mark.parametrize("name", ACROSS)
def test_integers_stored_across_the_sum_are_exact_in_the_emulator(name, extra):
    source = gemm_mma.kernel(ACROSS[name], {**CHOICE, "split": 1, **extra})
    *given, out = arrays_of(source)
    rng = np.random.default_rng(0)
    arrays = [*(rng.integers(-128, 128, x.shape).astype(np.int8) for x in given), out]
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    np.testing.assert_array_equal(arrays[-1], source.reference(*arrays[:2]))
