"""Reductions along axes that are no neighbours, and of elements of eight bytes."""

import autotune.templates  # noqa: F401 - registers the tasks
import ml_dtypes
import numpy as np
import pytest
from autotune.templates.rows import reduce_cuda, reduce_staged
from autotune.templates.rows.reduction_shape import Reduction

from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.target import Target
from autotune.task import create

HOPPER = Target("cuda -arch=sm_90")
APART = [
    ("sum", (1, 6), (4, 40), 1, "float32"),
    ("mean", (1, 5), (3, 12), 7, "float16"),
    ("argmax", (2, 3, 2), (3, 4, 5), 1, "float32"),
    ("argmin", (2, 3), (7, 2), 6, "int16"),
    ("prod", (1, 2, 3), (2, 3, 2), 5, "float64"),
    ("max", (3, 5), (1, 90), 1, "int64"),
]


def reduced(shape, data):
    """Return what numpy makes of the axes that are reduced, the results in order."""
    over = tuple(range(1, data.ndim - 1, 2))
    if not shape.place:
        return getattr(np, shape.operation)(data, axis=over)
    kept = tuple(range(0, data.ndim - 1, 2))
    flat = data.transpose(*kept, data.ndim - 1, *over)
    flat = flat.reshape(*flat.shape[: len(kept) + 1], -1)
    return getattr(np, shape.operation)(flat, axis=-1)


@pytest.mark.many_cases
@pytest.mark.parametrize("split", [1, 4])
@pytest.mark.parametrize("args", APART, ids=str)
def test_axes_that_are_no_neighbours_are_reduced(args, split):
    shape = Reduction.of(*args)
    rng = np.random.default_rng(5)
    data = rng.integers(-9, 10, shape.extents).astype(shape.dtype)
    out = np.zeros((shape.outer, shape.inner), shape.result)
    choice = {"threads": 32, "rows": 2, "vec": 1, "unroll": 2, "split": split}
    choice["vec"] = max(reduce_cuda.candidates(shape)["vec"])
    source = reduce_cuda.kernel(shape, choice)
    run_emulated(source.kernel("cuda"), [data, out], orders=(0,))
    wanted = reduced(shape, data.astype(np.float64)).reshape(out.shape)
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=1e-3)
    np.testing.assert_allclose(shape.reference()(data).astype(np.float64), wanted, rtol=1e-3)


@pytest.mark.parametrize("args", APART, ids=str)
def test_the_untuned_choice_of_axes_that_are_no_neighbours_is_able(args):
    shape = Reduction.of(*args)
    choice = reduce_cuda.default_choice(shape, HOPPER)
    assert reduce_cuda.violation(shape, choice, HOPPER) is None
    assert not reduce_staged.offered(shape)


def test_one_pair_of_extents_is_as_two_numbers():
    assert Reduction.of("sum", (4,), (5,), 2, "float32") == Reduction("sum", 4, 5, 2)


WIDE = [
    Reduction("sum", 33, 300, 1, "int64"),
    Reduction("mean", 7, 40, 9, "float64"),
    Reduction("argmax", 10, 40, 8, "int64"),
    Reduction("argmin", 77, 90, 1, "float64"),
    Reduction("max", 600, 12, 1, "float64"),
    Reduction("min", 40, 33, 3, "int64"),
]


@pytest.mark.many_cases
@pytest.mark.parametrize("family", [reduce_cuda, reduce_staged])
@pytest.mark.parametrize("shape", WIDE, ids=str)
def test_elements_of_eight_bytes_are_reduced_in_them(family, shape):
    rng = np.random.default_rng(3)
    wide = rng.integers(-(2**60), 2**60, shape.extents)
    data = wide if shape.dtype == "int64" else rng.standard_normal(shape.extents) + 1e9
    if shape.operation == "sum":
        data = data // 512
    out = np.zeros((shape.outer, shape.inner), shape.result)
    source = family.kernel(shape, family.default_choice(shape, HOPPER))
    run_emulated(source.kernel("cuda"), [data, out], orders=(0,))
    wanted = getattr(np, shape.operation)(data, axis=1)
    if shape.operation == "mean":
        np.testing.assert_allclose(out, wanted, rtol=1e-14)
    else:
        np.testing.assert_array_equal(out, wanted)


def test_a_split_of_elements_of_eight_bytes_loses_no_digits():
    data = np.full((1, 4096, 1), 2**40 + 1, np.int64)
    shape = Reduction("sum", 1, 4096, 1, "int64")
    choice = {"threads": 64, "rows": 1, "vec": 2, "unroll": 2, "split": 8}
    out = np.zeros((1, 1), np.int64)
    run_emulated(reduce_cuda.kernel(shape, choice).kernel("cuda"), [data, out], orders=(0,))
    assert out.item() == data.sum()


