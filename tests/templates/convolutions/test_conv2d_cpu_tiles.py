"""Tiles of convolutions on a CPU: pixels left over, images read in place, untuned choices."""

from types import SimpleNamespace

import pytest
from autotune.templates import cpu_tiles
from autotune.templates.convolutions import conv2d_cpu, conv2d_cpu_space, conv2d_cpu_untuned
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.cpu_tiles import VectorUnit

from autotune import Target
from autotune.target import Limits
from tests.templates.on_cpu import run_over_nan


@pytest.mark.parametrize("channels", [5, 21, 32, 96])
def test_pixels_left_over_by_whole_panels_get_the_right_sums(channels):
    shape = Conv2d(1, 7, 7, 6, channels, 1, 1, (1, 1), (0, 0), True, True)
    tile = {"rows": 3, "vectors": 3, "block_m": 4, "panels": 1, "lines": 0, "tail": 1}
    for lanes in (4, 8, 16):
        choice = {**tile, "lanes": lanes, "channels": 64, "across": 0}
        run_over_nan(shape, conv2d_cpu, choice)


# Lines that whole vectors cover, that two that overlap cover, and that are shorter than one.
@pytest.mark.many_cases
@pytest.mark.parametrize("columns", [32, 21, 5])
@pytest.mark.parametrize("stride", [2, 3])
def test_every_second_pixel_of_1x1_layers_is_gathered(columns, stride):
    shape = Conv2d(2, 9, columns * stride - 1, 23, 40, 1, 1, (stride,) * 2, (0, 0), True, True)
    tile = {"rows": 1, "vectors": 2, "block_m": 32, "panels": 2, "channels": 16}
    for lanes in (4, 8, 16):
        choice = {**tile, "lanes": lanes, "lines": 0, "tail": 0, "across": 0, "in_place": 0}
        assert dict(conv2d_cpu.kernel(shape, choice).defines)["FETCHED"] > 0
        run_over_nan(shape, conv2d_cpu, choice)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_images_that_are_read_in_place_give_the_right_sums(lanes):
    shape = Conv2d(2, 7, 9, 11, 13, 1, 1, (1, 1), (0, 0), True, True, True, True)
    tile = {"rows": 3, "vectors": 2, "lanes": lanes, "block_m": 8, "panels": 2, "channels": 8}
    choice = {**tile, "tail": 0, "lines": 0, "across": 0, "in_place": 1}
    if lanes <= cpu_tiles.vector_unit(Target("llvm")).floats:
        assert conv2d_cpu.violation(shape, choice, Target("llvm")) is None
    run_over_nan(shape, conv2d_cpu, choice)


# Lines of several panels, of one that vectors overlap, and of less than a vector.
@pytest.mark.many_cases
@pytest.mark.parametrize("columns", [70, 21, 5])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_lines_that_are_packed_while_others_are_multiplied_give_the_right_sums(
    lanes, rows, columns
):
    shape = Conv2d(2, 9, columns, 11, 13, 1, 1, (2, 2), (0, 0), True, True, True, True)
    tile = {"rows": rows, "vectors": 2, "lanes": lanes, "block_m": 16, "panels": 1, "channels": 4}
    choice = {**tile, "tail": 0, "lines": 2, "across": 0, "in_place": conv2d_cpu_space.STREAMED}
    run_over_nan(shape, conv2d_cpu, choice)


@pytest.mark.parametrize("channels", [2, 100])
def test_few_vectors_are_packed_with_many_steps_and_many_with_one(channels):
    for filters in (2, 40):
        shape = Conv2d(1, 7, 36, filters, channels, 1, 1, (3, 2), (0, 0), True, True)
        tile = {"rows": 2, "vectors": 1, "lanes": 4, "block_m": 64, "panels": 1, "tail": 0}
        choice = {
            **tile,
            "channels": 32,
            "lines": 4,
            "across": 0,
            "in_place": conv2d_cpu_space.STREAMED,
        }
        assert conv2d_cpu.violation(shape, choice, Target("llvm")) is None
        run_over_nan(shape, conv2d_cpu, choice)


