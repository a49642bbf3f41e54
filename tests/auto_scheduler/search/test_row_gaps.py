"""Rows of tiles in shared memory may be longer, so that threads meet in fewer banks."""

import json

import numpy as np
import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.analytical.gpu_columns import Levels, footprint
from autotune.auto_scheduler.search.analytical.gpu_stage import StageEstimate
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.auto_scheduler.transform_steps import StorageAlignStep
from autotune.auto_scheduler.transform_steps.rows import step_from_row
from tests.auto_scheduler.graphs import matmul
from tests.auto_scheduler.running import assert_states_compute_the_same, kernel_of

PARAMS = SketchPolicy.DEFAULT_PARAMS


def first_model(tensors):
    task = SearchTask(compute_dag=ComputeDAG(tensors), target="cuda -arch=sm_90")
    return task, programs_of(task, sketches_of(task, PARAMS), PARAMS)[0]


def both_along_the_sum(batch, size, depth):
    """Return a product of matrices both of which are read along the sum."""
    a, b = (te.placeholder((batch, size, depth), name=name) for name in "AB")
    return [a, b, topi.nn.batch_matmul(a, b)]


def rows_with_and_without(model):
    """Return a row of 8 steps a chunk, read by vectors, without gaps and with them."""
    (tiled,) = model.tiled
    row = [
        value
        for slot in model.program.slots
        for value in ([1] * slot.width if slot.width > 1 else [slot.values[0]])
    ]
    row[tiled.reductions[0].columns.start] = 8
    for axis in tiled.data[1:]:
        row[axis.columns.start + 1] = axis.extent // 2
        row[axis.columns.start + 2] = 2
    for each in tiled.inputs:
        row[each.vector] = 4
    gaps = [each.row for each in tiled.inputs if each.row is not None]
    other = [4 if i in gaps else value for i, value in enumerate(row)]
    return np.array([row, other])


def test_what_threads_read_across_has_no_such_choice():
    _, model = first_model(matmul(16, 16, 32))
    named = {each.name: each.row for each in model.tiled[0].inputs}
    assert named["A.shared"] is not None  # rows along the sum
    assert named["B.shared"] is None  # rows along the columns of threads
    _, model = first_model(both_along_the_sum(2, 16, 32))
    assert all(each.row is not None for each in model.tiled[0].inputs)


def test_rows_of_other_lengths_compute_the_same(tmp_path):
    task, model = first_model(both_along_the_sum(2, 16, 32))
    candidates = [model.program.candidate(row) for row in rows_with_and_without(model)]
    states = [
        plain_state(task.compute_dag.init_state.dag).after(each.transform_steps)
        for each in candidates
    ]
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path)
    plain, wide = (kernel_of(task.compute_dag, each, "cuda", "k").source for each in states)
    assert "A_shared[128]" in plain
    assert "A_shared[192]" in wide  # 16 rows of 12 instead of 8


def test_a_row_without_gaps_leaves_no_step_and_both_come_back():
    _, model = first_model(both_along_the_sum(2, 16, 32))
    for row, count in zip(rows_with_and_without(model), (0, 2), strict=True):
        steps = model.program.candidate(row).transform_steps
        found = [step for step in steps if isinstance(step, StorageAlignStep)]
        assert len(found) == count
        again = [step_from_row(json.loads(json.dumps(step.to_row()))) for step in steps]
        assert model.program.row_of(again) == row.tolist()


def test_closed_forms_count_gaps_and_see_fewer_threads_in_a_bank():
    _, model = first_model(both_along_the_sum(1, 64, 64))
    rows = rows_with_and_without(model)
    (tiled,) = model.tiled
    stage = StageEstimate(tiled, rows, model.device)
    assert stage.shared_bytes.tolist() == [2 * 64 * 8 * 4, 2 * 64 * 12 * 4]
    traffic = stage.traffic[1]
    assert traffic.conflict[1] < traffic.conflict[0]


@pytest.mark.parametrize("tensors", [both_along_the_sum(2, 48, 24), matmul(96, 64, 40)])
def test_gaps_are_drawn_only_where_they_change_banks(tensors):
    _, model = first_model(tensors)
    rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(256)
    (tiled,) = model.tiled
    for each in tiled.inputs:
        if each.row is None:
            continue
        with_gaps = rows[rows[:, each.row] > 0]
        assert len(with_gaps)
        every = slice(None)
        extents = footprint(each, Levels(tiled, with_gaps), every, every)
        assert (extents[-1] % 8 == 0).all()
