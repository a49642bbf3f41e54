"""The defaults of CUDA templates are accepted by nvcc, and their sums stay in registers."""

import autotune.templates  # noqa: F401 - registers the tasks
import pytest

from autotune.task import create
from tests.templates.assembled import needs_nvcc, spilled

RESTED = (True, "gelu", True, False)
CASES = {
    "matvec.cuda": (1000, 512, 1, "float32", True),
    "gemm.cuda half": (48, 64, 96, "float16", 2, True, True, True, "gelu", True),
    "gemm.cuda half, narrow": (3742, 3136, 198, "bfloat16", 1, False, True, False, "gelu", True),
    "gemm.cuda tf32": (48, 64, 96, "tf32", 2, True, False, True, "gelu", True),
    "gemm.cuda tf32, narrow": (696, 78, 8093, "tf32"),
    "gemm.cuda int8": (48, 64, 128, "int8", 1, False, True),
    "conv2d_nhwc.cuda": (1, 7, 7, 32, 16, 3, 3, 1, 1, True, "relu", True, False, 1, "bfloat16"),
    "conv2d_nhwc.cuda narrow": (1, 65, 63, 70, 35, 3, 3, 1, 1, *RESTED, 1, "tf32"),
    "conv2d_nhwc.cuda groups": (8, 28, 28, 448, 448, 3, 3, 1, 1, *RESTED, 1, "tf32", 8),
    "attention.cuda": (1, 4, 32, 64, 64, 2, True),
    "winograd_conv2d.cuda": (1, 8, 8, 16, 16, 4, 1, True, "relu6"),
}  # fmt: skip


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize("name", CASES)
def test_the_default_compiles_for_hopper_and_its_sums_stay_in_registers(name, tmp_path):
    task = create(name.split()[0], CASES[name], "cuda -arch=sm_90")
    kernel = task.instantiate(task.default()).kernel("cuda")
    found = spilled(kernel, tmp_path)
    assert len(found) == len({call.entry for call in kernel.calls})
    assert max(found) <= 32


@needs_nvcc
def test_copies_of_filters_of_many_taps_leave_registers_to_the_sums(tmp_path):
    task = create("conv2d_nchw.cuda", (1, 56, 56, 128, 96, 7, 7, 1, 3), "cuda -arch=sm_90")
    kernel = task.instantiate(task.default()).kernel("cuda")
    assert [call.entry for call in kernel.calls] == ["conv2d_bf16x3"]
    assert max(spilled(kernel, tmp_path)) <= 128
