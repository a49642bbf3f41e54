"""Tiles leave their kernel as many registers as blocks that a multiprocessor should hold allow."""

import json

import numpy as np
import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.analytical.gpu_stage import StageEstimate
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space import annotate_gpu
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.auto_scheduler.transform_steps import PragmaStep
from autotune.auto_scheduler.transform_steps.rows import step_from_row
from autotune.errors import ScheduleError
from tests.auto_scheduler.graphs import conv2d_layer, matmul
from tests.auto_scheduler.running import assert_states_compute_the_same, kernel_of

PARAMS = SketchPolicy.DEFAULT_PARAMS
LAYER = (1, 5, 5, 8, 16, 3, 3, (1, 1), (1, 1))


def models_of(tensors, target="cuda -arch=sm_90"):
    task = SearchTask(compute_dag=ComputeDAG(tensors), target=target)
    return task, programs_of(task, sketches_of(task, PARAMS), PARAMS)


def drawn(model, count):
    return RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(count)


def asked_for(candidate):
    """Return the number of blocks of the hint of a candidate; 0 without one."""
    found = [s.min_blocks for s in candidate.transform_steps if isinstance(s, PragmaStep)]
    return next((each for each in found if each is not None), 0)


def test_tiles_ask_for_as_many_blocks_as_their_registers_are_estimated_to_allow():
    _, models = models_of(matmul(1024, 1024, 1024))
    for model in models:
        rows = drawn(model, 200)
        (tiled,) = model.tiled
        resident = StageEstimate(tiled, rows, model.device).resident
        for row, most in zip(rows, resident, strict=True):
            wanted = max(each for each in annotate_gpu.MIN_BLOCKS if each <= most)
            assert asked_for(model.program.candidate(row)) == wanted


@pytest.mark.parametrize(
    "tensors", [matmul(512, 1024, 1024), conv2d_layer(*LAYER)], ids=["mm", "conv"]
)
def test_tiles_of_smaller_sums_ask_for_nothing(tensors):
    _, models = models_of(tensors)
    for model in models:
        assert all(not asked_for(model.program.candidate(row)) for row in drawn(model, 200))


@pytest.mark.parametrize(
    ("arch", "threads"), [("sm_75", 1024), ("sm_86", 1536), ("sm_120a", 1536)]
)
def test_no_more_threads_are_asked_for_than_a_multiprocessor_holds(arch, threads):
    _, models = models_of(matmul(1024, 1024, 1024), f"cuda -arch={arch}")
    for model in models:
        rows = drawn(model, 200)
        (tiled,) = model.tiled
        taken = StageEstimate(tiled, rows, model.device).shape.threads * rows[:, tiled.min_blocks]
        assert 0 < taken.max() <= threads


def test_candidates_with_and_without_the_hint_are_rows():
    _, (model, *_) = models_of(matmul(256, 256, 256))
    row = drawn(model, 1)[0]
    (tiled,) = model.tiled
    for value in (0, 4):
        row[tiled.min_blocks] = value
        steps = model.program.candidate(row).transform_steps
        assert ("min_blocks$4" in str(steps)) == (value == 4)
        assert model.program.row_of(steps) == list(row)


@pytest.mark.parametrize("tensors", [matmul(32, 32, 40), conv2d_layer(*LAYER)], ids=["mm", "conv"])
def test_the_compiler_is_told_and_results_are_the_same(tensors, tmp_path):
    task, (model, *_) = models_of(tensors)
    rows = drawn(model, 3)
    (tiled,) = model.tiled
    rows[:, tiled.min_blocks] = [2, 3, 4]  # What tiles of larger sums ask for.
    candidates = [model.program.candidate(row) for row in rows]
    assert [asked_for(each) for each in candidates] == [2, 3, 4]
    start = plain_state(task.compute_dag.init_state.dag)
    states = [start.after(each.transform_steps) for each in candidates]
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path)
    for candidate, state in zip(candidates, states, strict=True):
        text = kernel_of(task.compute_dag, state, "cuda", "k").source
        assert f", {asked_for(candidate)})\n" in text
        assert f"min_blocks: {asked_for(candidate)}\n" in str(state)


def test_records_keep_the_hint():
    step = PragmaStep(2, 0, "min_blocks$3")
    assert step.to_row() == ["PR", 2, 0, "min_blocks$3"]
    assert step_from_row(json.loads(json.dumps(step.to_row()))) == step
    assert step.min_blocks == 3
    assert step.unroll is step.pipeline is None


@pytest.mark.parametrize("hint", ["min_blocks$33", "min_blocks$", "min_blocks", "min_blocks$-1"])
def test_other_numbers_are_refused(hint):
    task, _ = models_of(matmul(32, 32, 32))
    start = plain_state(task.compute_dag.init_state.dag)
    with pytest.raises(ScheduleError, match=r"min_blocks\$<number up to 32>"):
        start.after([PragmaStep(2, 0, hint)])


def test_products_on_tensor_cores_have_no_such_choice():
    a, b = (te.placeholder((128, 128), "float16", name) for name in "ab")
    _, models = models_of([a, b, topi.nn.matmul(a, b, out_dtype="float32")])
    on_tensor_cores = [
        each for each in models if any(s.attrs.tensor_core for s in each.program.state.stages)
    ]
    assert on_tensor_cores
    for model in on_tensor_cores:
        hints = [s for s in model.program.state.transform_steps if isinstance(s, PragmaStep)]
        assert all(each.min_blocks is None for each in hints)
