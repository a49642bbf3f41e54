"""Plans of many searches, and how many proposals one search makes together."""

import pytest

from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.tuner import SketchTuner
from benchmarks.scheduler_sweep import Job, plan_of
from tests.auto_scheduler.graphs import matmul


def test_a_line_of_a_plan_is_a_workload_a_seed_trials_and_what_it_is_denied(tmp_path):
    plan = tmp_path / "plan.txt"
    plan.write_text("gemm512 0 32\n\ngemm1024 2 64 crossover gaps\n")
    assert plan_of(plan) == [
        Job("gemm512", 0, 32, ()),
        Job("gemm1024", 2, 64, ("crossover", "gaps")),
    ]


@pytest.mark.parametrize("line", ["gemm511 0 8", "gemm512 0 8 luck"])
def test_a_plan_that_names_what_there_is_not_is_refused(tmp_path, line):
    plan = tmp_path / "plan.txt"
    plan.write_text(line)
    with pytest.raises(SystemExit, match="no such"):
        plan_of(plan)


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
