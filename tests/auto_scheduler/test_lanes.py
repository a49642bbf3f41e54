"""On a CPU vectors go along output channels where rows of an image fill none."""

import numpy as np
import pytest

import autotune
from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy, XGBModel
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.sketch.lanes import lane_axis, lanes_of
from autotune.driver import kernel_of
from tests.auto_scheduler.graphs import matmul, tutorial_layer

PARAMS = SketchPolicy.DEFAULT_PARAMS


def task_of(tensors, target="llvm"):
    return SearchTask(compute_dag=ComputeDAG(tensors), target=target)


def convolution(channels, size, filters, stride=1):
    data = te.placeholder((1, channels, size, size), name="data")
    weight = te.placeholder((filters, channels, 3, 3), name="weight")
    return [data, weight, topi.nn.conv2d_nchw(data, weight, stride, 1)]


def along_channels(forms):
    """Return those of which the innermost loop of the sums is over output channels."""
    return [each for each in forms if any(tiled.lanes == 1 for tiled in each.tiled)]


@pytest.mark.parametrize(
    ("size", "stride", "wanted"), [(7, 1, "ff"), (32, 2, "ff"), (14, 1, "ff")]
)
def test_channels_are_lanes_where_rows_are_short_or_read_in_steps(size, stride, wanted):
    conv = convolution(8, size, 16, stride)[-1].op
    assert lane_axis(conv).name == wanted


def test_rows_stay_lanes_where_they_fill_vectors_or_nothing_else_does():
    product = matmul(64, 64, 64)[-1].op
    assert lane_axis(product) is None
    assert lane_axis(convolution(8, 7, 9)[-1].op) is None


def test_a_gpu_and_the_sketches_of_tvm_know_nothing_of_it():
    for task in (task_of(tutorial_layer(), "cuda -arch=sm_90"), task_of(tutorial_layer())):
        states = SketchPolicy(task, seed=0).generate_sketches()
        if task.target.kind == "cuda":
            states = sketches_of(task, PARAMS)
        tiled = [s for each in states for s in each.stages if len(s.iters) > 2 * len(s.op.axis)]
        assert all(lanes_of(stage) == len(stage.op.axis) - 1 for stage in tiled)


@pytest.mark.parametrize(("size", "stride"), [(7, 1), (9, 2)])
def test_programs_with_lanes_along_channels_are_right(size, stride):
    tensors = convolution(6, size, 16, stride)
    task = task_of(tensors)
    found = along_channels(programs_of(task, sketches_of(task, PARAMS), PARAMS))
    assert found
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([int(n) for n in t.shape]).astype("float32") for t in tensors]
    plain = autotune.build(te.create_schedule(tensors[-1].op), tensors, target="llvm")
    plain(*arrays)
    proposer = SketchPolicy(task, seed=0).proposer
    for arm in along_channels([arm.forms for arm in proposer.arms])[:2]:
        sampler = next(each.sampler for each in proposer.arms if each.forms is arm)
        schedule, args = task.realise(arm.program.candidate(sampler.draw(8)[3])).what
        out = np.full_like(arrays[2], np.nan)
        autotune.build(schedule, args, target="llvm")(*arrays[:2], out)
        np.testing.assert_allclose(out, arrays[2], rtol=1e-4, atol=1e-4)


def test_the_first_proposal_for_short_rows_multiplies_vectors_of_weights():
    task = task_of(tutorial_layer())
    best = SketchPolicy(task, XGBModel(), seed=0).propose(1)[0]
    text = kernel_of(task.realise(best).what, task.target).source
    assert "_global[rc" in text
    assert "*(const float_v32*)&" in text
