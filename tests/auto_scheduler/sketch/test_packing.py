"""On a CPU each block may have its own part of what its tiles read, and sums stay in registers."""

import numpy as np
import pytest

import autotune
from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy, XGBModel
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.transform_steps import CacheReadStep, ComputeAtStep
from autotune.driver import kernel_of
from tests.auto_scheduler.graphs import matmul, tutorial_layer

PARAMS = SketchPolicy.DEFAULT_PARAMS


def task_of(tensors, target="llvm"):
    return SearchTask(compute_dag=ComputeDAG(tensors), target=target)


def packed(sketch):
    """Return the names of what blocks copy or compute for themselves."""
    return {
        sketch.stages[each].name
        for each in sketch.attach
        if sketch.stages[each].name.endswith((".global", "pad_temp"))
    }


def test_a_matrix_is_packed_that_is_read_by_lanes():
    found = [packed(each) for each in sketches_of(task_of(matmul(64, 64, 64)), PARAMS)]
    assert {"B.global"} in found
    assert set() in found
    assert not any("A.global" in each for each in found)


def test_a_transposed_matrix_may_be_packed_as_a_copy_lies_as_lanes_want_it():
    a, b = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    found = [packed(each) for each in sketches_of(task_of([a, b, topi.nn.dense(a, b)]), PARAMS)]
    assert {"B.global"} in found
    assert set() in found


def test_a_matrix_that_is_read_once_is_not_packed():
    a, b = te.placeholder((1, 64), name="A"), te.placeholder((64, 64), name="B")
    found = sketches_of(task_of([a, b, topi.nn.dense(a, b)]), PARAMS)
    assert not any(packed(each) for each in found)


def test_padding_is_computed_at_once_or_block_by_block():
    found = [packed(each) for each in sketches_of(task_of(tutorial_layer()), PARAMS)]
    assert any(each for each in found)
    assert any(not each for each in found)


def test_a_gpu_has_sketches_of_its_own():
    found = sketches_of(task_of(matmul(64, 64, 64), "cuda -arch=sm_90"), PARAMS)
    assert not any(".global" in stage.name for each in found for stage in each.stages)


def test_sketches_of_tvm_are_as_they_were():
    policy = SketchPolicy(task_of(matmul(512, 512, 512)), seed=0)
    for state in policy.generate_sketches():
        assert not any(isinstance(step, CacheReadStep) for step in state.transform_steps)


@pytest.mark.many_cases
@pytest.mark.parametrize("place", range(6))
def test_packed_programs_compute_the_product(place):
    task = task_of(matmul(32, 48, 64))
    model = programs_of(task, sketches_of(task, PARAMS), PARAMS)[place]
    rng = np.random.default_rng(place)
    row = rng.permutation(
        SketchPolicy(task, seed=place).proposer.programs[place].sampler.draw(64)
    )[0]
    schedule, tensors = task.realise(model.program.candidate(row)).what
    run = autotune.build(schedule, tensors, target="c")
    a, b = (rng.random([int(n) for n in each.shape], "float32") for each in tensors[:2])
    c = np.empty([int(n) for n in tensors[2].shape], "float32")
    run(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)


def test_the_first_proposal_sums_apart_in_vectors():
    task = task_of(matmul(512, 512, 512))
    best = SketchPolicy(task, XGBModel(), seed=0).propose(1)[0]
    assert any(isinstance(step, ComputeAtStep) for step in best.transform_steps)
    text = kernel_of(task.realise(best).what, task.target).source
    assert "C_local" in text
    assert "LANES(" in text
    assert "omp simd" not in text
