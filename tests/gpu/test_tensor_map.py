"""Tensor maps of the library beside those of the driver at hand."""

import ctypes
import struct

import pytest
from autotune.templates.tensor_map import (
    KINDS,
    im2col_map,
    matrices_map,
    pixels_map,
    tensor_map,
    unswizzled_map,
)

from autotune.target.query import cuda_device

pytestmark = pytest.mark.gpu
# Of the driver's enumerations: types of elements, the swizzle and the cache's promotion.
TYPES = {"float16": 6, "bfloat16": 9, "tf32": 7}
NO_SWIZZLE, SWIZZLE_128, PROMOTION_128 = 0, 3, 2


def make_context_current(driver):
    context = ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0


def drivers_map(rows, columns, dtype, box, pitch, swizzle):
    size, rank = 4 if dtype == "tf32" else 2, 4
    longs, ints = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
    room = (ctypes.c_ubyte * 256)()
    at = -(-ctypes.addressof(room) // 64) * 64
    driver = ctypes.CDLL("libcuda.so.1")
    make_context_current(driver)
    status = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), TYPES[dtype], rank, None, longs(columns, rows, 2**28, 2**20),
        longs(pitch * size, 16, 2**32), ints(box[1], box[0], 1, 1), ints(1, 1, 1, 1),
        0, swizzle, PROMOTION_128, 0,
    )  # fmt: skip
    assert status == 0
    return struct.unpack("<32I", ctypes.string_at(at, 128))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    ("rows", "columns", "box_rows"),
    [(4096, 4096, 128), (1, 8, 1), (2**30, 2**30, 256), (77, 264, 64)],
)
def test_a_map_is_the_drivers(dtype, rows, columns, box_rows):
    device = cuda_device()
    if device is None or device.arch != "sm_90":
        pytest.skip("maps are those of sm_90")
    box = (box_rows, 32 if dtype == "tf32" else 64)
    assert tensor_map(rows, columns, dtype, box_rows) == drivers_map(
        rows, columns, dtype, box, columns, SWIZZLE_128
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("rows", "columns", "box", "pitch"),
    [(255, 2054, (8, 136), 16376), (8, 72, (16, 72), 2**20), (513, 300, (64, 200), 304)],
)
def test_a_map_of_lines_is_the_drivers(dtype, rows, columns, box, pitch):
    device = cuda_device()
    if device is None or device.arch != "sm_90":
        pytest.skip("maps are those of sm_90")
    assert unswizzled_map(rows, columns, dtype, box, pitch) == drivers_map(
        rows, columns, dtype, box, pitch, NO_SWIZZLE
    )


def drivers_matrices(count, rows, columns, dtype, box_rows):
    size, rank = 4 if dtype == "tf32" else 2, 5
    longs, ints = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
    room = (ctypes.c_ubyte * 256)()
    at = -(-ctypes.addressof(room) // 64) * 64
    driver = ctypes.CDLL("libcuda.so.1")
    make_context_current(driver)
    pitch = columns * size
    status = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), TYPES[dtype], rank, None, longs(columns, rows, count, 2**28, 2**20),
        longs(pitch, rows * pitch, 16, 2**32), ints(128 // size, box_rows, 1, 1, 1),
        ints(1, 1, 1, 1, 1), 0, SWIZZLE_128, PROMOTION_128, 0,
    )  # fmt: skip
    assert status == 0
    return struct.unpack("<32I", ctypes.string_at(at, 128))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("sizes", [(9, 96, 104, 64), (49, 8, 4096, 64), (25, 2**15, 2**14, 128)])
def test_a_map_of_several_matrices_is_the_drivers(dtype, sizes):
    device = cuda_device()
    if device is None or device.arch != "sm_90":
        pytest.skip("maps are those of sm_90")
    count, rows, columns, box_rows = sizes
    wanted = drivers_matrices(count, rows, columns, dtype, box_rows)
    assert matrices_map(count, rows, columns, dtype, box_rows) == wanted


def drivers_windows(images, dtype, pixels, lower, upper, stride):
    (n, h, w, c), size, rank = images, 4 if dtype == "tf32" else 2, 4
    longs, ints, signed = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank, ctypes.c_int * 2
    room = (ctypes.c_ubyte * 256)()
    at = -(-ctypes.addressof(room) // 64) * 64
    driver = ctypes.CDLL("libcuda.so.1")
    make_context_current(driver)
    status = driver.cuTensorMapEncodeIm2col(
        ctypes.c_void_p(at), TYPES[dtype], rank, None, longs(c, w, h, n),
        longs(c * size, w * c * size, h * w * c * size), signed(*lower), signed(*upper),
        128 // size, pixels, ints(1, *stride, 1), 0, SWIZZLE_128, PROMOTION_128, 0,
    )  # fmt: skip
    assert status == 0
    return struct.unpack("<32I", ctypes.string_at(at, 128))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(
    ("images", "pixels", "lower", "upper", "stride"),
    [
        ((16, 28, 28, 64), 128, (-1, -1), (-1, -2), (2, 2)),
        ((1, 500, 3000, 1280), 256, (-127, 0), (3, -128), (1, 8)),
    ],
)
def test_a_map_of_windows_is_the_drivers(dtype, images, pixels, lower, upper, stride):
    device = cuda_device()
    if device is None or device.arch != "sm_90":
        pytest.skip("maps are those of sm_90")
    args = (images, dtype, pixels, lower, upper, stride)
    assert im2col_map(*args) == drivers_windows(*args)


def drivers_pixels(images, dtype, box):
    (n, h, w, c), size, rank = images, 4 if dtype == "tf32" else 2, 4
    longs, ints = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
    room = (ctypes.c_ubyte * 256)()
    at = -(-ctypes.addressof(room) // 64) * 64
    driver = ctypes.CDLL("libcuda.so.1")
    make_context_current(driver)
    status = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), TYPES[dtype], rank, None, longs(c, w, h, n),
        longs(c * size, w * c * size, h * w * c * size), ints(128 // size, box[1], box[0], 1),
        ints(1, 1, 1, 1), 0, SWIZZLE_128, PROMOTION_128, 0,
    )  # fmt: skip
    assert status == 0
    return (0, 0, *struct.unpack("<32I", ctypes.string_at(at, 128))[2:])


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("box", [(10, 18), (1, 256)], ids=str)
def test_a_map_of_pixels_is_the_drivers(dtype, box):
    device = cuda_device()
    if device is None or device.arch != "sm_90":
        pytest.skip("maps are those of sm_90")
    args = ((3, 500, 3000, 96), dtype, box)
    words = pixels_map(*args)
    assert words == (words[0], words[1], *drivers_pixels(*args)[2:])
    assert words[:2] == (0, 0)
