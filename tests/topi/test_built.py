"""Operators with a plain schedule, built through lowering and C, compute what numpy computes."""

import numpy as np
import pytest
from scipy import special

import autotune
from autotune import te, topi
from autotune.topi import testing

OPERATORS = {
    "conv2d_nchw": (
        lambda x, w: topi.nn.conv2d_nchw(x, w, 2, 1),
        lambda x, w: testing.conv2d_nchw_python(x, w, 2, 1), (1, 4, 9, 8), (3, 4, 3, 3),
    ),
    "conv2d_nhwc": (
        lambda x, w: topi.nn.conv2d_nhwc(x, w, 1, "SAME"),
        lambda x, w: testing.conv2d_nhwc_python(x, w, 1, "SAME"), (2, 6, 5, 3), (3, 3, 3, 4),
    ),
    "group_conv2d": (
        lambda x, w: topi.nn.conv2d(x, w, 1, 1, groups=2),
        lambda x, w: testing.conv2d_nchw_python(x, w, 1, 1, groups=2), (1, 4, 5, 5), (4, 2, 3, 3),
    ),
    "winograd": (
        lambda x, w: topi.nn.conv2d_winograd_nchw(x, w, 1, 1),
        lambda x, w: testing.conv2d_nchw_python(x, w, 1, 1), (1, 3, 8, 7), (2, 3, 3, 3),
    ),
    "batch_matmul": (topi.nn.batch_matmul, testing.batch_matmul, (2, 3, 5), (2, 4, 5)),
    "dense": (
        topi.nn.dense, lambda x, w, b: testing.dense(x, w, b, True), (3, 5), (4, 5), (4,),
    ),
    "max_pool": (
        lambda x: topi.nn.pool2d(x, 3, 2, 1, 1),
        lambda x: testing.pool2d_python(x, 3, 2, 1, 1), (1, 2, 7, 8),
    ),
    "average_pool": (
        lambda x: topi.nn.pool2d(x, 3, 2, 1, 1, "avg", count_include_pad=False),
        lambda x: testing.pool2d_python(x, 3, 2, 1, 1, "avg", count_include_pad=False),
        (1, 2, 7, 8),
    ),
    "global_pool": (
        lambda x: topi.nn.global_pool(x, "avg"),
        lambda x: x.mean(axis=(2, 3), keepdims=True), (2, 3, 4, 5),
    ),
    "softmax": (topi.nn.softmax, testing.softmax_python, (4, 9)),
    "log_softmax": (topi.nn.log_softmax, testing.log_softmax_python, (4, 9)),
    "argmax": (lambda x: topi.argmax(x, 1), lambda x: x.argmax(1), (5, 12)),
    "prod": (lambda x: topi.prod(x, 0), lambda x: x.prod(0), (5, 3)),
    "concatenate": (
        lambda x, y: topi.concatenate([x, y], 1),
        lambda x, y: np.concatenate([x, y], 1), (2, 3), (2, 5),
    ),
    "reshape_of_transpose": (
        lambda x: topi.reshape(topi.transpose(x), (6, 4)),
        lambda x: x.T.reshape(6, 4), (2, 3, 4),
    ),
    "fused_elementwise": (
        lambda x, y: topi.sigmoid(x * 2.0 + topi.exp(y)),
        lambda x, y: special.expit(x * 2 + np.exp(y)), (3, 4), (4,),
    ),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", OPERATORS)
def test_built_operator_matches_numpy(name):
    operator, reference, *shapes = OPERATORS[name]
    tensors = [te.placeholder(shape, name=f"p{i}") for i, shape in enumerate(shapes)]
    out = operator(*tensors)
    function = autotune.build(te.create_schedule([out.op]), [*tensors, out], "llvm")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    wanted = np.asarray(reference(*arrays))
    got = np.zeros(wanted.shape, out.dtype)
    function(*arrays, got)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.many_cases
@pytest.mark.parametrize("target", ["llvm", "cuda -emulate"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_infinities_and_of_what_is_no_number_are_those_of_numpy(name, dtype, target):
    rng, infinity, nan = np.random.default_rng(0), np.inf, np.nan
    rows = rng.standard_normal((6, 9)).astype(dtype)
    rows[0], rows[1], rows[2] = -infinity, infinity, nan
    rows[3, 4], rows[4, [2, 7]], rows[5, [1, 3]] = nan, nan, (infinity, -infinity)
    x = te.placeholder(rows.shape, dtype, name="x")
    out = getattr(topi, name)(x, 1)
    schedule = te.create_schedule([out.op])
    if target != "llvm":
        for tensor in (out.op.input_tensors[0], out):
            schedule[tensor].bind(tensor.op.axis[0], te.thread_axis("blockIdx.x"))
    got = np.full(6, -7, "int32")
    autotune.build(schedule, [x, out], target)(rows, got)
    np.testing.assert_array_equal(got, getattr(np, name)(rows, axis=1))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("vectors", [False, True])
def test_the_largest_on_a_cpu_is_a_nan_beside_one(name, vectors):
    data = np.random.default_rng(0).standard_normal((333, 8)).astype("float32")
    data[[0, 7, -1], [1, 4, 6]] = np.nan
    x = te.placeholder(data.shape, name="x")
    out = getattr(topi, name)(x, 0)
    s = te.create_schedule(out.op)
    if vectors:
        s[out].reorder(out.op.reduce_axis[0], out.op.axis[0])
        s[out].vectorize(out.op.axis[0])
    result = np.zeros(8, "float32")
    autotune.build(s, [x, out], target="c")(data, result)
    np.testing.assert_array_equal(result, getattr(np, name)(data, 0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_the_largest_of_infinities_alone_is_an_infinity(dtype):
    x = np.full((2, 2, 4, 4), -np.inf, dtype)
    x[1, 1, 2, 2] = 3
    data = te.placeholder(x.shape, dtype, name="X")
    results = {
        "max": (topi.max(data, 1), x.max(1)),
        "min": (topi.min(topi.negative(data), 1), (-x).min(1)),
        "pool": (topi.nn.pool2d(data, 3, 2, 1, 1), testing.pool2d_python(x, 3, 2, 1, 1)),
    }
    for name, (result, wanted) in results.items():
        out = np.zeros(wanted.shape, dtype)
        autotune.build(te.create_schedule(result.op), [data, result], "c", name)(x, out)
        np.testing.assert_array_equal(out, wanted, name)
