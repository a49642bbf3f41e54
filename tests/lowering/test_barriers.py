"""No kernel races: barriers stand where threads would meet, and not where they cannot."""

import pytest
from races import ONE, Kernel, barriers, count, race_in, register, shared
from random_bodies import Draw

from autotune.errors import LoweringError
from autotune.ir import Var
from autotune.ir.expr import EQ, LT, IntImm, Ramp
from autotune.ir.stmt import (
    Allocate,
    AsyncCopy,
    Barrier,
    Buffer,
    Evaluate,
    For,
    ForKind,
    If,
    LetStmt,
    Store,
    seq,
)
from autotune.lowering.passes.ownership import Slot

# Straight code.


def test_a_neighbours_element_is_read_after_a_barrier():
    k, S = Kernel(), shared()
    (t,) = k.vars
    assert count(k, k.write(S, t), k.read(S, t + 1)) == 1
    assert count(k, k.read(S, t + 1), k.write(S, t)) == 1
    assert count(k, k.write(S, t), k.read(S, t), k.read(S, t)) == 0


def test_one_barrier_serves_all_that_comes_before_it():
    k, S, R = Kernel(), shared(), shared()
    (t,) = k.vars
    assert count(k, k.write(S, t), k.write(R, t), k.read(S, t + 1), k.read(R, t + 1)) == 1
    assert count(k, k.write(S, t), k.read(S, t + 1), k.write(R, t), k.read(R, t + 1)) == 2


def test_reads_of_two_threads_do_not_race():
    k, S = Kernel(), shared()
    (t,) = k.vars
    placed = k.placed(k.write(S, t), k.read(S, t + 1), k.read(S, t + 2))
    assert str(placed).count("barrier") == 1


@pytest.mark.parametrize(("first", "needed"), [(3, 1), (4, 0), (5, 0)])
def test_regions_race_from_their_first_common_element(first, needed):
    k, S = Kernel(), shared()
    (t,) = k.vars
    assert count(k, k.write(S, t), k.read(S, t + first)) == needed
    assert count(k, k.write(S, t + first), k.read(S, t)) == needed


@pytest.mark.parametrize(("first", "needed"), [(0, 1), (2, 1), (3, 1), (4, 0)])
def test_every_lane_of_a_vector_counts(first, needed):
    k, S = Kernel(), shared()
    (t,) = k.vars
    wide = Store(register(), (IntImm(0),), k.value(S, first))
    assert count(k, k.write(S, t), wide) == needed
    lanes = Store(S, (Ramp(k.index(t), 4, 2),), ONE)
    assert count(k, lanes, k.read(S, t + 7)) == 1
    assert count(k, lanes, k.read(S, t + 8)) == 0
    back = Store(S, (Ramp(k.index(t + 8), -4, 2),), ONE)
    assert count(k, back, k.read(S, t + 1)) == 1
    assert count(k, back, k.read(S, t)) == 0


def test_a_store_that_updates_its_own_element_is_one_access():
    k, S = Kernel(), shared()
    (t,) = k.vars
    place = k.index(IntImm(0))
    update = Store(S, (place,), k.value(S, IntImm(0)))
    assert count(k, If(EQ(t, IntImm(0)), update)) == 0
    assert count(k, k.write(S, t, k.value(S, t))) == 0
    assert count(k, k.loop(3, lambda i: k.write(S, 7 - t, k.value(S, 7 - t)))) == 0
    moved = lambda i: k.write(S, t + (i + 1) * 4, k.value(S, (t + 1) % 4 + i * 4))
    assert count(k, k.loop(3, moved)) == 1


def test_what_an_index_reads_is_read():
    k, S = Kernel(), Buffer("S", (64,), "int32", "shared")
    (t,) = k.vars
    fill = Store(S, (k.index(t),), IntImm(1))
    scattered = Store(register(), (k.value(S, t + 1),), ONE)
    assert str(k.placed(fill, scattered)).count("barrier") == 1
    deep = Evaluate(k.value(S, t + 1) + 1)
    assert str(k.placed(fill, deep)).count("barrier") == 1
    copied = AsyncCopy(shared(), k.index(t), Buffer("G", (64,), "float32"), k.value(S, t + 1), 4)
    assert str(k.placed(fill, copied)).count("barrier") == 1


