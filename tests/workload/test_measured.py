"""What is measured need not be a point of a template's space: steps on a te graph will do."""

import json

import pytest

from autotune import te
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    measure_option,
)
from autotune.measure.pipeline import Pipeline
from autotune.target import Target
from autotune.te.step import Split
from autotune.workload import GraphWorkload, ScheduleSteps


def product_graph(n=32, name="C"):
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name=name)
    return a, b, c


def tiled(tensors, factor):
    """Return the steps of a schedule that splits the columns."""
    schedule = te.create_schedule(tensors[-1].op)
    stage = schedule[tensors[-1]]
    outer, inner = stage.split(stage.op.axis[1], factor)
    stage.reorder(outer, stage.op.axis[0], stage.op.reduce_axis[0], inner)
    stage.vectorize(inner)
    return ScheduleSteps(schedule.steps)


@pytest.fixture
def workload():
    return GraphWorkload(product_graph(), Target("c"), "product")


def test_steps_are_built_run_and_compared_with_the_computes(workload):
    candidates = [ScheduleSteps(()), *(tiled(workload.tensors, n) for n in (4, 8))]
    option = measure_option(LocalBuilder(n_parallel=1), LocalRunner(number=1, repeat=2))
    with Pipeline(workload, option) as line:
        line.submit([MeasureInput(workload.target, workload, one) for one in candidates])
        pairs = []
        while line.outstanding:
            pairs += line.next_results()
    assert [inp.config for inp, _ in pairs] == candidates
    assert [result.error_no for _, result in pairs] == [MeasureErrorNo.NO_ERROR] * 3
    assert all(result.extra["verified"] for _, result in pairs)


def test_steps_that_do_not_fit_cost_their_own_trial(workload):
    bad = ScheduleSteps((Split(stage=9, axis=0, factors=(4,)),))
    option = measure_option(LocalBuilder(n_parallel=1), LocalRunner(number=1, repeat=1))
    with Pipeline(workload, option) as line:
        line.submit([MeasureInput(workload.target, workload, bad)])
        ((_, result),) = line.next_results()
    assert result.error_no == MeasureErrorNo.INSTANTIATION_ERROR
    assert "ScheduleError" in result.error_msg


def test_steps_come_back_from_json_with_the_same_key(workload):
    steps = tiled(workload.tensors, 8)
    again = ScheduleSteps.from_json(json.loads(json.dumps(steps.to_json())))
    assert again == steps
    assert again.key == steps.key != tiled(workload.tensors, 4).key
    assert not again.key.isdecimal()


def test_a_graph_is_known_by_what_it_computes(workload):
    same = GraphWorkload(product_graph(), Target("c"), "under another name")
    assert same == workload
    assert len({same, workload}) == 1
    assert GraphWorkload(product_graph(16), Target("c")) != workload
    assert GraphWorkload(product_graph(), Target("cuda -arch=sm_90")) != workload
    assert workload.flop == 2 * 32**3
    assert workload.bytes == 3 * 32 * 32 * 4


def test_what_says_nothing_of_schedules_is_refused(workload):
    with pytest.raises(Exception, match="expected a candidate that schedules its graph"):
        workload.realise(3)


def test_realising_changes_nothing(workload):
    steps = tiled(workload.tensors, 8)
    first, second = workload.realise(steps), workload.realise(steps)
    assert first.what[0] is not second.what[0]
    assert first.what[0] == second.what[0]
    assert all(a is b for a, b in zip(first.what[1], second.what[1], strict=True))
