"""Choices for products and convolutions on a CPU that were never tuned."""

import random
from types import SimpleNamespace

import pytest
from autotune.templates import cpu_tiles
from autotune.templates.convolutions import conv2d_cpu
from autotune.templates.convolutions.conv2d_cpu_space import STREAMED
from autotune.templates.convolutions.conv2d_shape import Conv2d
from autotune.templates.cpu_tiles import VectorUnit
from autotune.templates.products import gemm_cpu
from autotune.templates.products.gemm_shape import Gemm

from autotune.target import Limits


def untuned(family, shape, unit, cores=2):
    """The choice for a shape on a machine with such registers; it is one of the space."""
    target = SimpleNamespace(limits=Limits(sm_count=cores), attrs={})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_tiles, "vector_unit", lambda _: unit)
        choice, options = family.default_choice(shape, target), family.candidates(shape)
        assert family.violation(shape, choice, target) is None
    assert all(choice[name] in options[name] for name in options)
    return choice


def test_images_beyond_the_l2_cache_are_read_some_channels_at_a_time_in_long_runs():
    small, large = (
        untuned(
            conv2d_cpu,
            Conv2d(1, n, n, 12, 128, 1, 1, (1, 1), (0, 0), True, True),
            VectorUnit(16, 32),
        )
        for n in (56, 100)
    )
    assert (small["in_place"], small["channels"]) == (1, 128)
    assert (large["in_place"], large["channels"]) == (1, 16)
    assert large["panels"] * large["vectors"] * large["lanes"] >= 512


def strided(channels, size, filters, stride, unit):
    shape = Conv2d(1, size, size, filters, channels, 1, 1, stride, (0, 0), True, True)
    return untuned(conv2d_cpu, shape, unit)


def test_few_filters_read_every_second_pixel_in_place():
    wide, narrow = VectorUnit(16, 32), VectorUnit(8, 16)
    for unit in (wide, narrow):
        assert strided(411, 67, 16, (2, 2), unit)["across"]
        assert strided(411, 67, 32, (2, 2), unit)["channels"] == 64
        assert not strided(411, 67, 128, (2, 2), unit)["across"]
        assert not strided(411, 67, 16, (3, 3), unit)["across"]
    assert strided(411, 67, 64, (2, 2), wide)["across"]
    assert strided(128, 28, 16, (2, 2), wide)["in_place"]  # panels of what is in the L2 cache


def test_long_lines_of_every_second_pixel_are_packed_while_others_are_multiplied():
    for unit in (VectorUnit(16, 32), VectorUnit(8, 16)):
        long, short, near = (
            strided(channels, size, 16, (2, 2), unit)["in_place"]
            for channels, size in ((144, 112), (411, 67), (16, 112))
        )
        assert long == STREAMED
        assert STREAMED not in (short, near)
        assert strided(200, 80, 16, (2, 2), unit)["in_place"] == STREAMED  # channels share sets
        assert strided(200, 81, 16, (2, 2), unit)["in_place"] != STREAMED
        assert strided(144, 112, 128, (2, 2), unit)["in_place"] != STREAMED
        assert strided(144, 112, 16, (2, 3), unit)["in_place"] != STREAMED
    assert strided(144, 448, 16, (2, 2), VectorUnit(16, 32))["lines"] > 1


def test_many_filters_of_a_few_products_are_in_vectors_and_cores_write_few_lines_of_the_cache():
    shape = Conv2d(1, 40, 40, 539, 3, 2, 2, (2, 2), (0, 0), True, True)
    choice = untuned(conv2d_cpu, shape, VectorUnit(8, 16))
    assert choice["across"]
    assert choice["lines"] >= 7


def test_cores_that_read_lines_in_place_have_several_each():
    shape = Conv2d(1, 67, 67, 16, 411, 1, 1, (2, 2), (0, 0), True, True)
    assert untuned(conv2d_cpu, shape, VectorUnit(16, 32), cores=2)["lines"] >= 8


def test_lines_of_channels_that_share_a_set_of_the_cache_are_read_soon_after_one_another():
    wide, narrow = VectorUnit(16, 32), VectorUnit(8, 16)
    assert strided(512, 64, 32, (2, 2), wide)["lines"] >= 8
    assert strided(512, 64, 16, (2, 2), wide)["in_place"]
    assert strided(144, 112, 16, (2, 2), narrow)["in_place"]


def test_tasks_of_many_filters_of_a_short_sum_have_long_runs_of_results():
    shape = Conv2d(1, 88, 88, 304, 8, 1, 7, (1, 1), (0, 3), True, True)
    assert untuned(conv2d_cpu, shape, VectorUnit(16, 32))["lines"] >= 4


