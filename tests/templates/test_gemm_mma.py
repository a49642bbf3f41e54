"""Products by mma.sync: how the reduction is divided among the blocks of a split."""

import itertools

import pytest
from autotune.templates.products import gemm_mma
from autotune.templates.products.gemm_shape import Gemm

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
