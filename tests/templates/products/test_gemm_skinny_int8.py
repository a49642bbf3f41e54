"""Products of few rows of 8-bit integers: operands, ranges of the sum, choices."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.products import gemm_int8, gemm_skinny_int8
from autotune.templates.products.gemm_shape import Gemm

from autotune.emulator import run_emulated
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90a")
# Columns a lane, strips, ranges, steps ahead; extents reach into strips of 8 times the columns of
# a lane, and into steps of 64.
PRODUCTS = {
    "one row, [k, n]": (Gemm(1, 72, 80, "int8"), 8, 1, 1, 1),
    "[k, n]": (Gemm(20, 136, 208, "int8"), 8, 2, 2, 2),
    "[k, n], four columns a lane": (Gemm(9, 68, 144, "int8"), 4, 2, 1, 3),
    "more rows than two fragments": (Gemm(37, 136, 144, "int8"), 8, 1, 2, 1),
    "[n, k]": (Gemm(20, 136, 208, "int8", transpose_b=True), 8, 2, 2, 2),
    "an odd number of columns, [n, k]": (Gemm(5, 71, 80, "int8", transpose_b=True), 4, 1, 1, 1),
    "an odd number of steps": (Gemm(16, 64, 640, "int8"), 8, 1, 4, 1),
    "ranges without a step": (Gemm(16, 64, 320, "int8", transpose_b=True), 8, 1, 4, 1),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_few_rows_are_exact_in_the_emulator(name):
    shape, vec, strips, ranges, ahead = PRODUCTS[name]
    choice = {"vec": vec, "strips": strips, "ranges": ranges, "split": 1, "ahead": ahead}
    source = gemm_skinny_int8.kernel(shape, choice)
    *given, out = arrays_of(source)
    rng = np.random.default_rng(0)
    arrays = [*(rng.integers(-128, 128, x.shape).astype(np.int8) for x in given), out]
    run_emulated(source.kernel("cuda"), arrays, orders=(0, 7))
    np.testing.assert_array_equal(arrays[-1], source.reference(*arrays[:2]))


def task_of(shape):
    args = (shape.m, shape.n, shape.k, "int8", shape.batch, shape.transpose_a, shape.transpose_b)
    return create("gemm.cuda", args, HOPPER)


@pytest.mark.parametrize("turned", [False, True], ids=["[k, n]", "[n, k]"])
def test_every_choice_of_few_rows_can_be_launched(turned):
    task = task_of(Gemm(32, 4096, 4096, "int8", transpose_b=turned))
    space = task.config_space
    every = [space.get(i) for i in space.sample(100, np.random.default_rng(0))]
    for config in every:
        kernel = task.instantiate(config).kernel("cuda")
        assert kernel.name == "gemm_skinny_int8"
        assert launch_violation(kernel, HOPPER.limits) is None


OTHERS = {
    "many rows": Gemm(128, 4096, 4096, "int8"),
    "both with rows that vectors cannot read": Gemm(16, 4096, 4097, "int8", transpose_a=True),
    "rows of b that vectors cannot read": Gemm(16, 4098, 4096, "int8"),
    "a large b that would be copied": Gemm(8, 7840, 18616, "int8", transpose_b=True),
    "rows of a that vectors cannot read": Gemm(16, 4096, 4104, "int8"),
    "a batch": Gemm(16, 4096, 4096, "int8", 2),
}


@pytest.mark.parametrize("shape", OTHERS.values(), ids=OTHERS)
def test_what_cannot_be_streamed_is_multiplied_otherwise(shape):
    assert "warps_m" in task_of(shape).config_space.space_map


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(4, 680, 5896, "int8", transpose_b=True),
        Gemm(16, 4096, 4096, "int8", transpose_a=True),
        Gemm(16, 4096, 4096, "int8", transpose_a=True, transpose_b=True),
    ],
    ids=["rows-that-vectors-cannot-read", "left-across", "both-transposed"],
)
def test_few_rows_are_streamed_by_copies_of_what_vectors_cannot_read(shape):
    task = task_of(shape)
    source = task.instantiate(task.default())
    assert [one.entry for one in source.calls] == ["along_k", "gemm_skinny_int8"]
    copied = {one.name for one in source.workspace}
    padded = shape.k % 16 > 0
    assert copied == ({"a_along_k", "b_along_k"} if padded else {"a_along_k"})


@pytest.mark.parametrize(
    "shape",
    [
        Gemm(5, 71, 72, "int8", transpose_b=True),
        Gemm(5, 71, 85, "int8", transpose_b=True),
        Gemm(5, 72, 80, "int8", transpose_a=True),
        Gemm(6, 71, 80, "int8", transpose_a=True, transpose_b=True),
    ],
    ids=["even", "odd", "left-across", "both-transposed"],
)
def test_products_of_aligned_copies_are_exact_in_the_emulator(shape):
    choice = {"vec": 4, "strips": 1, "ranges": 2, "split": 1, "ahead": 1}
    source = gemm_int8.AlongK(gemm_skinny_int8).kernel(shape, choice)
    *given, out = arrays_of(source)
    rng = np.random.default_rng(0)
    arrays = [*(rng.integers(-128, 128, x.shape).astype(np.int8) for x in given), out]
    run_emulated(source.kernel("cuda"), arrays, orders=(0, 7))
    np.testing.assert_array_equal(arrays[-1], source.reference(*arrays[:2]))


def test_products_that_were_tuned_before_few_rows_were_streamed_run_as_they_did():
    shape = Gemm(32, 4096, 4096, "int8")
    assert gemm_skinny_int8.suits(shape)
    assert not gemm_skinny_int8.suits(shape, {"wgmma": 2, "warps_m": 4})


@pytest.mark.parametrize("turned", [False, True], ids=["[k, n]", "[n, k]"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 4096, 4096), (32, 4096, 11008), (20, 768, 3072)])
def test_the_untuned_choice_of_few_rows_can_run(m, n, k, turned):
    shape = Gemm(m, n, k, "int8", transpose_b=turned)
    choice = gemm_skinny_int8.default_choice(shape, HOPPER)
    assert gemm_skinny_int8.violation(shape, choice, HOPPER) is None
    # Without clusters, blocks have whole sums.
    older = Target("cuda -arch=sm_80")
    assert gemm_skinny_int8.default_choice(shape, older)["split"] == 1


@pytest.mark.parametrize("sizes", [(95, 1424, 80), (256, 160, 464), (528, 336, 160)], ids=str)
def test_more_rows_of_short_sums_need_no_copies_either(sizes):
    task = task_of(Gemm(*sizes, "int8"))
    assert [one.entry for one in task.instantiate(task.default()).calls] == ["gemm_skinny_int8"]


@pytest.mark.parametrize("sizes", [(676, 3208, 336), (48, 32, 87216)], ids=str)
def test_many_products_and_long_sums_of_few_columns_are_multiplied_on_copies(sizes):
    task = task_of(Gemm(*sizes, "int8"))
    entries = [one.entry for one in task.instantiate(task.default()).calls]
    assert entries[:2] == ["along_k", "gemm_tma"]