def test_tiles_of_pixels_leave_registers_for_the_transpose_of_their_sums():
    shape = Conv2d(1, 224, 224, 64, 3, 3, 3, (1, 1), (1, 1), True, True)
    choice = untuned(conv2d_cpu, shape, VectorUnit(16, 32))
    assert (choice["across"], choice["rows"], choice["vectors"]) == (1, 12, 2)


def test_rows_beyond_a_few_have_two_tiles_where_short_vectors_read_b_unpacked():
    found = [untuned(gemm_cpu, Gemm(m, 1000, 2000), VectorUnit(8, 16)) for m in (8, 9, 12)]
    assert [each["pack"] for each in found] == [gemm_cpu.LIE] * 3
    assert [each["rows"] for each in found] == [4, 6, 6]


def test_a_matrix_beyond_what_a_core_caches_is_streamed_for_few_rows():
    found = [untuned(gemm_cpu, Gemm(24, 1352, k), VectorUnit(16, 32)) for k in (800, 900)]
    assert [each["pack"] for each in found] == [gemm_cpu.IN_PLACE, gemm_cpu.STREAMED]
    assert found[0]["rows"] == 8


def test_filters_that_would_leave_lanes_idle_have_lines_of_pixels_in_vectors():
    found = {}
    for unit in (VectorUnit(16, 32), VectorUnit(8, 16)):
        for filters in (8, 12, 16, 20, 64):
            shape = Conv2d(1, 56, 56, filters, 64, 3, 3, (1, 1), (1, 1), True, True)
            choice = untuned(conv2d_cpu, shape, unit)
            found[unit.floats, filters] = choice["across"] == 0 and choice["lines"] > 0
    assert [n for n in (8, 12, 16, 20, 64) if found[16, n]] == [8, 12, 20]
    assert [n for n in (8, 12, 16, 20, 64) if found[8, n]] == [12]


def test_lines_with_padding_are_read_in_place_a_few_channels_at_a_time():
    """What a row reads of them stays in L1, also where channels share its sets."""
    found = {}
    for unit in (VectorUnit(16, 32), VectorUnit(8, 16), VectorUnit(16, 32, halves=True)):
        for size in (60, 96):
            shape = Conv2d(1, size, size, 64, 256, 3, 3, (2, 2), (1, 1), True, True)
            choice = untuned(conv2d_cpu, shape, unit)
            found[unit.floats, unit.halves, size] = choice["in_place"], choice["channels"]
    assert {key: in_place for key, (in_place, _) in found.items() if key[1]} == {
        (16, True, 60): 0,
        (16, True, 96): 0,
    }
    assert all(each == (1, 16) for key, each in found.items() if not key[1])


def test_few_filters_of_every_second_pixel_have_half_vectors():
    shape = Conv2d(1, 96, 96, 8, 224, 3, 3, (2, 2), (1, 1), True, True)
    choice = untuned(conv2d_cpu, shape, VectorUnit(16, 32))
    assert (choice["across"], choice["lanes"], choice["in_place"]) == (1, 8, 1)


def test_tiles_of_few_filters_may_have_more_pixels_than_there_are_filters():
    shape = Conv2d(1, 81, 81, 8, 158, 1, 7, (1, 1), (0, 3), True, True)
    choice = untuned(conv2d_cpu, shape, VectorUnit(8, 16))
    assert choice["across"]
    assert choice["rows"] > 8


def test_cores_do_not_read_each_others_transposed_filters_for_a_few_pixels():
    shape = Conv2d(1, 7, 7, 278, 104, 3, 3, (2, 2), (1, 1), True, True)
    choice = untuned(conv2d_cpu, shape, VectorUnit(16, 32))
    assert choice["lines"] >= shape.oh
    assert choice["block_m"] < shape.co


def test_a_small_matrix_is_read_in_place_by_few_rows():
    ways = {
        shape: untuned(gemm_cpu, Gemm(*shape), VectorUnit(16, 32))["pack"]
        for shape in ((48, 159, 334), (248, 17, 700), (48, 1440, 29), (248, 700, 170))
    }
    assert [shape for shape, way in ways.items() if way == gemm_cpu.IN_PLACE] == [
        (48, 159, 334),
        (248, 17, 700),
    ]


def test_what_a_remainder_of_few_rows_copies_is_counted():
    """28 rows are not parted in 24 and 4, which would pack the other matrix again for 4."""
    target = SimpleNamespace(limits=Limits(sm_count=2))
    assert cpu_tiles.task_time(target, (24, 100), (28, 100), lambda high, _: 8 / high) == 3200
    choice = untuned(gemm_cpu, Gemm(28, 312, 1566), VectorUnit(16, 32))
    assert choice["block_m"] >= 28


