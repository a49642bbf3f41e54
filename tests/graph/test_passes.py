"""Each pass by itself: what it changes, and what it must leave alone."""

import numpy as np
import pytest

from autotune.graph import (
    Constant,
    Graph,
    TensorType,
    Variable,
    apply,
    graph_text,
    ops,
    passes,
)

IMAGES = (1, 4, 6, 6)


def variable(shape, name="data"):
    return Variable(TensorType(shape), name)


def constant(shape, seed=0, positive=False, name=""):
    numbers = np.random.default_rng(seed).normal(size=shape)
    return Constant.of(np.abs(numbers) + 0.1 if positive else numbers, name, "float32")


def conv(x, seed=1, out=4, **kwargs):
    size = x.shape[1]
    return apply(ops.Conv2d(padding=(1,), **kwargs), x, constant((out, size, 3, 3), seed))


def scale(x, positive=False, seed=2):
    return apply(ops.Multiply(), x, constant((x.shape[1], 1, 1), seed, positive))


def shift(x, seed=3):
    return apply(ops.Add(), x, constant((x.shape[1], 1, 1), seed))


def names(graph):
    return [node.op.name for node in graph.nodes]


def check_same(before, after):
    arrays = [np.random.default_rng(9).normal(size=v.shape) for v in before.inputs]
    for a, b in zip(before.run(*arrays), after.run(*arrays), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def backward(out):
    graph = Graph.of(out)
    folded = passes.fold_constant(passes.fold_scale_backward(graph))
    check_same(graph, folded)
    return names(folded)


def forward(out):
    graph = Graph.of(out)
    folded = passes.fold_constant(passes.fold_scale_forward(graph))
    check_same(graph, folded)
    return names(folded)


def _scaled_layer(dtype, size, before):
    """Return a layer of weights of about 1/30 with a bias, scaled: behind it, or its data."""
    x = Variable(TensorType((3, 8), dtype), "x")
    rng = np.random.default_rng(0)
    weight, bias = (rng.normal(0, 1 / 30, shape).astype(dtype) for shape in ((8, 8), (8,)))
    scale = Constant.of((rng.uniform(1, 2, 8) * size).astype(dtype))
    data = apply(ops.Multiply(), x, scale) if before else x
    out = apply(ops.BiasAdd(1), apply(ops.Dense(), data, Constant.of(weight)), Constant.of(bias))
    return Graph.of(out if before else apply(ops.Multiply(), out, scale))


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(
    ("dtype", "size", "stays"),
    [("float16", 1e-6, True), ("float16", 1e4, False), ("float16", 3e4, True),
     ("float16", 0.1, False), ("bfloat16", 1e-6, False), ("float32", 1e-6, False),
     ("float32", 1e-39, True)],
)  # fmt: skip
def test_a_scale_stays_where_weights_times_it_would_lose_their_precision(
    dtype, size, stays, before
):
    graph = _scaled_layer(dtype, size, before)
    fold = passes.fold_scale_forward if before else passes.fold_scale_backward
    folded = passes.fold_constant(fold(graph))
    if size < 1e4:  # of large weights the products would be infinite
        assert ("multiply" in names(folded)) is stays
    x = np.random.default_rng(1).normal(0, 1, (3, 8)).astype(dtype)
    (expected,), (found,) = (each.run(x) for each in (graph, folded))
    limits = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4}[dtype]
    scale = np.abs(expected.astype("float64")).max()
    assert np.abs(found.astype("float64") - expected.astype("float64")).max() <= limits * scale


def test_a_scale_stays_where_a_bias_before_it_would_be_lost():
    x = Variable(TensorType((2, 4), "float16"), "x")
    weight, bias = np.full((4, 4), 60.0, "float16"), np.full(4, 1e-4, "float16")
    sums = apply(ops.BiasAdd(1), apply(ops.Dense(), x, Constant.of(weight)), Constant.of(bias))
    out = apply(ops.Multiply(), sums, Constant.of(np.full(4, 1e-3, "float16")))
    assert "multiply" in names(passes.fold_constant(passes.fold_scale_backward(Graph.of(out))))


def test_a_batch_norm_becomes_a_product_and_a_sum():
    data = variable(IMAGES)
    vectors = [constant((4,), i, positive=True, name=f"v{i}") for i in range(4)]
    out = apply(ops.BatchNorm(), data, *vectors)
    graph = Graph.of(apply(ops.Dropout(), out))
    simple = passes.simplify_inference(graph)
    check_same(graph, simple)
    assert graph_text(passes.fold_constant(simple)) == (
        "data: float32[1, 4, 6, 6]\n"
        "%0 = multiply(data, v3: float32[4, 1, 1]) : float32[1, 4, 6, 6]\n"
        "%1 = add(%0, v2: float32[4, 1, 1]) : float32[1, 4, 6, 6]\n"
        "return %1\n"
    )


def test_a_batch_norm_on_the_last_axis_needs_no_new_dimensions():
    out = apply(
        ops.BatchNorm(3, scale=False, center=False),
        variable((1, 6, 6, 4)),
        *[constant((4,), i, True) for i in range(4)],
    )
    simple = passes.simplify_inference(Graph.of(out))
    check_same(Graph.of(out), simple)
    assert "expand_dims" not in names(simple)


