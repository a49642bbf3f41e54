"""Tensor maps of TMA as constants, for kernels that take plain pointers.

A map of 128 bytes describes a matrix and the size of its boxes to TMA. The driver's
``cuTensorMapEncodeTiled`` encodes one for an address, which kernels usually take as an argument.
The maps here are of address 0: to the two dimensions of a matrix they add two of strides 16 bytes
and 2^32 bytes, and a load passes the matrix's address as coordinates of these. So one map serves
every address, and is a constant of the program.

The layout is the driver's (580, for compute capability 9.0), read off maps that it made while one
field at a time was changed; ``tests/gpu/test_tensor_map.py`` compares with the driver at hand.
"""

from __future__ import annotations

# Names of element types in maps.
KINDS = {"float16": 6, "bfloat16": 10, "tf32": 7}
ITEM_BYTES = {"float16": 2, "bfloat16": 2, "tf32": 4}
# Rows of boxes are 128 bytes, the span of the 128-byte swizzle and a line of the cache.
ROW_BYTES = 128
FLAGS, SWIZZLE = 0x46000, 0x6000
RANK, WORDS = 4, 32
# Extents of the dimensions of strides 16 and 2^32 bytes.
LOW_EXTENT, HIGH_EXTENT = 2**28, 2**20
# The flag of im2col mode.
IM2COL = 1


def tensor_map(
    rows: int, columns: int, dtype: str, box_rows: int, pitch: int = 0
) -> tuple[int, ...]:
    """Return the 32-bit words of the map of a matrix stored by rows.

    Args:
        box_rows: rows of a box, at most 256; they are 128 bytes wide.
        pitch: elements from one row to the next; 0 means ``columns``.
    """
    size = ITEM_BYTES[dtype]
    words = [0] * WORDS
    words[2] = FLAGS | KINDS[dtype] << 7 | RANK - 1 << 4
    strides = [(pitch or columns) * size, 16, 2**32]
    words[3:6] = (stride >> 4 & 0xFFFFFFFF for stride in strides)
    words[7] = sum((stride >> 36) << 4 * i for i, stride in enumerate(strides))
    words[8:12] = (extent - 1 for extent in (columns, rows, LOW_EXTENT, HIGH_EXTENT))
    words[13] = ROW_BYTES // size - 1 << 24
    words[14] = box_rows - 1
    words[16] = ROW_BYTES * box_rows
    words[18] = 8 * ROW_BYTES
    return tuple(words)


def matrices_map(
    count: int, rows: int, columns: int, dtype: str, box_rows: int
) -> tuple[int, ...]:
    """Return the words of the map of matrices one behind the other, boxes of which are of one."""
    words = list(tensor_map(rows, columns, dtype, box_rows))
    pitch = columns * ITEM_BYTES[dtype]
    strides = [pitch, rows * pitch, 16, 2**32]
    words[2] += 1 << 4
    words[3:7] = (stride >> 4 & 0xFFFFFFFF for stride in strides)
    words[7] = sum((stride >> 36) << 4 * i for i, stride in enumerate(strides))
    words[8:13] = (extent - 1 for extent in (columns, rows, count, LOW_EXTENT, HIGH_EXTENT))
    return tuple(words)


def pixels_map(
    images: tuple[int, int, int, int], dtype: str, box: tuple[int, int]
) -> tuple[int, ...]:
    """Return the words of the map of NHWC images whose boxes are rectangles of pixels.

    The first two words, the address, are 0: of a map with further dimensions for it no box could
    begin before an image.

    Args:
        images: how many, rows, columns and channels.
        box: rows and columns of a box, at most 256 each, of 128 bytes of channels.
    """
    (count, rows, columns, channels), (height, width) = images, box
    words, pixel = [0] * WORDS, channels * ITEM_BYTES[dtype]
    words[2] = FLAGS | KINDS[dtype] << 7 | RANK - 1 << 4
    strides = [pixel, columns * pixel, rows * columns * pixel]
    words[3:6] = (stride >> 4 & 0xFFFFFFFF for stride in strides)
    words[7] = sum((stride >> 36) << 4 * i for i, stride in enumerate(strides))
    words[8:12] = (extent - 1 for extent in (channels, columns, rows, count))
    words[13] = ROW_BYTES // ITEM_BYTES[dtype] - 1 << 24
    words[14] = width - 1 | height - 1 << 8
    words[16] = ROW_BYTES * width * height
    words[18] = 8 * ROW_BYTES
    return tuple(words)


def unswizzled_map(
    rows: int, columns: int, dtype: str, box: tuple[int, int], pitch: int
) -> tuple[int, ...]:
    """Return the words of the map of a matrix whose boxes are not swizzled.

    Args:
        box: rows and columns of a box, at most 256 each, rows of a multiple of 16 bytes.
        pitch: elements from one row to the next.
    """
    words = list(tensor_map(rows, columns, dtype, box[0], pitch))
    words[2] &= ~SWIZZLE
    words[13] = box[1] - 1 << 24
    words[16] = ITEM_BYTES[dtype] * box[0] * box[1]
    words[18] = 16
    return tuple(words)


def im2col_map(
    images: tuple[int, int, int, int], dtype: str, pixels: int, lower: tuple[int, int],
    upper: tuple[int, int], stride: tuple[int, int],
) -> tuple[int, ...]:  # fmt: skip
    """Return the words of the map by which NHWC images are loaded in im2col mode.

    The first two words, the address, are 0. A box has 128 bytes of channels.

    Args:
        images: how many, rows, columns and channels.
        pixels: output pixels of a box, at most 1024.
        lower: offsets (x, y) of the bounding box's lower corner, -128 to 127.
        upper: those of its upper corner, from the last pixel of an image.
        stride: (x, y) of the convolution, at most 8.
    """
    (count, height, width, channels), size = images, ITEM_BYTES[dtype]
    words = [0] * WORDS
    words[2] = FLAGS | KINDS[dtype] << 7 | RANK - 1 << 4 | IM2COL
    pixel = channels * size
    strides = [pixel, width * pixel, height * width * pixel]
    words[3:6] = (stride >> 4 & 0xFFFFFFFF for stride in strides)
    words[7] = sum((stride >> 36) << 4 * i for i, stride in enumerate(strides))
    words[8:12] = (extent - 1 for extent in (channels, width, height, count))
    words[13] = ROW_BYTES // size - 1 << 24 | stride[0] - 1 << 3 | stride[1] - 1 << 6
    words[14] = sum((x & 255) << 8 * i for i, x in enumerate([*lower, *upper]))
    words[15] = pixels - 1
    words[16] = ROW_BYTES * pixels
    words[18] = 8 * ROW_BYTES
    return tuple(words)


def initializer(words: tuple[int, ...]) -> str:
    """Return words as C has them between braces."""
    return ", ".join(f"{word:#x}u" for word in words)
