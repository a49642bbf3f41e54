"""NCHW convolutions of 16-bit floats by TVM's names: on tensor cores, right in the emulator."""

import numpy as np
import pytest
from autotune.templates import source_windows
from autotune.templates.convolutions import conv2d_channels_first, conv2d_nchw_families
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.via_conv2d import ViaConv2d
from autotune.templates.convolutions.window_shape import Window

import autotune
from autotune.errors import ExpressionError
from autotune.graph import ops
from autotune.target import Target
from tests.templates.emulated import arrays_of
from tests.templates.products.test_gemm_padded import in_the_emulator

HOPPER = Target("cuda -arch=sm_90")


def task_of(data, weight, strides=1, padding=0, dilation=1, groups=1, dtype="float16"):
    tensors = ("TENSOR", data, dtype), ("TENSOR", weight, dtype)
    sides = (padding,) * 4 if isinstance(padding, int) else padding
    moves = (strides, strides), sides, (dilation, dilation)
    if groups == 1:
        return autotune.create("conv2d_nchw.cuda", (*tensors, *moves, dtype), HOPPER)
    name = "group_conv2d_nchw.cuda"
    return autotune.create(name, (*tensors, *moves, groups, dtype), HOPPER)


def made_by(task, target=HOPPER):
    with target:
        return task.instantiate(task.default())


LAYERS = {
    "odd channels": ((2, 17, 9, 11), (13, 17, 3, 3), {"padding": 1}),
    "strides": ((1, 24, 8, 8), (40, 24, 3, 3), {"strides": 2, "padding": 1}),
    "uneven padding": (
        (1, 16, 7, 7), (24, 16, 3, 5), {"padding": (1, 2, 0, 1), "dtype": "bfloat16"},
    ),
    "a stem": ((2, 3, 12, 13), (20, 3, 5, 5), {"strides": 2, "padding": 2}),
    "groups": ((1, 32, 9, 9), (48, 16, 3, 3), {"padding": 1, "groups": 2}),
    "several filters a channel": ((1, 12, 9, 9), (24, 1, 3, 3), {"padding": 1, "groups": 12}),
    "a product of odd planes": ((2, 24, 7, 7), (10, 24, 1, 1), {}),
    "a product of planes in vectors": ((2, 16, 4, 4), (24, 16, 1, 1), {"dtype": "bfloat16"}),
    "strides of one tap": ((1, 16, 9, 9), (24, 16, 1, 1), {"strides": 2}),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", LAYERS)
def test_results_are_those_of_the_convolution(name, tmp_path):
    data, weight, rest = LAYERS[name]
    made = made_by(task_of(data, weight, **rest))
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made), optimized=True)
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=3e-2)


def between_copies(shape):
    with HOPPER:
        padded = conv2d_channels_first.padded(shape)
        family, of = source_windows.family_of_nhwc(padded)
    between = conv2d_channels_first.ChannelsFirst.between(shape, padded, of)
    copied = conv2d_channels_first.Of(ViaConv2d(family), between)
    return copied.kernel(shape, copied.default_choice(shape, HOPPER))


SAME, STRIDES = Window((3, 3), padding=(1,) * 4), Window((5, 5), (2, 2), (2,) * 4)
COPIED = {
    "odd channels": Conv2dNhwc(2, 9, 11, 13, 17, SAME, "float16"),
    "vectors of pixels": Conv2dNhwc(1, 8, 8, 40, 24, SAME, "bfloat16"),
    "a stem": Conv2dNhwc(2, 12, 13, 20, 3, STRIDES, "float16"),
    "groups": Conv2dNhwc(1, 9, 9, 48, 32, SAME, "float16", groups=2),
    "several tiles": Conv2dNhwc(1, 10, 9, 72, 72, Window((1, 3)), "float16"),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", COPIED)
def test_results_between_copies_are_those_of_the_convolution(name, tmp_path):
    made = between_copies(COPIED[name])
    assert [one.entry for one in made.calls][:2] == ["arrange_weight", "arrange_data"]
    assert made.calls[-1].entry == "arrange_out"
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made), optimized=True)
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=3e-2)


def test_channels_are_padded_as_they_are_copied():
    made = between_copies(Conv2dNhwc(1, 20, 20, 70, 17, SAME, "float16"))
    sizes = {each.name: each.shape for each in made.workspace}
    assert (sizes["data_of_conv2d"], sizes["weight_of_conv2d"]) == ((9600,), (9 * 24 * 72,))


def test_windows_are_multiplied_without_copies_or_between_them():
    task = task_of((1, 64, 56, 56), (64, 64, 3, 3), padding=1)
    values = {each.val for each in task.config_space.space_map["family"].entities}
    others = conv2d_nchw_families
    assert values == {0, others.DIRECT, others.BY_TMA, others.BY_WINDOWS}
    made = made_by(task)
    assert [one.entry for one in made.calls] == ["pack_filters", "conv2d_nchw_half"]
    assert [each.shape for each in made.args] == [
        (1, 64, 56, 56), (64, 64, 3, 3), (1, 64, 56, 56),
    ]  # fmt: skip


def test_windows_of_large_layers_are_multiplied_by_tma_behind_copies():
    made = made_by(task_of((2, 320, 64, 64), (320, 320, 3, 3), padding=1))
    assert [one.entry for one in made.calls] == ["arrange_weight", "arrange_data", "gemm_tma"]


def test_pointwise_layers_are_products_of_images_as_they_lie():
    made = made_by(task_of((8, 128, 28, 28), (512, 128, 1, 1)))
    assert [(one.entry, one.args) for one in made.calls] == [
        ("gemm_tma", ("weight", "data", "out"))
    ]


