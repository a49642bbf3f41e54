"""The columns that the model of `XGBTuner` keeps grow together, and never change in place."""

from dataclasses import fields

import numpy as np

from autotune.tuner.models.pool import CandidatePool, Conditions, join_columns


def pool(*indices):
    n = len(indices)
    return CandidatePool.fresh(np.array(indices), np.ones((n, 3)), np.zeros(n), np.full(n, -0.5))


def test_candidates_that_join_bring_a_row_in_every_column():
    both = join_columns(pool(4, 7), pool(9))
    assert both.indices.tolist() == [4, 7, 9]
    assert {len(getattr(both, each.name)) for each in fields(both)} == {3}
    assert both.values.shape == (3, 3)


def test_nothing_is_expected_of_a_fresh_candidate_and_it_is_open():
    fresh = pool(4, 7)
    assert np.isnan(fresh.expected).all()
    assert fresh.is_open.all()


def test_a_pool_is_not_changed_but_replaced():
    before = pool(4, 7)
    after = before.without(1).corrected(np.array([0]), np.array([2.0]))
    assert (before.is_open.tolist(), after.is_open.tolist()) == ([True, True], [True, False])
    assert (before.correction.tolist(), after.correction.tolist()) == ([0.0, 0.0], [2.0, 0.0])


def test_what_is_conditioned_on_already_is_not_absent():
    rows = Conditions(np.array([3, 5]), np.zeros((2, 1)), np.zeros(2))
    assert rows.absent([5, 6, 3]) == [6]
    assert join_columns(rows, rows).indices.tolist() == [3, 5, 3, 5]