def test_an_asynchronous_copy_reads_one_place_and_writes_the_other():
    k, S = Kernel(), shared()
    (t,) = k.vars
    copy = AsyncCopy(S, k.index(t), Buffer("G", (64,), "float32"), k.index(t), 4)
    assert str(k.placed(copy, k.read(S, t + 1))).count("barrier") == 1
    assert str(k.placed(copy, k.read(S, t))).count("barrier") == 0
    G = Buffer("G", (64,), "float32")
    again = AsyncCopy(S, k.index(t), G, k.index(t + 1), 4)
    assert str(k.placed(k.write(G, t), again)).count("barrier") == 1


def test_a_value_under_a_name_is_read_where_it_is_named():
    k, S, R = Kernel(), shared(), shared()
    (t,) = k.vars
    named = LetStmt(Var("v", "float32"), k.value(S, t + 1), k.write(R, t))
    assert count(k, k.write(S, t), named) == 1
    assert count(k, named, k.write(S, t)) == 1
    inner = seq(k.write(R, t), k.read(R, t + 1))
    meeting = LetStmt(Var("v", "float32"), k.value(S, t + 1), inner)
    # The barrier inside comes after the read, and so keeps it from the write that follows.
    assert count(k, meeting, k.write(S, t)) == 1
    assert count(k, k.write(S, t), meeting) == 2


def test_a_barrier_inside_a_statement_serves_what_comes_before_it():
    k, S, R = Kernel(), shared(), shared()
    (t,) = k.vars
    inside = Allocate(R, seq(k.write(R, t), k.read(R, t + 1), k.read(S, t + 1)))
    assert count(k, k.write(S, t), inside) == 1
    assert count(k, k.write(S, t), inside, k.read(S, t + 2)) == 1
    assert count(k, k.read(S, t + 1), Allocate(R, inside.body), k.write(S, t)) == 2


def test_memory_that_threads_do_not_share_needs_no_barrier():
    k, L, S = Kernel(), Buffer("L", (64,), "float32", "local"), shared()
    (t,) = k.vars
    assert count(k, k.write(L, t), k.read(L, t + 1)) == 0
    assert count(k, k.read(S, t), k.read(S, t + 1)) == 0
    assert barriers(Kernel(block=()).placed(k.write(S, 0), k.read(S, 0))) == 0


def test_a_buffer_may_be_declared_anywhere():
    k, S = Kernel(), shared()
    (t,) = k.vars
    assert barriers(k.placed(Allocate(S, seq(k.write(S, t), k.read(S, t + 1))))) == 1
    assert barriers(k.placed(Allocate(S, k.write(S, t)), k.read(S, t + 1))) == 1


def test_a_barrier_that_stands_there_serves():
    k, S = Kernel(), shared()
    (t,) = k.vars
    there = seq(k.write(S, t), Barrier(), k.read(S, t + 1))
    assert barriers(k.placed(there)) == 1
    around = k.loop(3, lambda i: there)
    assert barriers(k.placed(around)) == 2


# Loops: the end of one iteration meets the start of the next.


def test_the_next_iteration_may_not_write_before_all_have_read():
    k, S = Kernel(), shared()
    (t,) = k.vars
    assert count(k, k.loop(3, lambda i: seq(k.write(S, t), k.read(S, t + 1)))) == 2
    assert count(k, k.loop(1, lambda i: seq(k.write(S, t), k.read(S, t + 1)))) == 1


def test_two_iterations_are_enough_to_meet():
    k, S = Kernel(), shared()
    (t,) = k.vars
    assert count(k, k.loop(2, lambda i: seq(k.write(S, t), k.read(S, t + 1)))) == 2


def test_a_thread_axis_is_no_loop():
    k, S = Kernel(), shared()
    (t,) = k.vars
    body = seq(k.write(S, t), k.read(S, t + 1))
    inside = For(t, 4, ForKind.THREAD, body, "threadIdx.x")
    assert barriers(k.placed(inside)) == 1