def test_all_axes_and_types_have_a_task():
    task = create("reduce.cuda", ("sum", (1, 64), (32, 3136), 1, "float16"), HOPPER)
    assert task.flop == 32 * 64 * 3136
    assert create("reduce.cuda", ("mean", 512, 30000, 1, "float64"), HOPPER).default()


FUNCTIONS = [
    (("sum", 1, 49, 96, "float16", "a * a", "sqrt(a)"), lambda x: np.sqrt((x * x).sum(1))),
    (("sum", 6, 300, 1, "float32", "exp(a)", "log(a)"), lambda x: np.log(np.exp(x).sum(1))),
    (("mean", (1, 5), (3, 12), 7, "bfloat16", "abs(a)"), lambda x: np.abs(x).mean((1, 3))),
    (("max", 1, 5000, 1, "float16", "where(abs(a) > 2, 1, 0)", "", "int32"), lambda x: 1),
    (("sum", 700, 24, 1, "float16", "a * a", "", "float32"), lambda x: (x * x).sum(1)),
    (("argmax", 5, 70, 3, "float32", "abs(a)"), lambda x: np.abs(x).argmax(1)),
]


@pytest.mark.many_cases
@pytest.mark.parametrize(("args", "wanted"), FUNCTIONS, ids=[str(each) for each, _ in FUNCTIONS])
def test_functions_of_elements_and_results_are_part_of_the_kernel(args, wanted):
    shape = Reduction.of(*args)
    data = np.random.default_rng(2).standard_normal(shape.extents) * 2
    dtype = np.dtype(getattr(ml_dtypes, shape.dtype, shape.dtype))
    data, out = data.astype(dtype), np.zeros((shape.outer, shape.inner), shape.result)
    task = create("reduce.cuda", args, HOPPER)
    source = task.realise(task.default()).what
    out = out.astype(dtype) if shape.result == shape.dtype else out
    run_emulated(source.kernel("cuda"), [data, out], orders=(0,))
    right = np.asarray(wanted(data.astype("float64")))
    right = np.broadcast_to(right, out.shape) if right.ndim == 0 else right.reshape(out.shape)
    np.testing.assert_allclose(out.astype("float64"), right, rtol=1e-2)
    np.testing.assert_allclose(shape.reference()(data.astype("float64")), right, rtol=1e-6)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("sum", 4, 5, 1, "int32", "a * a"), "are for float32"),
        (("argmax", 4, 5, 1, "float32", "", "sqrt(a)"), "gives indices"),
        (("sum", 4, 5, 1, "float32", "", "", "int8"), "to must be one of"),
        (("sum", 4, 5, 1, "float32", "b * a"), "one of a"),
    ],
)
def test_functions_that_cannot_be_are_refused(args, said):
    with pytest.raises(TemplateError, match=said):
        Reduction.of(*args)


RAGGED = [
    (Reduction("sum", 5, 925, 1, "float32"), {"threads": 32, "rows": 2, "vec": 4, "unroll": 2}),
    (Reduction("argmax", 7, 301, 1, "float16"), {"threads": 4, "rows": 8, "vec": 8, "unroll": 1}),
    (Reduction("min", 3, 77, 1, "int16"), {"threads": 32, "rows": 1, "vec": 8, "unroll": 1}),
    (
        Reduction("argmin", 2, 1001, 1, "float64"),
        {"threads": 64, "rows": 1, "vec": 2, "unroll": 4},
    ),
]


@pytest.mark.many_cases
@pytest.mark.parametrize("split", [1, 3])
@pytest.mark.parametrize(("shape", "choice"), RAGGED, ids=str)
def test_vectors_need_not_divide_rows(shape, choice, split):
    data = np.random.default_rng(4).integers(-50, 50, shape.extents).astype(shape.dtype)
    out = np.zeros((shape.outer, 1), shape.result)
    source = reduce_cuda.kernel(shape, choice | {"split": split})
    run_emulated(source.kernel("cuda"), [data, out], orders=(0,))
    np.testing.assert_array_equal(out, getattr(np, shape.operation)(data, axis=1))


@pytest.mark.parametrize("family", [reduce_cuda, reduce_staged])
def test_the_place_of_the_largest_of_numbers_that_are_all_the_least_is_the_first(family):
    shape = Reduction("argmax", 4, 70, 1, "float32")
    data = np.full(shape.extents, -np.inf, "float32")
    data[1, 9:12], data[2, 5], data[3, 64:] = np.nan, -1e30, 3
    out = np.ones((4, 1), "int32")
    source = family.kernel(shape, family.default_choice(shape, HOPPER))
    run_emulated(source.kernel("cuda"), [data, out], orders=(0,))
    np.testing.assert_array_equal(out[:, 0], [0, 9, 5, 64])