def test_a_depthwise_layer_runs_in_its_own_layout():
    dtype = "bfloat16"
    tensors = ("TENSOR", (1, 32, 28, 28), dtype), ("TENSOR", (32, 1, 3, 3), dtype)
    args = (*tensors, (1, 1), (1, 1, 1, 1), (1, 1), dtype)
    made = made_by(autotune.create("depthwise_conv2d_nchw.cuda", args, HOPPER))
    assert [one.entry for one in made.calls] == ["windows"]
    assert {each.dtype for each in made.args} == {dtype}


def test_knobs_of_tvm_and_results_of_another_type_still_ask_for_the_tensor_expression():
    shapes = ((1, 16, 8, 8), (16, 16, 3, 3))
    tensors = [("TENSOR", shape, "float16") for shape in shapes]
    args = (*tensors, (1, 1), (1, 1, 1, 1), (1, 1))
    task = autotune.create("conv2d_nchw.cuda", (*args, "float32"), HOPPER)
    assert "tile_f" in task.config_space.space_map
    old = autotune.create("conv2d_nchw.cuda", (*args, "float16"), Target("cuda -arch=sm_75"))
    assert "tile_f" in old.config_space.space_map
    new = task_of(*shapes, padding=1)
    assert "tile_f" not in new.config_space.space_map
    with HOPPER:
        _, tensors = new.instantiate(old.default())
    assert tensors[-1].dtype == "float16"


@pytest.mark.parametrize(
    ("data", "weight", "rest"),
    [
        ((1, 384, 225, 224), (1536, 128, 1, 1), {"groups": 3}),
        ((3, 768, 225, 224), (72, 256, 1, 7), {"padding": (3, 1, 1, 2), "groups": 3}),
        ((1, 1024, 28, 1), (512, 256, 7, 1), {"strides": 4, "padding": (0, 2, 1, 2), "groups": 4}),
    ],
)
def test_knobs_of_both_families_begin_at_values_that_kernels_of_products_take(data, weight, rest):
    task = task_of(data, weight, **rest)
    assert made_by(task).calls[0].entry in ("arrange_weight", "pack_filters")
    assert {"stages", "filter_stages"} <= {*task.config_space.space_map}


@pytest.mark.parametrize(
    ("dtype", "out_dtype"), [("float16", "float16"), ("float16", "float32"), ("int8", "int32")]
)
def test_groups_without_kernels_by_hand_are_computed_by_the_tensor_expression(dtype, out_dtype):
    tensors = ("TENSOR", (1, 4, 6, 6), dtype), ("TENSOR", (6, 2, 3, 3), dtype)
    args = (*tensors, (1, 1), (1, 1, 1, 1), (1, 1), 2, out_dtype)
    task = autotune.create("group_conv2d_nchw.cuda", args, Target("cuda -emulate"))
    with task.target:
        function = autotune.build(task.instantiate(task.default()), target=task.target)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype(dtype) for _, shape, _ in tensors]
    wanted = ops.Conv2d((1, 1), (1, 1, 1, 1), (1, 1), 2).reference(*arrays)
    got = np.full(wanted.shape, -1, out_dtype)
    function(*arrays, got)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", ["conv2d_nchw.cuda", "depthwise_conv2d_nchw.cuda"])
def test_filters_of_other_channels_than_the_images_are_refused(name):
    shapes = ((1, 16, 8, 8), (16, 15, 3, 3) if name == "conv2d_nchw.cuda" else (15, 1, 3, 3))
    tensors = [("TENSOR", shape, "float16") for shape in shapes]
    with pytest.raises(ExpressionError, match="must be of 16 input channels"):
        autotune.create(name, (*tensors, (1, 1), (0,) * 4, (1, 1), "float16"), HOPPER)


@pytest.mark.parametrize(
    ("name", "data", "weight"),
    [
        ("conv2d_nchw.cuda", (1, 1, 33000, 33000), (1, 1, 3, 3)),
        ("depthwise_conv2d_nchw.cuda", (1, 64, 8000, 8000), (64, 1, 3, 3)),
    ],
)
def test_images_of_too_many_pixels_are_left_to_the_tensor_expression(name, data, weight):
    tensors = ("TENSOR", data, "float16"), ("TENSOR", weight, "float16")
    task = autotune.create(name, (*tensors, (1, 1), (1, 1, 1, 1), (1, 1), "float16"), HOPPER)
    assert "tile_f" in task.config_space.space_map


def test_odd_channels_of_large_pointwise_layers_are_padded():
    made = made_by(task_of((32, 510, 32, 32), (464, 510, 1, 1)))
    assert [one.entry for one in made.calls] == ["pad", "gemm_tma"]
    assert made.calls[0].args == ("weight", "padded_a", "data", "padded_b")


def test_planes_of_pointwise_layers_that_fill_no_vectors_are_written_from_a_copy_of_the_images():
    made = made_by(task_of((32, 256, 14, 14), (1024, 256, 1, 1)))
    assert [(one.entry, one.args) for one in made.calls] == [
        ("arrange_data", ("data", "data_copy")), ("gemm_tma", ("weight", "data_copy", "out")),
    ]  # fmt: skip


def test_windows_with_strides_of_one_tap_are_copied():
    made = made_by(task_of((16, 1024, 14, 14), (2048, 1024, 1, 1), strides=2))
    assert [one.entry for one in made.calls] == ["arrange_data", "gemm_tma"]
    assert made.workspace[-1].shape == (16 * 49 * 1024,)