def test_what_follows_a_loop_meets_its_last_iteration():
    k, S, R = Kernel(), shared(), shared()
    (t,) = k.vars
    fill = k.loop(3, lambda i: k.write(S, t * 3 + i))
    assert count(k, fill, k.read(S, t)) == 1
    inside = k.loop(3, lambda i: seq(k.write(S, t), k.read(S, t + 1), k.write(R, t + i * 4)))
    assert count(k, inside, k.read(R, t + 1)) == 3
    assert count(k, k.write(S, t), k.loop(2, lambda i: k.read(S, t + i))) == 1


def ring(k, S, written, read, count, extent=9, after=None):
    """A loop that writes one slot of a ring, and reads another at a neighbour's element."""
    (t,) = k.vars

    def body(i):
        slot = lambda offset: (i + offset) % count * 4
        write = k.write(S, t + slot(written), slot=Slot(i, written, count))
        read_ = k.read(S, (t + 1) % 4 + slot(read), slot=Slot(i, read, count))
        return seq(write, read_, *((after,) if after is not None else ()))

    return k.loop(extent, body)


@pytest.mark.parametrize(("least", "needed"), [(0, 3), (1, 2)])
def test_barriers_in_a_loop_that_may_be_empty_keep_nothing_apart_around_it(least, needed):
    k, S, R, n, i = Kernel(), shared(), shared(), Var("n"), Var("i")
    (t,) = k.vars
    k.simplifier.bind(n, least, float("inf"))
    k.simplifier.bind(i, 0, float("inf"))
    loop = For(i, n, ForKind.SERIAL, seq(k.write(R, t), k.read(R, t + 1)))
    placed = k.placed(k.write(S, t), loop, k.read(S, t + 1))
    assert barriers(placed) == needed
    for size in range(least, 3):
        assert race_in(placed, k.threads, {n: size}) is None


def test_without_a_barrier_inside_iterations_any_distance_apart_meet():
    k = Kernel()
    # A slot is read two iterations after it is written: not by the next one, yet with no barrier.
    assert count(k, ring(k, shared(), 2, 0, 4)) == 1


@pytest.mark.parametrize(
    ("written", "read", "slots"), [(2, 0, 4), (3, 0, 5), (2, 0, 5), (4, 1, 6)]
)
def test_slots_apart_are_kept_apart_by_a_barrier_an_iteration(written, read, slots):
    k, S, R = Kernel(), shared(), shared()
    (t,) = k.vars
    # The barrier between the write and the read of R serves the ring too.
    needs = seq(k.write(R, t), k.read(R, t + 1))
    assert count(k, ring(k, S, written, read, slots, after=needs)) == 2
    assert count(k, ring(k, S, written, read, slots, after=Allocate(R, needs))) == 2


@pytest.mark.parametrize(
    ("written", "read", "slots", "needed"),
    [(0, 0, 1, 2), (0, 0, 2, 1), (0, 0, 4, 1), (1, 0, 2, 1), (1, 0, 3, 1), (2, 0, 3, 1)],
)
def test_a_ring_needs_as_many_barriers_as_its_slots_meet(written, read, slots, needed):
    k, S = Kernel(), shared()
    assert count(k, ring(k, S, written, read, slots)) == needed


def test_a_slot_says_nothing_about_another_ring():
    k, S = Kernel(), shared()
    (t,) = k.vars

    def body(i):
        inner = lambda j: k.read(S, (t + 1) % 4 + (j + 1) % 2 * 4, slot=Slot(j, 1, 2))
        return seq(k.write(S, t + i % 2 * 4, slot=Slot(i, 0, 2)), k.loop(4, inner))

    assert count(k, k.loop(4, body)) >= 1


def test_slots_of_a_loop_that_is_over_say_nothing():
    k, S = Kernel(), shared()
    (t,) = k.vars
    var = Var("i")
    k.simplifier.bind(var, 0, 3)
    write = k.write(S, t + var % 2 * 4, slot=Slot(var, 0, 2))
    read = k.read(S, (t + 1) % 4 + (var + 1) % 2 * 4, slot=Slot(var, 1, 2))
    fill, use = (For(var, 4, ForKind.SERIAL, each) for each in (write, read))
    assert count(k, fill, use) == 1
    assert count(k, For(var, 4, ForKind.SERIAL, seq(fill.body, use.body))) == 1


