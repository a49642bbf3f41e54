"""Transposed convolutions: products of the zeros that their definition inserts are left out."""

import re

import numpy as np
import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, fallback_schedule
from autotune.auto_scheduler.search.analytical.gpu import GpuCostModel
from autotune.auto_scheduler.search.analytical.gpu_stage import StageEstimate
from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from autotune.auto_scheduler.states.python_text import runnable_text
from autotune.codegen import kernel_of_schedule
from autotune.kernel import launch_violation
from tests.auto_scheduler.tensor_core_programs import kernels, programs
from tests.fuzz.running import Job, run_batch


def transposed(
    n, ci, size, co, kernel, stride, padding, more, follows, layout="NCHW", dtype="float32"
):
    """The graph of a transposed convolution, after which a ReLU may follow."""
    x = te.placeholder((n, ci, size, size), dtype, name="x")
    w = te.placeholder((ci, co, kernel, kernel), dtype, name="w")
    if layout == "NCHW":
        given = x, w, (stride, stride), padding, "float32", (more, more)
        out = topi.nn.conv2d_transpose_nchw(*given)
    else:
        out = in_two_stages(x, w, stride, kernel - 1 - padding, more)
    return [x, w, topi.nn.relu(out) if follows else out]


def in_two_stages(x, w, stride, before, more):
    """The same as TVM defines it: zeros are put between elements, then around, channels last."""
    n, ci, *_ = x.shape
    _, co, kernel, _ = w.shape
    dilated = topi.nn.dilate(x, (1, 1, stride, stride))
    padded = topi.nn.pad(dilated, (0, 0, before, before), (0, 0, before + more, before + more))
    out = int(padded.shape[-1]) - kernel + 1
    c = te.reduce_axis((0, ci), name="c")
    i, j = (te.reduce_axis((0, kernel), name=name) for name in "ij")

    def value(b, y, x_, f):
        pair = padded[b, c, y + i, x_ + j], w[c, f, kernel - 1 - i, kernel - 1 - j]
        left, right = (each.astype("float32") for each in pair)
        return te.sum(left * right, axis=[c, i, j])

    return te.compute((n, out, out, co), value, name="out")


def wanted(x, w, stride, padding, more, follows, layout="NCHW"):
    """The result in float64."""
    (n, _, size, _), (_, co, kernel, _) = x.shape, w.shape
    length = (size - 1) * stride + kernel + more
    full = np.zeros((n, co, length, length))
    for i in range(size):
        for j in range(size):
            at = np.s_[:, :, i * stride : i * stride + kernel, j * stride : j * stride + kernel]
            full[at] += np.einsum("nc,cfkl->nfkl", x[:, :, i, j], w, dtype=np.float64)
    out = full[:, :, padding : length - padding, padding : length - padding]
    out = np.maximum(out, 0) if follows else out
    return out if layout == "NCHW" else out.transpose(0, 2, 3, 1)


