"""Winograd's convolution is a convolution, with filters that are transformed ahead."""

import random

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates import common
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.convolutions.winograd_cuda import Winograd, transformed_filters
from autotune.templates.epilogue import Epilogue

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import check_emulated

HOPPER = Target("cuda -arch=sm_90")


# n, h, w, co, ci, tile, padding, bias, activation, residual, affine, layout, kept, shift
@pytest.mark.parametrize(
    "args",
    [
        (2, 7, 6, 5, 3, 4, (0, 1, 2, 0), True, "relu", True, True, "NCHW", True),
        (2, 5, 6, 6, 4, 2, 1, True, "relu6", True, False, "NHWC", True, True),
        (1, 3, 4, 2, 2, 2, 1, False, "none", False, False, "NHWC"),
    ],
)
def test_kernels_match_their_reference_in_the_emulator(args):
    check_emulated("winograd_conv2d.cuda", args, rtol=1e-3)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("sides", [(1, 1, 1, 1), (0, 0, 0, 0), (2, 0, 1, 3)])
def test_with_transformed_filters_the_reference_is_a_convolution(tile, layout, sides):
    rng = np.random.default_rng(0)
    data, weight = rng.normal(size=(2, 3, 9, 10)), rng.normal(size=(4, 3, 3, 3))
    plain = Conv2d(2, 9, 10, 4, 3, 3, 3, (1, 1), sides, False, False)
    shape = Winograd(2, 9, 10, 4, 3, tile, sides, layout)
    given = data if layout == "NCHW" else data.transpose(0, 2, 3, 1)
    got = shape.reference()(given, transformed_filters(weight, tile, layout))
    got = got if layout == "NCHW" else got.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(got, plain.reference()(data, weight), rtol=1e-9, atol=1e-9)
    assert shape.flop == plain.flop


def test_in_float32_results_differ_from_plain_sums_by_rounding():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(1, 64, 14, 14)).astype("float32")
    weight = rng.normal(size=(8, 64, 3, 3)).astype("float32")
    wanted = Conv2d(1, 14, 14, 8, 64, 3, 3, (1, 1), (1, 1), False, False).reference()(
        data.astype("float64"), weight
    )
    for tile, most in ((2, 3e-6), (4, 3e-5)):
        got = Winograd(1, 14, 14, 8, 64, tile).reference()(data, transformed_filters(weight, tile))
        assert got.dtype == np.float32
        assert abs(got - wanted).max() < most * abs(wanted).max()


@pytest.mark.parametrize(
    "args", [(1, 56, 56, 64, 64), (16, 7, 7, 512, 512, 2, 1), (1, 1, 1, 1, 1)]
)
def test_the_default_fits_the_device(args):
    task = create("winograd_conv2d.cuda", args, HOPPER)
    kernel = task.instantiate(task.default()).kernel("cuda")
    assert launch_violation(kernel, HOPPER.limits) is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1, 4, 4, 8, 8, 3), "tile must be 2 or 4"),
        ((1, 4, 4, 8, 8, 4, 1, False, "none", False, False, "CHWN"), "NCHW or NHWC"),
        ((1, 2, 2, 8, 8, 4, 0), "does not fit"),
        ((1, 4, 0, 8, 8), "at least 1"),
    ],
)
def test_a_convolution_that_cannot_be_is_an_error_that_says_so(args, message):
    with pytest.raises(TemplateError, match=message):
        create("winograd_conv2d.cuda", args, "cuda")


def test_defaults_are_the_best_of_the_same_draws_whatever_draws_them():
    options = {"a": [3, 5, 7], "b": [1], "c": list(range(17))}
    rng = random.Random(0)
    drawn = [[rng.choice(values) for values in options.values()] for _ in range(500)]
    assert common._drawn(options, 500).tolist() == drawn
    wanted = min((d for d in drawn if d[0] != 5), key=lambda d: abs(d[2] - d[0] - 2.5))
    plain = common.best_drawn(
        options, 500, lambda c: "five" if c["a"] == 5 else None,
        lambda c: abs(c["c"] - c["a"] - 2.5),
    )  # fmt: skip
    at_once = common.best_drawn_at_once(
        options, 500, lambda c: [(c["a"] == 5, "five")], lambda c: abs(c["c"] - c["a"] - 2.5)
    )
    assert list(plain.values()) == list(at_once.values()) == wanted


def test_the_default_is_found_once_for_all_that_may_follow():
    plain, more = Winograd(1, 8, 8, 4, 4), Winograd(1, 8, 8, 4, 4, epilogue=Epilogue(bias=True))
    assert plain.alone == more.alone == plain
