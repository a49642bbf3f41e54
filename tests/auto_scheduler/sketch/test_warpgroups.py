"""Products of 16-bit floats and TF32 are searched by `wgmma` on Hopper, and are right there."""

from dataclasses import replace

import numpy as np
import pytest

from autotune import te
from autotune.auto_scheduler import ComputeDAG, SearchTask
from autotune.auto_scheduler.measuring.measure_input import MeasureInput, RecordedTask
from autotune.auto_scheduler.records.codec import decode, encode
from autotune.auto_scheduler.search.analytical.tensor_cores import (
    TensorCoreCostModel,
    multiplied_stages,
)
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.sketch import warpgroups
from autotune.driver import kernel_of
from autotune.measure.types import MeasureResult
from tests.auto_scheduler.graphs import matmul
from tests.auto_scheduler.tensor_core_programs import (
    PARAMS,
    TYPES,
    check_launches,
    kernels,
    product,
)
from tests.fuzz.running import Job, run_batch
from tests.topi.evaluate import cut_to_tf32


def warpgroup_models(tensors, target="cuda -arch=sm_90"):
    task = SearchTask(compute_dag=ComputeDAG(tensors), target=target)
    found = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    return task, [each for each in found if isinstance(each, WarpgroupCostModel)], found


def followed():
    """A layer: a product, a bias, a ReLU, rounded."""
    a, b, c = product(64, 64, 128)
    bias = te.placeholder((64,), "float16", name="bias")
    out = te.compute(
        c.shape,
        lambda i, j: te.max(c[i, j] + bias[j].astype("float32"), 0.0).astype("float16"),
        name="D",
    )
    return [a, b, bias, out]


CASES = {
    "plain": product(64, 64, 128),
    "bfloat16": product(64, 64, 128, dtype="bfloat16"),
    "cast": product(128, 64, 128, cast=True),
    "transposed": product(64, 64, 128, transposed=True),
    "batch": product(64, 64, 64, batch=2),
    "followed": followed(),
    "tf32": product(128, 64, 64, dtype="tf32"),
    "tf32 transposed": product(64, 64, 128, dtype="tf32", transposed=True),
    "tf32 across, batch": product(64, 64, 64, dtype="tf32", across=True, batch=2),
    "tf32 across, transposed": product(68, 72, 64, dtype="tf32", across=True, transposed=True),
    "tf32 that vectors do not divide": product(64, 66, 64, dtype="tf32"),
}
PASSED = {"tf32", "tf32 across, batch", "tf32 across, transposed"}


def wanted_of(name, inputs):
    if "tf32" in name:
        inputs = [cut_to_tf32(each) for each in inputs]
    a, b, *rest = (each.astype(np.float64) for each in inputs)
    a = np.swapaxes(a, -1, -2) if "across" in name else a
    found = a @ (np.swapaxes(b, -1, -2) if "transposed" in name else b)
    return np.maximum(found + rest[0], 0.0) if rest else found


def test_products_of_warpgroups_compute_what_numpy_does(tmp_path):
    rng, jobs, names = np.random.default_rng(0), [], []
    for name, tensors in CASES.items():
        task, (first, *others), _ = warpgroup_models(tensors)
        passed = [each for each in others if each.product.passed][:1]
        assert len(passed) == (name in PASSED)
        assert not first.product.passed
        drawn = [
            (model, row)
            for model in (first, *passed)
            for row in RowSampler(model.program, model.limits(), rng).draw(3)
        ]
        for i, (model, row) in enumerate(drawn):
            state = task.realise(model.program.candidate(row)).what
            kernel = kernel_of(state, task.target, f"{name}{i}")
            assert "wgmma_m64n" in kernel.source
            assert ("_tf32_passed(" in kernel.source) == model.product.passed
            dtype = TYPES[name.split()[0] if name.split()[0] in TYPES else "float16"]
            inputs = [each for each in kernel.args if each.role == "in"]
            values = [rng.uniform(-1, 1, each.shape).astype(dtype) for each in inputs]
            jobs.append(Job(kernel, values, i))
            names.append(name)
    for name, job, got in zip(names, jobs, run_batch(jobs, tmp_path), strict=True):
        assert not isinstance(got, str), f"{name}: {got}"
        near = 2e-2 if got[0].dtype == np.float16 else 1e-4
        wanted = wanted_of(name, job.inputs)
        np.testing.assert_allclose(got[0].astype(np.float64), wanted, atol=near, err_msg=name)


