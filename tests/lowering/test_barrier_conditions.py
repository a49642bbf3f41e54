"""Barriers under conditions, and the elements that a thread owns."""

import pytest
from races import ONE, Kernel, barriers, count, race_in, shared

from autotune.errors import LoweringError
from autotune.ir.expr import EQ, LT, IntImm, Ramp
from autotune.ir.stmt import Buffer, If, Store, seq

# Branches.


def test_a_barrier_that_may_not_be_reached_keeps_nothing_apart():
    k, S, R = Kernel(), shared(), shared()
    (t,) = k.vars

    def body(i):
        inner = If(EQ(i, IntImm(0)), seq(k.write(R, t), k.read(R, t + 1)))
        return seq(k.write(S, t + i * 5), inner, k.read(S, t + i * 5 + 1))

    assert count(k, k.loop(2, body)) >= 2


def test_a_condition_on_threads_is_split_around_a_barrier():
    k, S, R = Kernel(), shared(), shared()
    (t,) = k.vars
    inside = seq(k.write(R, t + 9), k.write(S, t), k.read(S, t + 1), k.read(S, t + 2))
    placed = k.placed(If(LT(t, IntImm(3)), inside))
    assert race_in(placed, k.threads) is None
    assert barriers(placed) == 1
    assert str(placed).count("if ") == 2


def test_a_branch_that_only_some_threads_take_holds_no_barrier():
    k, S = Kernel(), shared()
    (t,) = k.vars
    inside = seq(k.write(S, t), k.read(S, t + 1))
    with pytest.raises(LoweringError, match="threads that take the branch"):
        k.placed(If(LT(t, IntImm(3)), inside, k.read(S, t)))
    with pytest.raises(LoweringError, match="threads that take the branch"):
        k.placed(If(LT(t, IntImm(3)), k.loop(2, lambda i: inside)))
    with pytest.raises(LoweringError, match="threads that take the branch"):
        k.placed(If(LT(t, IntImm(3)), k.read(S, t), inside))
    flags = Buffer("F", (4,), "int32", "local")
    with pytest.raises(LoweringError, match="threads that take the branch"):
        k.placed(If(LT(k.value(flags, IntImm(0)), IntImm(3)), inside))


def test_no_side_of_a_branch_reads_what_other_threads_write_on_the_other():
    k, S = Kernel(), shared()
    (t,) = k.vars
    for then, other in ((k.write(S, t), k.read(S, t - 1)), (k.read(S, t + 3), k.write(S, t))):
        with pytest.raises(LoweringError, match="threads that take the branch"):
            k.placed(If(LT(t, IntImm(1)), then, other))
    assert count(k, If(LT(t, IntImm(1)), k.write(S, t), k.read(S, t))) == 0
    assert count(k, If(LT(k.value(S, IntImm(9)), IntImm(1)), k.write(S, t), k.read(S, t))) == 0
    assert (
        count(k, k.loop(1, lambda i: If(LT(i, IntImm(1)), k.write(S, t), k.read(S, t + 1)))) == 0
    )


def test_a_branch_that_all_threads_take_may_hold_one():
    k, S = Kernel(), shared()
    (t,) = k.vars
    inside = seq(k.write(S, t), k.read(S, t + 1))
    assert count(k, k.loop(2, lambda i: If(LT(i, IntImm(1)), inside))) == 2
    assert count(k, k.loop(2, lambda i: If(LT(i, IntImm(1)), k.read(S, t), inside))) == 2


def test_both_sides_of_a_branch_are_seen():
    k, S = Kernel(), shared()
    (t,) = k.vars
    for then, other in ((k.read(S, t + 1), k.read(S, t)), (k.read(S, t), k.read(S, t + 1))):
        branch = If(LT(t, IntImm(2)), then, other)
        assert count(k, k.write(S, t), branch) == 1
        assert count(k, branch, k.write(S, t)) == 1
    write = If(LT(t, IntImm(2)), k.write(S, t), k.write(S, t))
    assert count(k, write, k.read(S, t + 1)) == 1


def test_what_a_condition_reads_is_read():
    k, S, R = Kernel(), shared(), shared()
    (t,) = k.vars
    branch = If(LT(k.value(S, t + 1), IntImm(1)), k.write(R, t))
    assert count(k, k.write(S, t), branch) == 1
    assert count(k, branch, k.write(S, t)) == 1
    assert count(k, k.loop(3, lambda i: seq(k.write(S, t), branch))) == 2
    own = If(LT(k.value(S, k.index(t)), IntImm(1)), k.write(R, t))
    assert count(k, k.write(S, t), own) == 0


@pytest.mark.parametrize(("taken", "needed"), [(1, 1), (0, 0)])
def test_of_a_constant_condition_only_the_taken_side_counts(taken, needed):
    k, S = Kernel(), shared()
    (t,) = k.vars
    always = IntImm(taken, "bool")
    assert barriers(k.placed(k.write(S, t), If(always, k.read(S, t + 1)))) == needed
    assert (
        barriers(k.placed(k.write(S, t), If(always, k.read(S, t), k.read(S, t + 1)))) == 1 - needed
    )


