"""Convolutions are searched as matrix products on tensor cores, and are right there."""

import re

import numpy as np
import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask
from autotune.auto_scheduler.measuring.measure_input import MeasureInput, RecordedTask
from autotune.auto_scheduler.records.codec import decode, encode
from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.driver import kernel_of
from autotune.errors import ExpressionError
from autotune.measure.types import MeasureResult
from autotune.topi.nn.conv2d import FILTERS
from tests.auto_scheduler.convolutions import Conv, check_kernels, models_of
from tests.auto_scheduler.tensor_core_programs import (
    PARAMS,
    check_launches,
    kernels,
)
from tests.fuzz.running import Job, run_batch

CASES = {
    "plain": Conv(follows=False),
    "bfloat16": Conv(dtype="bfloat16"),
    "tf32": Conv(dtype="tf32"),
    "1x1": Conv(kernel=(1, 1), pad=(0, 0, 0, 0)),
    "stride": Conv(h=15, w=16, stride=(2, 2)),
    "dilation": Conv(pad=(2, 2, 2, 2), dilation=(2, 2)),
    "odd": Conv(n=2, h=14, w=10, kernel=(5, 3), stride=(1, 2), pad=(2, 0, 2, 1), dilation=(1, 2)),
    "no padding": Conv(n=4, h=6, w=8, pad=(0, 0, 0, 0)),
    "few channels": Conv(c=4, kernel=(4, 4), pad=(1, 1, 2, 2)),
    "rows that images share": Conv(n=16, h=3, w=5, f=64),
    "OHWI": Conv(filters="OHWI"),
    "NCHW": Conv(layout="NCHW", filters="OIHW"),
    "NCHW of short rows": Conv(n=2, h=4, w=6, layout="NCHW", filters="OIHW"),
    "NCHW of HWIO": Conv(layout="NCHW", filters="HWIO", dtype="bfloat16"),
    "NHWC of OIHW": Conv(filters="OIHW"),
    "HWNC": Conv(n=16, h=4, w=4, layout="HWNC"),
}
LARGE = {
    "plain": Conv(n=2, c=64, f=64, follows=False),
    "bias": Conv(n=2, c=64, f=64),
    "OHWI, odd": Conv(
        n=8, c=64, h=9, w=13, f=64, kernel=(3, 5), stride=(2, 1), pad=(1, 0, 0, 3),
        dilation=(1, 2), filters="OHWI",
    ),
    "steps of the window together": Conv(n=2, c=16, f=64, kernel=(4, 4), pad=(1, 1, 2, 2)),
    "bfloat16 NCHW": Conv(n=1, c=64, f=64, layout="NCHW", filters="OIHW", dtype="bfloat16"),
    "NCHW of short rows": Conv(n=2, c=64, h=8, w=12, f=64, layout="NCHW", filters="OIHW"),
    "tf32": Conv(n=1, c=32, f=64, filters="OHWI", dtype="tf32"),
    "tf32, filters passed": Conv(n=1, c=32, f=64, dtype="tf32"),
    "tf32 NCHW": Conv(n=1, c=32, f=64, layout="NCHW", filters="OIHW", dtype="tf32"),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_convolutions_of_warps_compute_what_numpy_does(name, tmp_path):
    check_kernels(CASES[name], TensorCoreCostModel, "mma_m16n8k", tmp_path)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", LARGE)
def test_convolutions_of_warpgroups_compute_what_numpy_does(name, tmp_path):
    check_kernels(LARGE[name], WarpgroupCostModel, "wgmma_m64n", tmp_path)


def test_threads_pass_filters_of_floats_whose_neighbours_are_filters():
    for name, expected in (("tf32, filters passed", True), ("tf32", False), ("plain", False)):
        _, found = models_of(LARGE[name], WarpgroupCostModel)
        assert any(each.product.passed for each in found) == expected


def test_slots_of_padded_images_are_filled_between_products_without_a_branch(tmp_path):
    conv = LARGE["tf32, filters passed"]
    task, found = models_of(conv, WarpgroupCostModel)
    model = next(each for each in found if each.product.passed)
    rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(40)
    row = next(each for each in rows if model.shape(each[None]).buffers[0] >= 4)
    kernel = kernel_of(task.realise(model.program.candidate(row)).what, task.target, "k")
    chunk = kernel.source.partition("wgmma_wait<1>();")[2].partition("wgmma_sums<")[0]
    between = chunk.partition("wgmma_commit();")[2].partition("__pipeline_commit();")[0]
    assert re.search(r"copy_or_zero\(PadInput.* & ", between)
    assert "if (" not in chunk
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(-1, 1, each.shape).astype("float32") for each in kernel.inputs]
    (got,) = run_batch([Job(kernel, inputs, 0)], tmp_path)
    np.testing.assert_allclose(got[0], conv.wanted(inputs, cut=True), atol=1e-3)


