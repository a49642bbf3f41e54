"""Convolutions on a CPU: which pixels a tile has, and how images are read."""

import pytest
from autotune.templates import cpu_tiles
from autotune.templates.convolutions import conv2d_cpu
from autotune.templates.convolutions.conv2d_cpu_space import holds_border
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.cpu_tiles import VectorUnit
from autotune.templates.products import gemm_cpu
from autotune.templates.products.gemm_shape import Gemm

from autotune import Target
from tests.templates.on_cpu import run_over_nan

# (h, w, kernel, stride, padding): odd sizes, strides beyond the filter, padding on two sides or of
# each side its own.
WINDOWS = [
    (9, 11, (3, 3), (1, 1), (1, 1)),
    (10, 7, (3, 3), (2, 2), (1, 1)),
    (13, 12, (7, 7), (2, 2), (3, 3)),
    (8, 9, (1, 1), (2, 2), (0, 0)),
    (7, 20, (1, 3), (1, 2), (0, 1)),
    (9, 30, (5, 2), (3, 1), (2, 0)),
    (10, 12, (3, 3), (2, 2), (0, 0, 1, 1)),
    (6, 23, (4, 3), (1, 2), (2, 0, 1, 3)),
]


@pytest.mark.many_cases
@pytest.mark.parametrize(("h", "w", "taps", "stride", "padding"), WINDOWS)
def test_lines_that_are_not_unfolded_give_the_right_sums(h, w, taps, stride, padding):
    shape = Conv2d(2, h, w, 7, 5, *taps, stride, padding, True, True, True, True)
    tile = {"rows": 3, "vectors": 2, "lanes": 4, "block_m": 4, "panels": 1, "tail": 0}
    for lines, channels in ((1, 2), (3, 8)):
        choice = {**tile, "lines": lines, "channels": channels, "across": 0}
        run_over_nan(shape, conv2d_cpu, choice)


# Vectors that filters fill in part, tiles that a line does not fill, several blocks and lines,
# some channels at a time.
ACROSS = [
    {"rows": 3, "vectors": 2, "lanes": 4, "block_m": 8, "lines": 1},
    {"rows": 6, "vectors": 1, "lanes": 8, "block_m": 16, "lines": 3},
    {"rows": 9, "vectors": 1, "lanes": 16, "block_m": 16, "lines": 2},
    {"rows": 14, "vectors": 2, "lanes": 16, "block_m": 32, "lines": 4},
    {"rows": 3, "vectors": 3, "lanes": 8, "block_m": 24, "lines": 2},
    {"rows": 6, "vectors": 2, "lanes": 4, "block_m": 32, "lines": 16},
    {"rows": 7, "vectors": 2, "lanes": 16, "block_m": 64, "lines": 4, "channels": 2},
    {"rows": 4, "vectors": 1, "lanes": 8, "block_m": 16, "lines": 3, "channels": 1},
]


@pytest.mark.many_cases
@pytest.mark.parametrize("number", range(len(ACROSS)))
def test_filters_in_vectors_give_the_right_sums(number):
    """Each tile has three of the windows, and each window some of the tiles."""
    choice = {"panels": 1, "channels": 8, "tail": 0, "across": 1} | ACROSS[number]
    for step in (0, 2, 3):
        h, w, taps, stride, padding = WINDOWS[(number + step) % len(WINDOWS)]
        shape = Conv2d(2, h, w, 21, 5, *taps, stride, padding, True, True, True, True)
        run_over_nan(shape, conv2d_cpu, choice)
    run_over_nan(shape.alone, conv2d_cpu, choice)


@pytest.mark.many_cases
@pytest.mark.parametrize("number", range(len(ACROSS)))
def test_lines_with_padding_that_are_read_in_place_give_the_right_sums(number):
    choice = {"panels": 1, "channels": 8, "tail": 0, "across": 1, "in_place": 1} | ACROSS[number]
    for at, (h, w, taps, stride, padding) in enumerate(WINDOWS):
        shape = Conv2d(2, h, w, 21, 5, *taps, stride, padding, True, True, True, True)
        if number % 3 == at % 3 and holds_border(shape, choice["rows"]):
            run_over_nan(shape, conv2d_cpu, choice)
    run_over_nan(shape.alone, conv2d_cpu, choice | {"rows": 14})


