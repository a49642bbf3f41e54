"""Products of float32: which family of kernels runs a shape, and a configuration."""

import autotune.templates  # noqa: F401 - registers the tasks
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import (
    gemm_bf16x3,
    gemm_bf16x3_fused,
    gemm_cuda,
    gemm_float,
    gemm_small_k,
    matvec_across,
    matvec_cuda,
)
from autotune.templates.products.gemm_shape import Gemm

from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity

HOPPER = Target("cuda -arch=sm_90")
ENTRIES = {
    gemm_cuda: "gemm_nn", gemm_bf16x3: "gemm_bf16x3", gemm_small_k: "gemm_small_k",
    matvec_cuda: "matvec", gemm_bf16x3_fused: "gemm_bf16x3_fused",
}  # fmt: skip
# All five can run it.
SHAPE = Gemm(12, 2048, 60, transpose_b=True)


@pytest.mark.parametrize("family", ENTRIES, ids=ENTRIES.values())
def test_a_configuration_of_a_log_runs_by_the_family_that_it_was_tuned_for(family):
    choice = family.default_choice(SHAPE, HOPPER)
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    args = (SHAPE.m, SHAPE.n, SHAPE.k, "float32", 1, False, True)
    source = create("gemm.cuda", args, HOPPER).instantiate(ConfigEntity(0, None, entities))
    assert ENTRIES[family] in [one.entry for one in source.calls]
    assert source.text() == family.kernel(SHAPE, choice).text()


CHOSEN = {
    "some rows, narrow copies": (Gemm(9, 2838, 6498, transpose_b=True), gemm_bf16x3_fused),
    "large": (Gemm(1024, 1024, 1024), gemm_bf16x3),
    "small": (Gemm(128, 96, 64), gemm_cuda),
    "a batch of small ones": (Gemm(312, 59, 366, batch=48, transpose_b=True), gemm_bf16x3_fused),
    "a batch of tiny ones": (Gemm(299, 16, 144, batch=4, transpose_a=True), gemm_cuda),
    "long sums of few results": (Gemm(256, 256, 50000, transpose_a=True), gemm_bf16x3_fused),
    "few columns": (Gemm(5889, 52, 1697, transpose_b=True), gemm_bf16x3_fused),
    "few rows": (Gemm(4, 1001, 2048, transpose_b=True), matvec_cuda),
    "some rows, loads of a": (Gemm(12, 1001, 2048, transpose_b=True), gemm_bf16x3_fused),
    "some rows, large weights": (Gemm(12, 50257, 768, transpose_b=True), gemm_bf16x3_fused),
    "some rows, long sums": (Gemm(8, 4096, 11008, transpose_b=True), matvec_cuda),
    "some rows, few columns, long sums": (
        Gemm(12, 79, 9900, transpose_b=True), gemm_bf16x3_fused,
    ),
    "some rows, long sums, b far": (Gemm(8, 4096, 4096, transpose_b=True), matvec_cuda),
    "some rows, more columns": (Gemm(8, 23784, 2088, transpose_b=True), matvec_cuda),
    "five rows, large weights": (Gemm(5, 20000, 1024, transpose_b=True), matvec_cuda),
    "some rows, small weights": (Gemm(8, 1000, 512, transpose_b=True), matvec_cuda),
    "some rows, pairs of floats": (Gemm(7, 13019, 3598, transpose_b=True), matvec_cuda),
    "few rows, an odd sum": (Gemm(2, 6366, 11617, transpose_b=True), matvec_cuda),
    "few rows, b as [k, n]": (Gemm(4, 8996, 824), matvec_across),
    "few rows, b as [k, n], beyond the cache": (Gemm(4, 3956, 4548), matvec_across),
    "sixteen rows, b as [k, n]": (Gemm(16, 4096, 4096), gemm_cuda),
    "one row, b as [k, n]": (Gemm(1, 6042, 2003), matvec_across),
    "one row of few terms, b as [k, n]": (Gemm(1, 600, 600), matvec_across),
    "some rows, b as [k, n]": (Gemm(17, 4970, 3493), gemm_bf16x3_fused),
    "short sums, unaligned rows of results": (
        Gemm(1720, 2006, 52, transpose_b=True), gemm_bf16x3_fused,
    ),
    "short sums": (Gemm(2048, 2048, 32), gemm_small_k),
    "short sums, a stored as [k, m]": (Gemm(4096, 4096, 40, transpose_a=True), gemm_small_k),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOSEN)
def test_untuned_a_product_runs_by_the_family_that_was_fastest(name):
    shape, family = CHOSEN[name]
    assert gemm_float.family_of(shape, HOPPER, ()) is family


def test_what_follows_a_product_has_no_say_in_its_family():
    shape = Gemm(512, 512, 512, epilogue=Epilogue(bias=True, activation="relu"))
    assert gemm_float.family_of(shape, HOPPER, ()) is gemm_bf16x3


def test_rows_of_results_that_begin_anywhere_are_written_with_swapped_operands():
    choice = gemm_bf16x3_fused.default_choice(Gemm(1720, 2006, 52, transpose_b=True), HOPPER)
    assert choice["swapped"]


@pytest.mark.parametrize("sizes", [(4, 8996, 824), (1, 15092, 1213)])
def test_few_rows_load_operands_of_a_step_ahead_untuned(sizes):
    choice = gemm_cuda.default_choice(Gemm(*sizes), HOPPER)
    assert gemm_cuda.GemmTiling(Gemm(*sizes), choice).ahead


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
def test_targets_without_wgmma_multiply_by_fmaf(arch):
    target = Target(f"cuda -arch={arch}")
    assert gemm_float.family_of(Gemm(1024, 1024, 1024), target, ()) is gemm_cuda
    few = Gemm(12, 4096, 4096, transpose_b=True)
    assert gemm_float.family_of(few, target, ()) is matvec_cuda
