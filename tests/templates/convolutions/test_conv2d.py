"""Groups, dilation, uneven padding and other activations of the CUDA template of convolutions."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_cuda
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.convolutions.window_shape import Depthwise, Window

from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.task import create
from tests.templates.emulated import arrays_of, check_emulated


@pytest.mark.parametrize(
    "args",
    [
        (2, 9, 8, 6, 4, 3, 3, (2, 1), (0, 1, 2, 1), True, False, False, False, (1, 2), 2, "relu6"),
        (1, 7, 6, 6, 6, 1, 1, 1, 0, True, False, True, True, 1, 3, "silu"),
    ],
)
def test_grouped_kernels_match_their_reference_in_the_emulator(args):
    check_emulated("conv2d_nchw.cuda", args)


WHOLE_ROWS = {
    "channels": 4, "groups": 8, "pixels": 4, "columns": 2, "rows": 2, "slices": 1, "split": 1,
    "step": 1, "stages": 2, "taps": conv2d_cuda.WHOLE_ROWS, "cluster": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "change"),
    [
        (Conv2d(1, 20, 21, 40, 3, 7, 7, (2, 2), (3, 3), True, True), {}),
        (
            Conv2d(2, 12, 16, 12, 5, 5, 5, (1, 1), (2, 2), False, False, True, True),
            {"groups": 4, "channels": 2, "slices": 2, "step": 2, "pixels": 2},
        ),
        (
            Conv2d(1, 9, 16, 12, 5, 1, 7, (1, 1), (0, 3), True, False),
            {"groups": 4, "channels": 2, "slices": 2, "split": 2, "stages": 1},
        ),
        (
            Conv2d(1, 9, 18, 12, 5, 3, 9, (1, 2), (1, 4), True, False, dilation=(2, 1)),
            {"groups": 16, "channels": 1, "step": 3, "pixels": 3, "stages": 3},
        ),
    ],
    ids=["stem", "slices", "split", "dilated"],
)
def test_long_rows_of_filters_are_read_at_once(shape, change):
    source = conv2d_cuda.kernel(shape, {**WHOLE_ROWS, **change})
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    np.testing.assert_allclose(arrays[-1], wanted, rtol=1e-4, atol=1e-4)


def test_rows_of_filters_are_read_at_once_only_where_they_are_long():
    short, long = (Conv2d(1, 20, 20, 8, 3, k, k, (1, 1), (1, 1), False, False) for k in (3, 5))
    assert conv2d_cuda.WHOLE_ROWS not in conv2d_cuda.candidates(short)["taps"]
    assert conv2d_cuda.WHOLE_ROWS in conv2d_cuda.candidates(long)["taps"]


def test_pixels_that_need_no_neighbours_stand_in_one_row():
    shape = Conv2d(2, 14, 15, 24, 16, 1, 1, (1, 1), (0, 0), True, False, True)
    assert (shape.flat.h, shape.flat.w, shape.flat.outputs) == (1, 210, shape.outputs)
    knobs = {"channels": 2, "groups": 4, "pixels": 2, "columns": 16, "rows": 1, "slices": 2}
    knobs |= {"split": 1, "step": 4, "stages": 2, "taps": 4, "cluster": 0}
    source = conv2d_cuda.kernel(shape, knobs)
    arrays = arrays_of(source)
    assert source.defines["X_COPY"] == 2
    assert arrays[-1].shape == (2, 24, 14, 15)
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    np.testing.assert_allclose(arrays[-1], wanted, rtol=1e-4, atol=1e-4)
    apart = Conv2d(1, 14, 14, 8, 8, 1, 1, (2, 2), (0, 0), False, False)
    assert apart.flat is apart


def test_as_many_groups_as_channels_are_a_depthwise_convolution():
    rng = np.random.default_rng(0)
    data, weight = rng.normal(size=(2, 6, 9, 8)), rng.normal(size=(12, 1, 3, 2))
    window = Window((3, 2), (2, 1), (0, 1, 2, 1), (1, 3))
    each = Depthwise(2, 9, 8, 6, window, filters=2).reference()
    shape = Conv2d(
        2, 9, 8, 12, 6, 3, 2, (2, 1), (0, 1, 2, 1), False, False, dilation=(1, 3), groups=6
    )
    np.testing.assert_allclose(
        shape.reference()(data, weight), each(data, weight.reshape(6, 2, 3, 2))
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1, 8, 8, 6, 4, 3, 3, 1, 1, False, False, False, False, 1, 4), "groups must divide"),
        ((1, 8, 8, 4, 4, 3, 3, 1, 1, False, False, False, False, 5), "does not fit"),
        (
            (1, 8, 8, 4, 4, 3, 3, 1, 1, False, True, False, False, 1, 1, "silu"),
            "relu is an activation",
        ),
    ],
)
def test_a_convolution_that_cannot_be_is_an_error_that_says_so(args, message):
    with pytest.raises(TemplateError, match=message):
        create("conv2d_nchw.cuda", args, "cuda")
