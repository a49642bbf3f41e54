"""Products of 16-bit floats and TF32 are searched on tensor cores, and are right there."""

import re

import numpy as np
import pytest

from autotune import te, topi
from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel
from autotune.auto_scheduler.search.analytical.warpgroups import WarpgroupCostModel
from autotune.auto_scheduler.search.space.sampler import RowSampler
from tests.auto_scheduler.graphs import matmul
from tests.auto_scheduler.tensor_core_programs import (
    TYPES,
    check_launches,
    kernels,
    product,
    programs,
)
from tests.fuzz.running import Job, run_batch
from tests.topi.evaluate import rounded_to_tf32


def tensor_core_models(tensors, target="cuda -arch=sm_90"):
    return programs(tensors, TensorCoreCostModel, target)


CASES = {
    "plain": {},
    "bfloat16": {"dtype": "bfloat16"},
    "cast": {"cast": True},
    "transposed": {"transposed": True},
    "batch": {"batch": 2},
    "tf32": {"dtype": "tf32"},
    "tf32 across": {"dtype": "tf32", "transposed": True, "across": True},
    "tf32 batch": {"dtype": "tf32", "batch": 2, "across": True},
}


def wanted_of(case, a, b):
    """The product in float64, of floats that were rounded to TF32 first if need be."""
    if case.get("dtype") == "tf32":
        a, b = rounded_to_tf32(a), rounded_to_tf32(b)
    left, right = a.astype(np.float64), b.astype(np.float64)
    left = np.swapaxes(left, -1, -2) if case.get("across") else left
    return left @ (np.swapaxes(right, -1, -2) if case.get("transposed") else right)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_products_on_tensor_cores_compute_what_numpy_does(name, tmp_path):
    case = {"dtype": "float16", **CASES[name]}
    task, (model, *_) = tensor_core_models(product(32, 64, 64, **case))
    _, found = kernels(task, model, 2)
    rng, dtype = np.random.default_rng(0), TYPES[case["dtype"]]
    a, b = (
        rng.uniform(-1, 1, each.shape).astype(dtype)
        for each in (one for one in found[0].args if one.role == "in")
    )
    wanted = wanted_of(case, a, b)
    for kernel, got in zip(
        found, run_batch([Job(each, [a, b], 0) for each in found], tmp_path), strict=True
    ):
        assert "mma_m16n8k" in kernel.source
        assert not isinstance(got, str), got
        tolerance = 1e-2 if case.get("cast") else 1e-4
        np.testing.assert_allclose(got[0].astype(np.float64), wanted, atol=tolerance)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "case",
    [
        {"cast": True},
        {"transposed": True, "across": True},
        {"dtype": "tf32"},
        {"dtype": "tf32", "transposed": True, "across": True},
    ],
    ids=str,
)
def test_estimates_of_tensor_cores_say_what_lowering_finds(case):
    task, (model, *_) = tensor_core_models(product(256, 256, 256, **case))
    rows, found = kernels(task, model, 12)
    shape = model.shape(rows)
    check_launches(task, shape, found)
    for i, kernel in enumerate(found):
        assert np.prod(kernel.calls[0].launch.block) == 32 * shape.warps[i]


