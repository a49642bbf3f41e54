"""Where the droplet looks, when it moves, and when it starts again."""

import numpy as np
import pytest

from autotune.errors import TunerError
from autotune.tuner import DropletTuner
from autotune.tuner.droplet_tuner import _welch
from tests.tuner.points import digits_of, index_of, points_task, tell


@pytest.fixture
def task():
    return points_task()


def started(task, position, seconds=1e-3, **options):
    """Return a tuner that has tried its first point."""
    tuner = DropletTuner(task, position, seed=0, **options)
    assert digits_of(task, tuner.next_batch(1)) == [tuple(position)]
    tell(tuner, task, [(position, seconds)])
    return tuner


def around(position, step, extent=10):
    """Return the points that differ by a step in one knob."""
    moves = step * np.concatenate([np.eye(3, dtype=int), -np.eye(3, dtype=int)])
    found = {tuple(row) for row in (np.array(position) + moves).tolist()}
    return {point for point in found if all(0 <= digit < extent for digit in point)}


@pytest.mark.parametrize(("position", "count"), [((5, 5, 5), 6), ((0, 5, 9), 4), ((0, 0, 0), 3)])
def test_it_looks_at_all_neighbours_of_its_point(task, position, count):
    tuner = started(task, position)
    batch = digits_of(task, tuner.next_batch(count))
    assert set(batch) == around(position, 1)
    assert len(batch) == count


def test_it_takes_longer_steps_where_no_neighbour_is_faster(task):
    tuner = started(task, (5, 5, 5))
    for step in (1, 2, 3, 4):
        batch = digits_of(task, tuner.next_batch(6))
        assert set(batch) == around((5, 5, 5), step)
        tell(tuner, task, [(digits, 2e-3) for digits in batch])
    assert tuner.best_choice[1] == [5, 5, 5]


def test_it_moves_to_what_is_faster_and_looks_around_there(task):
    tuner = started(task, (5, 5, 5))
    tuner.next_batch(2)
    tell(tuner, task, [((5, 5, 6), 0.5e-3), ((5, 5, 4), 0.8e-3), ((4, 5, 5), None)])
    assert tuner.best_choice == (index_of(task, (5, 5, 6)), [5, 5, 6], [0.5e-3])
    batch = digits_of(task, tuner.next_batch(5))
    assert set(batch) <= around((5, 5, 6), 1)


def test_it_starts_again_somewhere_where_nothing_around_is_faster():
    task = points_task(3, 3, 3)
    tuner = started(task, (1, 1, 1))
    batch = digits_of(task, tuner.next_batch(6))
    tell(tuner, task, [(digits, 2e-3) for digits in batch])
    (anew,) = digits_of(task, tuner.next_batch(1))
    assert anew not in {(1, 1, 1), *batch}
    assert tuner.best_choice == (-1, [0, 0, 0], [1e9])
    tell(tuner, task, [(anew, 5e-3)])  # slower than all before, but where it is now
    assert tuner.best_choice[1] == list(anew)


def test_a_point_that_failed_is_not_where_it_looks_around(task):
    tuner = started(task, (5, 5, 5), None)
    assert tuner.best_choice[0] == -1
    assert not set(digits_of(task, tuner.next_batch(4))) & around((5, 5, 5), 1)


@pytest.mark.parametrize(
    ("here", "there", "moves"),
    [
        # Less, but by less than the samples differ.
        ((1.0e-3, 1.1e-3, 1.2e-3), (0.99e-3, 1.09e-3, 1.19e-3), False),
        ((1.0e-3, 1.01e-3, 1.02e-3), (0.80e-3, 0.81e-3, 0.82e-3), True),
        # The spread of so few samples is not known, or there is none.
        ((1.0e-3, 1.2e-3), (0.99e-3, 1.19e-3), True),
        ((1.0e-3,) * 3, (0.99e-3,) * 3, True),
        ((1.0e-3,), (1.0e-3,), False),
    ],
)
def test_times_must_differ_significantly_where_that_is_known(task, here, there, moves):
    tuner = started(task, (5, 5, 5), here)
    tell(tuner, task, [((5, 5, 6), there)])
    assert (tuner.best_choice[1] == [5, 5, 6]) is moves


def test_the_largest_chance_of_noise_is_said(task):
    here, there = (1.0e-3, 1.1e-3, 1.2e-3), (0.95e-3, 1.05e-3, 1.15e-3)
    for pvalue, moves in ((0.05, False), (0.9, True)):
        tuner = started(task, (5, 5, 5), here, pvalue=pvalue)
        tell(tuner, task, [((5, 5, 6), there)])
        assert (tuner.best_choice[1] == [5, 5, 6]) is moves


@pytest.mark.parametrize("left", [(1.0, 0.2, 5), (2.0, 0.0, 3)])
@pytest.mark.parametrize("right", [(1.1, 0.3, 8), (1.0, 1.5, 4)])
def test_the_chance_is_that_of_scipy(left, right):
    from scipy.stats import ttest_ind_from_stats  # which all processes would load to collect this

    assert _welch(left, right) == pytest.approx(
        ttest_ind_from_stats(*left, *right, equal_var=False).pvalue
    )


@pytest.mark.parametrize("position", [(1, 1), (1, 1, 1, 1), (10, 0, 0), (0, 0, -1)])
def test_a_position_that_is_no_point_is_named(task, position):
    with pytest.raises(TunerError, match="start_position must be one digit for each of"):
        DropletTuner(task, position)
