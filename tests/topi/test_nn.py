"""The operators of neural networks compute what numpy computes."""

import numpy as np
import pytest

from autotune import te, topi
from autotune.errors import ExpressionError
from autotune.topi import testing
from tests.topi.evaluate import evaluate

RNG = np.random.default_rng(0)


def correlate(image, taps):
    """Correlate without padding."""
    from scipy import signal  # which all processes would load to collect this module

    return signal.correlate(image, taps, "valid")


def inputs(*shapes):
    """Make placeholders and arrays for them."""
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    tensors = [te.placeholder(shape, name=f"p{i}") for i, shape in enumerate(shapes)]
    return tensors, arrays


def check(operator, wanted, *shapes):
    """Compare an operator of tensors with a function of arrays."""
    tensors, arrays = inputs(*shapes)
    got = evaluate(operator(*tensors), zip(tensors, arrays, strict=True))
    expected = np.asarray(wanted(*arrays))
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def dilated(weight, dilation, layout="OIHW"):
    return testing.dilate_python(weight, [dilation if axis in "HW" else 1 for axis in layout])


CONVS = [
    (1, 0, 1),
    (1, 1, 1),
    (2, (1, 2), 1),
    ((1, 2), (0, 1, 2, 1), 1),
    (1, "SAME", 2),
    (2, "VALID", 1),
]


