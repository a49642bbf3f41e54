"""Sums of 16-bit floats in their own type run on tensor cores too, in float32."""

import numpy as np
import pytest

from autotune import te, topi
from autotune.auto_scheduler.search.analytical.gpu import GpuCostModel
from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from tests.auto_scheduler.sketch.test_groups_on_tensor_cores import Grouped
from tests.auto_scheduler.sketch.test_phases import wanted as transposed_by_numpy
from tests.auto_scheduler.tensor_core_programs import TYPES, kernels, programs
from tests.fuzz.running import Job, run_batch

PRODUCTS = TensorCoreCostModel, WarpgroupCostModel


def dense(dtype, rows, columns, steps, follows):
    """A dense layer as its operator defines it if no type of sums is named."""
    x = te.placeholder((rows, steps), dtype, name="x")
    w = te.placeholder((columns, steps), dtype, name="w")
    out = topi.nn.dense(x, w)
    assert out.dtype == dtype
    return [x, w, topi.nn.relu(out) if follows else out]


@pytest.mark.parametrize(
    ("case", "kinds", "count"),
    [
        (("float16", 64, 64, 128, True), PRODUCTS, 6),
        (("bfloat16", 64, 64, 64, False), PRODUCTS, 4),
        (("float16", 20, 36, 64, False), PRODUCTS[:1], 3),
    ],
    ids=["float16", "bfloat16", "cut tiles"],
)
def test_sums_in_the_type_of_elements_are_wide_on_tensor_cores(case, kinds, count, tmp_path):
    task, found = programs(dense(*case), PRODUCTS)
    assert {type(each) for each in found} == set(kinds)
    assert len(found) == count  # whole, and in parts
    rng, dtype = np.random.default_rng(0), TYPES[case[0]]
    inputs = [
        rng.integers(-2, 3, each.shape).astype(dtype) for each in task.compute_dag.tensors[:2]
    ]
    x, w = (each.astype(np.float64) for each in inputs)
    wanted = np.maximum(x @ w.T, 0 if case[-1] else -np.inf).astype(dtype)
    for place, model in enumerate(found):
        (row,), (kernel,) = kernels(task, model, 1)
        state = model.program.candidate(row)
        assert model.program.row_of(state.transform_steps) == row.tolist()
        folder = tmp_path / str(place)
        folder.mkdir()
        (got,) = run_batch([Job(kernel, inputs, 0)], folder)
        assert not isinstance(got, str), got
        np.testing.assert_array_equal(got[0], wanted)


def grouped(follows):
    x = te.placeholder((1, 64, 8, 8), "float16", name="x")
    w = te.placeholder((64, 32, 3, 3), "float16", name="w")
    return [x, w, relu_if(follows, topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, 2))]


def in_phases(follows):
    x = te.placeholder((1, 16, 4, 4), "float16", name="x")
    w = te.placeholder((16, 32, 4, 4), "float16", name="w")
    return [x, w, relu_if(follows, topi.nn.conv2d_transpose_nchw(x, w, (2, 2), 1))]


def relu_if(follows, out):
    assert out.dtype == "float16"
    return topi.nn.relu(out) if follows else out


@pytest.mark.many_cases
@pytest.mark.parametrize("follows", [False, True], ids=["alone", "with ReLU"])
@pytest.mark.parametrize("layer", [grouped, in_phases])
def test_groups_and_phases_are_summed_in_float32(layer, follows, tmp_path):
    task, found = programs(layer(follows), PRODUCTS)
    rng, shapes = np.random.default_rng(0), [each.shape for each in task.compute_dag.tensors[:2]]
    inputs = [rng.integers(-2, 3, shape).astype("float16") for shape in shapes]
    exact = [each.astype(np.float64) for each in inputs]
    if layer is grouped:
        wanted = Grouped(follows=follows).wanted(exact)
    else:
        wanted = transposed_by_numpy(*exact, 2, 1, 0, follows)
    for place, model in enumerate(found):
        assert model.batch in (2, 4)
        _, (kernel,) = kernels(task, model, 1)
        folder = tmp_path / str(place)
        folder.mkdir()
        (got,) = run_batch([Job(kernel, inputs, 0)], folder)
        assert not isinstance(got, str), got
        np.testing.assert_array_equal(got[0], wanted.astype("float16"))
    assert found


def test_kernels_without_tensor_cores_add_as_the_definition_says():
    _, found = programs(dense("float16", 64, 64, 64, False), GpuCostModel)
    assert found
    for model in found:
        assert {op.outputs[0].dtype for op in model.program.state.stage_ops} == {"float16"}
