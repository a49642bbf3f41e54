"""The base of the strategies: whatever a strategy says, no point is proposed twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.tuner.point_tuner import PointTuner
from tests.tuner.doubles import loop_task

SIZE = 60  # of the space of the doubles


class Stubborn(PointTuner):
    """Proposes what it is given, over and over."""

    def __init__(self, proposals):
        super().__init__(loop_task(), seed=0)
        self.proposals = proposals

    def propose(self, n):
        return self.proposals


@given(
    st.lists(st.integers(0, SIZE - 1), max_size=20),
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
)
def test_no_point_is_proposed_twice_whatever_a_strategy_repeats(proposals, batches):
    tuner = Stubborn(proposals)
    proposed = [config.index for size in batches for config in tuner.next_batch(size)]
    assert len(set(proposed)) == len(proposed) == min(sum(batches), SIZE)


def test_a_repeated_proposal_takes_no_place_of_a_new_one():
    tuner = Stubborn([5, 5, 5, 7])
    assert [config.index for config in tuner.next_batch(2)] == [5, 7]


@pytest.mark.parametrize("size", [1, 7, 60])
def test_a_space_is_exhausted_once_and_for_all(size):
    tuner = Stubborn([1, 2, 3])
    indices = []
    while tuner.has_next():
        indices += [config.index for config in tuner.next_batch(size)]
    assert sorted(indices) == list(range(SIZE))
    assert tuner.next_batch(4) == []
