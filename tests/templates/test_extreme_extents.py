"""Extents of more than 32 bits, and of more tiles than a grid has down."""

import autotune.templates  # noqa: F401 - registers the tasks
import pytest
from autotune.templates.products import gemm_cuda

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import check_emulated

HOPPER = Target("cuda -arch=sm_90")
BEYOND = 2**31 + 11


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("softmax.cuda", (BEYOND, 1, "float16")),
        ("layer_norm.cuda", (3, 2**31 - 1)),
        ("cumsum.cuda", (1, BEYOND)),
        ("reduce.cuda", ("sum", 1, BEYOND)),
        ("gemm.cuda", (BEYOND, 1, 1)),
        ("gemm.cuda", (1, 1, 4, "int8", BEYOND, False, True)),
        ("matvec.cuda", (4, BEYOND)),
        ("conv2d_nchw.cuda", (4096, 224, 224, 64, 16, 3, 3, 1, 1)),
        ("conv2d_nhwc.cuda", (70000, 224, 224, 2, 2, 3, 3, 1, 1)),
        ("depthwise_conv2d.cuda", (4096, 224, 224, 64, 1, 3, 3, 1, 1)),
        ("attention.cuda", (2**20, 64, 4096, 128, 128)),
    ],
)
def test_what_kernels_cannot_index_is_refused_in_words(name, args):
    with pytest.raises(TemplateError, match=r"kernels (take|index)"):
        create(name, args, HOPPER)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("softmax.cuda", (70001, 65537)),
        ("reduce.cuda", ("max", 3, 65537, 70001)),
        ("transpose.cuda", ((BEYOND, 2, 5), (1, 0, 2), "int8")),
        ("elementwise.cuda", ("a + 1", (("a", (2**33,)),), "float16")),
        ("take_rows.cuda", (70001, 65537, 70001, "float16", "int64")),
        ("gemm.cuda", (65537, 65539, 8, "tf32")),
        ("gemm.cuda", (2**28, 8, 8)),
        ("conv2d_nhwc.cuda", (1024, 224, 224, 64, 16, 3, 3, 1, 1)),
        (
            "winograd_conv2d.cuda",
            (1024, 224, 224, 8, 8, 4, 1, False, "none", False, False, "NHWC"),
        ),
        ("attention.cuda", (65537, 64, 300, 300, 128)),
    ],
)
def test_arrays_of_more_than_32_bits_can_be_launched(name, args):
    task = create(name, args, HOPPER)
    kernel = task.instantiate(task.default()).kernel("cuda")
    assert launch_violation(kernel, HOPPER.limits) is None


def test_more_tiles_of_rows_than_a_grid_has_down_go_across(monkeypatch):
    monkeypatch.setattr(gemm_cuda, "MOST_DOWN", 5)
    tall = (19, 7, 12, "float32", 3, True, False, True, "gelu", True, True, 0.5)
    check_emulated("gemm.cuda", tall)
