"""Few valid points are listed: whatever kinds of points a filter tells apart, and what it asks."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.task import ConfigSpace
from autotune.task.constraints.component import Component
from autotune.task.constraints.constraint import refine
from autotune.task.constraints.elimination import order_of
from autotune.task.constraints.listing import Listing, Unlisted, listed

VALUES = {
    "kind": ["plain", "wide", "deep"],
    "form": [0, 1, 2, 3, 14],
    "m": [1, 2, 4, 8],
    "n": [1, 2, 3, 6],
    "k": [16, 32, 64],
}
NAMES = list(VALUES)


def space_of(*predicates):
    space = ConfigSpace()
    for name, values in VALUES.items():
        space.define_knob(name, values)
    for predicate in predicates:
        space.multi_filter(predicate)
    return space


def by_kind(c):
    """Rules that differ between kinds, as those of families of kernels do."""
    kind, form, m, n, k = (c[name].val for name in NAMES)
    if kind == "plain":
        return (form == 0) & (m * n <= 8)
    if form > 2:
        return kind == "deep" and k // m >= 8
    wide = (m % 2 == 0) & (form > 0)
    return wide & (m * n * k <= 256) if kind == "wide" else max(m, n) * form < 9


def by_products(c):
    _, form, m, n, k = (c[name].val for name in NAMES)
    return (m * n + form * k < 70) | (m == n)


def alone(c):
    return c["k"].val > 16 or c["m"].val < 8


FILTERS = [by_kind, by_products, alone]


def valid_digits(predicates):
    class Entity:
        def __init__(self, val):
            self.val = val

    return [
        digits
        for digits in itertools.product(*(range(len(values)) for values in VALUES.values()))
        if all(
            predicate({n: Entity(VALUES[n][d]) for n, d in zip(NAMES, digits, strict=True)})
            for predicate in predicates
        )
    ]


def listing_of(space):
    points = space._points
    return Listing(points.constraints, points.radix.dims)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(FILTERS), min_size=1, unique=True), st.data())
def test_all_points_that_filters_accept_are_listed_once(predicates, data):
    listing = listing_of(space_of(*predicates))
    valid = {tuple(d[k] for k in sorted(listing.knobs)) for d in valid_digits(predicates)}
    assert listing.total == len(valid)
    rows = listing.digits(np.arange(listing.total))[:, np.argsort(listing.knobs)]
    assert set(map(tuple, rows.tolist())) == valid
    ranges = {}
    for knob in listing.knobs:
        first = data.draw(st.integers(0, len(VALUES[NAMES[knob]])))
        ranges[knob] = slice(first, data.draw(st.integers(first, len(VALUES[NAMES[knob]]))))
    within = [
        row
        for row in valid
        if all(
            ranges[k].start <= d < ranges[k].stop for k, d in zip(sorted(ranges), row, strict=True)
        )
    ]
    assert listing.count([ranges[knob] for knob in listing.knobs]) == len(within)


def test_points_are_listed_in_the_order_of_a_table():
    space = space_of(by_products, alone)
    for constraint in space._points.constraints:
        constraint.tabulate()
    table = Component(space._points.constraints, space._points.radix.dims)
    listing = listing_of(space)
    ranks = np.arange(listing.total)
    assert (listing.knobs, listing.total) == (table.knobs, table.total)
    assert listing.digits(ranks).tolist() == table.digits(ranks).tolist()


def guarded(c):
    return c["form"].val > 0 and c["k"].val // (c["form"].val * c["m"].val) > 3


def test_what_may_be_divided_by_zero_is_not_listed():
    space = space_of(guarded)
    with pytest.raises(Unlisted):
        listing_of(space)
    assert len(space) == len(valid_digits([guarded]))


def test_many_points_are_not_listed():
    space = ConfigSpace()
    for name in "abcd":
        space.define_knob(name, range(40))
    space.multi_filter(lambda c: sum(c[name].val for name in "abcd") < 150)
    constraints, dims = space._points.constraints, space._points.radix.dims
    assert listed(constraints, constraints, dims) == (constraints, [])
    assert space.len_is_exact


def test_of_kinds_with_few_values_each_only_these_are_looked_at():
    space = ConfigSpace()
    space.define_knob("kind", range(8))
    for name in "abcdef":
        space.define_knob(name, range(24))

    def own_values(c):
        kind = c["kind"].val
        for own in range(8):
            if kind == own:
                values = [c[name].val for name in "abcdef"]
                fits = sum(values) % 2 == 0
                for value in values:
                    fits &= (value >= 3 * own) & (value < 3 * own + 3)
                return fits
        return False

    space.multi_filter(own_values)
    assert space.range_length > 10**9
    assert len(space) == 8 * (3**6 + 1) // 2  # of each kind, those of an even sum
    (listing,) = space._points._listings
    assert listing.looked_at <= 8 * sum(3**n for n in range(1, 8))


def test_a_path_that_no_value_of_a_knob_takes_is_not_followed():
    calls = 0

    def form_twice(c):
        nonlocal calls
        calls += 1
        form = c["form"].val
        if form == 0:
            return form < 1 and c["m"].val * c["n"].val < 9
        if form == 14:
            return form > 3
        return form < 14 and c["m"].val * c["k"].val < 99

    space = space_of(form_twice)
    assert len(space) == len(valid_digits([form_twice]))
    calls = 0
    space.clear_cache()
    assert len(space) > 0
    assert calls == 64 + 5  # points compared; paths, of which as many questions have 8


def test_codes_of_any_size_are_told_apart():
    large = np.array([0, 1 << 61, -5, 1 << 61, -5, -(1 << 60)])
    for codes in ([large], [large, large], [large, -(large >> 1), np.arange(6) // 5, large]):
        classes, members = refine(codes)
        rows = list(zip(*(c.tolist() for c in codes), strict=True))
        assert [rows[member] for member in members] == sorted(set(rows))
        assert [rows[members[one]] for one in classes] == rows


def test_the_knob_that_fewest_conditions_wait_for_is_chosen_last():
    reads = [{0, 1}, {0, 1, 2}, {0, 2, 3}, {3, 4}, {0, 1, 4}]
    order = order_of(reads, {0: 9, 1: 2, 2: 2, 3: 5, 4: 2, 5: 100})
    assert order == [1, 0, 4, 2, 3, 5]
