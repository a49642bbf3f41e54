"""Operators of `relay` that rearrange elements, in all forms that TVM takes, built and run."""

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import GraphError
from autotune.graph import Graph
from autotune.tvm import relay
from autotune.tvm.contrib import graph_executor

RNG = np.random.default_rng(1)


def run(value):
    """Return the inputs, and the result by numpy, which the built network gives too."""
    graph = Graph.of(value)
    arrays = [
        RNG.normal(size=each.shape).astype(each.dtype)
        if "float" in each.dtype
        else RNG.integers(-9, 9, each.shape).astype(each.dtype)
        for each in graph.inputs
    ]
    (want,) = graph.run(*arrays)
    lib = relay.build(tvm.IRModule.from_expr(value), target="llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    for variable, array in zip(graph.inputs, arrays, strict=True):
        module.set_input(variable.name, array)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), want, rtol=1e-5, atol=1e-6)
    return arrays, want


@pytest.mark.parametrize(
    ("newshape", "shape"),
    [
        ((-2,), (2, 3, 4, 5)),
        ((0, -2), (2, 3, 4, 5)),
        ((-3, -3), (6, 20)),
        ((-3, 4, 5), (6, 4, 5)),
        ((-4, 1, 2, -2), (1, 2, 3, 4, 5)),
        ((0, 0, -4, -1, 2, 5), (2, 3, 2, 2, 5)),
        ((-1, -3), (6, 20)),
        ((4, 0, -1), (4, 3, 10)),
    ],
)
def test_a_shape_is_written_as_in_tvm(newshape, shape):
    data = relay.var("data", shape=(2, 3, 4, 5))
    if newshape == (-1, -3):
        newshape = (-1, 20)
    (x,), found = run(relay.reshape(data, newshape))
    np.testing.assert_array_equal(found, x.reshape(shape))


def test_a_tensor_is_cut_before_indices():
    data = relay.var("data", shape=(3, 10))
    parts = relay.split(data, (2, 7), axis=-1)
    assert [part.shape for part in parts] == [(3, 2), (3, 5), (3, 3)]
    (x,), found = run(parts[1] * 2.0)
    np.testing.assert_array_equal(found, 2 * x[:, 2:7])


def test_some_axes_are_sliced_by_end_or_size():
    data = relay.var("data", shape=(4, 5, 6))
    (x,), found = run(relay.strided_slice(data, [1, 0], [5, 3], [2], axes=[2, 1]))
    np.testing.assert_array_equal(found, x[:, 0:3:2, 1:5:2])
    (x,), found = run(relay.strided_slice(data, [1, 2], [2, -1], slice_mode="size"))
    np.testing.assert_array_equal(found, x[1:3, 2:])
    (x,), found = run(relay.strided_slice(data, [3], [2], axes=[2], slice_mode="size"))
    np.testing.assert_array_equal(found, x[:, :, 3:5])


def test_branches_of_where_broadcast():
    condition = relay.var("c", shape=(3, 1), dtype="int32")
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(2, 3, 4))
    (c, a, b), found = run(relay.where(condition, x, y))
    np.testing.assert_array_equal(found, np.where(c != 0, a, b))


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("mode", ["clip", "wrap", "fast"])
def test_indices_beyond_the_ends_are_limited_or_wrapped(mode, dtype):
    numbers = np.array([0, 3, 4, 9, 200] if dtype == "uint8" else [-9, -1, 0, 3, 4, 9], dtype)
    data, indices = relay.var("data", shape=(2, 4)), relay.const(numbers)
    (x,), found = run(relay.take(data, indices, 1, mode=mode))
    want = np.take(x, numbers.astype("int64"), 1, mode="wrap" if mode == "wrap" else "clip")
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_a_tensor_is_padded_with_its_own_elements(mode):
    data = relay.var("data", shape=(2, 4, 5))
    width = ((0, 0), (2, 1), (0, 3))
    (x,), found = run(relay.nn.pad(data, width, pad_mode=mode))
    np.testing.assert_array_equal(found, np.pad(x, width, mode=mode))


def test_a_pad_value_may_be_a_constant():
    data = relay.var("data", shape=(2, 2))
    (x,), found = run(relay.nn.pad(data, ((1, 0), (0, 0)), relay.const(3.0)))
    np.testing.assert_array_equal(found, np.pad(x, ((1, 0), (0, 0)), constant_values=3))


def test_copies_of_tensors_and_slices():
    data = relay.var("data", shape=(2, 3))
    for reps in ((2,), (2, 1), (3, 1, 2)):
        (x,), found = run(relay.tile(data, reps))
        np.testing.assert_array_equal(found, np.tile(x, reps))
    (x,), found = run(relay.repeat(data, 2, -1))
    np.testing.assert_array_equal(found, np.repeat(x, 2, -1))
    (x,), found = run(relay.reverse(data, 1))
    np.testing.assert_array_equal(found, x[:, ::-1])