def test_tasks_of_two_cores_have_as_many_tiles_as_each_other():
    """Of 86 tiles of 9 rows each has 43, and not one core 45, of six tasks of at most 15."""
    target = SimpleNamespace(limits=Limits(sm_count=2))
    extents, tile = (769, 42), (9, 48)

    def time(rows, units):
        return cpu_tiles.task_time(target, (rows, 48), extents, lambda *_: 0, units=units) / 42

    assert [time(512, tile), time(135, None), time(135, tile)] == [387, 405, 387]
    assert untuned(gemm_cpu, Gemm(769, 42, 224), VectorUnit(16, 32))["block_m"] == 512


@pytest.mark.parametrize("extent", [1, 9, 100, 769])
@pytest.mark.parametrize("each", [9, 45, 512])
def test_even_tasks_are_a_whole_and_no_larger_than_asked(extent, each):
    sizes = []

    def note(rows, _):
        sizes.append(rows)
        return 0

    target = SimpleNamespace(limits=Limits(sm_count=1))
    total = cpu_tiles.task_time(target, (each, 8), (extent, 8), note, units=(9, 8))
    assert total == extent * 8
    assert max(sizes) <= -(-each // 9) * 9


def test_tasks_are_wide_where_sums_are_short():
    """Cache lines at the borders of tasks move between cores."""
    choice = untuned(gemm_cpu, Gemm(37, 445, 64), VectorUnit(16, 32))
    assert choice["panels"] * choice["vectors"] * choice["lanes"] >= 128


@pytest.mark.parametrize("unit", [VectorUnit(16, 32), VectorUnit(8, 16), VectorUnit(4, 32)])
@pytest.mark.parametrize("cores", [1, 2, 64])
def test_any_shape_has_an_untuned_choice_of_its_space(unit, cores):
    rng = random.Random(f"{unit} {cores}")

    def extent(low, high):
        return round(low * (high / low) ** rng.random())

    for _ in range(60):
        kh, kw = extent(1, 7), extent(1, 7)
        images = extent(1, 4), extent(kh, 150), extent(kw, 150)
        filters = extent(1, 300), extent(1, 500), kh, kw
        stride, padding = (extent(1, 3), extent(1, 3)), (rng.randint(0, kh), rng.randint(0, kw))
        untuned(conv2d_cpu, Conv2d(*images, *filters, stride, padding, True, True), unit, cores)
        untuned(gemm_cpu, Gemm(extent(1, 1500), extent(1, 4000), extent(1, 4000)), unit, cores)


def test_panels_of_short_vectors_that_are_packed_one_by_one_have_tiles_of_four_rows():
    found = [untuned(gemm_cpu, Gemm(m, 1360, 1920), VectorUnit(8, 16)) for m in (30, 101)]
    assert [(each["pack"], each["rows"]) for each in found] == [(gemm_cpu.ONE_BY_ONE, 4)] * 2


def test_few_filters_of_1x1_layers_pack_one_panel_at_a_time():
    """It stays in L1; more filters read more panels, from L2, for each part of the channels."""
    found = [
        untuned(
            conv2d_cpu,
            Conv2d(1, 70, 70, co, 640, 1, 1, (1, 1), (0, 0), True, True),
            VectorUnit(16, 32),
        )["panels"]
        for co in (48, 256)
    ]
    assert found[0] == 1 < found[1]


def test_tiles_of_a_b_that_is_read_in_place_are_low_for_many_rows():
    """Each row of a tile waits for vectors of b from L2."""
    for shape in (Gemm(46, 755, 150), Gemm(36, 110, 1277), Gemm(100, 80, 700)):
        choice = untuned(gemm_cpu, shape, VectorUnit(16, 32))
        assert (choice["pack"], choice["vectors"]) == (gemm_cpu.IN_PLACE, 3)
        assert choice["rows"] <= cpu_tiles.HIGHEST


def test_more_than_a_few_rows_pack_a_slim_b_that_is_not_small():
    found = [untuned(gemm_cpu, Gemm(166, 84, k), VectorUnit(16, 32)) for k in (700, 1472)]
    assert [each["pack"] for each in found] == [gemm_cpu.IN_PLACE, gemm_cpu.ONE_BY_ONE]


def test_sums_that_long_vectors_make_of_panels_in_l2_are_of_one_part_up_to_512_products():
    shape = Gemm(420, 420, 420)
    choice = untuned(gemm_cpu, shape, VectorUnit(16, 32))
    assert choice["pack"] == gemm_cpu.BY_TILES
    assert int(gemm_cpu.kernel(shape, choice).defines["DEPTH"]) >= 420
    assert untuned(gemm_cpu, shape, VectorUnit(16, 32, halves=True))["depth"] == 384
