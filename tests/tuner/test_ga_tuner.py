"""How configurations are bred: parents, crosses, mutations, elites."""

import numpy as np
import pytest

from autotune.tuner import GATuner
from tests.tuner.points import digits_of, points_task, tell

LOW, MIDDLE, HIGH = (0, 0, 0), (5, 5, 5), (9, 9, 9)


@pytest.fixture
def task():
    return points_task()


def test_a_child_has_the_head_of_one_parent_and_the_tail_of_another(task):
    tuner = GATuner(task, pop_size=6, mutation_prob=0, seed=0)
    tell(tuner, task, [(LOW, 1e-3), (HIGH, 2e-3)])
    children = digits_of(task, tuner.next_batch(4))
    assert set(children) == {(0, 0, 9), (0, 9, 9), (9, 0, 0), (9, 9, 0)}


def test_what_failed_has_no_children(task):
    tuner = GATuner(task, pop_size=6, mutation_prob=0, seed=0)
    tell(tuner, task, [(LOW, 1e-3), (MIDDLE, None), (HIGH, 2e-3)])
    children = digits_of(task, tuner.next_batch(4))
    assert set(children) == {(0, 0, 9), (0, 9, 9), (9, 0, 0), (9, 9, 0)}


def test_parents_are_drawn_by_their_rates(task):
    tuner = GATuner(task, mutation_prob=0, seed=0)
    genes, rates = np.array([LOW, MIDDLE, HIGH]), np.array([98.0, 1.0, 1.0])
    heads = tuner._children(genes, rates, 2000)[:, 0]
    # Three of four children take it from their first parent, the others from another.
    assert (heads == 0).mean() == pytest.approx(0.75 * 0.98, abs=0.05)


@pytest.mark.parametrize("chance", [0.0, 0.1, 1.0])
def test_each_knob_of_a_child_gets_a_random_value_with_the_chance_of_a_mutation(task, chance):
    tuner = GATuner(task, mutation_prob=chance, seed=0)
    children = tuner._children(np.array([LOW, LOW]), np.array([1.0, 1.0]), 2000)
    # One of the ten values is the one from before.
    assert (children > 0).mean(axis=0) == pytest.approx(0.9 * chance, abs=0.03)
    assert children.max() == (9 if chance else 0)


def test_the_best_of_all_stay_parents_and_others_only_for_a_generation(task):
    tuner = GATuner(task, pop_size=3, elite_num=2, seed=0)
    first = [((0, 0, 1), 3e-3), ((0, 0, 2), 1e-3), ((0, 0, 3), 2e-3)]
    second = [((0, 0, 4), 9e-3), ((0, 0, 5), 8e-3), ((0, 0, 6), 7e-3)]
    tell(tuner, task, first)
    tell(tuner, task, second)
    assert tuner.genes == [[0, 0, 4], [0, 0, 5], [0, 0, 6]]
    assert tuner.elites == [[0, 0, 2], [0, 0, 3]]
    assert tuner.elite_scores == pytest.approx([1000, 500])
    tell(tuner, task, [((0, 0, 7), 1.5e-3)])
    assert tuner.elites == [[0, 0, 2], [0, 0, 7]]


def test_a_generation_is_bred_at_once(task):
    tuner = GATuner(task, pop_size=4, mutation_prob=0, seed=0)
    tell(tuner, task, [(LOW, 1e-3), (HIGH, 2e-3)])
    one = digits_of(task, tuner.next_batch(1))
    tell(tuner, task, [(MIDDLE, 1e-9)])  # one of the parents from the next on
    rest = digits_of(task, tuner.next_batch(3))
    assert all(5 not in digits for digits in (*one, *rest))
    assert any(5 in digits for digits in digits_of(task, tuner.next_batch(4)))


def test_random_points_fill_what_cannot_be_bred(task):
    tuner = GATuner(task, pop_size=40, mutation_prob=0, seed=0)
    tell(tuner, task, [(LOW, 1e-3), (HIGH, 2e-3)])
    batch = digits_of(task, tuner.next_batch(40))
    assert len(set(batch)) == 40
    assert sum(set(digits) <= {0, 9} for digits in batch[4:]) < 4
