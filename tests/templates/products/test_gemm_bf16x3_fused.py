"""Products of float32 that are split in the kernel that multiplies: right, and what is offered."""

import time
from dataclasses import replace
from itertools import product

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_bf16x3_fused
from autotune.templates.products.gemm_shape import Gemm

from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.pace import is_within
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu", alpha=0.5)
CHOICE = {
    "groups": 1, "tile_n": 24, "stages": 2, "ahead": 1, "split": 1, "swapped": 0,
}  # fmt: skip
# Shapes with edges everywhere, and how their choices differ from that above.
PRODUCTS = {
    "nn": (Gemm(70, 66, 70), {}),
    "nn-odd": (Gemm(67, 33, 71), {"tile_n": 40, "ahead": 2, "stages": 3}),
    "nt-aligned": (Gemm(65, 128, 68, transpose_b=True, epilogue=REST), {"tile_n": 128}),
    "nt-split": (Gemm(70, 50, 264, transpose_b=True), {"tile_n": 56, "split": 3, "stages": 3}),
    "tn-split-rest": (
        Gemm(66, 140, 131, "float32", 2, True, False, "b", REST),
        {"tile_n": 72, "split": 2, "ahead": 2},
    ),
    "tn-swapped": (
        Gemm(66, 141, 130, "float32", 2, True, False, "b"),
        {"tile_n": 48, "split": 2, "ahead": 3, "swapped": 1},
    ),
    "tt-swapped-rest": (
        Gemm(131, 77, 97, "float32", 2, True, True, "a", REST),
        {"groups": 2, "tile_n": 40, "swapped": 1, "ahead": 2},
    ),
    "one": (Gemm(1, 1, 40), {"tile_n": 8}),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("strange", [False, True], ids=["exact", "flagged"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_right_also_where_floats_have_no_pieces(name, strange, tmp_path):
    shape, change = PRODUCTS[name]
    source = gemm_bf16x3_fused.kernel(shape, {**CHOICE, **change})
    arrays = arrays_of(source)
    if strange:
        arrays[0].flat[5], arrays[1].flat[7], arrays[1].flat[-1] = np.inf, 1e-42, np.nan
    checked = name == "nn-odd" and not strange
    got, wanted = in_the_emulator(source, tmp_path, arrays, checked)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["nn-odd", "nt-split", "tn-swapped"])
def test_as_tf32_floats_have_two_pieces_which_keep_16_bits(name, tmp_path):
    shape, change = PRODUCTS[name]
    source = gemm_bf16x3_fused.kernel(replace(shape, dtype="tf32"), {**CHOICE, **change})
    arrays = arrays_of(source)
    got, _ = in_the_emulator(source, tmp_path, arrays)
    exact, sizes = (
        shape.reference()(*(each(x.astype(np.float64)) for x in arrays[:-1]))
        for each in (np.positive, np.abs)
    )
    assert (np.abs(got - exact) / sizes).max() < 2**-16


@pytest.mark.parametrize("name", ["nn-odd", "tt-swapped-rest"])
def test_as_tf32_infinities_and_nans_are_where_float32_has_them(name, tmp_path):
    shape, change = PRODUCTS[name]
    source = gemm_bf16x3_fused.kernel(replace(shape, dtype="tf32"), {**CHOICE, **change})
    arrays = arrays_of(source)
    arrays[0].flat[5], arrays[1].flat[7], arrays[1].flat[-1] = np.inf, 1e-42, np.nan
    got, _ = in_the_emulator(source, tmp_path, arrays)
    with np.errstate(invalid="ignore"):
        exact = shape.reference()(*(x.astype(np.float64) for x in arrays[:-1]))
    np.testing.assert_allclose(got, exact, rtol=1e-3, atol=1e-3)


def as_tf32(folder, fill):
    """Return a product of odd rows by two pieces, what is exact, and the sums of magnitudes."""
    shape = Gemm(67, 33, 71, "tf32")
    source = gemm_bf16x3_fused.kernel(shape, {**CHOICE, "tile_n": 40})
    rng = np.random.default_rng(3)
    arrays = arrays_of(source)
    for array in arrays[:-1]:
        array[...] = fill(rng, array.shape)
    got, exact = in_the_emulator(source, folder, arrays)
    return got, exact, np.abs(arrays[0].astype(float)) @ np.abs(arrays[1].astype(float))


def test_as_tf32_integers_up_to_256_are_multiplied_exactly(tmp_path):
    got, exact, _ = as_tf32(tmp_path, lambda rng, size: rng.integers(-256, 257, size))
    np.testing.assert_array_equal(got, exact)


@pytest.mark.many_cases
@pytest.mark.parametrize("most", [2**11, 2**24, 2**56, 2**60])
def test_as_tf32_integers_of_more_bits_are_off_by_what_two_pieces_leave_out(most, tmp_path):
    got, exact, sizes = as_tf32(tmp_path, lambda rng, n: rng.integers(most // 2, most, n))
    error = (np.abs(got - exact) / sizes).max()
    assert error < 2**-16


SHAPES = [
    Gemm(256, 256, 50000, transpose_a=True),
    Gemm(5889, 52, 1697, transpose_b=True),
    Gemm(312, 59, 366, batch=48, transpose_b=True, epilogue=REST),
    Gemm(4096, 4096, 4096),
    Gemm(1, 8, 64),
]


def valid(shape):
    """Return all choices that can run."""
    options = gemm_bf16x3_fused.candidates(shape)
    every = (dict(zip(options, each, strict=True)) for each in product(*options.values()))
    return [c for c in every if gemm_bf16x3_fused.violation(shape, c, HOPPER) is None]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_has_choices_that_fit_a_block_and_its_default_is_one(shape):
    choices = valid(shape)
    assert gemm_bf16x3_fused.default_choice(shape, HOPPER) in choices
    for choice in choices[:: len(choices) // 20 + 1]:
        kernel = gemm_bf16x3_fused.kernel(shape, choice).kernel("cuda")
        assert launch_violation(kernel, HOPPER.limits) is None


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize(
    "change",
    [
        {"groups": 2, "tile_n": 128}, {"groups": 1, "tile_n": 80, "ahead": 2, "swapped": 1},
        {"groups": 3, "tile_n": 56, "split": 4},
    ],
    ids=str,
)  # fmt: skip
def test_products_are_not_serialized_and_sums_stay_in_registers(change, tmp_path):
    shape = Gemm(1000, 777, 1001, epilogue=REST)
    kernel = gemm_bf16x3_fused.kernel(shape, {**CHOICE, **change}).kernel("cuda")
    assert max(spilled(kernel, tmp_path)) <= 16


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_warpgroups_divide_the_registers_of_a_block_and_none_waits_for_more(groups):
    tiling = gemm_bf16x3_fused.FusedTiling(SHAPES[0], {**CHOICE, "groups": groups})
    producer, consumer = gemm_bf16x3_fused.PRODUCER_REGISTERS, tiling.consumer_registers
    assert producer <= tiling.entry_registers <= consumer
    assert 128 * (producer + groups * consumer) <= tiling.threads * tiling.entry_registers


def test_long_sums_of_few_results_are_split_among_as_many_blocks_as_fill_the_device():
    shape = SHAPES[0]
    choice = gemm_bf16x3_fused.default_choice(shape, HOPPER)
    tiling = gemm_bf16x3_fused.FusedTiling(shape, choice)
    assert choice["split"] > 8
    assert 0.9 * 132 * tiling.resident <= tiling.all_blocks <= 132 * tiling.resident


def test_the_space_is_counted_in_a_fifth_of_a_second_and_what_it_draws_builds():
    shape = SHAPES[0]
    args = (shape.m, shape.n, shape.k, "float32", 1, True)
    task = create("gemm.cuda", args, HOPPER)
    begun = time.process_time()
    space = create("gemm.cuda", args, HOPPER).config_space
    assert len(space) == len(valid(shape))
    assert is_within(time.process_time() - begun, 0.2)
    for index in space.sample(20, np.random.default_rng(0)):
        kernel = task.instantiate(space.get(index)).kernel("cuda")
        assert launch_violation(kernel, HOPPER.limits) is None


def test_widths_of_tiles_are_the_narrowest_of_each_number_of_tiles():
    columns, fragments = 1000, 125
    every = {-(-fragments // tiles) for tiles in range(1, fragments + 1)}
    widest = gemm_bf16x3_fused.WIDEST // 8
    assert gemm_bf16x3_fused.widths(columns) == sorted(8 * w for w in every if w <= widest)
    assert gemm_bf16x3_fused.widths(2**30)[-1] == gemm_bf16x3_fused.WIDEST
