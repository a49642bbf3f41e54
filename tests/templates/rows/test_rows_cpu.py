"""C kernels of rows, reductions, prefix sums and transposes, on numbers that are easily lost."""

import itertools

import autotune.templates
import numpy as np
import pytest
from autotune.templates.data_movement import transpose_cpu
from autotune.templates.data_movement.transpose_shape import Transpose
from autotune.templates.rows import reduce_cpu, rows_cpu, scan_cpu
from autotune.templates.rows.reduction_shape import Reduction
from autotune.templates.rows.rows_shape import Rows
from autotune.templates.rows.scan_cuda import Scan

import autotune
from autotune.errors import TemplateError
from autotune.task import create

LANES = [4, 8, 16]
NORMS = [
    Rows("layer_norm", 5, 77, epsilon=1e-5, gain=True, shift=True),
    Rows("layer_norm", 3, 9000, epsilon=1e-5, shift=True),
    Rows("layer_norm", 7, 3),
    Rows("rms_norm", 4, 130, epsilon=1e-6, gain=True),
    Rows("layer_norm", 6, 2 * 49, gain=True, shift=True, channels=2, groups=3),
    Rows("layer_norm", 4, 5000, gain=True, channels=5, groups=2),
    Rows("log_softmax", 5, 41),
    Rows("log_softmax", 70, 1),
]
OPERATIONS = list(reduce_cpu.REDUCERS)
REDUCTIONS = [
    (5, 77, 1), (3, 5000, 1), (1, 3, 1), (2, 33, 5), (1, 700, 67), (3, 2, 200), (40, 1, 9),
    (1, 1, 1),
]  # fmt: skip
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5], np.float32)


def ran(family, shape, choice, *inputs):
    """Run a kernel on an output that holds something else before; return what it wrote."""
    source = family.kernel(shape, choice)
    kind = source.args[-1].dtype
    out = np.full(source.args[-1].shape, 77 if "int" in kind else 7.0, kind)
    autotune.build(source, target="llvm")(*inputs, out)
    return out


def normal(args, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(each.shape).astype(np.float32) for each in args[:-1]]


@pytest.mark.many_cases
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("shape", NORMS, ids=str)
def test_norms_match_numpy_in_float64(shape, lanes):
    inputs = normal(shape.arguments())
    wanted = shape.reference()(*(each.astype(np.float64) for each in inputs))
    out = ran(rows_cpu, shape, {"lanes": lanes, "task_rows": 2, "keep": 0}, *inputs)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=2e-6)


def test_the_variance_is_accurate_far_from_zero():
    shape = Rows("layer_norm", 2, 10_000)
    (data,) = normal(shape.arguments())
    data = (data + np.float32(3000)).astype(np.float32)
    wanted = shape.reference()(data.astype(np.float64))
    out = ran(rows_cpu, shape, {"lanes": 8, "task_rows": 1, "keep": 0}, data)
    np.testing.assert_allclose(out, wanted, atol=1e-3)


@pytest.mark.parametrize("operation", ["layer_norm", "rms_norm", "log_softmax"])
@pytest.mark.parametrize("what", [np.nan, np.inf])
def test_a_row_with_a_nan_or_an_infinity_leaves_the_others_alone(operation, what):
    shape = Rows(operation, 3, 37)
    (data,) = normal(shape.arguments())
    data[1, 30] = what
    with np.errstate(invalid="ignore"):
        wanted = shape.reference()(data)
    out = ran(rows_cpu, shape, {"lanes": 16, "task_rows": 2, "keep": 0}, data)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.many_cases
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("extents", REDUCTIONS, ids=str)
def test_reductions_match_numpy(operation, extents):
    shape = Reduction(operation, *extents)
    rng = np.random.default_rng(0)
    data = rng.uniform(0.9, 1.1, extents).astype(np.float32)
    if operation in ("max", "min", "argmax", "argmin"):
        data = rng.integers(0, 9, extents).astype(np.float32)  # the first of several counts
    wanted = shape.reference()(data.astype(np.float64))
    options = reduce_cpu.candidates(shape)
    splits = options["split"][:3]
    # Over all operations, each number of lanes meets each split.
    for at, lanes in enumerate(LANES, OPERATIONS.index(operation)):
        split = splits[at % len(splits)]
        choice = {"lanes": lanes, "split": split, "tile": 64, "rows": max(options["rows"])}
        choice |= {} if extents[2] > 1 else {"tile": 1}
        out = ran(reduce_cpu, shape, choice, data)
        np.testing.assert_allclose(out, wanted, rtol=2e-5)


