"""Normalisations compute what numpy computes."""

import numpy as np
import pytest

from autotune import te, topi
from autotune.errors import ExpressionError
from tests.topi.evaluate import evaluate
from tests.topi.test_nn import check


def layer_normed(x, gamma, beta, axes, epsilon=1e-5):
    x = x.astype("float64")
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    over = [n if k in axes else 1 for k, n in enumerate(x.shape)]
    return (x - mean) / np.sqrt(variance + epsilon) * gamma.reshape(over) + beta.reshape(over)


@pytest.mark.parametrize("axis", [(1,), 2, -1, (1, 2), (2, 0)])
def test_layer_norm_normalises_over_its_axes(axis):
    shape = (3, 4, 5)
    axes = tuple(sorted(k % 3 for k in np.atleast_1d(axis)))
    over = tuple(shape[k] for k in axes)
    check(
        lambda x, gamma, beta: topi.nn.layer_norm(x, gamma, beta, axis),
        lambda x, gamma, beta: layer_normed(x, gamma, beta, axes),
        shape,
        over,
        over,
    )


def test_layer_norm_keeps_a_mean_that_is_large_beside_the_spread():
    x = (1000 + np.random.default_rng(0).standard_normal((4, 64))).astype("float32")
    data = te.placeholder(x.shape, name="data")
    got = evaluate(topi.nn.layer_norm(data, None, None, -1), [(data, x)])
    wanted = layer_normed(x, np.ones(64), np.zeros(64), (1,))
    np.testing.assert_allclose(got, wanted, atol=2e-3)


def test_rms_norm_divides_by_the_root_of_the_mean_square():
    check(
        lambda x, w: topi.nn.rms_norm(x, w, axis=1, epsilon=1e-6),
        lambda x, w: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w,
        (3, 8),
        (8,),
    )


def test_sums_of_half_floats_are_wider():
    data = te.placeholder((2, 8), "float16", name="data")
    result = topi.nn.rms_norm(data, None, -1)
    assert result.dtype == "float16"
    assert result.op.input_tensors[1].dtype == "float32"


def test_a_scale_of_another_shape_is_refused():
    data, gamma = te.placeholder((2, 8), name="data"), te.placeholder((4,), name="gamma")
    with pytest.raises(ExpressionError, match=r"layer_norm: gamma must be of shape \(8,\)"):
        topi.nn.layer_norm(data, gamma, None, 1)
    with pytest.raises(ExpressionError, match="rms_norm: data must be of floats, got int32"):
        topi.nn.rms_norm(te.placeholder((2, 8), "int32"), None, 1)