def test_tensors_like_others():
    data = relay.var("data", shape=(2, 3))
    (x,), found = run(data + relay.ones_like(data) + relay.full_like(data, relay.const(2.0)))
    np.testing.assert_allclose(found, x + 3, rtol=1e-6)
    (x,), found = run(relay.broadcast_to_like(relay.sum(data, 1, True), data))
    np.testing.assert_allclose(found, np.broadcast_to(x.sum(1, keepdims=True), (2, 3)), rtol=1e-5)
    (x,), found = run(relay.reshape_like(relay.zeros_like(data) + data, relay.zeros((3, 2))))
    np.testing.assert_array_equal(found, x.reshape(3, 2))


def test_the_variance_is_of_all_or_of_a_sample():
    data = relay.var("data", shape=(3, 4))
    for unbiased in (False, True):
        (x,), found = run(relay.variance(data, 1, unbiased=unbiased))
        np.testing.assert_allclose(found, x.var(1, ddof=int(unbiased)), rtol=1e-4)
        (x,), found = run(relay.std(data, 0, True, unbiased=unbiased))
        np.testing.assert_allclose(found, x.std(0, ddof=int(unbiased), keepdims=True), rtol=1e-4)


def test_products_are_added_up_in_another_dtype():
    data, weight = (relay.var(n, shape=(2, 64), dtype="int8") for n in ("data", "weight"))
    (a, b), found = run(relay.nn.dense(data, weight, out_dtype="int32"))
    assert found.dtype == "int32"
    np.testing.assert_array_equal(found, a.astype("int32") @ b.astype("int32").T)
    image, filters = relay.var("image", shape=(1, 4, 6, 6)), relay.var("f", shape=(2, 4, 3, 3))
    assert relay.nn.conv2d(image, filters, out_dtype="float64").dtype == "float64"
    assert relay.nn.matmul(data, weight, transpose_b=True, out_dtype="int32").dtype == "int32"


def test_results_have_the_layout_that_is_asked_for():
    image, filters = relay.var("image", shape=(1, 4, 6, 6)), relay.var("f", shape=(2, 4, 3, 3))
    _, plain = run(relay.nn.conv2d(image, filters))
    assert plain.shape == (1, 2, 4, 4)
    turned = relay.nn.conv2d(image, filters, out_layout="NHWC")
    assert turned.shape == (1, 4, 4, 2)
    (x,), found = run(relay.nn.max_pool2d(image, 2, 2, out_layout="NHWC"))
    want = x.reshape(1, 4, 3, 2, 3, 2).max((3, 5)).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(found, want)


def test_passes_run_in_order_and_leave_the_network():
    data = relay.var("data", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.nn.relu(data))
    passes = [relay.transform.InferType(), relay.transform.FoldConstant()]
    with tvm.transform.PassContext(opt_level=3):
        again = tvm.transform.Sequential([*passes, relay.transform.FuseOps(fuse_opt_level=2)])(mod)
    assert str(again) == str(mod)
    with pytest.raises(tvm.TVMError, match="passes must be a function"):
        tvm.transform.Sequential([3])


def test_shapes_of_parameters_follow_from_their_layers():
    data = relay.var("data", shape=(1, 3, 8, 8))
    net = relay.nn.conv2d(
        data, relay.var("conv_weight"), kernel_size=(3, 3), channels=4, padding=(1, 1)
    )
    statistics = [relay.var(f"bn_{n}") for n in ("gamma", "beta", "moving_mean", "moving_var")]
    net = relay.nn.relu(relay.nn.batch_norm(net, *statistics)[0])
    net = relay.nn.bias_add(net, relay.var("conv_bias"))
    net = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(net))
    net = relay.nn.dense(net, relay.var("dense_weight"), units=5)
    mod, params = relay.testing.create_workload(net)
    shapes = {name: value.shape for name, value in params.items()}
    assert shapes["conv_weight"] == (4, 3, 3, 3)
    assert shapes["bn_moving_var"] == shapes["conv_bias"] == (4,)
    assert shapes["dense_weight"] == (5, 4)
    lib = relay.build(mod, target="llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("data", np.ones((1, 3, 8, 8), "float32"))
    module.run()
    assert module.get_output(0).numpy().shape == (1, 5)


def test_a_depthwise_weight_without_a_shape_has_that_of_its_groups():
    data, weight = relay.var("data", shape=(1, 8, 8, 6)), relay.var("w")
    relay.nn.conv2d(
        data, weight, kernel_size=3, channels=6, groups=6, data_layout="NHWC", kernel_layout="HWOI"
    )
    assert weight.checked_type.concrete_shape == (3, 3, 6, 1)


def test_a_shape_that_nothing_says_is_asked_for():
    data = relay.var("data", shape=(1, 3, 8, 8))
    for use in (
        lambda weight: relay.nn.conv2d(data, weight),
        lambda weight: relay.nn.dense(data, weight),
        lambda weight: data + weight,
    ):
        with pytest.raises(GraphError, match=r"var 'w': expected a shape, got none, and its use"):
            use(relay.var("w"))
