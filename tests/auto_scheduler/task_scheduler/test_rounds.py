"""Searching round by round with a measurer, and what is printed of it."""

import re

import pytest

from autotune.auto_scheduler import (
    ComputeDAG,
    EmptyPolicy,
    ProgramMeasurer,
    RandomModel,
    RecordReader,
    RecordToFile,
    SearchTask,
    SketchPolicy,
    TuningOptions,
    XGBModel,
)
from autotune.auto_scheduler.measuring.verbose import part_heading, result_text
from autotune.errors import AutotuneError
from autotune.measure import MeasureErrorNo, MeasureResult
from tests.auto_scheduler.graphs import matmul
from tests.auto_scheduler.stated import Nothing, Stated

STATED = {"builder": Nothing(n_parallel=1), "runner": Stated()}


def small_task():
    return SearchTask(compute_dag=ComputeDAG(matmul(16, 16, 16)), target="llvm")


def test_rounds_go_on_with_what_they_learned(tmp_path, capsys):
    task, log = small_task(), tmp_path / "log.json"
    policy = SketchPolicy(task, XGBModel(), seed=0)
    with ProgramMeasurer(**STATED, callbacks=[RecordToFile(str(log))]) as measurer:
        first = policy.continue_search_one_round(3, measurer)
        second = policy.continue_search_one_round(3, measurer)
    inputs = [*first[0], *second[0]]
    assert len({each.key for each in inputs}) == measurer.ct == 6
    assert all(result.ok for result in (*first[1], *second[1]))
    assert len(list(RecordReader(str(log)))) == 6
    best = min((*first[1], *second[1]), key=lambda result: result.seconds)
    assert measurer.best_flops[task.workload_key] == task.flop / best.seconds
    assert policy.best[0] == measurer.best_state[task.workload_key]
    shown = capsys.readouterr().out
    for part in ("Search", "Measure", "Train cost model"):
        assert shown.count(part_heading(part)) == 2
    assert "Get 3 programs to measure:\n***\nTime elapsed for measurement:" in shown


def test_a_policy_that_has_nothing_left_says_so(capsys):
    policy = EmptyPolicy(small_task())
    policy.propose = lambda count: []
    with ProgramMeasurer(verbose=0) as measurer:
        assert policy.continue_search_one_round(4, measurer) == ([], [])
    assert "all candidates in the search space have been measured" in capsys.readouterr().out


def test_a_measurer_forgets_what_it_counted():
    task = small_task()
    with ProgramMeasurer(**STATED, verbose=0) as measurer:
        SketchPolicy(task, RandomModel(), seed=0, verbose=0).continue_search_one_round(1, measurer)
        assert (measurer.ct, measurer.best_ct[task.workload_key]) == (1, 1)
        measurer.reset()
        assert (measurer.ct, measurer.best_flops) == (0, {})


@pytest.mark.parametrize(
    "wrong",
    [{"verbose": -1}, {"callbacks": 3}, {"max_continuous_error": 0}, {"builder": "remote"}],
)
def test_a_wrong_argument_of_a_measurer_is_named(wrong):
    with pytest.raises(AutotuneError, match=next(iter(wrong))):
        ProgramMeasurer(**wrong)


def test_verbose_2_shows_each_trial_with_its_loops(capsys):
    task = small_task()
    policy = SketchPolicy(task, RandomModel(), seed=0)
    task.tune(TuningOptions(2, verbose=2, **STATED), policy)
    shown = capsys.readouterr().out
    head = r"=" * 50 + r"\nNo: 1\tGFLOPS: [\d.]+ / [\d.]+\tresults: MeasureResult\(cost:\["
    assert re.search(head, shown)
    assert shown.count("Placeholder: A, B") == 2


def test_results_are_shown_as_tvm_does():
    good = MeasureResult((0.02641,), 0, 0.66, 1676900000.0)
    assert result_text(good) == (
        "MeasureResult(cost:[0.0264], error_no:0, all_cost:0.66, Tstamp:1676900000.00)"
    )
    bad = MeasureResult((), MeasureErrorNo.RUNTIME_DEVICE, 0.5, 1.0, "gone")
    assert result_text(bad) == (
        "MeasureResult(error_type:RuntimeDeviceError, error_msg:gone, all_cost:0.50, Tstamp:1.00)"
    )