def test_a_layer_norm_becomes_arithmetic():
    graph = Graph.of(apply(ops.LayerNorm(), variable((3, 5)), constant((5,)), constant((5,), 1)))
    simple = passes.simplify_inference(graph)
    check_same(graph, simple)
    assert all(node.op.has_compute for node in simple.nodes)


def test_constants_are_folded_without_computing_them():
    def explode():
        raise AssertionError("computed")

    weight = Constant(TensorType((4, 4, 3, 3)), explode)
    out = apply(ops.Conv2d(), variable(IMAGES), apply(ops.Negative(), weight))
    assert names(passes.fold_constant(Graph.of(out))) == ["nn.conv2d"]


def test_a_scale_moves_into_the_weights_before_it():
    assert backward(scale(conv(variable(IMAGES)))) == ["nn.conv2d"]
    assert backward(shift(scale(conv(variable(IMAGES))))) == ["nn.conv2d", "add"]


def test_a_scale_moves_through_a_relu_only_if_it_is_positive():
    def network(positive):
        return scale(apply(ops.Relu(), shift(conv(variable(IMAGES)))), positive)

    assert backward(network(True)) == ["nn.conv2d", "add", "nn.relu"]
    assert backward(network(False)) == ["nn.conv2d", "add", "nn.relu", "multiply"]


def test_a_scale_moves_into_both_operands_of_a_sum():
    data = variable(IMAGES)
    out = scale(apply(ops.Add(), conv(data, 1), conv(data, 5)))
    assert backward(out) == ["nn.conv2d", "nn.conv2d", "add"]


def test_two_readers_stop_a_fold_backward():
    x = conv(variable(IMAGES))
    out = apply(ops.Add(), scale(x), x)
    assert backward(out) == ["nn.conv2d", "multiply", "add"]


def test_a_residual_stops_a_fold_backward():
    data = variable(IMAGES)
    assert backward(scale(apply(ops.Add(), conv(data), data))) == ["nn.conv2d", "add", "multiply"]


def test_a_scale_on_another_axis_stays():
    out = apply(ops.Multiply(), conv(variable(IMAGES)), constant((6,)))
    assert backward(out) == ["nn.conv2d", "multiply"]


