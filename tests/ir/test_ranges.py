"""Where conditions can hold is found by arithmetic on bounds, and never too little of it."""

import random
from itertools import product

import pytest

from autotune import te
from autotune.ir import And, Load, Not, Or, Var, const
from autotune.ir.analysis_ranges import never_empty, ranges, relaxed, without_not
from autotune.ir.expr import EQ, GE, GT, LE, LT, NE
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer
from tests.ir.test_simplify import evaluate

ENDS = {"p": (0, 5), "t": (0, 3), "r": (0, 7)}
P, T, R = (Var(name) for name in ENDS)
PLACES = [dict(zip((P, T, R), at, strict=True)) for at in product(range(6), range(4), range(8))]


def simplifier():
    return Simplifier(dict(zip((P, T, R), ENDS.values(), strict=True)))


def drawn(rng, depth=2):
    """A condition on sums of variables, of ands, ors and nots."""
    if depth and rng.random() < 0.7:
        make = rng.choice([And, Or, Not])
        if make is Not:
            return Not(drawn(rng, depth - 1))
        return make(drawn(rng, depth - 1), drawn(rng, depth - 1))
    kind = rng.choice([LT, LE, GT, GE, EQ, NE])
    p, t, r, one = (rng.randint(-n, n) for n in (4, 1, 2, 9))
    left, right = P * p + T * t + R * r, P * rng.randint(-1, 1) + one
    return kind(left, right // rng.choice([1, 1, 3]))


@pytest.mark.many_cases
@pytest.mark.parametrize("seed", range(150))
def test_a_condition_holds_nowhere_but_where_it_can(seed):
    condition = drawn(random.Random(seed))
    plain, space = without_not(condition), simplifier()
    wide = relaxed(space, plain, {T})
    found = ranges(space, plain, P)
    for place in PLACES:
        holds = evaluate(condition, place)
        assert evaluate(plain, place) == holds
        assert evaluate(wide, place) or not holds
        inside = [
            all(evaluate(space.expr(low), place) <= place[P] for low in each.lows)
            and all(place[P] < evaluate(space.expr(high), place) for high in each.highs)
            for each in found
        ]
        assert any(inside) or not holds
        if found and all(each.exact for each in found):
            assert any(inside) == holds


def test_a_condition_of_places_in_parts_becomes_one_of_parts():
    space = simplifier()
    assert str(relaxed(space, P * 4 + T <= R, {T})) == "p * 4 < r + 1"
    assert str(relaxed(space, P * 4 + T > R - 3, {T})) == "r < p * 4 + 6"
    (held,) = ranges(space, And(P * 4 <= R, P * 4 > R - 6), P)
    assert [str(space.expr(each)) for each in held.lows] == ["floordiv(r + 2, 4) - 1"]
    assert [str(space.expr(each)) for each in held.highs] == ["floordiv(r, 4) + 1"]


@pytest.mark.parametrize(
    "read",
    [
        Load(Buffer("lengths", (8,), "int32"), (R,)),
        te.placeholder((8,), "int32", "lengths")[R],
        te.placeholder((8,), "int64", "lengths")[R].astype("int32"),
    ],
    ids=["buffer", "tensor", "wider"],
)
def test_what_is_read_may_be_anything(read):
    space, condition = simplifier(), And(read > P, P <= R)
    assert str(relaxed(space, condition, set())) == "p < r + 1"
    assert not any(each.exact for each in ranges(space, condition, P))


@pytest.mark.parametrize(
    ("condition", "certain"),
    [
        (P <= R, True),
        (And(P <= R, P > R - 3), True),
        (And(P <= R, P > R - 1), True),
        (And(P < R, P > R - 3), False),
        (P * 2 == R, False),
        (Or(P < R, const(0) >= P), True),
        (P <= R // 2 + R, True),
        (And(P <= R, R < 3), False),
    ],
    ids=str,
)
def test_whether_each_row_has_a_place_is_certain_or_not(condition, certain):
    space = Simplifier({P: (0, 7), R: (0, 7)})
    assert never_empty(space, ranges(space, condition, P), 8) is certain
