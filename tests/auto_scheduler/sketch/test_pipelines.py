"""Copies in shared memory are made ahead of their use where a hint of a state says so."""

import json

import pytest

from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.auto_scheduler.transform_steps import PragmaStep
from autotune.auto_scheduler.transform_steps.loops import PIPELINE
from autotune.auto_scheduler.transform_steps.rows import step_from_row
from autotune.errors import ScheduleError
from tests.auto_scheduler.graphs import conv2d_layer, matmul
from tests.auto_scheduler.running import assert_states_compute_the_same, kernel_of

PARAMS = SketchPolicy.DEFAULT_PARAMS
LAYER = (1, 5, 5, 8, 16, 3, 3, (1, 1), (1, 1))


def first_model(tensors):
    task = SearchTask(compute_dag=ComputeDAG(tensors), target="cuda -arch=sm_90")
    return task, programs_of(task, sketches_of(task, PARAMS), PARAMS)[0]


def rows_of_all_depths(model, chunks):
    """Return a row of several chunks of its reduction once for each number of buffers."""
    (tiled,) = model.tiled
    program = model.program
    row = []
    for slot in program.slots:
        row += [1] * slot.width if slot.width > 1 else [slot.values[0]]
    deepest = tiled.reductions[0].columns
    row[deepest.start] = tiled.reductions[0].extent // chunks
    for axis in tiled.data:
        row[axis.columns.start + 1] = axis.extent
    found = []
    for depth in (0, 1, 2, 3, 4):
        found.append([*row])
        found[-1][tiled.pipeline] = depth
    return [program.candidate(each) for each in found]


def depth_of(candidate):
    found = [s.pipeline for s in candidate.transform_steps if isinstance(s, PragmaStep)]
    return next((each for each in found if each is not None), None)


@pytest.mark.parametrize("tensors", [matmul(8, 8, 40), conv2d_layer(*LAYER)], ids=["mm", "conv"])
def test_copies_ahead_of_use_change_no_result(tensors, tmp_path):
    task, model = first_model(tensors)
    states = [
        plain_state(task.compute_dag.init_state.dag).after(each.transform_steps)
        for each in rows_of_all_depths(model, chunks=8 if len(tensors) > 3 else 10)
    ]
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path)
    texts = [kernel_of(task.compute_dag, each, "cuda", "k").source for each in states]
    assert ["__pipeline_commit" in each for each in texts] == [False, False, True, True, True]
    assert len(set(texts)) == 5


def test_no_copies_ahead_leave_no_step_that_tvm_does_not_know():
    _, model = first_model(matmul(8, 8, 40))
    candidates = rows_of_all_depths(model, chunks=10)
    assert [depth_of(each) for each in candidates] == [None, 1, 2, 3, 4]
    for each in candidates:
        row = model.program.row_of(each.transform_steps)
        assert model.program.candidate(row).key == each.key


def test_the_hint_comes_back_from_a_record():
    step = PragmaStep(3, 2, f"{PIPELINE}$3")
    assert step_from_row(json.loads(json.dumps(step.to_row()))) == step


def test_the_hint_is_printed_and_its_python_text_runs():
    task, model = first_model(matmul(8, 8, 40))
    candidate = rows_of_all_depths(model, chunks=10)[3]
    state = plain_state(task.compute_dag.init_state.dag).after(candidate.transform_steps)
    assert "software_pipeline: 3" in str(state)
    text = task.compute_dag.print_python_code_from_state(state, "python")
    assert text.count(".async_copy(3)") == 2
    scope = {}
    exec(text, scope)
    schedule, _ = scope["schedule"](task.compute_dag.tensors)
    depths = {stage.op.name: stage.pipeline_stages for stage in schedule.stages}
    assert [depths[f"{name}.shared"] for name in "AB"] == [3, 3]


@pytest.mark.parametrize("hint", ["software_pipeline$", "software_pipeline$99", "software$2"])
def test_a_hint_that_is_none_is_refused(hint):
    task, model = first_model(matmul(8, 8, 40))
    steps = rows_of_all_depths(model, chunks=10)[3].transform_steps
    broken = [
        PragmaStep(s.stage_id, s.iter_id, hint) if isinstance(s, PragmaStep) and s.pipeline else s
        for s in steps
    ]
    with pytest.raises(ScheduleError, match="software_pipeline"):
        plain_state(task.compute_dag.init_state.dag).after(broken)
