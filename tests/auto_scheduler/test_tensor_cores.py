"""Products of 16-bit floats are searched on tensor cores, and are right there."""

import ml_dtypes
import numpy as np
import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.forms_tensor import TensorForms
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.sampler import Sampler
from autotune.driver import kernel_of
from autotune.kernel import launch_violation
from tests.auto_scheduler.graphs import matmul
from tests.fuzz.running import Job, run_batch

PARAMS = SketchPolicy.DEFAULT_PARAMS
TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def product(m, n, k, dtype="float16", cast=False, transposed=False, batch=None):
    """A product with sums in float32; the second matrix is [n, k] if transposed."""
    lead = () if batch is None else (batch,)
    a = te.placeholder((*lead, m, k), dtype, name="A")
    b = te.placeholder((*lead, n, k) if transposed else (*lead, k, n), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")

    def value(*at):
        *z, i, j = at
        right = b(*z, j, r) if transposed else b(*z, r, j)
        return te.sum(a(*z, i, r).astype("float32") * right.astype("float32"), axis=r)

    c = te.compute((*lead, m, n), value, name="C")
    out = te.compute(c.shape, lambda *at: c(*at).astype(dtype), name="D") if cast else c
    return [a, b, out]


def tensor_forms(tensors, target="cuda -arch=sm_90"):
    task = SearchTask(compute_dag=ComputeDAG(tensors), target=target)
    found = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    return task, [each for each in found if isinstance(each, TensorForms)]


def kernels(task, forms, count, seed=0):
    rows = Sampler(forms.program, forms.limits(), np.random.default_rng(seed)).draw(count)
    return rows, [
        kernel_of(task.realise(forms.program.candidate(row)).what, task.target, f"k{i}")
        for i, row in enumerate(rows)
    ]


CASES = {
    "plain": {},
    "bfloat16": {"dtype": "bfloat16"},
    "cast": {"cast": True},
    "transposed": {"transposed": True},
    "batch": {"batch": 2},
}


@pytest.mark.parametrize("name", CASES)
def test_products_on_tensor_cores_compute_what_numpy_does(name, tmp_path):
    case = {"dtype": "float16", **CASES[name]}
    task, (forms, *_) = tensor_forms(product(32, 64, 64, **case))
    _, found = kernels(task, forms, 4)
    rng, dtype = np.random.default_rng(0), TYPES[case["dtype"]]
    a, b = (
        rng.uniform(-1, 1, each.shape).astype(dtype)
        for each in (one for one in found[0].args if one.role == "in")
    )
    right = b.astype(np.float64)
    wanted = a.astype(np.float64) @ (np.swapaxes(right, -1, -2) if "transposed" in case else right)
    for kernel, got in zip(
        found, run_batch([Job(each, [a, b], 0) for each in found], tmp_path), strict=True
    ):
        assert "mma_m16n8k16" in kernel.source
        assert not isinstance(got, str), got
        tolerance = 1e-2 if case.get("cast") else 1e-4
        np.testing.assert_allclose(got[0].astype(np.float64), wanted, atol=tolerance)


def test_closed_forms_of_tensor_cores_say_what_lowering_finds():
    task, (forms, *_) = tensor_forms(product(256, 256, 256, cast=True))
    rows, found = kernels(task, forms, 12)
    shape = forms.shape(rows)
    for i, kernel in enumerate(found):
        (call,) = kernel.calls
        assert launch_violation(kernel, task.target.limits) is None
        assert np.prod(call.launch.block) == 32 * shape.warps[i]
        assert np.prod(call.launch.grid) == shape.blocks[i]
        assert call.launch.shared_bytes in (0, shape.shared_bytes[i])


@pytest.mark.parametrize(
    ("tensors", "target"),
    [
        (matmul(64, 64, 64), "cuda -arch=sm_90"),
        (product(64, 64, 64), "cuda -arch=sm_75"),
        (product(64, 64, 64), "llvm"),
        (product(40, 64, 64), "cuda -arch=sm_90"),
        (product(64, 48, 64), "cuda -arch=sm_90"),
        (product(64, 64, 24), "cuda -arch=sm_90"),
    ],
    ids=["float32", "old", "cpu", "rows", "columns", "steps"],
)
def test_what_does_not_fit_tensor_cores_is_left_to_others(tensors, target):
    assert not tensor_forms(tensors, target)[1]


def test_a_square_of_one_matrix_is_left_to_others():
    a = te.placeholder((64, 64), "float16", name="A")
    r = te.reduce_axis((0, 64), name="k")
    c = te.compute(
        (64, 64),
        lambda i, j: te.sum(a[i, r].astype("float32") * a[j, r].astype("float32"), axis=r),
    )
    assert not tensor_forms([a, c])[1]


def test_a_dense_layer_of_topi_is_found():
    a = te.placeholder((64, 64), "float16", name="A")
    b = te.placeholder((64, 64), "float16", name="B")
    assert tensor_forms([a, b, topi.nn.dense(a, b, out_dtype="float32")])[1]


def test_steps_of_tensor_cores_come_back_as_the_row_that_they_were():
    _, (forms, *_) = tensor_forms(product(256, 256, 256))
    row = Sampler(forms.program, forms.limits(), np.random.default_rng(0)).draw(1)[0]
    assert forms.program.row_of(forms.program.candidate(row).transform_steps) == row.tolist()
