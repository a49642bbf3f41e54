"""Spaces too large to enumerate: what is bounded is how often a filter is asked."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autotune.errors import SpaceError
from autotune.task import ConfigSpace

# A space of 9e8 points is not enumerated by so many calls of a filter.
MOST_CALLS = 1_000_000


def gemm_space(*filters):
    """9e8 points."""
    space = ConfigSpace()
    for name, outputs in (("tile_m", 4), ("tile_n", 4), ("tile_k", 3)):
        space.define_split(name, 4096, num_outputs=outputs)
    space.define_knob("vec", [1, 2, 4, 8])
    space.define_knob("stages", [1, 2, 3, 4])
    space.define_knob("unroll", [0, 64, 512])
    for predicate in filters:
        space.multi_filter(predicate)
    return space


def threads(c):
    return 32 <= c["tile_m"].size[2] * c["tile_n"].size[2] <= 1024


def shared_memory(c):
    block = math.prod(c["tile_m"].size[1:]) + math.prod(c["tile_n"].size[1:])
    return 4 * c["stages"].val * c["tile_k"].size[1] * c["tile_k"].size[2] * block <= 49152


def vectors(c):
    return c["tile_n"].size[3] % c["vec"].val == 0


class Counted:
    """A filter that counts how often it is called."""

    def __init__(self, predicate):
        self.predicate, self.calls = predicate, 0

    def __call__(self, c):
        self.calls += 1
        return self.predicate(c)


def everything(c):
    return threads(c) and shared_memory(c) and vectors(c)


def test_a_hundred_thousand_valid_points_are_drawn_at_once():
    for filters in (
        [],
        [threads],
        [shared_memory],
        [threads, shared_memory, vectors],
        [everything],
    ):
        counted = [Counted(predicate) for predicate in filters]
        space = gemm_space(*counted)
        assert space.range_length == 904285200
        drawn = space.sample(100_000, np.random.default_rng(0))
        assert all(0 < predicate.calls < MOST_CALLS for predicate in counted)
        assert len(np.unique(drawn)) == 100_000
        assert space.is_valid(drawn).all()
        assert all(p(space.get(int(i))) for p in filters for i in drawn[:20])


class Permuting(np.random.Generator):
    """Draws nothing but permutations."""

    def integers(self, *_, **__):
        raise AssertionError("points were drawn one by one")


def test_all_points_of_a_sparse_space_are_found_by_looking_at_each_candidate_once():
    space = ConfigSpace()
    for name in "abcde":
        space.define_knob(name, list(range(12)))
    space.multi_filter(lambda c: sum(c[name].val for name in "abcde") % 11 == 3)
    assert 9 * len(space) < space.range_length
    drawn = space.sample(len(space), Permuting(np.random.PCG64(0)))
    assert len(np.unique(drawn)) == len(space)
    assert space.is_valid(drawn).all()


def test_the_count_of_intricate_filters_is_exact():
    together, apart = gemm_space(everything), gemm_space(vectors, shared_memory, threads)
    assert (len(together), together.len_is_exact) == (13926453, True)
    assert (len(apart), apart.len_is_exact) == (13926453, True)


def test_rare_points_are_found():
    space = gemm_space(lambda c: c["tile_m"].size[1] * c["tile_n"].size[3] == 4096 * 2048)
    drawn = space.sample(500, np.random.default_rng(0))
    assert len(drawn) == 500
    assert len(space) < space.range_length / 30_000


def test_filters_too_large_for_any_table_still_give_points():
    space = gemm_space(lambda c: sum(hash(str(e)) for e in c.values()) % 7 == 0)
    drawn = space.sample(50, np.random.default_rng(0))
    assert len(np.unique(drawn)) == 50
    assert space.is_valid(drawn).all()
    assert not space.len_is_exact
    assert 0.1 < len(space) / space.range_length < 0.2
    assert "len=~" in repr(space)


def test_a_filter_that_one_knob_breaks_says_so_beside_others_that_have_no_table():
    def seventh(c):
        return hash(str(c["tile_m"]) + str(c["tile_n"])) % 7 == 0

    space = gemm_space(seventh, lambda c: c["vec"].val > 8)
    with pytest.raises(SpaceError, match=r"rejects every configuration"):
        _ = space.rough_count


def test_a_filter_that_finds_nothing_gives_up():
    never = Counted(lambda c: sum(hash(str(e)) for e in c.values()) == 1)
    space = gemm_space(never)
    with pytest.raises(SpaceError, match=r"leaves no point.*reads tile_m.*points were tried"):
        space.sample(5, np.random.default_rng(0))
    assert 0 < never.calls < MOST_CALLS


def test_spaces_beyond_64_bits_work():
    space = ConfigSpace()
    for i in range(12):
        space.define_split(f"t{i}", 2520, num_outputs=4)
    space.multi_filter(lambda c: c["t0"].size[1] * c["t11"].size[1] <= 32)
    assert space.range_length == math.prod(space.dims) > 2**63
    drawn = space.sample(200, np.random.default_rng(0))
    assert len({int(i) for i in drawn}) == 200
    assert (space.indices(space.knobs(drawn)) == drawn).all()
    config = space.get(int(drawn[0]))
    assert config["t0"].size[1] * config["t11"].size[1] <= 32
    assert config.to_json_dict()["index"] == int(drawn[0])
    assert space.valid_count < space.range_length
    assert space.sample(3, np.random.default_rng(0), drawn).tolist() != drawn[:3].tolist()


def test_order_is_followed_across_long_gaps():
    space = ConfigSpace()
    for i in range(6):
        space.define_split(f"t{i}", 2520, num_outputs=3)
    space.multi_filter(lambda c: c["t3"].size[2] * c["t4"].size[2] == 36)
    first = space.get_next_index(-1)
    assert space.is_index_valid(first)
    assert space.subrange_length(0, first) == 0
    beyond = space.get_next_index(first, 10**6)
    assert space.subrange_length(first, beyond) == 10**6
    assert space.get_next_index(beyond, -(10**6)) == first
    last = space.get_next_index(space.range_length, -1)
    assert space.subrange_length(last + 1, space.range_length) == 0


def test_a_constrained_space_stays_small_in_memory():
    code = (
        "import resource, numpy as np\n"
        "from tests.task.test_huge_spaces import everything, gemm_space\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "space = gemm_space(everything)\n"
        "space.sample(100_000, np.random.default_rng(0)); len(space)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 200 * 1024
