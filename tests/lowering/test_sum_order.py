"""Sums of a thread stand in the order of instructions, however a schedule numbers them."""

from itertools import product

import pytest

from autotune.ir import Var
from autotune.ir.analysis_affine import constant
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer
from autotune.lowering.passes.sum_order import SumOrder

# Tiles, columns, rows, neighbours.
EXTENTS = (2, 4, 2, 2)
WANTED = list(product(*map(range, EXTENTS)))
SUMS = Buffer("sums", (len(WANTED),), "float32", "local")


def numbered_by(*axes):
    """What sums are of, if loops over these axes number them, the slowest first."""
    places = sorted(WANTED, key=lambda place: [place[axis] for axis in axes])
    return places, SumOrder.of(SUMS, places, WANTED, EXTENTS)


def test_sums_in_the_order_of_instructions_stay_where_they_are():
    _, order = numbered_by(0, 1, 2, 3)
    assert order.is_given


@pytest.mark.parametrize("axes", [(0, 2, 1, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_each_sum_is_moved_to_its_place(axes):
    places, order = numbered_by(*axes)
    simplifier = Simplifier({})
    moved = [order.place(simplifier, constant(number)).const for number in range(len(places))]
    assert [WANTED[number] for number in moved] == places
    assert not order.is_given


def test_a_loop_over_sums_is_one_over_their_places():
    _, order = numbered_by(0, 2, 1, 3)
    own = Var("own", "int32")
    simplifier = Simplifier({own: (0, 1)})
    at = simplifier.add(simplifier.var(own), constant(4))
    assert str(simplifier.expr(order.place(simplifier, at))) == "own + 8"


def test_other_sums_have_no_order():
    assert SumOrder.of(SUMS, WANTED[1:], WANTED, EXTENTS) is None
    assert SumOrder.of(SUMS, [*WANTED[:-1], WANTED[0]], WANTED, EXTENTS) is None
    mixed = [*WANTED[2:], *WANTED[:2]]
    assert SumOrder.of(SUMS, mixed, WANTED, EXTENTS) is None
    larger = Buffer("sums", (64,), "float32", "local")
    assert SumOrder.of(larger, WANTED[::-1], WANTED, EXTENTS) is None