@pytest.mark.parametrize("kind", [TensorCoreCostModel, WarpgroupCostModel])
def test_estimates_of_convolutions_say_what_lowering_finds(kind):
    task, (model, *_) = models_of(Conv(n=4, c=64, h=16, w=16, f=128), kind)
    rows, found = kernels(task, model, 8)
    check_launches(task, model.shape(rows), found)


@pytest.mark.parametrize("kind", [TensorCoreCostModel, WarpgroupCostModel])
def test_a_record_of_a_convolution_and_its_python_text_give_the_same_kernel(kind):
    task, (model, *_) = models_of(LARGE["bias"], kind)
    rows, (kernel,) = kernels(task, model, 1)
    state = model.program.candidate(rows[0])
    assert model.program.row_of(state.transform_steps) == rows[0].tolist()
    logged = MeasureInput(RecordedTask("k", "cuda"), state)
    again, _ = decode(encode(logged, MeasureResult((1e-5,), 0, 1.0, 1.0)))
    assert kernel_of(task.realise(again.state).what, task.target, "k0").source == kernel.source
    scope = {}
    exec(task.compute_dag.print_python_code_from_state(again.state, "python"), scope)
    printed = scope["schedule"](task.compute_dag.tensors)
    assert kernel_of(printed, task.target, "k0").source == kernel.source


def test_weights_are_views_of_the_places_that_they_have():
    """What is no padding needs no condition, and neighbours are copied 16 bytes at a time."""
    task, (model, *_) = models_of(Conv(n=1, c=64, h=16, w=16, f=64), WarpgroupCostModel)
    _, found = kernels(task, model, 8)
    for kernel in found:
        copies = [line for line in kernel.source.splitlines() if "memcpy_async" in line]
        assert all(line.endswith("16);") for line in copies)


@pytest.mark.parametrize(
    "conv",
    [
        Conv(n=1, h=3, w=5),
        Conv(f=24),
        Conv(c=1),
    ],
    ids=["rows", "columns", "steps"],
)
def test_convolutions_that_do_not_fit_are_left_to_others(conv):
    assert not models_of(conv, TensorCoreCostModel)[1]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "HWCN"])
def test_a_layer_of_topi_runs_on_tensor_cores_only_where_tf32_is_asked_for(layout):
    """Nor are records of the one found for the other."""
    tasks = []
    for asked in (False, True):
        sizes, filters = {"N": 8, "C": 64, "H": 8, "W": 8}, {"O": 64, "I": 64, "H": 3, "W": 3}
        x = te.placeholder([sizes[a] for a in layout], name="x")
        w = te.placeholder([filters[a] for a in FILTERS[layout]], name="w")
        out = topi.nn.conv2d(x, w, 1, 1, data_layout=layout, tf32=asked)
        task = SearchTask(compute_dag=ComputeDAG([x, w, out]), target="cuda -arch=sm_90")
        found = programs_of(task, sketches_of(task, PARAMS), PARAMS)
        assert any(isinstance(each, TensorCoreCostModel) for each in found) is asked
        tasks.append(task)
    assert tasks[0].workload_key != tasks[1].workload_key


def test_groups_are_not_multiplied_as_tf32():
    x, w = te.placeholder((1, 8, 8, 8), name="x"), te.placeholder((8, 4, 3, 3), name="w")
    with pytest.raises(ExpressionError, match=r"groups.*1 with tf32"):
        topi.nn.conv2d(x, w, 1, 1, groups=2, tf32=True)


def test_windows_of_one_row_of_numbers_are_views(tmp_path):
    signal, weight = (
        te.placeholder((93,), "float16", name="x"),
        te.placeholder((16, 40), "float16"),
    )
    k = te.reduce_axis((0, 16), name="k")
    wide = lambda value: value.astype("float32")
    out = te.compute(
        (32, 40), lambda i, f: te.sum(wide(signal[2 * i + k]) * wide(weight[k, f]), axis=k)
    )
    task = SearchTask(compute_dag=ComputeDAG([signal, weight, out]), target="cuda -arch=sm_90")
    found = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    model = next(each for each in found if isinstance(each, TensorCoreCostModel))
    _, (kernel,) = kernels(task, model, 1)
    rng = np.random.default_rng(0)
    x, w = (rng.uniform(-1, 1, shape).astype(np.float16) for shape in ((93,), (16, 40)))
    (got,) = run_batch([Job(kernel, [x, w], 0)], tmp_path)
    assert not isinstance(got, str), got
    windows = np.stack([x[2 * i : 2 * i + 16] for i in range(32)]).astype(np.float64)
    np.testing.assert_allclose(got[0], windows @ w.astype(np.float64), atol=1e-4)