def test_untuned_layers_of_few_filters_stay_in_place():
    target, found = SimpleNamespace(limits=Limits(sm_count=2), attrs={}), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_tiles, "vector_unit", lambda _: VectorUnit(16, 32))
        for filters, channels, taps in ((8, 72, 1), (64, 72, 1), (8, 1024, 1), (8, 72, 3)):
            shape = Conv2d(1, 30, 30, filters, channels, taps, taps, (1, 1), (0, 0), True, True)
            choice, options = (
                conv2d_cpu.default_choice(shape, target),
                conv2d_cpu.candidates(shape),
            )
            assert conv2d_cpu.violation(shape, choice, target) is None
            assert all(choice[name] in options[name] for name in options)
            found.append(choice["in_place"])
    assert found == [1, 0, 1, 0]


def test_few_filters_have_no_more_panels_than_a_first_cache_holds():
    target, panels = Target("llvm -mcpu=x86-64-v3"), {}
    for filters in (24, 256):
        shape = Conv2d(1, 56, 56, filters, 144, 1, 1, (1, 1), (0, 0), True, True)
        panels[filters] = conv2d_cpu.default_choice(shape, target)["panels"]
    assert panels == {24: 1, 256: 16}


@pytest.mark.parametrize("cores", [1, 2, 16])
def test_untuned_tasks_keep_all_cores_busy(cores):
    target = SimpleNamespace(limits=Limits(sm_count=cores), attrs={})
    for ci, size, co, taps in ((512, 7, 512, 3), (64, 56, 64, 3), (3, 224, 64, 7)):
        shape = Conv2d(1, size, size, co, ci, taps, taps, (1, 1), (taps // 2,) * 2, True, True)
        choice = conv2d_cpu.default_choice(shape, target)
        assert conv2d_cpu.violation(shape, choice, target) is None
        assert all(value in conv2d_cpu.candidates(shape)[name] for name, value in choice.items())
        width = choice["panels"] * choice["vectors"] * choice["lanes"]
        columns = shape.oh / choice["lines"] if choice["lines"] else shape.oh * shape.ow / width
        assert -(-co // choice["block_m"]) * -(-columns // 1) >= cores


def test_untuned_vectors_hold_what_leaves_none_of_them_idle():
    """Of 1x1 layers short vectors hold pixels, as do long ones that 24 filters would not fill."""
    target = Target("llvm -mcpu=x86-64-v3")
    for ci, co in ((256, 64), (64, 256), (144, 24)):
        shape = Conv2d(1, 56, 56, co, ci, 1, 1, (1, 1), (0, 0), True, True)
        assert conv2d_cpu.default_choice(shape, target)["across"] == 0
    for unit, co, across in (
        (VectorUnit(16, 32), 64, False),
        (VectorUnit(16, 32, True), 64, True),
        (VectorUnit(16, 32, True), 24, False),
    ):
        shape = Conv2d(1, 56, 56, co, 144, 1, 1, (1, 1), (0, 0), True, True)
        assert conv2d_cpu_untuned._transposes_filters(shape, unit) == across
    shape = Conv2d(1, 64, 64, 320, 384, 1, 1, (2, 2), (0, 0), True, True)
    assert not conv2d_cpu_untuned._transposes_filters(shape, VectorUnit(16, 32))


def test_images_are_read_where_they_lie_some_channels_at_a_time_where_that_is_waited_for():
    shape = Conv2d(1, 56, 56, 64, 256, 3, 3, (2, 2), (0, 0), True, True)
    target = SimpleNamespace(limits=Limits(sm_count=2), attrs={})
    at_a_time = {}
    for halves in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            unit = VectorUnit(16, 32, halves)
            patch.setattr(cpu_tiles, "vector_unit", lambda _, unit=unit: unit)
            at_a_time[halves] = conv2d_cpu.default_choice(shape, target)["channels"]
    assert at_a_time == {False: 64, True: 128}
