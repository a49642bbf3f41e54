"""Convolutions of rows of pixels as they lie in memory: right, and where offered."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.alternatives import KNOB
from autotune.templates.convolutions import conv2d_narrow, conv2d_rows
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.epilogue import Epilogue

from autotune.emulator import run_emulated
from autotune.target import Target
from autotune.task import ConfigEntity, create
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
CHOICE = {"tile_h": 1, "tile_w": 16, "warps": 2, "together": 1, "filters": 8, "turns": 1}
TOLERANCES = {"float16": 5e-3, "bfloat16": 5e-2, "tf32": 5e-3}
POINT, ADDED = Window((1, 1)), Epilogue(True, True, True, "relu")


def conv(images, h, w, co, ci, window, dtype, epilogue=Epilogue()):  # noqa: B008 - frozen
    return Conv2dNhwc(images, h, w, co, ci, window, dtype, epilogue)


LAYERS = {
    "odd pixels": (
        conv(2, 5, 7, 2, 73, POINT, "bfloat16"), {"tile_w": 32, "filters": 2, "turns": 2},
    ),
    "some of the filters": (
        conv(2, 5, 9, 19, 15, Window((1, 1), (2, 2)), "tf32", Epilogue(True)),
        {"tile_h": 2, "tile_w": 5, "turns": 2, "filters": 16, "warps": 1},
    ),
    "windows of a few floats": (
        conv(2, 9, 7, 19, 9, Window((3, 3), (1, 1), (1, 1, 1, 1)), "tf32"),
        {"tile_h": 4, "tile_w": 7, "turns": 4, "together": 2, "filters": 19},
    ),
    "a warp for the filters of a pixel": (
        conv(2, 5, 9, 61, 7, POINT, "tf32", ADDED), {"tile_w": 20, "filters": 33, "turns": 3},
    ),
    "steps, holes, sides": (
        conv(2, 9, 7, 11, 6, Window((3, 2), (2, 1), (1, 2, 0, 1), (2, 3)), "float16", ADDED),
        {"tile_h": 2, "tile_w": 4, "filters": 11, "warps": 1},
    ),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", LAYERS)
def test_results_are_those_of_the_reference(name):
    shape, change = LAYERS[name]
    source = conv2d_rows.kernel(shape, {**CHOICE, **change})
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    tolerance = TOLERANCES[shape.dtype]
    atol = tolerance * np.abs(wanted).max()
    np.testing.assert_allclose(arrays[-1].astype(np.float64), wanted, rtol=tolerance, atol=atol)


@pytest.mark.parametrize(
    ("shape", "served"),
    [
        (conv(1, 9, 9, 64, 64, POINT, "float16"), True),  # short sums
        (conv(1, 9, 9, 64, 128, POINT, "float16"), False),
        (conv(1, 9, 9, 64, 129, POINT, "float16"), True),
        (conv(1, 9, 9, 65, 128, POINT, "float16"), True),
        (conv(1, 9, 9, 32, 128, POINT, "float16"), True),
        (conv(1, 9, 9, 32, 16, POINT, "float32"), False),
        (conv(1, 9, 9, 30, 72, Window((3, 3)), "tf32"), False),
    ],
)
def test_narrow_and_odd_pixels_are_served(shape, served):
    assert conv2d_rows.offered(shape) == served


@pytest.mark.parametrize("dtype", ["float16", "tf32"])
@pytest.mark.parametrize("args", [(1, 40, 43, 19, 9, 3, 3, 1, 1), (2, 31, 31, 27, 15, 1, 1, 2, 0)])
def test_a_space_has_the_other_families_too(args, dtype):
    task = create("conv2d_nhwc.cuda", (*args, False, "none", False, False, 1, dtype), HOPPER)
    points = [task.default(), *task.suggested()]
    numbers = {point[KNOB].val for point in points}
    assert conv2d_narrow.ROWS in numbers
    assert len(numbers) > 1
    rows = [task.instantiate(p).name for p in points if p[KNOB].val == conv2d_narrow.ROWS]
    assert rows == ["conv2d_rows"]


def test_configurations_from_before_still_build_their_kernels():
    args = (2, 31, 31, 27, 16, 3, 3, 1, 1, False, "none", False, False, 1, "float16")
    task = create("conv2d_nhwc.cuda", args, HOPPER)
    other = next(p for p in [task.default(), *task.suggested()] if p[KNOB].val == 0)
    before = {name: other[name] for name in other if name not in (KNOB, *CHOICE)}
    assert task.instantiate(ConfigEntity(0, None, before)).name == task.instantiate(other).name
