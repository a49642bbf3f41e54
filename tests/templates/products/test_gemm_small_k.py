"""Products of floats with short sums: operands, edges, what follows, choices."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_small_k
from autotune.templates.products.gemm_shape import Gemm

from autotune.emulator import run_emulated
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
REST = Epilogue(bias=True, residual=True, activation="relu")
# Extents reach into tiles; a sum of 13 begins anywhere in memory.
PRODUCTS = {
    "[n, k]": (Gemm(37, 70, 13, transpose_b=True, epilogue=REST), 2, 8),
    "[k, n]": (Gemm(21, 300, 27), 4, 16),
    "odd columns": (Gemm(6, 33, 5, transpose_b=True), 1, 4),
    "whole tiles": (Gemm(64, 256, 16, transpose_b=True, epilogue=REST), 4, 32),
    "a sum of one": (Gemm(9, 130, 1), 2, 4),
    "columns apart": (Gemm(13, 333, 24, epilogue=REST), 4, 8),
    "three columns": (Gemm(13, 332, 24, transpose_b=True), 3, 8),
    "[n, k] apart": (Gemm(10, 263, 12, transpose_b=True), 2, 8),
    "[k, m]": (Gemm(21, 130, 7, transpose_a=True, epilogue=REST), 2, 8),
    "[k, m] by vectors": (Gemm(44, 68, 6, transpose_a=True, transpose_b=True), 4, 16),
    "a batch": (Gemm(10, 67, 9, batch=3, epilogue=REST), 1, 8),
    "a batch, [n, k]": (Gemm(5, 66, 7, batch=3, transpose_b=True, shared="a"), 2, 4),
    "a batch, [k, m]": (Gemm(7, 70, 20, batch=2, transpose_a=True, shared="b"), 1, 4),
    "a batch, [n, k], [k, m]": (
        Gemm(12, 260, 33, batch=2, transpose_a=True, transpose_b=True, epilogue=REST),
        4,
        8,
    ),
    "float16, odd rows": (Gemm(21, 123, 7, "float16", epilogue=REST), 2, 8),
    "bfloat16, by vectors": (Gemm(10, 260, 25, "bfloat16", epilogue=REST), 4, 8),
    "float16, [n, k], [k, m]": (
        Gemm(12, 70, 33, "float16", 2, transpose_a=True, transpose_b=True, epilogue=REST),
        2,
        4,
    ),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", PRODUCTS)
def test_short_sums_match_their_reference_in_the_emulator(name):
    shape, cols, tile_m = PRODUCTS[name]
    source = gemm_small_k.kernel(shape, {"threads": 64, "cols": cols, "tile_m": tile_m})
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0, 7))
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    rough = 1e-5 if shape.dtype == "float32" else 1e-2
    np.testing.assert_allclose(arrays[-1].astype(np.float64), wanted, rtol=rough, atol=rough)


@pytest.mark.parametrize(
    "shape",
    [Gemm(2048, 512, 13, transpose_b=True), Gemm(2049, 2048, 33), Gemm(700, 900, 24, batch=9)],
    ids=str,
)
def test_every_choice_of_short_sums_can_be_launched(shape):
    args = (shape.m, shape.n, shape.k, "float32", shape.batch, False, shape.transpose_b)
    task = create("gemm.cuda", args, HOPPER)
    space = task.config_space
    for place in space.sample(100, np.random.default_rng(0)):
        kernel = task.instantiate(space.get(place)).kernel("cuda")
        assert kernel.name == "gemm_small_k"
        assert launch_violation(kernel, HOPPER.limits) is None


def test_sums_of_more_than_fill_a_threads_registers_are_refused():
    assert gemm_small_k.refusal(Gemm(2048, 2048, 96)) is None
    assert "sums of more than 96" in gemm_small_k.refusal(Gemm(2048, 2048, 97))
    assert "float32" in gemm_small_k.refusal(Gemm(2048, 512, 16, "tf32"))


@pytest.mark.parametrize(
    ("args", "entries"),
    [
        ((13280, 123, 7, "float16"), ["gemm_small_k"]),
        ((58705, 28, 7, "bfloat16"), ["gemm_small_k"]),  # rows of a are odd
        ((5502, 629, 32, "float16"), ["pad", "gemm_tma"]),
        ((8453, 808, 10, "float16"), ["gemm_mma"]),  # rows of even numbers need no copies
        ((78408, 24, 40, "float16"), ["gemm_mma"]),
    ],
    ids=str,
)
def test_short_sums_of_16_bit_floats_run_by_the_fastest_family(args, entries):
    task = create("gemm.cuda", args, HOPPER)
    assert [one.entry for one in task.instantiate(task.default()).calls] == entries


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize(
    ("shape", "cols"),
    [
        (Gemm(4096, 2047, 48), 4), (Gemm(4096, 4096, 64), 3),
        (Gemm(653, 729, 80, transpose_a=True, transpose_b=True), 2),
        (Gemm(4096, 4096, 48, transpose_a=True), 4),
    ],
    ids=str,
)  # fmt: skip
def test_columns_of_b_stay_in_registers(shape, cols, tmp_path):
    choice = {"threads": 128, "cols": cols, "tile_m": 64}
    kernel = gemm_small_k.kernel(shape, choice).kernel("cuda")
    assert not any(spilled(kernel, tmp_path))


def test_few_rows_of_many_pairs_are_one_tile_each_untuned():
    # Tiles of four rows, which load the columns again, took an H100 7.9 us instead of 4.3.
    shape = Gemm(10, 88, 61, "float32", 220)
    assert gemm_small_k.default_choice(shape, HOPPER)["tile_m"] >= shape.m
