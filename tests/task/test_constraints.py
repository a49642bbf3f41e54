"""Filters: what is traced, what is not, and that both agree with trying every point."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import SpaceError
from autotune.task import ConfigSpace, larger, smaller
from autotune.task.constraints.constraint import TracedConstraint
from autotune.task.constraints.filters import constraints_of
from autotune.task.constraints.opaque import OpaqueConstraint
from autotune.task.constraints.trace import Tracer


def small_space():
    space = ConfigSpace()
    space.define_split("y", 12, num_outputs=3)
    space.define_split("x", 16, "power2", num_outputs=2)
    space.define_knob("vec", [1, 2, 4])
    space.define_knob("mode", ["direct", "tiled", None])
    space.define_annotate("ann", [0, 1], "try_vec")
    space.define_reorder("order", [0, 1, 2], "interval_all", interval=(0, 2))
    return space


def remainder(c):
    return 12 % (c["vec"].val - c["x"].size[1])


LOOKUP = {1: 8, 2: 16, 4: 32}
# name -> filter, and whether it can be followed symbolically
FILTERS = {
    "product": (lambda c: 4 <= c["y"].size[1] * c["x"].size[1] < 24, True),
    "divides": (lambda c: c["y"].size[2] % c["vec"].val == 0, True),
    "or": (lambda c: c["vec"].val == 1 or c["y"].size[-1] > 2 * c["x"].size[-1], True),
    "and": (lambda c: c["vec"].val > 1 and c["x"].size[1] > 2 and c["y"].size[1] != 3, True),
    "not": (lambda c: not (c["vec"].val == 2 or c["x"].size[1] == 4), True),
    "text": (lambda c: c["mode"].val == "tiled" or c["vec"].val < 4, True),
    "none": (lambda c: c["mode"].val is not None and c["vec"].val + 1 > 2, True),
    "if": (lambda c: (c["y"].size[1] > 3) if c["mode"].val == "direct" else True, True),
    "annotation": (lambda c: c["ann"].anns[1] == "vec" or c["vec"].val == 1, True),
    "order": (lambda c: list(c["order"].perm) == [1, 0, 2] or c["vec"].val == 4, True),
    "ratio": (lambda c: c["y"].size[1] / c["vec"].val <= 1.5, True),
    "minmax": (lambda c: max(c["y"].size[1], c["x"].size[1]) // min(4, c["vec"].val) >= 3, True),
    "larger": (lambda c: larger(c["y"].size[1], c["x"].size[1]) // c["vec"].val >= 3, True),
    "smaller": (lambda c: smaller(c["y"].size[1] * c["vec"].val, c["x"].size[1]) > 2, True),
    "positive": (lambda c: 12 % larger(c["x"].size[1] // (4 * c["vec"].val), 1) == 0, True),
    "sum": (lambda c: sum(c["y"].size[1:]) <= 2 * math.prod(c["x"].size[1:]), True),
    "numpy": (lambda c: np.prod(c["y"].size[1:]) <= 4 * c["vec"].val, True),
    "counts": (lambda c: (c["vec"].val > 1) + (c["x"].size[1] > 2) >= (c["y"].size[1] > 2), True),
    "ordered": (lambda c: c["vec"].val != c["x"].size[1] and remainder(c) == 0, True),
    "bits": (lambda c: (c["vec"].val & 3 == 2) | (c["x"].size[1] > c["y"].size[1]), True),
    "knobwise": (lambda c: c["y"] == c["x"] or c["vec"].val == 1, False),
    "printed": (lambda c: f"{c['y'].size}" != "[-1, 1, 1]", False),
    "hashed": (lambda c: hash(c["x"]) % 2 == 0 or c["y"].size[1] > 2, False),
    "in": (lambda c: c["y"].size[1] in (1, 2, 6), True),
    "guarded": (lambda c: c["vec"].val != 2 and 12 % (c["vec"].val - 2) == 0, False),
    "subtract": (lambda c: -c["vec"].val + 10 - c["x"].size[1] > 2 - c["y"].size[1], True),
    "log": (lambda c: math.log2(c["x"].size[1]) + c["vec"].val < 5, False),
    "lookup": (lambda c: LOOKUP[c["vec"].val] <= c["y"].size[1] * 8, False),
    "iterates": (lambda c: sum(e.val == 1 for n, e in c.items() if n == "vec") == 1, True),
    "text_of": (lambda c: str(c["vec"].val) in "12" and len(c["y"].size) == 3, False),
    "compares": (lambda c: c["y"].size[1:] == [2, 3] or c["vec"].val == 2, True),
    "method": (lambda c: c["y"].size.count(1) < 2, True),
    "json": (lambda c: c["y"].to_json()[1] > 2, False),
}


def brute_force(space, filters):
    valid = []
    for index in range(space.range_length):
        digits = space.point2knob(index)
        entities = {n: s[d] for (n, s), d in zip(space.space_map.items(), digits, strict=True)}
        if all(f(entities) for f in filters):
            valid.append(index)
    return valid


def check_against(space, valid):
    every = np.arange(space.range_length)
    assert np.flatnonzero(space.is_valid(every)).tolist() == valid
    assert (len(space), space.len_is_exact) == (len(valid), True)
    drawn = space.sample(len(valid) + 10, np.random.default_rng(1))
    assert sorted(drawn.tolist()) == valid


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_leaves_exactly_the_points_it_accepts(name):
    predicate, traced = FILTERS[name]
    space = small_space()
    kinds = {type(c) for c in constraints_of(predicate, space.space_map)}
    assert kinds == {TracedConstraint if traced else OpaqueConstraint}
    space.multi_filter(predicate)
    check_against(space, brute_force(space, [predicate]))


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(sorted(FILTERS)), min_size=2, max_size=3, unique=True), st.data())
def test_several_filters_leave_what_all_accept(names, data):
    space = small_space()
    filters = [FILTERS[name][0] for name in names]
    valid = brute_force(space, filters)
    for predicate in filters:
        space.multi_filter(predicate)
    if not valid:
        with pytest.raises(SpaceError, match=r"leaves no point|rejects every"):
            len(space)
        return
    check_against(space, valid)
    start = data.draw(st.integers(0, space.range_length))
    end = data.draw(st.integers(start, space.range_length))
    assert space.subrange_length(start, end) == sum(start <= i < end for i in valid)
    after = [i for i in valid if i > start]
    before = [i for i in valid if i < start]
    assert space.get_next_index(start, 1) == (after[0] if after else None)
    assert space.get_next_index(start, 3) == (after[2] if len(after) > 2 else None)
    assert space.get_next_index(start, -2) == (before[-2] if len(before) > 1 else None)


def test_conditions_of_an_and_become_constraints_of_their_own():
    space = small_space()
    found = constraints_of(FILTERS["and"][0], space.space_map)
    assert [c.knobs for c in found] == [[2], [1], [0]]
    chained = constraints_of(FILTERS["product"][0], space.space_map)
    assert [c.knobs for c in chained] == [[0, 1], [0, 1]]


def test_conditions_joined_by_bits_become_constraints_of_their_own():
    def sizes(c):
        return c["vec"].val > 1, c["y"].size[1] * c["x"].size[1] > 2, c["y"].size[1] > 1

    spaces = small_space().space_map
    found = constraints_of(lambda c: sizes(c)[0] & (sizes(c)[1] & sizes(c)[2]), spaces)
    assert [c.knobs for c in found] == [[2], [0, 1], [0]]
    found = constraints_of(lambda c: not sizes(c)[0] | sizes(c)[1], spaces)
    assert [c.knobs for c in found] == [[2], [0, 1]]
    bits = constraints_of(lambda c: c["vec"].val & (c["y"].size[1] + c["x"].size[1]), spaces)
    assert [c.knobs for c in bits] == [[0, 1, 2]]


def test_a_table_is_over_the_values_a_filter_tells_apart():
    space = ConfigSpace()
    space.define_split("m", 4096, num_outputs=4)
    space.define_split("n", 4096, num_outputs=4)
    (found,) = constraints_of(
        lambda c: math.prod(c["m"].size[1:]) * 4 + math.prod(c["n"].size[1:]) <= 4096,
        space.space_map,
    )
    assert len(space.space_map["m"]) == 455
    assert found.table.shape == (13, 13)


def test_large_numbers_are_left_to_python():
    space = ConfigSpace()
    space.define_knob("a", [1, 10**12])
    space.define_knob("b", [1, 10**12])
    space.multi_filter(lambda c: c["a"].val * c["b"].val < 10**20)
    assert len(space) == 3


def test_the_filter_is_not_called_for_every_point():
    calls = 0

    def costly(c):
        nonlocal calls
        calls += 1
        return int(c["y"].size[1]) <= 4  # int() cannot be traced

    space = ConfigSpace()
    for name in "yxzw":
        space.define_split(name, 2520, num_outputs=3)
    space.multi_filter(costly)
    assert space.valid_count < space.range_length
    assert calls < 500


def test_filters_that_leave_nothing_say_so_and_what_they_read():
    space = small_space()
    space.multi_filter(lambda c: c["vec"].val > 3)
    space.multi_filter(lambda c: c["vec"].val < 2)
    for use in (len, lambda s: s.sample(1, np.random.default_rng(0)), lambda s: s.get(0)):
        with pytest.raises(SpaceError, match=r"leaves no point.*test_constraints.py.*reads vec"):
            use(space)


def test_a_filter_that_rejects_everything_outright_says_so():
    space = small_space()
    space.multi_filter(lambda c: False)
    with pytest.raises(SpaceError, match=r"test_constraints.py:\d+ rejects every .*; relax it"):
        len(space)


def test_a_filter_without_a_return_is_told_that_it_returns_nothing():
    def forgetful(c):
        c["vec"].val > 3  # noqa: B015 - the slip that is to be found

    space = small_space()
    space.multi_filter(forgetful)
    with pytest.raises(SpaceError, match="it returns None: return its condition"):
        len(space)


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (lambda c: c["z"].size[0] > 1, "there is no knob 'z'; the space has y, x, vec"),
        (lambda c: c["vec"].size[0] > 1, "AttributeError"),
        (lambda c: 1 % (c["vec"].val - 1) == 0, "ZeroDivisionError"),
        (lambda c: remainder(c) == 0, "divides by zero"),
    ],
)
def test_a_filter_that_fails_is_named(predicate, text):
    space = small_space()
    space.multi_filter(predicate)
    with pytest.raises(SpaceError, match=r"the filter at .*test_constraints.py") as caught:
        len(space)
    assert text in str(caught.value)


def test_a_filter_may_come_before_the_knobs_it_reads():
    space = ConfigSpace()
    space.multi_filter(lambda c: c["late"].val > 1)
    space.define_knob("late", [1, 2, 3])
    assert len(space) == 2


def test_draws_are_uniform_over_the_valid_points():
    space = ConfigSpace()
    space.define_knob("a", list(range(8)))
    space.define_knob("b", list(range(8)))
    space.define_knob("c", [0, 1])
    space.multi_filter(lambda c: c["a"].val + c["b"].val <= 4)
    rng = np.random.default_rng(3)
    counts = np.zeros(space.range_length)
    for _ in range(6000):
        counts[space.sample(1, rng)] += 1
    seen = counts[counts > 0]
    assert len(seen) == len(space) == 30
    # 200 expected each; a chi-squared of 29 degrees of freedom exceeds 59 once in a thousand
    assert ((seen - 200) ** 2 / 200).sum() < 59


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.sets(st.integers(0, 63), max_size=63))
def test_draws_are_distinct_valid_and_not_excluded(seed, n, exclude):
    space = ConfigSpace()
    space.define_split("y", 128, num_outputs=2)
    space.define_split("x", 128, num_outputs=2)
    space.multi_filter(lambda c: 32 <= c["x"].size[1] * c["y"].size[1] < 1024)
    drawn = space.sample(n, np.random.default_rng(seed), exclude).tolist()
    left = {i for i in range(64) if space.is_index_valid(i)} - exclude
    assert len(drawn) == len(set(drawn)) == min(n, len(left))
    assert set(drawn) <= left
    again = space.sample(n, np.random.default_rng(seed), np.array(sorted(exclude), dtype=int))
    assert again.tolist() == drawn


def test_a_random_index_comes_from_its_range_or_an_error():
    space = ConfigSpace()
    space.define_knob("a", list(range(10)))
    space.multi_filter(lambda c: c["a"].val != 4)
    rng = np.random.default_rng(0)
    assert {space.get_rand_index(3, 6, [3], rng) for _ in range(20)} == {5}
    assert space.get_rand_index(to_exclude=set(range(9)), rng=rng) == 9
    with pytest.raises(SpaceError, match=r"every valid index of \[3, 5\) is excluded"):
        space.get_rand_index(3, 5, [3], rng)
    with pytest.raises(SpaceError, match="must be a whole number from 0 to 10, got 50"):
        space.get_rand_index(3, 50, [3], rng)


def forgiving(c):
    try:
        return str(c["vec"].val) == "2" or c["y"].size.index(6) == 1
    except Exception:
        return False


def test_a_filter_that_catches_everything_is_not_misread():
    space = small_space()
    space.multi_filter(forgiving)
    check_against(space, brute_force(small_space(), [forgiving]))


def test_what_a_filter_computes_on_all_its_paths_is_made_once():
    space, paths = small_space(), 20

    def rules(c):
        size = c["y"].size[1] * c["x"].size[1] + c["vec"].val
        return not any(size == 100 + i for i in range(paths))

    tracer = Tracer(rules, space.space_map)
    tracer.tree()
    three_knobs, product, total, comparisons = 3, 1, 1, paths
    assert len(tracer.scope.made) == three_knobs + product + total + comparisons
