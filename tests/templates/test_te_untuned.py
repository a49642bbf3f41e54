"""Tiles of te templates where nothing was tuned."""

import math

import pytest
from autotune.templates.te_untuned import Tile, output_tiles, slices

WANTED = [Tile(2, 8, 4), Tile(2, 8, 4)]


def test_extents_with_all_factors_have_the_tiles_that_suit_them():
    assert output_tiles((1024, 1024), WANTED) == [(-1, 2, 8, 4), (-1, 2, 8, 4)]


@pytest.mark.parametrize("extents", [(53, 47), (1, 1000), (97, 1000), (10, 16), (61, 1), (1, 1)])
def test_blocks_have_threads_enough_whatever_the_factors_of_the_extents(extents):
    tiles = output_tiles(extents, WANTED)
    for extent, tile in zip(extents, tiles, strict=True):
        assert extent % -math.prod(tile) == 0
    threads = math.prod(tile[2] for tile in tiles)
    assert min(32, math.prod(extents)) <= threads <= 1024


def test_parts_of_threads_are_smaller_where_blocks_would_be_too_few():
    few, many = output_tiles((64, 64), WANTED), output_tiles((4096, 4096), WANTED)
    assert [tile[3] for tile in few] == [1, 1]
    assert [tile[3] for tile in many] == [4, 4]
    assert output_tiles((64, 64), WANTED, images=300) == many


def test_slices_have_whole_filters_and_as_many_channels_as_fit():
    def staged(sizes):
        return 4 * 32 * math.prod(sizes)

    assert slices((64, 3, 3), (8, 64, 64), staged) == [8, 3, 3]
    assert slices((64, 7, 7), (8, 64, 64), staged) == [4, 7, 7]
    assert slices((64, 31, 11), (8, 64, 64), staged) == [8, 1, 11]
