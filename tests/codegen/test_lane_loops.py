"""Vector loops on the CPU are of vector types, and compute what plain loops do."""

import numpy as np
import pytest

import autotune
from autotune import te, topi
from autotune.driver import kernel_of
from autotune.target import Target

SHAPE = (3, 96)
# name -> what is computed of two tensors, and the same in numpy
CASES = {
    "sum": (
        lambda a, b: te.compute(SHAPE, lambda i, j: a[i, j] + b[i, j] * a[i, 0]),
        lambda a, b: a + b * a[:, :1],
    ),
    "difference": (
        lambda a, b: te.compute(SHAPE, lambda i, j: b[0, j] - a[i, j] * -1),
        lambda a, b: b[:1] + a,
    ),
    "most": (topi.maximum, np.maximum),
    "least": (lambda a, b: topi.minimum(a, b * 3), lambda a, b: np.minimum(a, b * 3)),
    "rows": (
        lambda a, b: te.compute(
            SHAPE, lambda i, j: te.if_then_else(i < 2, a[i, j], b[0, 0]), name="rows"
        ),
        lambda a, b: np.where(np.arange(3)[:, None] < 2, a, b[0, 0]),
    ),
}


def vectorised(out, inputs, extent):
    """Vectorise so much of the last axis; return the text, and what runs it."""
    s = te.create_schedule(out.op)
    for stage in s.stages:
        if stage.op is not out.op and not isinstance(stage.op, type(inputs[0].op)):
            stage.compute_inline()
    _, inner = s[out].split(out.op.axis[-1], extent)
    s[out].vectorize(inner)
    args = s, [*inputs, out]
    return kernel_of(args, Target("c")).source, autotune.build(*args, target="c")


def inputs_of(dtype):
    return [te.placeholder(SHAPE, dtype, name=name) for name in "ab"]


def values(dtype, seed):
    return (np.random.default_rng(seed).standard_normal(SHAPE) * 9).astype(dtype)


@pytest.mark.many_cases
@pytest.mark.parametrize("case", sorted(CASES))
@pytest.mark.parametrize(
    ("dtype", "extent"),
    [("float32", 2), ("float32", 12), ("float32", 32), ("float64", 4), ("int32", 24)],
)
def test_lanes_compute_what_a_plain_loop_does(case, dtype, extent):
    compute, expected = CASES[case]
    inputs = inputs_of(dtype)
    text, run = vectorised(compute(*inputs), inputs, extent)
    a, b, result = values(dtype, 1), values(dtype, 2), np.empty(SHAPE, dtype)
    run(a, b, result)
    np.testing.assert_allclose(result, expected(a, b), rtol=1e-6)
    assert ("LANES(" in text) == (extent > 2)


def test_a_vector_of_a_negative_zero_keeps_its_sign():
    a, b = inputs_of("float32")
    out = te.compute(SHAPE, lambda i, j: a[i, 0], name="spread")
    text, run = vectorised(out, [a, b], 16)
    result = np.ones(SHAPE, "float32")
    run(np.full(SHAPE, -0.0, "float32"), np.zeros(SHAPE, "float32"), result)
    assert "LANES(" in text
    assert np.signbit(result).all()


@pytest.mark.parametrize(
    "compute",
    [
        lambda a, b: te.compute(SHAPE, lambda i, j: a[i, te.floordiv(j, 2)] + b[i, j]),
        lambda a, b: te.compute(SHAPE, lambda i, j: te.if_then_else(j % 3 < 1, a[i, j], b[i, j])),
        lambda a, b: te.compute(SHAPE, lambda i, j: te.exp(a[i, j]) + b[i, j]),
        lambda a, b: te.compute(SHAPE, lambda i, j: a[i, 95 - j] + b[i, j]),
        lambda a, b: te.compute(SHAPE, lambda i, j: te.max(a[i, j], b[i, j]) / te.exp(b[i, j])),
    ],
)
def test_what_differs_from_lane_to_lane_stays_a_loop(compute):
    inputs = inputs_of("float32")
    text, _ = vectorised(compute(*inputs), inputs, 16)
    assert "#pragma omp simd" in text
    assert "LANES(" not in text


def test_a_user_may_call_a_tensor_as_a_vector_type():
    a = te.placeholder((32,), name="float_v64")
    out = te.compute((32,), lambda i: a[i] * 2, name="LANES")
    _, run = vectorised(out, [a], 16)
    x, result = np.arange(32, dtype="float32"), np.empty(32, "float32")
    run(x, result)
    np.testing.assert_array_equal(result, x * 2)