@pytest.mark.many_cases
@pytest.mark.parametrize("operation", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("inner", [1, 5])
@pytest.mark.parametrize("split", [1, 4])
def test_extremes_of_nans_infinities_and_zeros_are_those_of_numpy(operation, inner, split):
    rng = np.random.default_rng(0)
    data = rng.choice(SPECIAL, (60, 300, inner), p=[0.002, 0.1, 0.1, 0.2, 0.2, 0.2, 0.198])
    data[0], data[1] = -np.inf, np.inf
    data[2], data[3] = np.nan, 0.0
    shape = Reduction(operation, *data.shape)
    choice = {"lanes": 8, "split": split, "tile": 64 if inner > 1 else 1, "rows": 4}
    out = ran(reduce_cpu, shape, choice, data)
    np.testing.assert_array_equal(out, shape.reference()(data))


@pytest.mark.parametrize("inner", [1, 5])
def test_the_sum_of_minus_zeros_keeps_its_sign(inner):
    data = np.full((2, 21, inner), -0.0, np.float32)
    choice = {"lanes": 4, "split": 1, "tile": 64 if inner > 1 else 1, "rows": 2}
    assert np.signbit(ran(reduce_cpu, Reduction("sum", *data.shape), choice, data)).all()
    sums = ran(scan_cpu, Scan(2, 21), {"lanes": 4, "task_rows": 1}, data[..., 0].copy())
    assert np.signbit(sums).all()


def test_a_nan_or_an_infinity_reaches_the_sums_after_it_only():
    data = np.ones((3, 50), np.float32)
    data[0, 20], data[1, 37], data[2, [5, 44]] = np.nan, np.inf, [np.inf, -np.inf]
    for lanes in LANES:
        out = ran(scan_cpu, Scan(3, 50), {"lanes": lanes, "task_rows": 2}, data)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(out, np.cumsum(data, axis=1))


@pytest.mark.many_cases
@pytest.mark.parametrize("columns", [1, 7, 16, 333])
@pytest.mark.parametrize("lanes", LANES)
def test_prefix_sums_match_numpy(columns, lanes):
    (data,) = normal(Scan(5, columns).arguments())
    out = ran(scan_cpu, Scan(5, columns), {"lanes": lanes, "task_rows": 2}, data)
    np.testing.assert_allclose(out, np.cumsum(data.astype(np.float64), axis=1), atol=1e-4)


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
@pytest.mark.parametrize(
    ("extents", "axes"),
    [
        ((33, 17), (1, 0)), ((3, 40, 36), (0, 2, 1)), ((3, 7, 4, 5), (2, 0, 3, 1)),
        ((2, 50), (1, 0)),
        ((50, 3), (1, 0)), ((3, 7, 9, 2), (2, 1, 0, 3)), ((5, 1, 6), (2, 1, 0)), ((4,), (0,)),
        ((2, 3, 4, 5, 6), (4, 2, 0, 3, 1)), ((6, 2, 20, 19), (1, 3, 0, 2)),
    ],
)  # fmt: skip
def test_every_choice_permutes_an_array_as_numpy_does(extents, axes, dtype):
    shape = Transpose(extents, axes, dtype)
    data = np.random.default_rng(0).integers(0, 100, extents).astype(dtype)
    options = transpose_cpu.candidates(shape)
    for side, some in itertools.product(options["side"], {options["per_task"][0], 64}):
        out = ran(transpose_cpu, shape, {"side": side, "per_task": some}, data)
        np.testing.assert_array_equal(out, data.transpose(axes))


def test_large_arrays_are_computed_by_several_threads():
    rng = np.random.default_rng(0)
    for name, args in (
        ("layer_norm", (300, 301)), ("reduce", ("sum", 1, 90_000)), ("cumsum", (301, 300)),
        ("reduce", ("argmax", 1, 90_000)), ("reduce", ("mean", 1, 300, 301)),
        ("transpose", ((301, 300), (1, 0))), ("transpose", ((3, 40_000), (1, 0))),
        ("group_norm", (2, 6, 9000, 3)),
    ):  # fmt: skip
        task = create(f"{name}.cpu", args, "llvm")
        source = task.instantiate(task.default())
        inputs = [rng.standard_normal(a.shape).astype(np.float32) for a in source.args[:-1]]
        out = np.full(source.args[-1].shape, 7, source.args[-1].dtype)
        autotune.build(source, target="llvm")(*inputs, out)
        wanted = source.reference(*(each.astype(np.float64) for each in inputs))
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


def test_partial_results_that_32_bits_do_not_index_are_refused():
    shape = Reduction("sum", 1, 10_000, 2**26)
    target = autotune.Target("llvm")
    choice = {"lanes": 16, "tile": 512, "rows": 8}
    refused = [reduce_cpu.violation(shape, choice | {"split": s}, target) for s in (1, 64)]
    assert refused == [None, "partial results beyond 32-bit indices"]


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("layer_norm", (0, 4), "must be at least 1"),
        ("layer_norm", (4, 4, -1.0), "epsilon must be at least 0"),
        ("group_norm", (1, 6, 4, 4), "groups divide channels"),
        ("reduce", ("median", 3, 3), "operation must be one of"),
        ("cumsum", (4, 2**31), "kernels take up to"),
        ("transpose", ((3, 4), (1, 1)), "name each of 2 axes once"),
    ],
)
def test_what_cannot_be_is_an_error_that_says_so(name, args, message):
    with pytest.raises(TemplateError, match=message):
        create(f"{name}.cpu", args, "llvm")