def test_estimates_of_warpgroups_say_what_lowering_finds():
    cases = [({"cast": True}, False), ({"transposed": True}, False)]
    for case, passed in [*cases, ({"dtype": "tf32"}, False), ({"dtype": "tf32"}, True)]:
        tensors = product(512, 512, 512, **case)
        task, models, _ = warpgroup_models(tensors)
        model = next(each for each in models if each.product.passed == passed)
        rows, found = kernels(task, model, 12)
        shape = model.shape(rows)
        check_launches(task, shape, found)
        for i, kernel in enumerate(found):
            assert np.prod(kernel.calls[0].launch.block) == shape.threads[i]
            depth = 8 if case.get("dtype") == "tf32" else 16
            assert f"m64n{int(shape.tile_columns[i])}k{depth}" in kernel.source


def in_turn(tensors, sms, passed=False):
    """Return the task and the model of blocks that take tiles in turn, on a small device."""
    task, models, _ = warpgroup_models(tensors)
    found = [each for each in models if each.product.passed == passed]
    model = next(each for each in found if each.turns is not None)
    step = next(s for s, at in model.program.columns.items() if at.start == model.turns)
    slots = [
        replace(slot, values=(sms, 2 * sms)) if slot.step == step else slot
        for slot in model.program.slots
    ]
    program = replace(model.program, slots=tuple(slots))
    (multiplied,) = multiplied_stages(program)
    return task, WarpgroupCostModel(program, multiplied, replace(model.device, sms=sms))


@pytest.mark.parametrize(
    ("case", "passed"),
    [({"cast": True}, False), ({"dtype": "tf32"}, False), ({"dtype": "tf32"}, True)],
    ids=["float16", "tf32", "tf32 passed"],
)
def test_blocks_that_take_tiles_in_turn_share_them_evenly_and_are_right(
    case, passed, tmp_path, monkeypatch
):
    monkeypatch.setattr(warpgroups, "FEWEST_TILES", 5)  # of a device as small as the one below
    task, model = in_turn(product(256, 256, 128, **case), 5, passed)
    rows, found = kernels(task, model, 3)
    shape, rng = model.shape(rows), np.random.default_rng(0)
    jobs, wanted = [], []
    for i, (row, kernel) in enumerate(zip(rows, found, strict=True)):
        (call,) = kernel.calls
        assert np.prod(call.launch.grid) == shape.grid[i] < shape.blocks[i]
        assert shape.blocks[i] % shape.grid[i] == 0
        assert call.launch.shared_bytes in (0, shape.shared_bytes[i])
        state = model.program.candidate(row)
        assert model.program.row_of(state.transform_steps) == row.tolist()
        dtype = TYPES[case.get("dtype", "float16")]
        inputs = [each for each in kernel.args if each.role == "in"]
        values = [rng.uniform(-1, 1, each.shape).astype(dtype) for each in inputs]
        jobs.append(Job(kernel, values, i))
        wanted.append(wanted_of("tf32" if "dtype" in case else "plain", values))
    results = run_batch(jobs, tmp_path, optimized=True)  # of more than `MANY_PRODUCTS`
    for got, right in zip(results, wanted, strict=True):
        assert not isinstance(got, str), got
        near = 2e-2 if got[0].dtype == np.float16 else 1e-4
        np.testing.assert_allclose(got[0].astype(np.float64), right, atol=near)


