"""Forms: the digits that a fused loop is taken apart into become one number again."""

from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.ir import Var
from autotune.ir.analysis_affine import AffineSpace, AtomKind, constant, scale_affine, shift_affine

factors = st.integers(1, 12)


def value(space, form, at):
    result = space.substitute(form, {var: constant(n) for var, n in at.items()})
    assert not result.terms
    return result.const


def digits(space, form, radices):
    """Take a number apart, the last digit first; the first one is what is left."""
    found = []
    for radix in reversed(radices):
        found.append(space.floormod(form, radix))
        form = space.floordiv(form, radix)
    return [form, *reversed(found)]


def setting(most=40):
    x, y = Var("x", "int32"), Var("y", "int32")
    return AffineSpace({x: (0, most), y: (0, most)}), x, y


@settings(max_examples=300, deadline=None)
@given(
    st.lists(factors, min_size=1, max_size=3),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(-20, 20),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_digits_have_their_values_and_their_sum_is_the_number(radices, p, q, c, at_x, at_y):
    space, x, y = setting()
    whole = shift_affine(
        space.add(scale_affine(space.var(x), p), scale_affine(space.var(y), q)), c
    )
    number = p * at_x + q * at_y + c
    left, parts = number, digits(space, whole, radices)
    weight, sum_of_parts = 1, constant(0)
    for radix, part in zip([*reversed(radices), None], reversed(parts), strict=True):
        digit = left if radix is None else left % radix
        left = left if radix is None else left // radix
        assert value(space, part, {x: at_x, y: at_y}) == digit
        sum_of_parts = space.add(sum_of_parts, scale_affine(part, weight))
        weight *= radix or 1
        assert value(space, sum_of_parts, {x: at_x, y: at_y}) == (
            number if radix is None else number % weight
        )
    assert sum_of_parts.key == whole.key


@settings(max_examples=300, deadline=None)
@given(
    factors, factors, factors, st.integers(1, 30), st.integers(1, 30),
    st.integers(0, 40), st.integers(0, 40),
)  # fmt: skip
def test_a_quotient_of_a_sum_with_a_quotient_has_one_division(a, b, m, p, q, at_x, at_y):
    space, x, y = setting()
    inner = space.floordiv(space.add(scale_affine(space.var(x), p), space.var(y)), a)
    outer = space.floordiv(space.add(scale_affine(space.var(y), q), inner), b)
    number = (q * at_y + (p * at_x + at_y) // a) // b
    assert value(space, outer, {x: at_x, y: at_y}) == number
    assert value(space, space.floormod(outer, m), {x: at_x, y: at_y}) == number % m
    nested = [atom for atom in outer.terms if atom.kind is AtomKind.DIV]
    assert all(each.kind is AtomKind.VAR for atom in nested for each in atom.form.terms)


def test_a_copy_to_shared_memory_reads_neighbours_where_a_block_does():
    """Threads copy 8 x 8 x 3 x 3 weights of 512 x 512 x 3 x 3, four at a time."""
    step, thread, lane = (Var(name, "int32") for name in ("step", "thread", "lane"))
    space = AffineSpace({step: (0, 1), thread: (0, 97), lane: (0, 3)})
    index = space.combine([(space.var(step), 392), (space.var(thread), 4), (space.var(lane), 1)])
    ff, rc, ry, rx = digits(space, index, (8, 3, 3))
    address = space.combine([(ff, 4608), (rc, 9), (ry, 3), (rx, 1)])
    (lane_atom,) = space.var(lane).terms
    assert address.terms[lane_atom] == 1
    assert all(lane not in atom.vars for atom in address.terms if atom is not lane_atom)
    assert len(address.terms) == 4  # step, thread // 18, thread % 18, lane