@pytest.mark.parametrize(("stride", "padding", "dilation"), CONVS)
def test_conv2d_in_each_layout(stride, padding, dilation):
    check(
        lambda x, w: topi.nn.conv2d_nchw(x, w, stride, padding, dilation),
        lambda x, w: testing.conv2d_nchw_python(x, dilated(w, dilation), stride, padding),
        (2, 3, 9, 8), (4, 3, 3, 2),
    )  # fmt: skip
    check(
        lambda x, w: topi.nn.conv2d(x, w, stride, padding, dilation, "NHWC"),
        lambda x, w: testing.conv2d_nhwc_python(x, dilated(w, dilation, "HWIO"), stride, padding),
        (2, 9, 8, 3), (3, 2, 3, 4),
    )  # fmt: skip
    check(
        lambda x, w: topi.nn.conv2d(x, w, stride, padding, dilation, "HWCN", "HWIO"),
        lambda x, w: testing.conv2d_hwcn_python(x, dilated(w, dilation, "HWIO"), stride, padding),
        (9, 8, 3, 2), (3, 2, 3, 4),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stride", "padding", "dilation"), [(1, "VALID", 1), (2, (1, 2), 1), ([1], "SAME", 2)]
)
@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_of_sequences_is_one_of_images_of_one_row(stride, padding, dilation, groups):
    sides = {"VALID": (0, 0), "SAME": (2, 2)}.get(padding, padding)
    step = stride if isinstance(stride, int) else stride[0]

    def reference(x, w):
        holed = testing.dilate_python(w, [1, 1, dilation])[:, :, None]
        around = (0, sides[0], 0, sides[1])
        out = testing.conv2d_nchw_python(x[:, :, None], holed, (1, step), around, groups)
        return out[:, :, 0]

    check(
        lambda x, w: topi.nn.conv1d(x, w, stride, padding, dilation, groups),
        reference, (2, 4, 11), (6, 4 // groups, 3),
    )  # fmt: skip
    if groups == 1:
        check(
            lambda x, w: topi.nn.conv1d_nwc(x, w, stride, padding, dilation),
            lambda x, w: reference(x.swapaxes(1, 2), w.transpose()).swapaxes(1, 2),
            (2, 11, 4), (3, 4, 6),
        )  # fmt: skip
        check(
            lambda x, w: topi.nn.conv1d_ncw(x, w, stride, padding, dilation),
            reference, (2, 4, 11), (6, 4, 3),
        )  # fmt: skip


def test_conv3d_has_tvms_names_and_arguments():
    def reference(x, w, steps=(1, 1, 1)):
        out = [[sum(map(correlate, i, f)) for f in w] for i in x]
        return np.array(out)[(..., *[slice(None, None, s) for s in steps])]

    def padded(x, sides):
        return np.pad(x, [(0, 0), (0, 0), *sides])

    check(
        lambda x, w: topi.nn.conv3d_ncdhw(x, w, 2, 1),
        lambda x, w: reference(padded(x, [(1, 1)] * 3), w, (2, 2, 2)),
        (2, 3, 5, 6, 7), (4, 3, 3, 3, 2),
    )  # fmt: skip
    check(
        lambda x, w: topi.nn.conv3d_ndhwc(x, w, [1, 2, 1], (1, 0, 1, 0, 0, 2)),
        lambda x, w: np.moveaxis(
            reference(
                padded(np.moveaxis(x, -1, 1), [(1, 0), (0, 0), (1, 2)]),
                w.transpose(4, 3, 0, 1, 2),
                (1, 2, 1),
            ), 1, -1,
        ),
        (1, 5, 6, 7, 3), (3, 3, 2, 3, 4),
    )  # fmt: skip


def test_dilation_puts_a_value_between_elements():
    check(
        lambda x: topi.nn.dilate(x, [1, 2, 3], 7.0),
        lambda x: testing.dilate_python(x, [1, 2, 3], 7.0), (2, 3, 4),
    )  # fmt: skip


def test_numpy_reference_of_conv2d_agrees_with_scipy():
    data = RNG.standard_normal((1, 3, 9, 8)).astype(np.float32)
    weight = RNG.standard_normal((2, 3, 3, 3)).astype(np.float32)
    out = testing.conv2d_nchw_python(data, weight, 1, 0)
    for f in range(2):
        wanted = correlate(data[0], weight[f])[0]
        np.testing.assert_allclose(out[0, f], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv2d_in_groups(groups):
    check(
        lambda x, w: topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, groups),
        lambda x, w: testing.conv2d_nchw_python(x, w, 1, 1, groups=groups),
        (1, 4, 5, 6), (8, 4 // groups, 3, 3),
    )  # fmt: skip
    check(
        lambda x, w: topi.nn.conv2d(x, w, 1, 1, 1, "NHWC", groups=groups),
        lambda x, w: testing.conv2d_nchw_python(
            x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), 1, 1, groups=groups
        ).transpose(0, 2, 3, 1),
        (1, 5, 6, 4), (3, 3, 4 // groups, 8),
    )  # fmt: skip


@pytest.mark.parametrize(("stride", "padding", "dilation"), CONVS)
def test_depthwise_conv2d(stride, padding, dilation):
    check(
        lambda x, w: topi.nn.depthwise_conv2d_nchw(x, w, stride, padding, dilation),
        lambda x, w: testing.depthwise_conv2d_python_nchw(
            x, dilated(w, dilation), stride, padding
        ),
        (2, 3, 9, 8), (3, 2, 3, 2),
    )  # fmt: skip
    check(
        lambda x, w: topi.nn.depthwise_conv2d_nhwc(x, w, stride, padding, dilation),
        lambda x, w: testing.depthwise_conv2d_python_nhwc(
            x, dilated(w, dilation, "HWIO"), stride, padding
        ),
        (2, 9, 8, 3), (3, 2, 3, 2),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tile", "size", "padding"), [(2, 3, 1), (4, 3, 1), (6, 3, 0), (3, 2, 1), (2, 5, 2)]
)
def test_winograd_is_a_convolution(tile, size, padding):
    check(
        lambda x, w: topi.nn.conv2d_winograd_nchw(x, w, 1, padding, tile_size=tile),
        lambda x, w: testing.conv2d_nchw_python(x, w, 1, padding),
        (2, 2, 9, 7), (3, 2, size, size),
    )  # fmt: skip


@pytest.mark.parametrize(("tile", "size", "padding"), [(2, 3, 1), (4, 3, 1), (3, 2, 1)])
def test_winograd_in_layout_nhwc_is_a_convolution(tile, size, padding):
    check(
        lambda x, w: topi.nn.conv2d_winograd_nhwc(x, w, 1, padding, tile_size=tile),
        lambda x, w: testing.conv2d_nhwc_python(x, w, 1, padding),
        (2, 9, 7, 2), (size, size, 2, 3),
    )  # fmt: skip


def test_winograd_takes_filters_transformed_ahead():
    (x, w), arrays = inputs((1, 2, 7, 7), (3, 2, 3, 3))
    ahead = evaluate(topi.nn.conv2d_winograd_weight_transform(w, 4), [(w, arrays[1])])
    assert ahead.shape == (6, 6, 3, 2)
    weight = te.placeholder(ahead.shape, name="weight")
    out = topi.nn.conv2d_winograd_nchw(x, weight, 1, 1, pre_computed=True, tile_size=4)
    got = evaluate(out, [(x, arrays[0]), (weight, ahead)])
    np.testing.assert_allclose(
        got, testing.conv2d_nchw_python(*arrays, 1, 1), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("strides", [1, (2, 1), (3, 2)])
@pytest.mark.parametrize("padding", [0, (1, 2), (1, 0, 2, 1), "VALID"])
@pytest.mark.parametrize("dtype", [None, "float32", "float64"])
def test_transposed_convolution_has_the_arguments_of_tvm(strides, padding, dtype):
    places, (data, weight) = inputs((2, 3, 5, 4), (3, 4, 4, 3))
    (sy, sx) = strides if isinstance(strides, tuple) else (strides, strides)
    more = (sy - 1, sx - 1)
    top, left, bottom, right = topi.nn.get_pad_tuple(padding, (4, 3))
    whole = np.zeros((2, 4, 4 * sy + 4 + more[0], 3 * sx + 3 + more[1]))
    for i in range(4):
        for j in range(3):
            part = np.einsum("nchw,co->nohw", data, weight[:, :, i, j])
            whole[:, :, i : i + 4 * sy + 1 : sy, j : j + 3 * sx + 1 : sx] += part
    wanted = whole[:, :, top : whole.shape[2] - bottom, left : whole.shape[3] - right]
    out = topi.nn.conv2d_transpose_nchw(*places, strides, padding, dtype, more)
    assert out.dtype == (dtype or "float32")
    got = evaluate(out, [*zip(places, (data, weight), strict=True)])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_dense_and_matmul():
    check(topi.nn.dense, testing.dense, (3, 5), (4, 5))
    check(
        topi.nn.dense, lambda x, w, b: testing.dense(x, w, b, use_bias=True), (3, 5), (4, 5), (4,)
    )
    check(topi.matmul, np.matmul, (3, 5), (5, 4))
    check(
        lambda a, b: topi.nn.matmul(a, b, transpose_a=True),
        lambda a, b: testing.matmul(a, b, True), (5, 3), (5, 4),
    )  # fmt: skip
    check(topi.nn.batch_matmul, testing.batch_matmul, (2, 3, 5), (2, 4, 5))
    check(topi.nn.batch_matmul, testing.batch_matmul, (2, 3, 5), (1, 4, 5))
    check(
        lambda a, b: topi.nn.batch_matmul(a, b, transpose_a=True, transpose_b=False),
        lambda a, b: testing.batch_matmul(a, b, trans_x=True, trans_y=False), (2, 5, 3), (2, 5, 4),
    )  # fmt: skip


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax(axis):
    check(lambda x: topi.nn.softmax(x, axis), lambda x: testing.softmax_python(x, axis), (3, 4, 5))
    check(
        lambda x: topi.nn.log_softmax(x, axis),
        lambda x: testing.log_softmax_python(x, axis), (3, 4, 5),
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "padding", "ceil_mode", "counted"),
    [
        ((2, 2), (2, 2), 1, 0, False, True),
        ((3, 2), (2, 1), 1, (1, 0), True, True),
        ((3, 3), (2, 2), (1, 1), (1, 1, 1, 1), False, False),
        ((2, 2), (1, 1), (2, 2), (1, 1, 0, 1), False, False),
        (3, 2, 1, 1, True, False),
    ],
)
def test_pool2d(layout, kind, kernel, stride, dilation, padding, ceil_mode, counted):
    options = (kernel, stride, dilation, padding, kind, ceil_mode, layout, counted)
    check(
        lambda x: topi.nn.pool2d(x, *options),
        lambda x: testing.pool2d_python(x, *options),
        (2, 3, 8, 7) if layout == "NCHW" else (2, 8, 7, 3),
    )


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pool_to_a_size(kind):
    check(
        lambda x: topi.nn.global_pool(x, kind),
        lambda x: getattr(x, {"avg": "mean"}.get(kind, kind))(axis=(2, 3), keepdims=True),
        (2, 3, 4, 6),
    )
    check(
        lambda x: topi.nn.adaptive_pool(x, (2, 3), kind, "NHWC"),
        lambda x: testing.adaptive_pool(x, (2, 3), kind, "NHWC"), (2, 4, 6, 3),
    )  # fmt: skip


def test_activations_and_scale_shift():
    check(topi.nn.relu, lambda x: np.maximum(x, 0), (3, 4))
    check(lambda x: topi.nn.leaky_relu(x, 0.1), lambda x: np.where(x > 0, x, 0.1 * x), (3, 4))
    check(topi.nn.prelu, lambda x, s: np.where(x > 0, x, x * s.reshape(1, 3, 1)), (2, 3, 4), (3,))
    column = (1, 3, 1, 1)
    check(
        topi.nn.scale_shift_nchw,
        lambda x, a, b: x * a.reshape(column) + b.reshape(column), (2, 3, 4, 5), (3,), (3,),
    )  # fmt: skip
    check(topi.nn.scale_shift_nhwc, lambda x, a, b: x * a + b, (2, 4, 5, 3), (3,), (3,))
    check(topi.nn.bias_add, lambda x, b: x + b.reshape(1, 3, 1), (2, 3, 4), (3,))
    check(topi.nn.flatten, lambda x: x.reshape(2, -1), (2, 3, 4, 5))


@pytest.mark.parametrize(
    ("convolve", "size", "message"),
    [
        (
            lambda x, w: topi.nn.conv1d_ncw(x, w, dilation=3),
            1,
            "a window of 3 with dilation 3: it .* 5",
        ),
        (
            lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 0, 3),
            2,
            "a window of 3x3 with .* data of 5x5",
        ),
        (
            lambda x, w: topi.nn.conv3d_ncdhw(x, w, 1, 0, 3),
            3,
            "a window of 3x3x3 .* data of 5x5x5",
        ),
    ],
)
def test_windows_beyond_the_data_are_refused_in_any_number_of_dimensions(convolve, size, message):
    with pytest.raises(ExpressionError, match=message):
        convolve(te.placeholder((1, 4, *[5] * size)), te.placeholder((2, 4, *[3] * size)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x, w: topi.nn.conv2d_nchw(x, w, 0, 1), "stride must be a whole number of at"),
        (
            lambda x, w: topi.nn.conv2d_nchw(x, w, 1, (1, 2, 3)),
            "padding must be a whole number of",
        ),
        (lambda x, w: topi.nn.conv2d_nchw(x, w, 1, 0, 5), "does not fit into data of 5x5 with"),
        (lambda x, w: topi.nn.conv2d(x, w, 1, 0, 1, "CHWN"), "data_layout must be one of 'NCHW'"),
        (
            lambda x, w: topi.nn.conv2d(x, w, 1, 0, 1, groups=3),
            "groups must be a number that divides 4 ch",
        ),
        (
            lambda x, w: topi.nn.conv2d_nhwc(x, w, 1, 0),
            "kernel must be of 5 input channels.*got 3",
        ),
        (lambda x, w: topi.nn.conv2d_winograd_nchw(x, w, 2, 0), "stride must be .* at most 1"),
        (lambda x, w: topi.nn.conv2d_winograd_nhwc(x, w, 2, 0), "square filters of 2x2 to 8x8"),
        (lambda x, w: topi.nn.dense(x, w), "data must be a tensor of 2 dimensions"),
        (lambda x, w: topi.nn.pool2d(x, 9, 1), "does not fit"),
        (lambda x, w: topi.nn.pool2d(x, 2, 0), "stride must be a whole number of at least 1"),
        (lambda x, w: topi.nn.pool2d(x, 2, 1, pool_type="sum"), "pool_type must be"),
        (lambda x, w: topi.nn.adaptive_pool(x, 3), "must be a size that divides 5x5"),
        (lambda x, w: topi.nn.dilate(x, [2, 2]), "strides must be 4 distances"),
        (lambda x, w: topi.nn.conv1d_ncw(x, w), "data must be a tensor of 3 dimensions"),
        (
            lambda x, w: topi.nn.conv3d_ncdhw(x, w, 1, (1, 2)),
            "padding must be 1 or 3 or 6 whole numbers",
        ),
        (lambda x, w: topi.nn.pad(x, [1, 1]), "pad_before must be 4 paddings"),
        (
            lambda x, w: topi.nn.conv2d_transpose_nchw(
                x, te.placeholder((4, 2, 3, 3)), 1, 0, "", 1
            ),
            "output_padding must be less than the strides",
        ),
    ],
)
def test_arguments_that_cannot_be_are_named(make, message):
    with pytest.raises(ExpressionError, match=message):
        make(te.placeholder((1, 4, 5, 5), name="x"), te.placeholder((2, 4, 3, 3), name="w"))