@pytest.mark.parametrize(
    ("tensors", "target"),
    [
        (matmul(64, 64, 64), "cuda -arch=sm_90"),
        (product(64, 64, 64), "cuda -arch=sm_80"),
        (product(64, 64, 64), "cuda -arch=sm_100"),
        (product(64, 64, 64), "llvm"),
        (product(56, 64, 64), "cuda -arch=sm_90"),
        (product(64, 56, 64), "cuda -arch=sm_90"),
        (product(64, 64, 63), "cuda -arch=sm_90"),
        (product(64, 64, 31, dtype="tf32"), "cuda -arch=sm_90"),
    ],
    ids=["float32", "older", "newer", "cpu", "rows", "columns", "steps", "steps of TF32"],
)
def test_what_does_not_fit_warpgroups_is_left_to_others(tensors, target):
    assert not warpgroup_models(tensors, target)[1]


def test_odd_sizes_are_left_to_single_warps():
    _, found, others = warpgroup_models(product(60, 96, 60))
    assert not found
    assert any(isinstance(each, TensorCoreCostModel) for each in others)


@pytest.mark.parametrize(
    ("dtype", "passed"), [("float16", False), ("tf32", False), ("tf32", True)]
)
def test_a_row_of_warpgroups_comes_back_from_its_steps_and_from_a_log(dtype, passed):
    task, models, _ = warpgroup_models(product(256, 256, 256, dtype=dtype))
    model = next(each for each in models if each.product.passed == passed)
    row = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(1)[0]
    state = model.program.candidate(row)
    assert model.program.row_of(state.transform_steps) == row.tolist()
    logged = MeasureInput(RecordedTask("k", "cuda"), state)
    again, _ = decode(encode(logged, MeasureResult((1e-5,), 0, 1.0, 1.0)))
    assert again.state == state
    text = kernel_of(task.realise(state).what, task.target, "k").source
    assert kernel_of(task.realise(again.state).what, task.target, "k").source == text


@pytest.mark.parametrize(("columns", "width"), [(192, 96), (704, 88), (320, 40)])
def test_columns_of_a_tile_may_fill_their_last_panel_in_part(columns, width, tmp_path):
    tensors = product(100, columns, 512)
    task, models, _ = warpgroup_models(tensors)
    rng, jobs = np.random.default_rng(0), []
    for model in models:
        rows = RowSampler(model.program, model.limits(), rng).draw(400)
        shape = model.shape(rows)
        if model.in_parts:
            continue
        chosen = rows[shape.tile_columns == width][:2]
        check_launches(task, model.shape(chosen), [built(task, model, each) for each in chosen])
        for row in chosen:
            kernel = built(task, model, row, f"k{len(jobs)}")
            inputs = [each for each in kernel.args if each.role == "in"]
            values = [rng.uniform(-1, 1, each.shape).astype("float16") for each in inputs]
            jobs.append(Job(kernel, values, len(jobs)))
    assert len(jobs) >= 2
    for job, got in zip(jobs, run_batch(jobs, tmp_path), strict=True):
        assert not isinstance(got, str), got
        np.testing.assert_allclose(got[0], wanted_of("plain", job.inputs), atol=1e-3)


def built(task, model, row, name="k"):
    """Return the kernel of a row."""
    return kernel_of(task.realise(model.program.candidate(row)).what, task.target, name)


def test_an_odd_number_of_tiles_of_rows_is_taken_in_pairs(tmp_path):
    """The 784 places of 16 images of 7x7 are 13 tiles of a warpgroup, which two share as 14."""
    task, (model, *_), _ = warpgroup_models(product(784, 64, 128))
    rng = np.random.default_rng(0)
    rows = RowSampler(model.program, model.limits(), rng).draw(400)
    pairs = rows[model.shape(rows).tile_rows == 128][:1]
    (kernel,) = found = [built(task, model, row) for row in pairs]
    check_launches(task, model.shape(pairs), found)
    inputs = [each for each in kernel.args if each.role == "in"]
    values = [rng.uniform(-1, 1, each.shape).astype("float16") for each in inputs]
    (got,) = run_batch([Job(kernel, values, 0)], tmp_path)
    assert not isinstance(got, str), got
    np.testing.assert_allclose(got[0], wanted_of("plain", values), atol=1e-3)