def test_an_inner_loop_keeps_the_slots_of_the_loop_around_it():
    k, S = Kernel(), shared()
    (t,) = k.vars

    def body(i):
        write = k.write(S, t + (i + 1) % 2 * 4, slot=Slot(i, 1, 2))
        read = k.read(S, (t + 1) % 4 + i % 2 * 4, slot=Slot(i, 0, 2))
        return k.loop(3, lambda j: seq(write, read))

    # Within one iteration of i the slots differ; from one to the next they do not.
    assert count(k, k.loop(4, body)) == 1


# Iterations that never meet.


@pytest.mark.parametrize(("step", "needed"), [(3, 2), (4, 2), (5, 1), (6, 1)])
def test_iterations_that_touch_regions_apart_do_not_meet(step, needed):
    k, S = Kernel(), shared()
    (t,) = k.vars
    # One iteration touches five elements from i * step: with a step of four the last of one is
    # the first of the next.
    body = lambda i: seq(k.write(S, t + i * step), k.read(S, t + i * step + 1))
    assert count(k, k.loop(4, body)) == needed


@pytest.mark.parametrize(("step", "needed"), [(3, 2), (4, 2), (5, 1), (6, 1)])
def test_a_loop_may_run_backwards(step, needed):
    k, S = Kernel(), shared()
    (t,) = k.vars
    body = lambda i: seq(k.write(S, t + 30 - i * step), k.read(S, t + 31 - i * step))
    assert count(k, k.loop(4, body)) == needed


def test_iterations_with_different_steps_meet():
    k, S = Kernel(), shared()
    (t,) = k.vars
    body = lambda i: seq(k.write(S, t + i * 8), k.read(S, t + 1 + i * 4))
    assert count(k, k.loop(4, body)) == 2
    body = lambda i: seq(k.write(S, t + i * 8), k.read(S, t + 1))
    assert count(k, k.loop(4, body)) == 2
    body = lambda i: seq(k.write(S, t + i * 8), k.read(S, t + 1 + (i + 1) % 3 * 8))
    assert count(k, k.loop(4, body)) == 2


@pytest.mark.parametrize(("first", "needed"), [(1, 1), (4, 0), (5, 1)])
def test_regions_apart_within_an_iteration_need_no_barrier(first, needed):
    k, S = Kernel(), shared()
    (t,) = k.vars
    # Eight elements an iteration: the second half is read, or what lies across the halves.
    body = lambda i, j: seq(k.write(S, t + i * 64 + j * 8), k.read(S, t + i * 64 + j * 8 + first))
    assert count(k, k.loop(3, lambda i: k.loop(4, lambda j: body(i, j)))) == needed


def test_regions_of_a_loop_that_is_over_may_meet():
    k, S = Kernel(), shared()
    (t,) = k.vars
    first = k.loop(4, lambda i: k.write(S, t + i * 8))
    second = For(first.var, 4, ForKind.SERIAL, k.read(S, t + first.var * 8 + 1))
    assert count(k, first, second) == 1


@pytest.mark.parametrize(("distance", "needed"), [(1, 1), (2, 2), (6, 1)])
def test_a_condition_on_the_loop_shortens_no_step(distance, needed):
    k, S = Kernel(), shared()
    (t,) = k.vars
    # Iterations write four elements, five apart.
    both = lambda i: seq(k.write(S, t + i * 5), k.read(S, t + i * 5 + distance))
    assert count(k, k.loop(4, lambda i: If(LT(i, IntImm(2)), both(i)))) == needed


# And whatever the body.


@pytest.mark.many_cases
@pytest.mark.parametrize("first", range(0, 3000, 500))
def test_random_bodies_never_race(first):
    refused = needed = 0
    for seed in range(first, first + 500):
        drawn = Draw(seed)
        body = drawn.body()
        try:
            placed = drawn.kernel.placed(body)
        except LoweringError:
            refused += 1
            continue
        found = race_in(placed, drawn.kernel.threads)
        assert found is None, f"seed {seed}: {found}\n{placed}"
        needed += race_in(body, drawn.kernel.threads) is not None
    assert refused < 100
    assert needed > 100
