"""Functions of one number that follow convolutions on a CPU."""

import pytest
from autotune.templates.convolutions import conv2d_cpu, window_cpu
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.convolutions.window_shape import Depthwise, Window
from autotune.templates.epilogue import Epilogue

from tests.templates.on_cpu import run_over_nan

HARD_SWISH, MISH = "a * min(max(a + 3, 0), 6) / 6", "a * tanh(log(1 + exp(a)))"
TILE = {"rows": 2, "vectors": 1, "lanes": 4, "block_m": 4, "channels": 4, "panels": 1, "tail": 0}
# Panels with a tail, lines, filters in vectors, lines that are streamed.
WAYS = {
    "panels": {"panels": 2, "tail": 1, "lines": 0, "across": 0, "in_place": 0},
    "planes": {"lines": 4, "across": 0, "in_place": 0},
    "across": {"lines": 2, "across": 1, "in_place": 0},
    "streamed": {"lines": 4, "across": 0, "in_place": 2, "block_m": 16},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_kernel_of_convolutions_applies_a_function_once(way):
    window = ((1, 1), (2, 2), (0, 0)) if way == "streamed" else ((3, 3), (1, 1), (1, 1))
    (kh, kw), stride, padding = window
    shape = Conv2d(2, 7, 11, 9, 6, kh, kw, stride, padding, True, False, activation=HARD_SWISH)
    run_over_nan(shape, conv2d_cpu, TILE | WAYS[way])


@pytest.mark.parametrize(("copied", "function"), [(0, "silu"), (1, MISH)])
def test_depthwise_layers_have_functions(copied, function):
    window = Window((3, 3), (1, 1), (1, 1, 1, 1))
    shape = Depthwise(1, 9, 11, 3, window, "NCHW", 2, Epilogue(True, activation=function))
    run_over_nan(shape, window_cpu, {"lanes": 8, "lines": 4, "copied": copied})


def test_a_rectifier_may_be_named_as_an_activation():
    shape = Conv2d(1, 3, 5, 4, 2, 1, 1, (1, 1), (0, 0), False, False, activation="relu")
    run_over_nan(shape, conv2d_cpu, TILE | WAYS["panels"])
