"""Steps side by side: none runs before what it reads is there, or is overwritten too soon."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from autotune.runtime.branches import Placed, Touched, place


def step(read, written):
    return Touched(
        tuple((at * 10, at * 10 + 10) for at in read),
        tuple((at * 10, at * 10 + 10) for at in written),
    )


def test_two_ways_from_one_value_run_side_by_side_and_meet_where_both_are_read():
    steps = [step([0], [1]), step([1], [2]), step([1], [3]), step([2, 3], [4])]
    assert place(steps) == [
        Placed(0, ()),
        Placed(0, ()),
        Placed(1, (0,)),
        Placed(1, (1,)),
    ]


def test_memory_that_is_used_again_waits_for_its_readers():
    steps = [step([0], [1]), step([1], [2]), step([0], [1])]
    (_, _, last) = place(steps)
    assert last.branch == 0 or 1 in last.after


def test_a_chain_is_one_branch_and_parts_of_one_buffer_are_apart():
    assert {each.branch for each in place([step([i], [i + 1]) for i in range(9)])} == {0}
    halves = [step([0], [1]), Touched(((10, 15),), ((20, 25),)), Touched(((15, 20),), ((25, 30),))]
    assert place(halves)[1:] == [Placed(0, ()), Placed(1, (0,))]


SPANS = st.lists(st.integers(0, 6), max_size=3)


@given(st.lists(st.builds(step, SPANS, SPANS), max_size=12), st.integers(1, 4))
def test_whatever_must_be_in_order_is_and_branches_are_few(steps, most):
    placed = place(steps, most)
    before: list[set[int]] = []
    for number, where in enumerate(placed):
        assert 0 <= where.branch < most
        own = [i for i in range(number) if placed[i].branch == where.branch][-1:]
        mine = {*own, *where.after}
        before.append(mine | set(itertools.chain(*(before[i] for i in mine))))
        assert all(each < number for each in mine)
    for late, early in itertools.combinations(range(len(steps) - 1, -1, -1), 2):
        if steps[late].must_follow(steps[early]):
            assert early in before[late]
