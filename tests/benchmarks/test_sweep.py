"""Plans of many searches of the auto-scheduler."""

import pytest

from benchmarks.auto_scheduler.sweep import Job, plan_of


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