def test_what_a_condition_leaves_of_a_region_counts():
    k, S = Kernel(), shared()
    (t,) = k.vars
    for limit, needed in ((1, 0), (2, 0), (3, 1)):
        few = If(LT(t, IntImm(limit)), k.write(S, t + 1))
        assert count(k, few, If(LT(t, IntImm(1)), k.read(S, t + 3))) == needed
        assert count(k, If(EQ(t, IntImm(0)), k.read(S, t + 3)), few) == needed
    one = If(EQ(t, IntImm(0)), k.write(S, t * 8 + 1))
    assert count(k, one, k.read(S, 5 - t)) == 0
    assert count(k, one, k.read(S, 4 - t)) == 1
    down = If(LT(t, IntImm(2)), k.write(S, 3 - t))
    assert count(k, down, k.read(S, t * 0 + 1)) == 0
    assert count(k, down, k.read(S, t * 0 + 2)) == 1


def test_what_the_first_thread_does_alone_needs_no_barrier():
    k, S = Kernel((4, 2)), shared()
    x, y = k.vars
    first = lambda stmt: If(EQ(x, IntImm(0)), If(EQ(y, IntImm(0)), stmt))
    assert count(k, first(k.write(S, 3)), first(k.read(S, 3))) == 0
    assert count(k, first(k.write(S, 3)), k.read(S, 3)) == 1
    row = If(EQ(x, IntImm(0)), k.write(S, 3))
    assert count(k, row, If(EQ(x, IntImm(0)), k.read(S, 3))) == 1
    assert (
        count(k, If(LT(x, IntImm(1)), If(LT(y, IntImm(1)), k.write(S, 3))), first(k.read(S, 3)))
        == 0
    )


def test_a_condition_holds_no_further_than_its_branch():
    k, S = Kernel(), shared()
    (t,) = k.vars
    first = If(EQ(t, IntImm(0)), k.write(S, 3))
    assert count(k, first, k.read(S, 3)) == 1
    assert count(k, first, If(EQ(t, IntImm(0)), k.read(S, 1), k.read(S, 3))) == 1
    assert count(k, first, If(EQ(t, IntImm(0)), k.read(S, 3), k.read(S, 1))) == 0


# Who owns an element.


@pytest.mark.parametrize(
    ("write", "read", "needed"),
    [
        (lambda x, y: x + y * 4, lambda x, y: x + y * 4, 0),
        (lambda x, y: x + y * 4, lambda x, y: x * 2 + y, 1),
        (lambda x, y: x * 2 + y * 8, lambda x, y: x * 2 + y * 8 + 1, 0),
        (lambda x, y: x * 2 + y * 8, lambda x, y: x * 2 + y * 8 + 2, 1),
        (lambda x, y: x * 2 + y, lambda x, y: x * 2 + y, 0),
        (lambda x, y: x + y * 4, lambda x, y: x + y * 3, 1),
        (lambda x, y: x + y * 4, lambda x, y: x + y * 5, 1),
        (lambda x, y: x + y * 4, lambda x, y: x, 1),
        (lambda x, y: x + y * 4, lambda x, y: 7 - x - y * 4, 1),
    ],
)
def test_threads_own_the_elements_that_their_digits_name(write, read, needed):
    k, S = Kernel((4, 2)), shared()
    assert count(k, k.write(S, write(*k.vars)), k.read(S, read(*k.vars))) == needed


@pytest.mark.parametrize(("last", "needed"), [(1, 0), (2, 0), (3, 1)])
def test_a_loop_inside_an_owned_piece_stays_inside_it(last, needed):
    k, S = Kernel(), shared()
    (t,) = k.vars
    fill = k.loop(2, lambda i: k.write(S, t * 2 + i))
    use = k.loop(last, lambda i: k.read(S, t * 2 + i))
    assert count(k, fill, use) == needed
    rows = lambda: k.loop(3, lambda i: k.write(S, t * 2 + i * 8))
    assert count(k, rows(), k.loop(3, lambda i: k.read(S, t * 2 + i * 8 + 1))) == 0
    assert count(k, rows(), k.loop(3, lambda i: k.read(S, t * 2 + i * 4))) == 1


def test_a_condition_may_keep_a_loop_inside_an_owned_piece():
    k, S = Kernel(), shared()
    (t,) = k.vars
    fill = k.loop(2, lambda i: k.write(S, t * 2 + i))
    for limit, needed in ((1, 0), (2, 0), (3, 1)):
        use = k.loop(4, lambda i, limit=limit: If(LT(i, IntImm(limit)), k.read(S, t * 2 + i)))
        assert count(k, fill, use) == needed


def test_lanes_of_a_vector_stay_inside_an_owned_piece_or_do_not():
    k, S = Kernel(), shared()
    (t,) = k.vars
    fill = Store(S, (Ramp(k.index(t * 4), 1, 4),), ONE)
    assert count(k, fill, k.read(S, t * 4 + 3)) == 0
    assert count(k, fill, k.read(S, t * 4 + 4)) == 1
    wide = Store(S, (Ramp(k.index(t * 4), 2, 4),), ONE)
    assert count(k, wide, k.read(S, t * 4 + 2)) == 1
    back = Store(S, (Ramp(k.index(t * 4 + 3), -1, 4),), ONE)
    assert count(k, back, k.read(S, t * 4 + 3)) == 0