# Distances of taps, of which some are beyond the image for all pixels of a line.
SPREAD = [
    (9, 11, (3, 3), (1, 1), (2, 2), (2, 2)),
    (12, 10, (3, 3), (2, 2), (2, 3), (2, 3)),
    (11, 9, (1, 3), (1, 1), (0, 4), (1, 4)),
    (10, 13, (3, 2), (3, 1), (0, 0, 2, 1), (3, 2)),
    (5, 6, (3, 3), (1, 1), (6, 6), (6, 6)),
]
# Panels, lines that are not unfolded, and filters in vectors, which copy lines or read in place.
WAYS = [
    {"across": 0, "lines": 0, "panels": 2, "in_place": 0},
    {"across": 0, "lines": 2, "panels": 1, "in_place": 0},
    {"across": 1, "lines": 3, "panels": 1, "in_place": 0},
    {"across": 1, "lines": 2, "panels": 1, "in_place": 1},
    {"across": 1, "lines": 16, "panels": 1, "in_place": 0},
]


@pytest.mark.many_cases
@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("groups", [1, 3])
def test_groups_and_distances_of_taps_give_the_right_sums(way, groups):
    """Each way has all distances, and each distance is with groups and without."""
    tile = {"rows": 3, "vectors": 2, "lanes": 4, "block_m": 8, "channels": 2, "tail": 0}
    for h, w, taps, stride, padding, dilation in SPREAD[(way + groups // 2) % 2 :: 2]:
        shape = Conv2d(
            2, h, w, 7 * groups, 5 * groups, *taps, stride, padding, True, True, True, True,
            dilation, groups,
        )  # fmt: skip
        if not WAYS[way]["in_place"] or holds_border(shape, tile["rows"]):
            run_over_nan(shape, conv2d_cpu, tile | WAYS[way])


def test_every_second_pixel_of_groups_is_read_in_place_and_streamed():
    shape = Conv2d(2, 9, 33, 21, 15, 1, 1, (2, 2), (0, 0), True, True, groups=3)
    tile = {"rows": 4, "vectors": 1, "lanes": 8, "block_m": 8, "channels": 4, "tail": 0}
    for rest in (
        {"panels": 2, "lines": 0, "in_place": 1},
        {"panels": 1, "lines": 2, "in_place": 2},
    ):
        run_over_nan(shape, conv2d_cpu, tile | {"across": 0} | rest)


@pytest.mark.parametrize("unit", [VectorUnit(16, 32), VectorUnit(8, 16)])
def test_untuned_choices_of_groups_and_distances_are_in_the_space(unit, monkeypatch):
    monkeypatch.setattr(cpu_tiles, "vector_unit", lambda _: unit)
    with Target("llvm") as current:
        for h, co, ci, k, stride, padding, dilation, groups in (
            (56, 128, 128, 3, 1, 1, 1, 32), (14, 512, 512, 3, 1, 1, 1, 32),
            (28, 60, 240, 1, 1, 0, 1, 3), (28, 256, 256, 3, 1, 2, 2, 1),
            (33, 24, 48, 3, 2, 4, 4, 2), (112, 16, 276, 1, 2, 0, 1, 2),
        ):  # fmt: skip
            shape = Conv2d(
                1, h, h, co, ci, k, k, (stride, stride), (padding, padding), True, True,
                dilation=(dilation, dilation), groups=groups,
            )  # fmt: skip
            choice = conv2d_cpu.default_choice(shape, current)
            assert conv2d_cpu.violation(shape, choice, current) is None
            options = conv2d_cpu.candidates(shape)
            assert all(value in options[name] for name, value in choice.items())


def test_padding_in_the_middle_of_a_line_is_not_read_in_place(monkeypatch):
    """Of 15 pixels, a last tile of one meets the padding, and so do two pixels before it."""
    shape = Conv2d(1, 15, 15, 16, 5, 7, 7, (1, 1), (3, 3), True, True)
    found = {rows for rows in range(1, 15) if holds_border(shape, rows)}
    assert found == {3, 4, 5, 6, 8, 9, 10, 11, 12}
    choice = {"rows": 14, "vectors": 1, "lanes": 8, "block_m": 16, "panels": 1, "channels": 4}
    choice |= {"tail": 0, "lines": 2, "across": 1, "in_place": 1}
    monkeypatch.setattr(cpu_tiles, "vector_unit", lambda _: VectorUnit(16, 32))
    refused = conv2d_cpu.violation(shape, choice, Target("llvm"))
    assert refused == "no copies, or padding in the middle of a line"


def test_sums_of_what_lies_in_the_padding_are_left_out():
    """Padding as wide as filters: some of their rows and columns meet the image nowhere."""
    tile = {"rows": 3, "vectors": 1, "lanes": 4, "block_m": 8, "lines": 2}
    rest = {"panels": 1, "channels": 2, "tail": 0, "across": 1}
    for h, w, taps, stride, padding in (
        (1, 2, (3, 3), (1, 1), (1, 1)),
        (2, 3, (5, 5), (1, 1), (4, 4)),
        (3, 1, (3, 7), (2, 1), (2, 6)),
    ):
        shape = Conv2d(2, h, w, 7, 5, *taps, stride, padding, True, False)
        run_over_nan(shape, conv2d_cpu, tile | rest)


@pytest.mark.many_cases
@pytest.mark.parametrize("stride", [(1, 1), (2, 1), (1, 2)])
def test_one_tap_with_padding_on_the_right_and_below_alone_gives_the_right_sums(stride):
    shape = Conv2d(2, 4, 19, 13, 6, 1, 1, stride, (0, 0, 2, 3), True, False)
    tile = {"rows": 6, "vectors": 2, "lanes": 8, "block_m": 16, "panels": 2, "channels": 4}
    for tail in (0, 1):
        rest = {"tail": tail, "lines": 0, "across": 0, "in_place": 0}
        run_over_nan(shape, conv2d_cpu, tile | rest)


@pytest.mark.many_cases
@pytest.mark.parametrize("pack", [1, 3, 5])
@pytest.mark.parametrize(("rows", "block_m"), [(6, 16), (3, 4), (4, 64)])
def test_blocks_that_whole_tiles_do_not_fill_are_covered_once(rows, block_m, pack):
    choice = {"rows": rows, "vectors": 2, "lanes": 4, "block_m": block_m, "panels": 2}
    run_over_nan(Gemm(37, 29, 50), gemm_cpu, {**choice, "depth": 32, "pack": pack})


@pytest.mark.many_cases
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3"])
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("image", range(3))
def test_every_second_pixel_that_is_read_in_place_gives_the_right_sums(target, lanes, image):
    """Lines of one panel and of several, tiles and blocks that filters fill in part."""
    if lanes == 16 and target != "llvm":
        pytest.skip("vectors that the target lacks")
    images = ((7, 2 * lanes + 1, (2, 2)), (9, 5 * lanes, (1, 2)), (8, 40, (3, 1)))
    h, w, stride = images[image]
    shape = Conv2d(2, h, w, 11, 21, 1, 1, stride, (0, 0), True, True, True, True)
    for rows, vectors, block_m, panels, channels in ((4, 2, 16, 1, 8), (3, 1, 8, 4, 64)):
        tile = {"rows": rows, "vectors": vectors, "lanes": lanes, "block_m": block_m}
        choice = {**tile, "panels": panels, "channels": channels, "in_place": 1}
        choice |= {"tail": 0, "lines": 0, "across": 0}
        run_over_nan(shape, conv2d_cpu, choice, target)
    if image == 2:
        run_over_nan(shape.alone, conv2d_cpu, choice, target)
