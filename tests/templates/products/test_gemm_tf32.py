"""Products as TF32 that kernels of float32 run: which, and by which configurations of logs."""

from dataclasses import replace

import autotune.templates  # noqa: F401 - registers the tasks
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import (
    gemm_bf16x3_fused,
    gemm_float,
    gemm_mma,
    gemm_tf32,
    gemm_transposed,
)
from autotune.templates.products.gemm_shape import Gemm
from autotune.templates.products.gemm_tma_form import KNOB, Form

from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity

HOPPER = Target("cuda -arch=sm_90")
ODD = Gemm(34, 546, 861, "tf32", transpose_b=True)
PLAIN = replace(ODD, dtype="float32")


def args_of(shape):
    return (shape.m, shape.n, shape.k, "tf32", shape.batch, shape.transpose_a, shape.transpose_b)


def with_choice(shape, choice):
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    return create("gemm.cuda", args_of(shape), HOPPER).instantiate(ConfigEntity(0, None, entities))


@pytest.mark.parametrize(
    ("shape", "exact"),
    [
        (ODD, True),
        (Gemm(7, 2253, 784, "tf32"), True),
        (Gemm(29, 24, 53, "tf32", transpose_b=True), True),
        (Gemm(448, 200, 7906, "tf32"), True),
        (Gemm(764, 2542, 370, "tf32"), False),
        (Gemm(2047, 2047, 2047, "tf32"), False),
        (Gemm(20, 4568, 3580, "tf32", transpose_b=True), False),
        (Gemm(192, 160, 64, "tf32", transpose_a=True), False),
        (Gemm(396, 320, 20, "tf32", 43, shared="b"), False),
    ],
    ids=str,
)
def test_odd_rows_run_by_kernels_of_float32_unless_copies_pay(shape, exact):
    assert gemm_tf32.runs_as_float32(shape, HOPPER, ()) == exact


@pytest.mark.parametrize(
    ("shape", "exact"),
    [
        (Gemm(240, 392, 50, "tf32", 66, True), False),
        (Gemm(412, 444, 32, "tf32", 72, transpose_b=True), False),
        (Gemm(2132, 1236, 80, "tf32"), False),
        (Gemm(1551, 8036, 12, "tf32"), True),
        (Gemm(3372, 3700, 12, "tf32", transpose_b=True), True),
        (Gemm(150, 577, 16, "tf32", 3, transpose_b=True), True),
    ],
    ids=str,
)
def test_short_sums_run_as_float32_where_results_take_most_of_the_time(shape, exact):
    assert gemm_tf32.runs_as_float32(shape, HOPPER, ()) == exact


@pytest.mark.parametrize("arch", ["sm_80", "sm_100"])
def test_targets_without_wgmma_multiply_them_as_tf32(arch):
    assert not gemm_tf32.runs_as_float32(ODD, Target(f"cuda -arch={arch}"), ())


@pytest.mark.parametrize("shape", [ODD, Gemm(1551, 8036, 12, "tf32")], ids=str)
def test_untuned_they_run_by_the_kernels_of_float32(shape):
    task = create("gemm.cuda", args_of(shape), HOPPER)
    source, family = task.instantiate(task.default()), gemm_float.family_of(shape, HOPPER, ())
    shape = gemm_float.taken(family, shape)
    assert source.text() == family.kernel(shape, family.default_choice(shape, HOPPER)).text()


def test_only_the_kernel_that_splits_floats_itself_tells_them_from_float32():
    families = [gemm_float.gemm_cuda, gemm_float.gemm_bf16x3, gemm_bf16x3_fused]
    taken = [gemm_float.taken(family, ODD).dtype for family in families]
    assert taken == ["float32", "float32", "tf32"]
    assert {gemm_float.taken(family, PLAIN) for family in families} == {PLAIN}


def test_with_half_the_products_the_estimate_is_lower_and_its_stages_are_smaller():
    both = [Gemm(2001, 1999, 2003, dtype) for dtype in ("tf32", "float32")]
    choice = gemm_bf16x3_fused.default_choice(both[1], HOPPER)
    fewer, more = (gemm_bf16x3_fused.estimate(shape, choice, HOPPER) for shape in both)
    assert fewer < more
    two, three = (gemm_bf16x3_fused.FusedTiling(shape, choice).stage_bytes for shape in both)
    assert 3 * two == 2 * three


def test_configurations_of_logs_run_by_the_kernels_that_they_were_tuned_for():
    old = gemm_mma.default_choice(ODD, HOPPER)
    assert with_choice(ODD, old).text() == gemm_mma.kernel(ODD, old).text()
    new = gemm_bf16x3_fused.default_choice(ODD, HOPPER)
    assert with_choice(ODD, new).text() == gemm_bf16x3_fused.kernel(ODD, new).text()


@pytest.mark.parametrize(("rows", "swapped"), [(100352, 0), (12544, 1)])
def test_operands_are_not_swapped_where_a_residual_is_not_in_the_cache(rows, swapped):
    epilogue = Epilogue(bias=True, residual=True, activation="relu")
    shape = Gemm(rows, 256, 64, "tf32", epilogue=epilogue)
    choice = gemm_transposed.default_choice(shape, Target("cuda -arch=sm_90"))
    assert Form.of(choice[KNOB]).swapped == swapped


@pytest.mark.parametrize(
    ("shape", "chunk"),
    [
        (Gemm(472, 156, 61864, "tf32"), 64),
        (Gemm(1536, 768, 3072, "tf32"), 64),
        (Gemm(2016, 992, 3264, "tf32", 1, True, True), 32),
        (Gemm(432, 1344, 2936, "tf32", 1, True, True), 32),
        (Gemm(1536, 768, 1024, "tf32"), 32),
    ],
    ids=["ranges", "whole sums", "few stages", "short ranges", "short"],
)
def test_long_sums_that_threads_load_to_registers_have_long_k_tiles_untuned(shape, chunk):
    assert create("gemm.cuda", args_of(shape), HOPPER).default()["chunk"].val == chunk
