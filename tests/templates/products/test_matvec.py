"""Products of few rows: dense layers of one image, steps of decoders."""

import autotune.templates  # noqa: F401 - registers the tasks
import pytest
from autotune.templates.products import gemm_half, gemm_mma, gemm_padded, matvec_cuda
from autotune.templates.products.gemm_shape import Gemm

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
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


def test_few_rows_of_halves_multiply_unaligned_weights_without_copies_untuned():
    def entries(m, n, k, turned=True, arch="sm_90"):
        args = (m, n, k, "float16", 1, False, turned)
        task = create("gemm.cuda", args, f"cuda -arch={arch}")
        return [call.entry for call in task.instantiate(task.default()).calls]

    assert entries(1, 50257, 767) == ["matvec_unaligned"]
    assert entries(2, 13240, 6062) == entries(4, 3000, 2999) == ["matvec"]
    others = [entries(5, 3000, 2999), entries(4, 3000, 2999, turned=False),
              entries(4, 3000, 2999, arch="sm_80"), entries(2, 100, 999)]  # fmt: skip
    assert all(each[0] == "pad" for each in others)
    assert entries(2, 7584, 6296) == ["gemm_skinny"]
    assert entries(4, 3104, 8402)[0] == "gemm_mma"


@pytest.mark.parametrize("k", [767, 766])
def test_a_log_of_unaligned_weights_on_copies_stays_valid(k):
    shape = Gemm(2, 50257, k, "float16", transpose_b=True)
    family = gemm_padded.Padded(gemm_half) if k % 2 else gemm_mma
    choice = family.default_choice(shape, HOPPER)
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    args = (shape.m, shape.n, shape.k, shape.dtype, 1, False, True)
    source = create("gemm.cuda", args, HOPPER).instantiate(ConfigEntity(0, None, entities))
    assert source.text() == family.kernel(shape, choice).text()


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