@pytest.mark.parametrize("dtype", TYPES)
def test_threads_of_a_warp_read_columns_from_different_banks(dtype):
    """Where neighbours in memory are steps, so that columns of threads are rows of a tile.

    A thread reads two neighbours at once, which of TF32 are two words: half a warp does in turn.
    """
    task, (model, *_) = tensor_core_models(product(128, 128, 128, dtype=dtype, transposed=True))
    item = np.dtype(TYPES[dtype]).itemsize
    for kernel in kernels(task, model, 4)[1]:
        reads = re.findall(r"fragment\[\d+\] = B_shared\[(.*?)\];", kernel.source)
        assert reads
        others = dict.fromkeys(re.findall(r"[a-z]\w+", " ".join(reads)), 0)
        for index in reads:
            expression = compile(index.replace("/", "//"), "index", "eval")
            places = [
                eval(expression, others | {"ty": lane // 4, "tx": lane % 4}) for lane in range(32)
            ]
            together = places[: 32 * 2 // item]
            pairs = [place - place % 2 + own for place in together for own in range(2)]
            words = {place * item // 4 for place in pairs}
            assert len({word % 32 for word in words}) == len(words) == 32


def test_float32_runs_on_tensor_cores_only_where_tf32_is_asked_for():
    """Nor are records of the one found for the other, whatever a function is called."""
    tasks = []
    for asked in (False, True):
        a, b = (te.placeholder((64, 64), name=n) for n in "AB")
        task, found = tensor_core_models([a, b, topi.nn.dense(a, b, tf32=asked)])
        assert bool(found) is asked
        tasks.append(task)
    strict, cut = tasks
    assert strict.workload_key != cut.workload_key
    assert strict.graph_hash != cut.graph_hash


@pytest.mark.parametrize(
    ("tensors", "target"),
    [
        (matmul(64, 64, 64), "cuda -arch=sm_90"),
        (product(64, 64, 64), "cuda -arch=sm_75"),
        (product(64, 64, 64), "llvm"),
        (product(15, 64, 64), "cuda -arch=sm_90"),
        (product(64, 24, 64), "cuda -arch=sm_90"),
        (product(64, 64, 15), "cuda -arch=sm_90"),
        (product(64, 64, 7, dtype="tf32"), "cuda -arch=sm_90"),
    ],
    ids=["float32", "old", "cpu", "rows", "columns", "steps", "steps of TF32"],
)
def test_what_does_not_fit_tensor_cores_is_left_to_others(tensors, target):
    assert not tensor_core_models(tensors, target)[1]


def test_a_square_of_one_matrix_is_left_to_others():
    a = te.placeholder((64, 64), "float16", name="A")
    r = te.reduce_axis((0, 64), name="k")
    c = te.compute(
        (64, 64),
        lambda i, j: te.sum(a[i, r].astype("float32") * a[j, r].astype("float32"), axis=r),
    )
    assert not tensor_core_models([a, c])[1]


def test_a_dense_layer_of_topi_is_found():
    a = te.placeholder((64, 64), "float16", name="A")
    b = te.placeholder((64, 64), "float16", name="B")
    assert tensor_core_models([a, b, topi.nn.dense(a, b, out_dtype="float32")])[1]


def test_steps_of_tensor_cores_come_back_as_the_row_that_they_were():
    _, (model, *_) = tensor_core_models(product(256, 256, 256))
    row = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(1)[0]
    assert model.program.row_of(model.program.candidate(row).transform_steps) == row.tolist()


def test_a_batch_may_be_the_last_dimension(tmp_path):
    """Its elements are neighbours in memory, but tiles have one of them: others are."""
    a, b = (te.placeholder((64, 64, 2), "float16", name=name) for name in "AB")
    k = te.reduce_axis((0, 64), name="k")

    def total(i, j, h):
        return te.sum(a[i, k, h].astype("float32") * b[k, j, h].astype("float32"), axis=k)

    tensors = [a, b, te.compute((64, 64, 2), total, name="C")]
    task, found = programs(tensors, (TensorCoreCostModel, WarpgroupCostModel))
    assert {type(model) for model in found} == {TensorCoreCostModel, WarpgroupCostModel}
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-2, 3, each.shape).astype("float16") for each in (a, b)]
    wanted = np.einsum("ikh,kjh->ijh", *[each.astype(np.float64) for each in inputs])
    for place, model in enumerate(found):
        assert model.batch % 2 == 0  # parts of a sum are a batch too
        _, (kernel,) = kernels(task, model, 1)
        folder = tmp_path / str(place)
        folder.mkdir()
        (got,) = run_batch([Job(kernel, inputs, 0)], folder)
        assert not isinstance(got, str), got
        np.testing.assert_array_equal(got[0], wanted)
