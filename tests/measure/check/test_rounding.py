"""The constants of error bounds: each is what its source says."""

import pytest

from autotune.measure.check import rounding
from autotune.measure.check.rounding import drift, growth, growth_of_sizes, unit


def test_a_unit_is_half_the_distance_between_neighbours_on_both_sides():
    assert unit("float32") == 2.0**-24 + 2.0**-53
    assert unit("float64") == 2.0**-52
    assert unit("bfloat16") == pytest.approx(2.0**-8)


def test_sums_of_sizes_grow_with_every_addition():
    assert growth_of_sizes(1, "float32") == 0
    assert growth_of_sizes(9, "float32") == 8 * unit("float32")
    assert growth_of_sizes(0, "float32") == 0


def test_sums_grow_with_the_root_and_a_part_of_their_length():
    assert growth(400, "float32") == pytest.approx(unit("float32") * (2.5 * 20 + 400 / 32))
    assert growth(400, "float32", 1 / 8) == pytest.approx(unit("float32") * (2.5 * 20 + 50))
    assert growth(1 << 20, "bfloat16") == rounding.MOST_GROWTH < 0.5


def test_roundings_go_one_way_when_terms_fall_below_the_spacing_of_the_sum():
    assert drift(4096, "float32") == 1 / 32
    assert drift(1 << 10, "float16") == 0.25
    assert drift(1 << 12, "float16") == 1
    assert drift(16, "float16", 1 / 8) == 1 / 8
    assert rounding.TRUNCATING_DRIFT == 1 / 8


def test_no_function_errs_more_than_eight_ulps():
    assert all(1 <= ulps <= 8 for ulps in rounding.ULPS.values())
