"""How many proposals the loop that tunes asks a search for at once."""

import pytest

from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.tuner import SketchTuner
from tests.auto_scheduler.graphs import matmul


@pytest.mark.parametrize(
    ("trials", "early_stopping", "count"),
    [(300, None, 60), (1000, None, 64), (64, None, 12), (300, 64, 12), (32, 64, 8), (300, 10, 8)],
)
def test_a_run_that_may_end_early_proposes_less_together(trials, early_stopping, count):
    task = SearchTask(compute_dag=ComputeDAG(matmul(16, 16, 16)), target="c")
    tuner = SketchTuner(SketchPolicy(task, seed=0))
    tuner.n_trial, tuner.early_stopping = trials, early_stopping
    asked = []
    tuner.policy.propose = lambda n: asked.append(n) or []
    assert not tuner.next_batch(1)
    assert asked == [count]
