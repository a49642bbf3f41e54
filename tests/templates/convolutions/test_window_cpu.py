"""Windows of a channel on a CPU: depthwise convolutions and pooling."""

import ctypes
import mmap
import platform
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from autotune.templates.convolutions import max_pool_bytes, window_cpu
from autotune.templates.convolutions.max_pool_bytes import BytePool
from autotune.templates.convolutions.window_shape import Depthwise, Pool, Window
from autotune.templates.epilogue import Epilogue

from autotune import Target
from autotune.driver import build
from autotune.errors import TemplateError
from autotune.task import create
from tests.templates.on_cpu import LEVEL, run_over_nan

SQUARE = Window((3, 3), (1, 1), (1, 1, 1, 1))
# Strides, uneven paddings, dilations, windows beyond the image on every side.
SHAPES = {
    "depthwise": Depthwise(2, 9, 11, 3, SQUARE),
    "stride-2": Depthwise(1, 12, 17, 4, Window((3, 3), (2, 2), (1, 1, 1, 1))),
    "all-that-follows": Depthwise(
        1, 9, 8, 4, Window((3, 5), (2, 1), (1, 2, 0, 1), (1, 2)), "NCHW", 2,
        Epilogue(True, True, True, "relu6"),
    ),
    "stride-3": Depthwise(1, 14, 20, 2, Window((5, 4), (3, 3), (2, 4, 1, 2))),
    "wide-padding": Depthwise(2, 3, 4, 2, Window((3, 5), (2, 3), (2, 4, 2, 5))),
    "short-stride-2": Depthwise(3, 14, 13, 3, Window((3, 3), (2, 2), (1, 1, 1, 1))),
    "one-short-plane": Depthwise(1, 9, 9, 1, Window((5, 5), (2, 2), (2, 2, 2, 2))),
    "short-max": Pool(1, 11, 23, 2, Window((3, 3), (2, 2), (1, 1, 1, 1)), "NCHW", "max"),
    "one-column": Depthwise(1, 5, 1, 3, Window((3, 3), (2, 2), (1, 1, 1, 1))),
    "max": Pool(2, 13, 12, 3, Window((3, 3), (2, 2), (1, 1, 1, 1)), "NCHW", "max"),
    "dilated-max": Pool(1, 11, 13, 2, Window((2, 3), (1, 2), (1, 2, 0, 1), (3, 2)), "NCHW", "max"),
    "max-of-most-rows": Pool(1, 25, 23, 3, Window((7, 7), (2, 2), (3, 3, 3, 3)), "NCHW", "max"),
    "uneven-average": Pool(1, 9, 12, 2, Window((3, 2), (2, 1), (0, 1, 2, 1)), "NCHW", "avg"),
    "average-of-all": Pool(1, 9, 20, 2, SQUARE, "NCHW", "avg", True),
    "all-pixels": Pool(1, 7, 7, 5, Window((7, 7)), "NCHW", "avg"),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", SHAPES)
def test_windows_of_a_channel_match_their_reference(name):
    shape = SHAPES[name]
    for lanes, lines in ((4, 2), (8, shape.oh), (16, 1)):
        run_over_nan(shape, window_cpu, {"lanes": lanes, "lines": lines, "copied": 1})
    choice = window_cpu.default_choice(shape, Target("llvm"))
    assert window_cpu.violation(shape, choice, Target("llvm")) is None


@pytest.mark.many_cases
@pytest.mark.parametrize("name", SHAPES)
def test_windows_that_are_read_where_they_lie_match_their_reference(name):
    shape, tried = SHAPES[name], 0
    for lanes, lines in ((4, 2), (4, 3), (8, shape.oh), (16, 4)):
        choice = {"lanes": lanes, "lines": min(lines, shape.oh), "copied": 0}
        if window_cpu.violation(shape, choice, Target("llvm")) is None:
            run_over_nan(shape, window_cpu, choice)
            tried += 1
    copies = window_cpu.default_choice(shape, Target("llvm"))["copied"]
    assert (tried > 0) == (copies < 1) == (shape.window.stride[1] <= 2)


def test_lines_whose_neighbours_would_push_each_other_out_of_the_cache_are_few_together():
    lines = [
        window_cpu.default_choice(
            Depthwise(1, 32, width, 4, Window((3, 3), (1, 1), (1, 1, 1, 1))), Target("llvm")
        )["lines"]
        for width in (1000, 1024)
    ]
    assert lines == [8, 2]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the machine code of x86")
@pytest.mark.parametrize(("cpu", "lanes"), [("x86-64-v3", 8), ("x86-64-v4", 16)])
def test_the_larger_of_two_is_one_instruction(cpu, lanes, tmp_path):
    choice = {"lanes": lanes, "lines": 2, "copied": 0}
    kernel = window_cpu.kernel(Pool(1, 8, 40, 1, Window((2, 2)), "NCHW", "max"), choice)
    (tmp_path / "f.c").write_text(kernel.text())
    command = ["cc", "-O3", f"-march={cpu}", "-S", "-o", "f.s", "f.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    text = (tmp_path / "f.s").read_text().partition("\nwindows:")[2]
    assert "vmaxps" in text
    assert "vblendv" not in text
    assert "vcmp" not in text.replace("vcmpunordps", "")  # by which NaNs are found


# Height, width and window; some end in the last vector of a line, some beyond it, and taps of the
# last reach beyond the next vector.
NAN_WINDOWS = {
    "stride-1": (6, 17, SQUARE),
    "stride-2": (9, 16, Window((3, 3), (2, 2), (1, 1, 1, 1))),
    "short": (11, 23, Window((3, 3), (2, 2), (1, 1, 1, 1))),
    "stride-3": (8, 19, Window((3, 2), (3, 3))),
    "dilated": (11, 13, Window((2, 3), (1, 2), (1, 2, 0, 1), (3, 2))),
    "most": (6, 7, Window((5, 7))),
    "wide": (3, 24, Window((1, 5), (1, 1), (0, 4, 0, 4), (1, 5))),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("copied", [0, 1])
@pytest.mark.parametrize("name", NAN_WINDOWS)
def test_a_maximum_of_a_window_with_a_nan_is_nan_and_others_are_not(name, copied):
    """Each image of a batch has a NaN elsewhere."""
    height, width, window = NAN_WINDOWS[name]
    pixels = height * width
    shape = Pool(pixels, height, width, 1, window, "NCHW", "max")
    images = np.random.default_rng(0).standard_normal((pixels, pixels)).astype("float32")
    images[:, ::7] = -np.inf
    np.fill_diagonal(images, [np.nan, -np.nan])
    images = images.reshape(pixels, 1, height, width)
    wanted = shape.reference()(images)
    assert 0 < np.isnan(wanted).mean() < 1
    for lanes, lines in ((4, 2), (8, 4), (16, 1)):
        choice = {"lanes": lanes, "lines": lines, "copied": copied}
        if window_cpu.violation(shape, choice, Target("llvm")) is None:
            kernel = window_cpu.kernel(shape, choice)
            with Target("llvm"):
                module = build(replace(kernel, flags=(*kernel.flags, LEVEL)), name="f")
            found = np.zeros_like(wanted)
            module(images, found)
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.many_cases
@pytest.mark.parametrize("width", [3, 6, 9, 14])
def test_windows_of_images_padded_above_and_not_at_the_left_see_all_lines(width):
    window = Window((3, 3), (1, 1), (1, 0, 0, 0))
    for copied in (0, 1):
        choice = {"lanes": 8, "lines": 5, "copied": copied}
        run_over_nan(Pool(2, 6, width, 3, window, "NCHW", "max"), window_cpu, choice)
        run_over_nan(Depthwise(2, 6, width, 3, window), window_cpu, {**choice, "lanes": 4})


@pytest.mark.parametrize("phases", [0, 1])
@pytest.mark.parametrize(("dtype", "lowest"), [("int8", -128), ("uint8", 0)])
def test_maxima_of_bytes_are_those_of_the_image_alone(dtype, lowest, phases):
    window = Window((3, 2), (1 + phases, 1 + 2 * phases), (2, 1, 3, 2), (2, 1 + phases))
    shape = BytePool(2, 9, 37, 3, window, dtype=dtype)
    with Target("llvm"):
        module = build(max_pool_bytes.kernel(shape, {"phases": phases}), name="f")
    images = np.random.default_rng(0).integers(lowest, 256 + lowest, (2, 3, 9, 37)).astype(dtype)
    found = np.full(module.kernel.args[1].shape, 77, dtype)
    module(images, found)
    np.testing.assert_array_equal(found, shape.reference()(images))


def test_rows_of_bytes_may_be_longer_than_a_stack():
    shape = BytePool(1, 1, 4_000_000, 1, Window((1, 2), (1, 2)), dtype="uint8")
    with Target("llvm"):
        module = build(max_pool_bytes.kernel(shape, {"phases": 1}), name="f")
    images = np.random.default_rng(0).integers(0, 256, (1, 1, 1, 4_000_000)).astype("uint8")
    found = np.zeros(module.kernel.args[1].shape, "uint8")
    module(images, found)
    np.testing.assert_array_equal(found.ravel(), images.reshape(-1, 2).max(1))


def test_what_a_cpu_does_not_compute_of_windows_is_said():
    with pytest.raises(TemplateError, match="a CPU pools maxima in NCHW, got 'avg'"):
        create("pool2d.cpu", ("avg", 1, 8, 8, 4, 3, 2, 1, 1, False, "NCHW", "int8"), "llvm")
    with pytest.raises(TemplateError, match="layout must be NCHW on a CPU"):
        create("pool2d.cpu", ("max", 1, 8, 8, 4, 3, 2, 1, 1, False, "NHWC"), "llvm")
    with pytest.raises(TemplateError, match="activation must be one of none, relu, relu6"):
        create("depthwise_conv2d.cpu", (1, 8, 8, 4, 1, 3, 3, 1, 1, False, "swish"), "llvm")


# (size, taps, stride, padding, lines, lanes); of the last some lines end a float less before the
# end of the images than vectors reach beyond them.
SHORT = [(9, 3, 2, 1, 5, 4), (9, 3, 2, 1, 5, 8), (9, 3, 2, 1, 5, 16), (5, 7, 1, 3, 1, 8)]


@pytest.mark.many_cases
@pytest.mark.parametrize("copied", [0, 1])
@pytest.mark.parametrize(("size", "taps", "stride", "padding", "lines", "lanes"), SHORT)
def test_windows_of_short_lines_read_nothing_beyond_the_images(
    size, taps, stride, padding, lines, lanes, copied
):
    window = Window((taps, taps), (stride, stride), (padding,) * 4)
    # A multiple of 16 bytes: arrays that lie elsewhere are copied.
    shape, page = Depthwise(1, size, size, 4, window), mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert protect(start, page, 0) == protect(start + 2 * page, page, 0) == 0
    kernel = window_cpu.kernel(shape, {"lanes": lanes, "lines": lines, "copied": copied})
    with Target("llvm"):
        module = build(kernel, name="f")
    rng = np.random.default_rng(0)
    for at in (page, 2 * page - 4 * 4 * size**2):
        data = np.frombuffer(memory, "float32", 4 * size**2, at).reshape(1, 4, size, size)
        data[:] = rng.standard_normal(data.shape)
        weight = rng.standard_normal(kernel.args[1].shape).astype("float32")
        out = np.full(kernel.args[-1].shape, np.nan, "float32")
        module(data, weight, out)
        np.testing.assert_allclose(out, kernel.reference(data, weight), rtol=1e-4, atol=1e-4)
