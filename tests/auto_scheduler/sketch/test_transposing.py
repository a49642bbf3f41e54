"""What is read along another axis than it is written goes through tiles in shared memory."""

import re

import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.programs import sketches_of
from autotune.auto_scheduler.sketch.transposing import TILES, transposed_read
from autotune.auto_scheduler.states.loop_state import plain_state
from tests.auto_scheduler.running import assert_states_compute_the_same, kernel_of

PARAMS = SketchPolicy.DEFAULT_PARAMS


def transposed(shape, order):
    x = te.placeholder(shape, "float32", "x")
    return [x, topi.transpose(x, order)]


def task_of(tensors, target="cuda -arch=sm_90"):
    return SearchTask(compute_dag=ComputeDAG(tensors), target=target)


def tiled_sketches(task):
    return [each for each in sketches_of(task, PARAMS) if is_tiled(each)]


def is_tiled(state):
    return any(stage.name.endswith(".shared") for stage in state.stages)


def states_of(task, rows):
    """Return all states of some sketches that have so many rows of threads, or the plain ones."""
    dag = task.compute_dag.init_state.dag
    candidates = SketchPolicy(task, seed=0).propose(64)
    states = [plain_state(dag).after(each.transform_steps) for each in candidates]
    return [each for each in states if not is_tiled(each) or _rows(each) in rows]


def _rows(state):
    return next(loop.extent for loop in state.stages[2].iters if "threadIdx.y" in str(loop))


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((64, 96), (1, 0)),
        ((50, 70), (1, 0)),  # tiles at the edge are cut
        ((2, 40, 3, 33), (0, 3, 2, 1)),
        ((2, 40, 3, 33), (0, 2, 3, 1)),
    ],
)
def test_tiles_of_all_sizes_compute_what_the_definition_says(shape, order, tmp_path):
    task = task_of(transposed(shape, order))
    states = states_of(task, rows=(8,))
    assert sum(map(is_tiled, states)) == len(TILES)
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path)


def test_rows_in_shared_memory_are_one_element_longer_than_a_tile():
    task = task_of(transposed((64, 64), (1, 0)))
    states = filter(is_tiled, states_of(task, rows=(8,)))
    sources = [kernel_of(task.compute_dag, each, "cuda", "k").source for each in states]
    assert all("threadIdx.y" in each for each in sources)
    found = {re.search(r"x_shared\[(\d+)\]", each).group(1) for each in sources}
    assert found == {"1056", "2080", "2112", "4160"}  # 32 x 33, 32 x 65, 64 x 33, 64 x 65


def test_each_number_of_threads_is_within_the_limits():
    task = task_of(transposed((4096, 4096), (1, 0)))
    dag = task.compute_dag.init_state.dag
    for each in SketchPolicy(task, seed=0).propose(64):
        kernel = kernel_of(
            task.compute_dag, plain_state(dag).after(each.transform_steps), "cuda", "k"
        )
        assert kernel.calls[0].launch.threads <= 1024


@pytest.mark.parametrize(
    "tensors",
    [
        transposed((2, 40, 40, 3), (0, 2, 1, 3)),  # neighbours stay neighbours
        transposed((4096, 8), (1, 0)),  # the other side fills no warp
    ],
)
def test_what_needs_no_tiles_has_none(tensors):
    assert transposed_read(tensors[-1].op) is None
    assert not tiled_sketches(task_of(tensors))


def test_a_cpu_has_no_such_sketches_and_a_transpose_of_results_neither():
    assert not tiled_sketches(task_of(transposed((64, 64), (1, 0)), "c"))
    x = te.placeholder((64, 64), "float32", "x")
    assert not tiled_sketches(task_of([x, topi.transpose(topi.nn.relu(x), (1, 0))]))


def test_bias_beside_what_is_transposed_is_read_in_place(tmp_path):
    x, b = (te.placeholder(s, "float32", n) for s, n in (((48, 64), "x"), ((64, 48), "b")))
    out = te.compute((64, 48), lambda i, j: x[j, i] + b[i, j], "sum")
    task = task_of([x, b, out])
    states = [
        plain_state(task.compute_dag.init_state.dag).after(each.transform_steps)
        for each in SketchPolicy(task, seed=0).propose(12)
    ]
    assert any(map(is_tiled, states))
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path)
