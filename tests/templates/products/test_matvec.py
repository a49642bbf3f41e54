"""Products of few rows: dense layers of one image, steps of decoders."""

import re
from dataclasses import replace

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import matvec_cuda
from autotune.templates.products.gemm_shape import Gemm
from autotune.templates.products.matvec_tiling import MatvecTiling

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import arrays_of, check_emulated, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
KNOBS = ("vec", "lanes", "rows", "groups", "ahead")


def lanes(count):
    return lambda kernel: (
        f"#define LANES {count}\n" in kernel.source
        and all(call.launch.threads <= 256 for call in kernel.calls)
    )


# n, k, m, dtype, bias, activation, residual, affine, alpha
@pytest.mark.parametrize(
    ("args", "fits"),
    [
        ((37, 512, 1, "float32", True, "relu"), lanes(32)),
        ((5, 1000, 3, "float16", True, "gelu", True, True, 0.5), lanes(64)),
        ((5, 100, 3, "float32", True, "gelu_tanh"), lanes(64)),
        ((70, 33, 2, "bfloat16", False, "silu", True), lanes(8)),
        ((9, 301, 3, "float32"), lanes(128)),
    ],
)
def test_products_of_few_rows_match_their_reference_in_the_emulator(args, fits):
    half = args[3] != "float32"
    check_emulated("matvec.cuda", args, rtol=2e-2 if half else 1e-4, fits=fits, count=1)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("shape", "values"),
    [
        pytest.param(Gemm(3, 37, 376), (4, 32, 4, 2, 3), id="all loads ahead, the last in part"),
        pytest.param(Gemm(7, 21, 90), (2, 4, 4, 16, 2), id="more sums than lanes, an odd number"),
        pytest.param(Gemm(5, 19, 256), (4, 32, 1, 2, 2), id="fewer sums than lanes"),
        pytest.param(Gemm(16, 9, 260), (4, 32, 4, 1, 1), id="sixteen rows"),
        pytest.param(Gemm(3, 11, 1000), (4, 64, 2, 1, 4), id="several warps"),
        pytest.param(
            Gemm(2, 10, 50, epilogue=Epilogue(True, True, False, "relu", 0.5)),
            (2, 8, 4, 4, 4),
            id="epilogue",
        ),
    ],
)
def test_lanes_share_the_sums_that_they_add_up_in_the_emulator(shape, values, tmp_path):
    turned = replace(shape, transpose_b=True)
    source = matvec_cuda.kernel(turned, dict(zip(KNOBS, values, strict=True)))
    got, wanted = in_the_emulator(source, tmp_path, arrays_of(source), checked=True)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("args", [(1000, 512), (4096, 25088), (1, 1), (50257, 768, 4, "float16")])
def test_the_default_reads_whole_vectors_and_fits_the_device(args):
    task = create("matvec.cuda", args, HOPPER)
    default = task.default()
    assert default["vec"].val == max(v.val for v in task.config_space.space_map["vec"].entities)
    kernel = task.instantiate(default).kernel("cuda")
    assert launch_violation(kernel, HOPPER.limits) is None


def test_few_rows_by_weights_along_the_sum_run_so_as_products_of_matrices_untuned():
    def first(m, k=2048, turned=True):
        task = create("gemm.cuda", (m, 1001, k, "float32", 1, False, turned), HOPPER)
        return task.instantiate(task.default()).calls[0].entry

    assert [first(m) for m in (1, 4, 5)] == ["matvec"] * 3
    assert first(8, 2047) == "matvec"
    assert "matvec" not in (first(9), first(16), first(9, 2047), first(4, turned=False))


@pytest.mark.parametrize(("m", "n", "k"), [(7, 101768, 272), (6, 139467, 284), (8, 38864, 744)])
def test_more_than_four_rows_by_many_columns_are_read_by_whole_warps_untuned(m, n, k):
    choice = matvec_cuda.default_choice(Gemm(m, n, k, transpose_b=True), HOPPER)
    assert choice["lanes"] >= 32
    assert choice["groups"] <= 8


@pytest.mark.parametrize(("m", "n", "k"), [(8, 112, 16344), (7, 88, 10904), (5, 504, 4992)])
def test_few_long_rows_of_weights_are_read_by_many_lanes_untuned(m, n, k):
    choice = matvec_cuda.default_choice(Gemm(m, n, k, transpose_b=True), HOPPER)
    assert choice["lanes"] >= 512


def estimated(shape, *values):
    choice = dict(zip(KNOBS, values, strict=True))
    return matvec_cuda.estimate(replace(shape, transpose_b=True), choice, HOPPER)


# The first choice of each took an H200 9.4 and 15.8 us hot and cold, 15.1 and 34.7, 27.0 and 42.9;
# the second 8.0 and 13.7, 6.9 and 8.4, 23.9 and 30.4.
@pytest.mark.parametrize(
    ("shape", "slow", "fast"),
    [
        (Gemm(8, 2048, 4096), (4, 128, 4, 4, 2), (4, 128, 4, 4, 1)),
        (Gemm(8, 112, 16344), (4, 128, 1, 1, 4), (4, 1024, 1, 1, 2)),
        (Gemm(8, 17288, 1248), (4, 16, 4, 4, 1), (4, 64, 2, 2, 1)),
    ],
    ids=[
        "rows that share places in the cache",
        "many steps that wait for a",
        "less than a warp for a row",
    ],
)
def test_the_estimate_knows_what_made_choices_slow(shape, slow, fast):
    assert estimated(shape, *slow) > estimated(shape, *fast)


def test_sums_that_lanes_add_up_are_counted():
    def handed_over(lanes, rows, m=8):
        choice = dict(zip(KNOBS, (4, lanes, rows, 1, 1), strict=True))
        return MatvecTiling(Gemm(m, 64, 4096, transpose_b=True), choice).shuffles

    assert (handed_over(32, 8), handed_over(256, 8)) == (62, 62)  # 32 + 16 + 8 + 4 + 2
    assert handed_over(32, 1) == 9  # 4 + 2 + 1 + 1 + 1
    assert handed_over(4, 1) == 6
    assert handed_over(32, 1, m=1) == 5


def test_up_to_eight_rows_of_float32_have_registers_for_vectors_of_a_step():
    def bounds(m, dtype, **knobs):
        shape = Gemm(m, 4096, 4096, dtype, transpose_b=True)
        choice = {**dict(zip(KNOBS, (4, 64, 4, 1, 1), strict=True)), **knobs}
        text = matvec_cuda.kernel(shape, choice).kernel("cuda").source
        return re.search("#define BOUNDS (.*)", text)[1]

    # Of 512 registers of the lanes of a quarter four warps have 128 each, seven 72.
    assert bounds(8, "float32") == "64, 8"
    assert bounds(8, "float32", groups=8) == "512, 1"
    assert bounds(4, "float32") == "64, 14"
    assert bounds(9, "float32") == bounds(8, "float16") == "64"


def test_what_is_no_product_of_few_rows_is_an_error_that_says_so():
    choice = {name: values[0] for name, values in matvec_cuda.candidates(Gemm(1, 8, 8)).items()}
    with pytest.raises(TemplateError, match=r"b be stored as \[n, k\]"):
        matvec_cuda.kernel(Gemm(1, 8, 8), choice)
    with pytest.raises(TemplateError, match="m must be 1 to 16"):
        create("matvec.cuda", (8, 8, 17), "cuda")
    with pytest.raises(TemplateError, match="dtype must be"):
        create("matvec.cuda", (8, 8, 1, "int8"), "cuda")
