"""Products of few rows: dense layers of one image, steps of decoders."""

import autotune.templates  # noqa: F401 - registers the tasks
import pytest
from autotune.templates.products import matvec_cuda
from autotune.templates.products.gemm_shape import Gemm

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import check_emulated

HOPPER = Target("cuda -arch=sm_90")


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
    assert "matvec" not in (first(12), first(13), first(12, 2047), first(4, turned=False))


def test_a_warp_has_a_row_of_large_weights_for_more_than_a_few_rows_untuned():
    picked = [
        matvec_cuda.default_choice(Gemm(m, 20000, 1024, transpose_b=True), HOPPER) for m in (4, 5)
    ]
    assert [(each["lanes"], each["ahead"]) for each in picked] == [(64, 2), (32, 1)]


def test_what_is_no_product_of_few_rows_is_an_error_that_says_so():
    choice = {name: values[0] for name, values in matvec_cuda.candidates(Gemm(1, 8, 8)).items()}
    with pytest.raises(TemplateError, match=r"b be stored as \[n, k\]"):
        matvec_cuda.kernel(Gemm(1, 8, 8), choice)
    with pytest.raises(TemplateError, match="m must be 1 to 16"):
        create("matvec.cuda", (8, 8, 17), "cuda")
    with pytest.raises(TemplateError, match="dtype must be"):
        create("matvec.cuda", (8, 8, 1, "int8"), "cuda")
