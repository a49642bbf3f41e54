"""Tiles may take so much shared memory that a multiprocessor holds two blocks."""

import pickle

import numpy as np
import pytest

from autotune.auto_scheduler import ComputeDAG, HardwareParams, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.analytical import gpu_stage
from autotune.auto_scheduler.search.analytical.gpu_parameters import GpuParameters
from autotune.auto_scheduler.search.analytical.gpu_stage import StageEstimate
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.target import Target
from tests.auto_scheduler.graphs import matmul
from tests.auto_scheduler.running import assert_states_compute_the_same, kernel_of

PARAMS = SketchPolicy.DEFAULT_PARAMS
FREE = 48 * 1024


@pytest.fixture
def large(monkeypatch):
    """Let small sums have tiles as large ones."""
    monkeypatch.setattr(gpu_stage, "LARGE", 0)


def large_tiles(size, count, params=None):
    """Return a product, and some rows whose tiles take more than kernels have without asking."""
    task = SearchTask(
        compute_dag=ComputeDAG(matmul(size, size, size)),
        target="cuda -arch=sm_90",
        hardware_params=params,
    )
    model = programs_of(task, sketches_of(task, PARAMS), PARAMS)[0]
    rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(count)
    taken = StageEstimate(model.tiled[0], rows, model.device).shared_bytes
    return task, model, rows[taken > FREE], taken


def states_of(task, model, rows):
    start = plain_state(task.compute_dag.init_state.dag)
    return [start.after(model.program.candidate(row).transform_steps) for row in rows]


@pytest.mark.parametrize(
    ("arch", "expected"),
    [("sm_90", 113 * 1024), ("sm_80", 81 * 1024), ("sm_86", 49 * 1024), ("sm_60", FREE)],
)
def test_two_blocks_fit_in_a_multiprocessor(arch, expected):
    target = Target(f"cuda -arch={arch}")
    found = GpuParameters.of(target, HardwareParams(target=target))
    assert found.large_shared_bytes == expected
    assert found.block_shared_bytes == FREE


def test_small_sums_take_what_kernels_have_without_asking():
    *_, rows, _ = large_tiles(256, 400)
    assert not len(rows)


@pytest.mark.parametrize("limit", [20000, FREE])
def test_a_limit_that_a_user_chose_is_kept(limit, large):
    params = HardwareParams(max_shared_memory_per_block=limit, target="cuda")
    *_, rows, taken = large_tiles(256, 400, params)
    assert not len(rows)
    assert taken.max() <= limit


def test_a_limit_that_a_record_has_by_default_is_nobodys_choice():
    target = Target("cuda -arch=sm_90")
    default = HardwareParams(target=target)
    chosen = HardwareParams(max_shared_memory_per_block=FREE, target=target)
    assert default == chosen
    found = [
        GpuParameters.of(target, each).large_shared_bytes
        for each in (HardwareParams.from_row(default.to_row()), pickle.loads(pickle.dumps(chosen)))
    ]
    assert found == [113 * 1024, FREE]


def test_kernels_ask_for_what_was_estimated(large):
    task, model, rows, taken = large_tiles(256, 400)
    assert 0.01 < len(rows) / len(taken) < 0.9
    for row, state in zip(rows[:3], states_of(task, model, rows[:3]), strict=True):
        kernel = kernel_of(task.compute_dag, state, "cuda", "k")
        (expected,) = StageEstimate(model.tiled[0], row[None], model.device).shared_bytes
        assert "extern __shared__" in kernel.source
        assert [call.launch.shared_bytes for call in kernel.calls] == [expected]


def test_large_tiles_compute_what_the_definition_says(large, tmp_path):
    task, model, rows, _ = large_tiles(128, 400)
    states = states_of(task, model, rows[:2])
    assert states
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path)