PRODUCTS = TensorCoreCostModel, WarpgroupCostModel
CASES = {
    "4x4": (1, 4, 4, 8, 4, 2, 1, 0, True),
    "3x3, even": (2, 3, 5, 4, 3, 2, 1, 1, False),
    "3x3, odd": (1, 4, 3, 4, 3, 2, 1, 0, True),
    "2x2": (1, 2, 4, 4, 2, 2, 0, 0, False),
    "5x5 by 3": (1, 2, 3, 3, 5, 3, 1, 1, False),
    "one pixel": (1, 8, 1, 4, 4, 4, 0, 0, False),
    "long sums": (1, 64, 2, 4, 4, 2, 1, 0, True),
    "channels last": (2, 4, 3, 8, 4, 2, 1, 0, True, "NHWC"),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_sums_in_phases_compute_what_numpy_does(name, tmp_path):
    case = CASES[name]
    task, found = programs(transposed(*case), GpuCostModel)
    assert len(found) == (6 if name == "long sums" else 1)
    rng, shapes = np.random.default_rng(0), [each.shape for each in task.compute_dag.tensors[:2]]
    inputs = [rng.integers(-3, 4, shape).astype("float32") for shape in shapes]
    for place, model in enumerate(found[:2]):
        rows, made = kernels(task, model, 4)
        estimated = StageEstimate(model.tiled[0], rows, model.device).shared_bytes
        for row, kernel, shared in zip(rows, made, estimated, strict=True):
            assert launch_violation(kernel, task.target.limits) is None
            sizes = [int(n) for n in re.findall(r"__shared__.*?\[(\d+)\]", kernel.source)]
            assert 4 * sum(sizes) <= shared
            state = model.program.candidate(row)
            assert model.program.row_of(state.transform_steps) == row.tolist()
        folder = tmp_path / str(place)
        folder.mkdir()
        for got in run_batch([Job(each, inputs, i) for i, each in enumerate(made)], folder):
            assert not isinstance(got, str), got
            np.testing.assert_array_equal(got[0], wanted(*inputs, *case[5:]))


@pytest.mark.parametrize(
    "case",
    [
        (1, 16, 4, 32, 4, 2, 1, 0, True),
        (1, 64, 8, 64, 4, 2, 1, 0, False),
        (2, 64, 8, 64, 2, 2, 0, 0, True, "NHWC"),
    ],
    ids=lambda case: "x".join(map(str, case[:5])),
)
def test_phases_are_products_on_tensor_cores(case, tmp_path):
    layout = case[9:] or ("NCHW",)
    task, found = programs(transposed(*case[:9], *layout, "float16"), PRODUCTS)
    # Of a single term all phases read the same element: they are columns.
    assert {model.batch for model in found} == {1 if case[4] == case[5] else case[5] ** 2}
    rng, shapes = np.random.default_rng(0), [each.shape for each in task.compute_dag.tensors[:2]]
    inputs = [rng.integers(-2, 3, shape).astype("float16") for shape in shapes]
    right = wanted(*[each.astype("float64") for each in inputs], *case[5:])
    for place, model in enumerate(found):
        rows, made = kernels(task, model, 1)
        folder = tmp_path / str(place)
        folder.mkdir()
        for row, got in zip(
            rows, run_batch([Job(e, inputs, 0) for e in made], folder), strict=True
        ):
            assert not isinstance(got, str), got
            np.testing.assert_array_equal(got[0], right)
            state = model.program.candidate(row)
            assert model.program.row_of(state.transform_steps) == row.tolist()


def test_terms_under_a_condition_are_no_product():
    """Of 3 terms one phase has one and the other two: tensor cores multiply the zeros, or none."""
    case = 2, 16, 8, 32, 3, 2, 1, 1, False, "NCHW", "float16"
    _, found = programs(transposed(*case), (*PRODUCTS, GpuCostModel))
    assert {model.batch for model in found if isinstance(model, PRODUCTS)} == {1}
    assert any(
        model.tiled[0].data[3].extent == 2 for model in found if not isinstance(model, PRODUCTS)
    )


def test_a_transposed_convolution_multiplies_no_zeros():
    """Of a stride of 2 by 2 each result has a quarter of the terms."""
    task, (model,) = programs(transposed(*CASES["4x4"]), GpuCostModel)
    del task
    (tiled,) = model.tiled
    assert [axis.extent for axis in tiled.data] == [1, 8, 4, 2, 4, 2]
    assert [axis.extent for axis in tiled.reductions] == [4, 2, 2]


def test_operations_on_zeros_are_not_counted():
    tensors = transposed(1, 4, 4, 8, 4, 2, 1, 0, False)
    assert ComputeDAG(tensors).flop_ct == 2 * (8 * 8 * 8) * (4 * 2 * 2)


def test_a_dilated_tensor_that_is_an_output_too_keeps_its_zeros():
    x, w, out = transposed(1, 4, 4, 8, 4, 2, 1, 0, False)
    padded = next(each for each in out.op.input_tensors if each.name == "data_pad")
    _, found = programs([x, w, padded, out], GpuCostModel)
    assert all([axis.extent for axis in each.tiled[0].data] == [1, 8, 8, 8] for each in found)


def test_records_of_phases_are_printed_as_calls_that_run():
    task, (model,) = programs(transposed(*CASES["4x4"]), GpuCostModel)
    (row,), (kernel,) = kernels(task, model, 1)
    state, dag = model.program.candidate(row), task.compute_dag
    assert 's.phases(compute, "local")' in dag.print_python_code_from_state(state)
    names = {}
    exec(runnable_text(dag, state.transform_steps), names)
    schedule, tensors = names["schedule"](dag.tensors)
    again = kernel_of_schedule(schedule, list(tensors), task.target, "k0")
    assert again.source == kernel.source


def test_untuned_schedules_sum_in_phases():
    schedule, _ = fallback_schedule(transposed(1, 64, 8, 64, 4, 2, 1, 0, True), "cuda -arch=sm_90")
    assert any(step.tag == "cache_write_phases" for step in schedule.steps)
