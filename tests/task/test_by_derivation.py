"""Spaces drawn at random, against the rules of enumeration written out without any shortcut."""

import itertools
import math
import random

import pytest

from autotune.errors import SpaceError
from autotune.task import ConfigSpace, VirtualAxis


def split_sizes(length, policy, num_outputs, max_factor, no_tail):
    divisors = [n for n in range(1, length + 1) if length % n == 0]
    powers = [1 << k for k in range(length.bit_length())]
    factors = {
        "factors": divisors,
        "power2": powers,
        "verbose": list(set(divisors) | set(powers)),  # in the order of the set
    }[policy]
    kept = [n for n in factors if n <= max_factor]
    found = []
    for inner_first in itertools.product(kept, repeat=num_outputs - 1):
        inner = math.prod(inner_first)
        if length % inner == 0 or (not no_tail and inner < length):
            found.append([-1, *reversed(inner_first)])
    return [size for size in found if math.prod(size[1:]) <= length]


def annotations(axes, policy):
    choices = policy.replace("try", "none").split("_")
    every = itertools.product(choices, repeat=axes)
    return [list(anns) for anns in every if anns.count("vec") < 2]


def bindings(axes, virtual):
    letters = {1: "x", 2: "yx", 3: "zyx"}
    levels = 3 if virtual else 2
    dims = min(axes // levels, 3)
    vthreads = ["vthread"] * dims if virtual else []
    blocks = [f"blockIdx.{letter}" for letter in letters[dims]]
    threads = [f"threadIdx.{letter}" for letter in letters[dims]]
    return ["fuse"] * (axes - levels * dims) + blocks + vthreads + threads


@pytest.mark.parametrize("seed", range(40))
def test_splits_come_in_the_order_of_the_rules(seed):
    draw = random.Random(seed)
    length = draw.choice([1, 2, 7, 12, 24, 60, 97, 128, 130, 224, 360])
    policy = draw.choice(["factors", "power2", "verbose"])
    outputs, largest = draw.randint(1, 3), draw.choice([1, 4, 7, 64, 1 << 31])
    no_tail = draw.choice([None, False, True])
    space = ConfigSpace()
    space.define_split(
        "t", length, policy, num_outputs=outputs, max_factor=largest, no_tail=no_tail
    )
    expected = split_sizes(
        length, policy, outputs, largest, policy == "factors" if no_tail is None else no_tail
    )
    assert [entity.size for entity in space.space_map["t"]] == expected


@pytest.mark.parametrize("axes", range(1, 12))
@pytest.mark.parametrize("virtual", [False, True])
def test_bindings_take_as_many_dimensions_as_there_are_loops_for(axes, virtual):
    space = ConfigSpace()
    policy = "bind_gpu_virtual" if virtual else "bind_gpu"
    loops = [VirtualAxis(2) for _ in range(axes)]
    if axes < 2 + virtual:
        with pytest.raises(SpaceError, match=f"Unhandled case in {policy}"):
            space.define_annotate("a", loops, policy)
        return
    space.define_annotate("a", loops, policy)
    assert [entity.anns for entity in space.space_map["a"]] == [bindings(axes, virtual)]


@pytest.mark.parametrize("policy", ["none", "unroll", "try_unroll", "try_vec", "try_unroll_vec"])
@pytest.mark.parametrize("axes", [1, 2, 4])
def test_annotations_vary_fastest_at_the_last_axis(axes, policy):
    space = ConfigSpace()
    space.define_annotate("a", [VirtualAxis(4)] * axes, policy)
    assert [entity.anns for entity in space.space_map["a"]] == annotations(axes, policy)


def test_anchors_of_caches_are_combinations():
    space = ConfigSpace()
    space.define_annotate("a", [VirtualAxis(4)] * 5, "locate_cache", num_anchor=2)
    found = [list(entity.anns) for entity in space.space_map["a"]]
    assert found == [list(pair) for pair in itertools.combinations(range(5), 2)]


@pytest.mark.parametrize("seed", range(25))
def test_indices_are_walked_counted_and_drawn_as_by_hand(seed):
    draw = random.Random(seed)
    lengths = [draw.choice([6, 8, 12, 24]) for _ in range(draw.randint(1, 3))]
    limit = draw.choice([1, 3, 8, 50])
    space = ConfigSpace()
    for i, length in enumerate(lengths):
        space.define_split(f"t{i}", length, num_outputs=2)
    space.multi_filter(lambda c: math.prod(c[name].size[1] for name in c) <= limit)
    tables = [split_sizes(length, "factors", 2, length, True) for length in lengths]
    # itertools varies the last fastest, indices the first.
    every = [row[::-1] for row in itertools.product(*reversed(tables))]
    valid = [i for i, row in enumerate(every) if math.prod(s[1] for s in row) <= limit]
    assert (space.range_length, len(space)) == (len(every), len(valid))
    for index in valid:
        config = space.get(index)
        assert [config[name].size for name in config] == [list(size) for size in every[index]]
    for _ in range(20):
        start, end = sorted(draw.choices(range(len(every) + 1), k=2))
        within = [i for i in valid if start <= i < end]
        assert space.subrange_length(start, end) == len(within)
        index, n = draw.randrange(len(every)), draw.choice([-3, -1, 1, 2])
        after = [i for i in valid if i > index] if n > 0 else [i for i in valid if i < index][::-1]
        expected = after[abs(n) - 1] if len(after) >= abs(n) else None
        assert space.get_next_index(index, n) == expected
        if within:
            kept = draw.choice(within)
            assert space.get_rand_index(start, end, [i for i in within if i != kept]) == kept


def test_nothing_is_excluded_from_a_draw_by_default():
    space = ConfigSpace()
    space.define_knob("k", [1, 2])
    assert space.get_rand_index(to_exclude=None) in (0, 1)
    with pytest.raises(SpaceError, match="is excluded"):
        space.get_rand_index(to_exclude=[0, 1])
