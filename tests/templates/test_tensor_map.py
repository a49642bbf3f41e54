"""Tensor maps as constants: their words are those that the driver writes."""

import pytest
from autotune.templates.tensor_map import im2col_map, initializer, tensor_map

# Rows, columns, type and rows of a box; words that are not 0 of what `cuTensorMapEncodeTiled` of
# driver 580 wrote on an H200 for address 0, 4 dimensions and the swizzle of 128 bytes.
WRITTEN = {
    (2048, 4096, "float16", 128): {
        2: 0x46330, 3: 0x200, 4: 1, 5: 0x10000000, 8: 0xFFF, 9: 0x7FF, 10: 0xFFFFFFF, 11: 0xFFFFF,
        13: 0x3F000000, 14: 0x7F, 16: 0x4000, 18: 0x400,
    },
    (0x12345, 4096, "bfloat16", 256): {
        2: 0x46530, 3: 0x200, 4: 1, 5: 0x10000000, 8: 0xFFF, 9: 0x12344, 10: 0xFFFFFFF,
        11: 0xFFFFF, 13: 0x3F000000, 14: 0xFF, 16: 0x8000, 18: 0x400,
    },
    (2048, 4096, "tf32", 128): {
        2: 0x463B0, 3: 0x400, 4: 1, 5: 0x10000000, 8: 0xFFF, 9: 0x7FF, 10: 0xFFFFFFF, 11: 0xFFFFF,
        13: 0x1F000000, 14: 0x7F, 16: 0x4000, 18: 0x400,
    },
}  # fmt: skip


@pytest.mark.parametrize("args", WRITTEN, ids=str)
def test_a_map_is_what_the_driver_wrote(args):
    words = tensor_map(*args)
    assert len(words) == 32
    assert {i: word for i, word in enumerate(words) if word} == WRITTEN[args]


# The same of `cuTensorMapEncodeIm2col`: of windows that begin 1 before an image, the last ones 1
# and 2 before its last column and row, by steps of 2.
WINDOWS = {
    2: 0x46331, 3: 8, 4: 0xE0, 5: 0x1880, 8: 0x3F, 9: 0x1B, 10: 0x1B, 11: 0xF, 13: 0x3F000048,
    14: 0xFEFFFFFF, 15: 0x7F, 16: 0x4000, 18: 0x400,
}  # fmt: skip


def test_a_map_of_windows_is_what_the_driver_wrote():
    words = im2col_map(
        (16, 28, 28, 64), "float16", 128, lower=(-1, -1), upper=(-1, -2), stride=(2, 2)
    )
    assert {i: word for i, word in enumerate(words) if word} == WINDOWS


def test_rows_further_apart_than_32_bits_of_16_bytes_keep_their_upper_bits():
    words = tensor_map(8, 2**37, "float16", 8)
    assert (words[3], words[7]) == (2**38 >> 4 & 0xFFFFFFFF, 2**38 >> 36)


def test_rows_of_a_part_of_a_matrix_are_as_far_apart_as_those_of_the_whole():
    part, whole = tensor_map(99, 64, "float16", 16, pitch=512), tensor_map(99, 512, "float16", 16)
    assert {i for i in range(32) if part[i] != whole[i]} == {8}
    assert (part[8], part[3]) == (63, 64)


def test_an_initializer_is_what_c_reads():
    assert initializer((0, 255)) == "0x0u, 0xffu"