@pytest.mark.parametrize("groups", [1, 4])
def test_depthwise_convolutions_and_dense_layers_take_scales_too(groups):
    data = variable(IMAGES)
    weight = constant((4, 4 // groups, 3, 3))
    x = apply(ops.Conv2d(groups=groups), data, weight)
    assert backward(scale(x)) == ["nn.conv2d"]
    y = apply(ops.Conv2d(groups=groups), scale(data), weight)
    assert forward(y) == ["nn.conv2d"]
    dense = apply(ops.Dense(), variable((2, 3)), constant((5, 3)))
    assert backward(apply(ops.Multiply(), dense, constant((5,)))) == ["nn.dense"]


def test_groups_in_between_take_no_scale():
    x = apply(ops.Conv2d(groups=2), variable(IMAGES), constant((4, 2, 3, 3)))
    assert backward(scale(x)) == ["nn.conv2d", "multiply"]


def test_layouts_with_channels_last_take_scales():
    data = variable((1, 6, 6, 4))
    op = ops.Conv2d(data_layout="NHWC", kernel_layout="HWIO")
    x = apply(op, data, constant((3, 3, 4, 5)))
    assert backward(apply(ops.Multiply(), x, constant((5,)))) == ["nn.conv2d"]
    y = apply(op, apply(ops.Multiply(), data, constant((4,))), constant((3, 3, 4, 5)))
    assert forward(y) == ["nn.conv2d"]


def test_a_scale_moves_into_the_weights_after_it():
    data = variable(IMAGES)
    assert forward(conv(scale(data))) == ["nn.conv2d"]
    out = conv(apply(ops.Relu(), shift(scale(data, positive=True))))
    assert forward(out) == ["add", "nn.relu", "nn.conv2d"]
    out = conv(apply(ops.Relu(), scale(data)))
    assert forward(out) == ["multiply", "nn.relu", "nn.conv2d"]


def test_all_readers_must_take_a_scale_forward():
    x = scale(variable(IMAGES))
    assert forward(apply(ops.Add(), conv(x, 1), conv(x, 5))) == ["nn.conv2d", "nn.conv2d", "add"]
    x = scale(variable(IMAGES))
    assert forward(apply(ops.Add(), conv(x), x)) == ["multiply", "nn.conv2d", "add"]


def test_zeros_in_a_vector_stay_and_a_scalar_zero_goes():
    data = variable((2, 3))
    zero, one = Constant.of(np.float32(0)), Constant.of(np.float32(1))
    out = apply(ops.Add(), data, Constant.of(np.zeros(3, "float32")))
    out = apply(ops.Multiply(), apply(ops.Add(), out, zero), one)
    assert names(passes.simplify_expressions(Graph.of(out))) == ["add"]
    out = apply(ops.Reshape((2, 3)), apply(ops.Cast("float32"), data))
    assert names(passes.simplify_expressions(Graph.of(out))) == []


def test_biases_become_sums():
    graph = Graph.of(apply(ops.BiasAdd(), variable(IMAGES), constant((4,))))
    after = passes.canonicalize_ops(graph)
    check_same(graph, after)
    assert names(after) == ["expand_dims", "add"]


def test_what_is_computed_twice_is_computed_once():
    data = variable((2, 3))
    one, same = Constant.of(np.float32(1)), Constant.of(np.float32(1))
    out = apply(ops.Multiply(), apply(ops.Add(), data, one), apply(ops.Add(), data, same))
    out = apply(ops.Add(), out, apply(ops.Add(), data, Constant.of(np.float32(2))))
    after = passes.eliminate_common(Graph.of(out))
    check_same(Graph.of(out), after)
    assert names(after) == ["add", "multiply", "add", "add"]


@pytest.mark.parametrize(
    ("height", "attributes", "expected"),
    [
        (8, {}, "nn.conv2d_winograd_nhwc(data, constant: float32[6, 6, 5, 4]"),
        (7, {}, "nn.conv2d_winograd_nhwc(data, constant: float32[4, 4, 5, 4], tile_size=2"),
        (8, {"strides": (2,)}, "nn.conv2d(data"),
        (8, {"dilation": (2,)}, "nn.conv2d(data"),
    ],
)
def test_winograd_is_chosen_where_tvm_chooses_it(height, attributes, expected):
    op = ops.Conv2d(padding=(1,), data_layout="NHWC", kernel_layout="HWIO", **attributes)
    graph = Graph.of(apply(op, variable((1, height, 9, 4)), constant((3, 3, 4, 5))))
    after = passes.alter_layout(graph)
    check_same(graph, after)
    assert f"%0 = {expected}" in graph_text(after)


@pytest.mark.parametrize(
    ("channels", "chosen"), [(64, False), (65, True), (511, True), (512, False)]
)
def test_on_a_cpu_winograd_is_chosen_for_the_channels_for_which_tvm_does(channels, chosen):
    op = ops.Conv2d(padding=(1,), data_layout="NHWC", kernel_layout="HWIO")
    graph = Graph.of(apply(op, variable((1, 8, 8, 2)), constant((3, 3, 2, channels))))
    after = passes.RELAY_CPU(graph)
    assert ("winograd" in graph_text(after)) == chosen


def test_operands_after_a_layer_get_their_full_rank_and_others_do_not():
    data = variable(IMAGES)
    before = Graph.of(shift(conv(shift(data))))
    after = passes.alter_layout(before)
    check_same(before, after)
    shapes = [n.inputs[1].shape for n in after.nodes if n.op.name == "add"]
    assert shapes == [(4, 1, 1), (1, 4, 1, 1)]


def test_our_own_rules_join_shifts_across_a_residual():
    data = variable(IMAGES)
    x = apply(ops.Add(), shift(conv(data), 5), data)
    graph = Graph.of(shift(x, 6))
    after = passes.fold_affine(graph)
    check_same(graph, after)
    assert names(after) == ["nn.conv2d", "add", "add"]


def test_a_value_that_is_read_twice_is_not_rebuilt():
    x = shift(conv(variable(IMAGES)), 5)
    graph = Graph.of(apply(ops.Multiply(), shift(x, 6), apply(ops.Relu(), x)))
    after = passes.fold_affine(graph)
    check_same(graph, after)
    assert names(after) == names(graph)


def test_networks_may_be_deeper_than_the_stack():
    x, y = variable((4, 8), "x"), variable((8,), "y")
    for number in range(1200):
        y = apply(ops.Exp() if number % 2 else ops.Tanh(), y)
    graph = Graph.of(apply(ops.Multiply(), x, y))
    assert names(passes.fold_affine(graph)) == names(graph)


def test_a_value_that_was_rebuilt_has_the_readers_it_had_before():
    x = variable(IMAGES)
    for number in range(3):
        # Read by a branch and by the sum with it; below the first it is made anew.
        x = shift(apply(ops.Tanh(), x), number)
        x = apply(ops.Add(), x, shift(apply(ops.Exp(), x), number + 5))
    graph = Graph.of(x)
    after = passes.fold_affine(graph)
    check_same(graph, after)
    assert names(after).count("add") == names(graph).count("add")


def test_no_scale_of_which_a_part_is_zero_moves_past_a_sum():
    data, shift = variable(IMAGES), constant((4, 1, 1), 1)
    scale = Constant.of(np.array([1, 0, -2, 3], "float32").reshape(4, 1, 1))
    weight = constant((5, 4, 3, 3), 2)
    moved = apply(ops.Conv2d(), apply(ops.Multiply(), data, scale), weight)
    assert forward(moved) == ["nn.conv2d"]
    summed = apply(ops.Add(), apply(ops.Multiply(), data, scale), shift)
    assert forward(apply(ops.Conv2d(), summed, weight)) == ["multiply", "add", "nn.conv2d"]
