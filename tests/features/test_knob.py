"""Knob features: each column on the scale on which it acts."""

import numpy as np
import pytest

from autotune.features import KnobFeatures
from autotune.features.knob import exponent_of_two
from autotune.task import ConfigSpace


@pytest.fixture
def space():
    space = ConfigSpace()
    space.define_knob("width", [16, 32, 48, 64, 80, 96])
    space.define_knob("unroll", [0, 1])
    space.define_knob("fixed", [7])
    space.define_knob("layout", ["row", "column", "tiled"])
    space.define_split("tile", 64, num_outputs=3)
    return space


def test_smooth_columns_lie_between_0_and_1(space):
    indices = np.arange(space.range_length)
    table = KnobFeatures(space).smooth(indices)
    np.testing.assert_allclose([table.min(), table.max()], [0, 1])


def test_alignment_is_a_feature_where_values_are_no_powers_of_two(space):
    features = KnobFeatures(space)
    assert "twos(width)" in features.names
    assert not any(name.startswith("twos(tile") for name in features.names)
    column = features.trees([2, 3])[:, features.names.index("twos(width)")]
    assert column.tolist() == [4, 6]  # 48 and 64


def test_products_of_sizes_are_features(space):
    features = KnobFeatures(space)
    at = features.names.index("tile[1]*tile[2]")
    index = space.range_length - 1
    size = space.get(index)["tile"].size
    assert 2 ** features.trees([index])[0, at] == pytest.approx(size[1] * size[2])


def test_what_never_varies_is_left_out(space):
    assert not any("fixed" in name or "tile[0]" in name for name in KnobFeatures(space).names)


def test_words_are_one_column_each(space):
    names = KnobFeatures(space).names
    assert sum(name.startswith("layout=") for name in names) == 3


def test_configurations_of_another_shape_are_described_alike(space):
    larger = ConfigSpace()
    larger.define_split("tile", 128, num_outputs=3)
    for name in ("layout", "fixed", "unroll", "width"):  # another order of definition
        larger.define_knob(name, [space.space_map[name][i].val for i in range(
            len(space.space_map[name]))])  # fmt: skip
    features = KnobFeatures(space)
    mine = space.knob2point([2, 1, 0, 1, 5])
    sizes = space.get(mine)["tile"].size
    split = [e.size for e in larger.space_map["tile"].entities].index(sizes)
    theirs = larger.knob2point([split, 1, 0, 1, 2])
    raw = features.translated(larger, [theirs])
    np.testing.assert_array_equal(features.trees_of(raw), features.trees([mine]))


def test_spaces_of_other_templates_cannot_be_described(space):
    other = ConfigSpace()
    other.define_knob("width", [1, 2])
    assert KnobFeatures(space).translated(other, [0]) is None


def test_a_space_with_one_point_has_features():
    space = ConfigSpace()
    space.define_knob("x", [3])
    features = KnobFeatures(space)
    assert features.trees([0]).shape == features.smooth([0]).shape == (1, 1)


def test_many_sizes_are_multiplied_by_position_only():
    space = ConfigSpace()
    for axis in ("f", "y", "x", "rc", "ry"):
        space.define_split(f"tile_{axis}", 64, num_outputs=4)
    names = KnobFeatures(space).names
    assert len(names) < 120
    threads = "*".join(f"tile_{axis}[2]" for axis in ("f", "y", "x", "rc", "ry"))
    assert threads in names


def test_exponents_of_two():
    assert exponent_of_two(np.array([1, 2, 3, 12, 64, 0, -1])).tolist() == [0, 1, 0, 2, 6, 0, 0]
