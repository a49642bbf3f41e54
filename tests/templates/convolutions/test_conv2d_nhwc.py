"""Convolutions of NHWC images compute what those of NCHW images do, on whatever kernels."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.convolutions.window_shape import Window

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.measure.check.tracked_reference import follow_errors
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import check_emulated, drawn

# n, h, w, co, ci, kh, kw, stride, padding, bias, activation, residual, affine, dilation, dtype
CASES = {
    "float32": (2, 7, 6, 5, 3, 3, 3, (2, 1), (0, 1, 2, 1), True, "silu", True, True, (1, 2)),
    "pointwise": (1, 5, 6, 8, 8, 1, 1, 1, 0, True, "relu6"),
    "float16": (
        1, 7, 6, 12, 8, 3, 3, 2, 1, True, "relu", True, False, 1, "float16",
    ),
    "bfloat16": (1, 5, 4, 6, 6, 2, 3, 1, (1, 0, 0, 1), False, "gelu", False, True, 2, "bfloat16"),
    "float16, odd": (2, 7, 6, 13, 3, 3, 3, 2, 1, True, "relu", True, False, 1, "float16"),
    "bfloat16, odd": (1, 4, 3, 5, 4, 2, 1, 1, 0, False, "none", False, False, 1, "bfloat16"),
    "tf32": (1, 7, 6, 12, 3, 3, 3, 2, 1, True, "relu", True, False, 1, "tf32"),
    "groups": (2, 5, 6, 15, 9, 3, 3, (2, 1), 1, True, "silu", True, True, 1, "float32", 3),
    "groups, bare": (1, 6, 5, 8, 4, 3, 3, 1, 1, False, "none", False, False, 1, "float32", 4),
    "float16, groups": (1, 5, 6, 12, 8, 3, 3, 1, 1, True, "relu", True, True, 1, "float16", 2),
    "bfloat16, groups": (2, 5, 4, 6, 6, 2, 3, 2, 1, True, "gelu", False, False, 2, "bfloat16", 3),
    "float16, groups of 8": (
        2, 9, 7, 32, 32, 3, 3, 1, 1, True, "relu", True, True, 1, "float16", 4,
    ),
    "bfloat16, groups of 16": (
        1, 9, 10, 48, 48, 3, 5, (2, 1), (0, 2, 1, 1), False, "none", False, False, (1, 2),
        "bfloat16", 3,
    ),
    "float16, more out of groups": (
        1, 9, 10, 32, 16, 2, 3, (1, 2), (0, 2, 1, 1), True, "gelu", False, False, 1, "float16", 2,
    ),
    "float16, groups of 4": (
        2, 9, 7, 32, 32, 3, 3, 1, 1, True, "relu", True, True, 1, "float16", 8,
    ),
    "float16, two groups of 4": (
        1, 6, 5, 8, 8, 3, 3, 1, 1, False, "none", False, False, 1, "float16", 2,
    ),
    "bfloat16, groups of 2": (
        1, 9, 7, 64, 32, 3, 3, (2, 1), 1, False, "none", False, False, 1, "bfloat16", 16,
    ),
    "float16, few filters": (2, 9, 10, 3, 16, 3, 3, 1, 1, True, "relu", True, True, 1, "float16"),
    "bfloat16, few filters": (
        1, 10, 9, 2, 40, 3, 2, (2, 1), (0, 1, 2, 1), False, "none", False, False, (1, 2),
        "bfloat16",
    ),
    "float16, one filter of many taps": (
        1, 12, 9, 1, 8, 5, 7, 1, (2, 3), True, "silu", False, False, 1, "float16",
    ),
    "float16, groups of 32": (
        1, 6, 7, 64, 64, 3, 3, 1, 1, True, "relu", True, False, 1, "float16", 2,
    ),
    "bfloat16, groups of 24 and 16": (
        2, 7, 5, 32, 48, 3, 3, (2, 1), 1, True, "gelu", False, True, 1, "bfloat16", 2,
    ),
    "float16, groups of one channel": (
        1, 6, 5, 12, 4, 3, 3, 1, 1, True, "silu", True, True, 1, "float16", 4,
    ),
    "tf32, groups of one channel": (
        1, 6, 5, 5, 5, 3, 3, 1, 1, False, "none", False, False, 1, "tf32", 5,
    ),
    "float16, groups of odd channels": (
        2, 5, 4, 9, 15, 3, 3, 1, 1, True, "silu", True, True, 1, "float16", 3,
    ),
    "tf32, groups": (1, 5, 6, 15, 3, 3, 3, 1, 1, True, "none", True, False, 1, "tf32", 3),
}  # fmt: skip


RELU = (True, "relu", True, False)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_kernels_match_their_reference_in_the_emulator(name):
    rtol = 2e-2 if "16" in name or "tf32" in name else 1e-4
    check_emulated(
        "conv2d_nhwc.cuda", CASES[name], 3 if "groups" in name or "few" in name else 1, rtol=rtol
    )


@pytest.mark.parametrize("groups", [1, 2])
def test_the_reference_is_that_of_nchw_images(groups):
    rng = np.random.default_rng(0)
    data, weight = rng.normal(size=(2, 4, 9, 8)), rng.normal(size=(6, 4 // groups, 3, 2))
    window = Window((3, 2), (2, 1), (0, 1, 2, 1), (1, 3))
    placed = (3, 2, (2, 1), (0, 1, 2, 1), False, False)
    nchw = Conv2d(2, 9, 8, 6, 4, *placed, dilation=(1, 3), groups=groups)
    shape = Conv2dNhwc(2, 9, 8, 6, 4, window, groups=groups)
    got = shape.reference()(data.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0))
    np.testing.assert_allclose(got.transpose(0, 3, 1, 2), nchw.reference()(data, weight))
    assert shape.flop == nchw.flop
    assert shape.bytes == nchw.bytes


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_configurations_of_resnets_layers_fit_the_device(dtype):
    args = (1, 56, 56, 64, 64, 3, 3, 1, 1, True, "relu", True, False, 1, dtype)
    task = create("conv2d_nhwc.cuda", args, "cuda -arch=sm_90")
    limits = task.target.limits
    sources = [*drawn(task, 20, sample=20), task.instantiate(task.default())]
    assert limits == Target("cuda -arch=sm_90").limits
    assert all(launch_violation(s.kernel("cuda"), limits) is None for s in sources)


@pytest.mark.parametrize("sizes", [(8, 28, 256, 32), (1, 1, 16, 2), (1, 7, 1024, 64)], ids=str)
def test_groups_of_few_channels_have_defaults_that_fit_the_device(sizes):
    n, side, channels, groups = sizes
    args = (n, side, side, channels, channels, 3, 3, 1, 1, *RELU, 1, "float16", groups)
    task = create("conv2d_nhwc.cuda", args, "cuda -arch=sm_90")
    source = task.instantiate(task.default())
    assert [each.entry for each in source.calls] == ["conv2d_groups"]
    assert launch_violation(source.kernel("cuda"), task.target.limits) is None


SIZES_OF_GROUPS = {
    (8, 56, 256, 16): ["conv2d_groups"],
    (8, 56, 128, 4): ["gemm_tma"],
    (8, 56, 384, 8): ["gemm_tma"],
    (1, 28, 192, 4): ["gemm_mma"],
    (8, 56, 256, 4): ["gemm_tma"],
    (1, 14, 2048, 32): ["gemm_tma"],
    (8, 56, 240, 3): ["gemm_tma"],
    (8, 56, 66, 3): ["gemm_mma"],
    (1, 56, 64, 64): ["windows"],
    (8, 28, 320, 5): ["gemm_tma"],
}


@pytest.mark.many_cases
@pytest.mark.parametrize("sizes", SIZES_OF_GROUPS, ids=str)
def test_untuned_kernels_of_groups_suit_the_channels_of_one(sizes):
    n, side, channels, groups = sizes
    args = (n, side, side, channels, channels, 3, 3, 1, 1, *RELU, 1, "float16", groups)
    task = create("conv2d_nhwc.cuda", args, "cuda -arch=sm_90")
    source = task.instantiate(task.default())
    assert [each.entry for each in source.calls] == SIZES_OF_GROUPS[sizes]
    assert launch_violation(source.kernel("cuda"), task.target.limits) is None
    for each in drawn(task, 3, sample=3):
        assert SIZES_OF_GROUPS[sizes][0] in [call.entry for call in each.calls]
    older = create("conv2d_nhwc.cuda", args, "cuda -arch=sm_80")
    assert older.instantiate(older.default()).calls[0].entry != "gemm_tma"


@pytest.mark.parametrize(
    ("sizes", "entry"), [((1, 9, 64, 2), "gemm_mma"), ((8, 28, 256, 4), "gemm_tma")], ids=str
)
def test_groups_of_floats_as_tf32_are_one_product_where_filters_fill_rows(sizes, entry):
    n, side, channels, groups = sizes
    args = (n, side, side, channels, channels, 3, 3, 1, 1, *RELU, 1, "tf32", groups)
    task = create("conv2d_nhwc.cuda", args, "cuda -arch=sm_90")
    for source in [task.instantiate(task.default()), *drawn(task, 3, sample=3)]:
        assert source.calls[0].entry == entry


FEW = {
    "a decoder's last layer": (1, 256, 256, 3, 128, 3, 3, 1, 1),
    "of many channels": (2, 64, 64, 4, 320, 3, 3, 1, 1),
    "a line": (3, 1, 700, 1, 32, 1, 7, 1, (0, 3)),
    "seven rows": (1, 7, 300, 2, 24, 5, 5, 2, 2),
}


@pytest.mark.parametrize("name", FEW)
def test_few_filters_multiply_each_pixel_once_by_untuned_choices_that_fit_the_device(name):
    args = (*FEW[name], *RELU, 1, "float16")
    task = create("conv2d_nhwc.cuda", args, "cuda -arch=sm_90")
    source = task.instantiate(task.default())
    assert [each.entry for each in source.calls] == ["conv2d_few_filters"]
    assert launch_violation(source.kernel("cuda"), task.target.limits) is None


@pytest.mark.parametrize(
    "sizes",
    [
        (1, 8, 512, 3, 3, 1, 1),
        (64, 8, 2048, 3, 3, 1, 1),
        (64, 1, 64, 3, 3, 1, 24, 24),
        (64, 1, 64, 12, 12, 1, 0),
    ],
    ids=[
        "one pixel",
        "filters that fill a multiprocessor",
        "wide dilation",
        "more taps than columns",
    ],
)
def test_few_filters_whose_pixels_find_no_room_stay_products_of_windows(sizes):
    side, co, ci, kh, kw, stride, padding, *dilation = sizes
    args = (1, side, side, co, ci, kh, kw, stride, padding, *RELU, *(dilation or [1]), "float16")
    task = create("conv2d_nhwc.cuda", args, "cuda -arch=sm_90")
    source = task.instantiate(task.default())
    assert all(each.entry != "conv2d_few_filters" for each in source.calls)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1, 4, 4, 8, 8, 7, 7), "7x7 filter does not fit into the 4x4 image"),
        ((1, 4, 4, 8, 3, 3, 3, 1, 1, *[False] * 4, 1, "float16"), "activation must be"),
        ((1, 4, 4, 8, 8, 3, 3, 1, 1, False, "none", False, False, 1, "int8"), "dtype must be"),
        ((1, 4, 4, 8, 8, 1, 1, 1, 0, False, "none", False, False, 1, "float32", 3), "groups must"),
    ],
)
def test_a_convolution_that_cannot_be_is_an_error_that_says_so(args, message):
    with pytest.raises(TemplateError, match=message):
        create("conv2d_nhwc.cuda", args, "cuda")


@pytest.mark.parametrize("groups", [1, 2])
def test_tf32_that_is_cut_is_within_the_bounds_of_its_reference(groups):
    args = (1, 6, 7, 8, 12, 3, 3, 2, 1, True, "relu", True, False, 1, "tf32", groups)
    task = create("conv2d_nhwc.cuda", args, "cuda -arch=sm_90")
    source = task.instantiate(task.default())
    kernel, rng = source.kernel("cuda"), np.random.default_rng(0)
    inputs = [rng.standard_normal(a.shape).astype(np.float32) for a in kernel.inputs]
    (expected,) = follow_errors(source.reference, inputs, kernel, None)
    cut = [(x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in inputs[:2]]
    off = np.abs(source.reference(*cut, *inputs[2:]) - expected.values)
    assert (off <= expected.bounds).all()
    assert 0 < off.max() < 0.02
