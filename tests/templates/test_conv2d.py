"""Groups, dilation, uneven padding and other activations of the CUDA template of convolutions."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.conv2d_shape import Conv2d
from autotune.templates.window_shape import Depthwise, Window

from autotune.errors import TemplateError
from autotune.task import create
from tests.templates.emulated import check_emulated


@pytest.mark.parametrize(
    "args",
    [
        (2, 9, 8, 6, 4, 3, 3, (2, 1), (0, 1, 2, 1), True, False, False, False, (1, 2), 2, "relu6"),
        (1, 7, 6, 6, 6, 1, 1, 1, 0, True, False, True, True, 1, 3, "silu"),
    ],
)
def test_grouped_kernels_match_their_reference_in_the_emulator(args):
    check_emulated("conv2d_nchw.cuda", args)


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
