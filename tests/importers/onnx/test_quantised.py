"""Quantised models: every form computes what ONNX says, and layers of bytes are found in them."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.passes import OWN, integer_layers, joined_residuals
from autotune.importers import from_onnx
from autotune.network import compile_network

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
RNG = np.random.default_rng(0)
IMAGE = RNG.normal(0, 1, (1, 4, 6, 6)).astype("float32")


def model_of(nodes, weights, x=IMAGE, outputs=("y",)):
    given = [helper.make_tensor_value_info("x", 1, x.shape)]
    made = [helper.make_tensor_value_info(name, 1, None) for name in outputs]
    known = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(
        helper.make_graph(nodes, "small", given, made, known), opset_imports=opsets
    )


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def vendor(kind, inputs, outputs, **attributes):
    return node(kind, inputs, outputs, domain="com.microsoft", **attributes)


# What every model below has: x in steps of "s" from "z" on, weights of filters, and their results.
FILTERS = RNG.integers(-127, 128, (8, 4, 3, 3)).astype("int8")
COMMON = {
    "s": np.float32(0.02), "z": np.int8(-20), "w": FILTERS, "t": np.float32(0.05),
    "ws": RNG.uniform(1e-3, 3e-3, 8).astype("float32"), "wz": np.zeros(8, "int8"),
    "v": np.int8(-128), "b": RNG.integers(-9000, 9000, 8).astype("int32"),
    "bs": np.float32(0.02), "bz": np.zeros(8, "int32"),
}  # fmt: skip
COMMON["bs"] = COMMON["ws"] * COMMON["s"]


def qdq(*after):
    """Return a convolution between scales, with what follows it, as the QDQ form has it."""
    last = after[-1].output[0] if after else "c"
    return [
        node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w ws wz", "f", axis=0),
        node("DequantizeLinear", "b bs bz", "g", axis=0),
        node("Conv", "d f g", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
        *after,
        node("QuantizeLinear", f"{last} t v", "p"), node("DequantizeLinear", "p t v", "y"),
    ]  # fmt: skip


OPERATORS = [
    node("QuantizeLinear", "x s z", "q"),
    node("QLinearConv", "q s z w ws wz t v b", "p", pads=[1, 1, 1, 1], strides=[2, 2]),
    node("DequantizeLinear", "p t v", "y"),
]


def steps(x, scale, zero, dtype="int8"):
    info = np.iinfo(dtype)
    return np.clip(np.rint(x / np.float32(scale)) + zero, info.min, info.max).astype(dtype)


def simplified(model):
    return OWN(from_onnx(model).graph)


def test_both_forms_of_a_convolution_are_one_layer_of_bytes():
    results = []
    for nodes in (qdq(), qdq(node("Relu", "c", "r")), OPERATORS):
        graph = simplified(model_of(nodes, COMMON))
        found = integer_layers(graph, lambda node: True)
        (layer,) = [each for each in found.nodes if isinstance(each.op, ops.QuantisedConv2d)]
        assert (layer.op.zero, layer.op.out_dtype, layer.op.out_zero) == (-20, "uint8", 0)
        assert not any(isinstance(each.op, ops.Conv2d) for each in found.nodes)
        results.append(found.run(IMAGE)[0])
        np.testing.assert_allclose(results[-1], graph.run(IMAGE)[0], atol=0.0501)
        assert np.mean(results[-1] != graph.run(IMAGE)[0]) < 0.02  # ties, which either side may be
    # The zero point is the least number, so that a ReLU changes nothing.
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_images_in_int8_from_its_least_number_on_are_padded_with_zeros():
    second = [
        node("QLinearConv", "m t v k ks kz t v", "o", pads=[1, 1, 1, 1]),
        node("DequantizeLinear", "o t v", "y"),
    ]
    filters = RNG.integers(-127, 128, (16, 8, 3, 3)).astype("int8")
    more = {**COMMON, "k": filters, "ks": np.full(16, 2e-3, "float32"), "kz": np.zeros(16, "int8")}
    pool = node("MaxPool", "p", "m", kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    results = []
    for outputs, zeros in (("y",), [-20, 0]), (("y", "m"), [-20, -128]):
        graph = simplified(model_of([*OPERATORS[:-1], pool, *second], more, outputs=outputs))
        found = integer_layers(graph, lambda node: True)
        layers = [each.op for each in found.nodes if isinstance(each.op, ops.QuantisedConv2d)]
        assert [layer.zero for layer in layers] == zeros
        results.append(found.run(IMAGE)[0])
    np.testing.assert_array_equal(*results)


def test_a_result_without_steps_is_rounded_behind_its_layer():
    graph = simplified(model_of(qdq(), {**COMMON, "t": np.float32(0)}))
    found = integer_layers(graph, lambda node: True)
    (layer,) = [each for each in found.nodes if isinstance(each.op, ops.QuantisedConv2d)]
    assert layer.op.out_dtype == "float32"


@pytest.mark.many_cases
@pytest.mark.parametrize("real", ["float16", "float32"])
@pytest.mark.parametrize("whole", ["int8", "uint8", "int16", "uint16", "int32"])
def test_integers_stay_within_their_limits_whatever_the_zero_point(real, whole):
    info = np.iinfo(whole)
    x = np.array([0, 1, -1, 2.5, 3.5, 1e4, -1e4, 6e4, -6e4, np.inf, -np.inf], real)
    data = Variable(TensorType(x.shape, real), "x")
    for zero in (0, info.min, info.max):
        inputs = Constant.of(np.asarray(0.5, real)), Constant.of(np.asarray(zero, whole))
        graph = Graph.of(apply(ops.Quantize(0, whole), data, *inputs))
        (made,) = compile_network(graph, "llvm").instance()(x)
        want = np.clip(np.rint(x.astype("float64") / 0.5) + zero, info.min, info.max)
        np.testing.assert_allclose(made.numpy(), want, rtol=2e-7)


def test_a_convolution_of_bytes_gives_the_integers_that_onnx_defines():
    q = steps(IMAGE, COMMON["s"], COMMON["z"]).astype("int64") + 20
    sums = ops.Conv2d((2, 2), (1, 1)).reference(q, FILTERS.astype("int64"))
    sums = sums + COMMON["b"].reshape(-1, 1, 1)
    scale = (COMMON["ws"] * np.float64(0.02) / np.float64(0.05)).reshape(-1, 1, 1)
    want = (np.clip(np.rint(sums * scale) - 128, -128, 127) + 128) * 0.05
    got = compile_network(from_onnx(model_of(OPERATORS, COMMON)).graph, "llvm").instance()(IMAGE)
    np.testing.assert_allclose(got[0].numpy(), want, atol=1e-5)


def test_what_has_no_kernel_for_bytes_stays_in_floats():
    graph = simplified(model_of(qdq(), COMMON))
    kept = integer_layers(graph, lambda node: False)
    assert [each.op.name for each in kept.nodes if "conv" in each.op.name] == ["nn.conv2d"]
    # A residual between layers is rounded to its steps, in floats.
    more = [*qdq(), node("Sigmoid", "y", "u"), node("QuantizeLinear", "u s z", "a"),
            node("DequantizeLinear", "a s z", "e"), node("Mul", "e y", "k")]  # fmt: skip
    graph = simplified(model_of(more, COMMON, outputs=("k",)))
    found = integer_layers(graph, lambda node: True)
    assert sum(isinstance(each.op, ops.Quantize) for each in found.nodes) == 1
    np.testing.assert_allclose(found.run(IMAGE)[0], graph.run(IMAGE)[0], atol=0.06)


def test_weights_with_a_zero_point_stay_in_floats_unless_it_is_the_middle_of_uint8():
    for dtype, zero, whole in (("int8", 3, False), ("uint8", 128, True), ("uint8", 100, False)):
        moved = (FILTERS.astype("int32") + (128 if dtype == "uint8" else 0)).astype(dtype)
        weights = {**COMMON, "w": moved, "wz": np.full(8, zero, dtype)}
        graph = simplified(model_of(qdq(), weights))
        kinds = [each.op.name for each in integer_layers(graph, lambda node: True).nodes]
        assert ("qnn.conv2d" in kinds) == whole
        assert ("nn.conv2d" in kinds) != whole


MATRIX = RNG.integers(-127, 128, (24, 5)).astype("int8")
ROWS = RNG.normal(0, 1, (3, 24)).astype("float32")


def test_a_product_of_bytes_with_bias_and_limits_is_one_layer():
    weights = {**COMMON, "m": MATRIX, "ms": np.float32(0.01), "mz": np.int8(0),
               "o": np.linspace(-1, 1, 5, dtype="float32"),
               "lo": np.float32(0), "hi": np.float32(6)}  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "m ms mz", "f"), node("MatMul", "d f", "c"),
        node("Add", "c o", "a"), node("Clip", "a lo hi", "r"),
        node("QuantizeLinear", "r t v", "p"), node("DequantizeLinear", "p t v", "y"),
    ]  # fmt: skip
    graph = simplified(model_of(nodes, weights, ROWS))
    found = integer_layers(graph, lambda node: True)
    (layer,) = [each for each in found.nodes if isinstance(each.op, ops.QuantisedDense)]
    assert layer.op.limits == pytest.approx((0, 120))
    np.testing.assert_allclose(found.run(ROWS)[0], graph.run(ROWS)[0], atol=0.0501)
    compiled = compile_network(graph, "llvm").instance()(ROWS)
    np.testing.assert_allclose(compiled[0].numpy(), found.run(ROWS)[0], atol=0.0501)


def test_operators_of_onnx_runtime_are_those_on_floats_between_scales():
    weights = {**COMMON, "axes": np.array([0]), "m": MATRIX, "ms": np.float32(0.01),
               "mz": np.int8(0), "mb": np.arange(5, dtype="int32") * 900}  # fmt: skip
    x = ROWS[:, :, None, None] * np.ones((1, 1, 2, 2), "float32")
    q = steps(x, COMMON["s"], COMMON["z"])
    real = (q.astype("float32") + 20) * np.float32(0.02)
    rows = (steps(ROWS, COMMON["s"], COMMON["z"]).astype("float64") + 20) @ MATRIX
    cases = {
        "QLinearAdd": (vendor("QLinearAdd", "q s z q s z t v", "p"), real + real),
        "QLinearMul": (vendor("QLinearMul", "q s z q s z t v", "p"), real * real),
        "QLinearGlobalAveragePool": (
            vendor("QLinearGlobalAveragePool", "q s z t v", "p"), real.mean((2, 3), keepdims=True)
        ),
        "QLinearAveragePool": (
            vendor("QLinearAveragePool", "q s z t v", "p", kernel_shape=[2, 2]),
            real.mean((2, 3), keepdims=True),
        ),
        "QLinearSigmoid": (vendor("QLinearSigmoid", "q s z t v", "p"), 1 / (1 + np.exp(-real))),
        "QLinearLeakyRelu": (
            vendor("QLinearLeakyRelu", "q s z t v", "p", alpha=0.1),
            np.where(real > 0, real, real * 0.1),
        ),
        "QLinearConcat": (
            vendor("QLinearConcat", "t v q s z q s z", "p", axis=1), np.concatenate([real] * 2, 1)
        ),
    }  # fmt: skip
    first, last = node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "p t v", "y")
    for name, (made, want) in cases.items():
        (got,) = from_onnx(model_of([first, made, last], weights, x)).graph.run(x, dtype=None)
        want = (steps(want, 0.05, -128).astype("float32") + 128) * np.float32(0.05)
        np.testing.assert_allclose(got, want, atol=1e-5, err_msg=name)
    gemm = vendor("QGemm", "q s z m ms mz mb t v", "p")
    (got,) = from_onnx(model_of([first, gemm, last], weights, ROWS)).graph.run(ROWS, dtype=None)
    want = (rows + np.arange(5) * 900) * 0.02 * 0.01
    np.testing.assert_allclose(got, np.clip(np.rint(want / 0.05), 0, 255) * 0.05, atol=1e-5)


@pytest.mark.parametrize("terms", [24, 700])
def test_products_of_integers_are_exact_and_scales_may_depend_on_the_data(terms):
    x = RNG.normal(0, 1, (3, terms)).astype("float32")
    matrix = RNG.integers(0, 256, (terms, 5)).astype("uint8")
    nodes = [
        node("DynamicQuantizeLinear", "x", "q qs qz"),
        node("MatMulInteger", "q m qz mz", "y"),
    ]
    weights = {"m": matrix, "mz": np.uint8(131)}
    graph = from_onnx(model_of(nodes, weights, x)).graph
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = np.float32(high - low) / np.float32(255)
    zero = np.rint(-low / scale)
    q = np.clip(np.rint(x / scale) + zero, 0, 255)
    want = (q - zero).astype("int64") @ (matrix.astype("int64") - 131)
    (got,) = compile_network(graph, "c").instance()(x)
    assert got.numpy().dtype == np.int32
    np.testing.assert_array_equal(got.numpy(), want)


def test_scales_of_blocks_are_repeated():
    weights = {"m": np.arange(12, dtype="int8").reshape(4, 3),
               "ms": np.array([[1, 2, 3], [10, 20, 30]], "float32")}  # fmt: skip
    nodes = [
        node("DequantizeLinear", "m ms", "d", axis=0, block_size=2), node("Add", "d x", "y")
    ]  # fmt: skip
    x = np.zeros((4, 3), "float32")
    (got,) = from_onnx(model_of(nodes, weights, x)).graph.run(x)
    np.testing.assert_array_equal(got, weights["m"] * weights["ms"].repeat(2, 0))


@pytest.mark.parametrize("terms", [40, 66400])
def test_long_sums_of_bytes_that_32_bits_may_not_hold_are_computed_in_floats(terms):
    x = np.full((1, terms), 255.0, "float32")
    weights = {
        "s": np.float32(1), "z": np.uint8(0), "w": np.full((terms, 3), 127, "int8"),
        "wz": np.int8(0),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w s wz", "f"), node("MatMul", "d f", "y"),
    ]  # fmt: skip
    compiled = compile_network(from_onnx(model_of(nodes, weights, x)).graph, "llvm")
    (found,) = compiled.instance()(x)
    np.testing.assert_allclose(found.numpy(), np.full((1, 3), 255.0 * 127 * terms), rtol=1e-4)


def test_sums_maxima_joins_and_averages_between_layers_stay_in_bytes():
    more = {"u": np.float32(0.07), "e": np.int8(5), "r": np.float32(0.11), "f8": FILTERS}
    nodes = [
        *OPERATORS[:2],
        node("QLinearConv", "q s z f8 ws wz u e b", "o", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("DequantizeLinear", "p t v", "pd"), node("DequantizeLinear", "o u e", "od"),
        node("Add", "pd od", "a"), node("Relu", "a", "ar"),
        node("QuantizeLinear", "ar r v", "k"), node("DequantizeLinear", "k r v", "kd"),
        node("MaxPool", "kd", "m", kernel_shape=[2, 2], strides=[1, 1]),
        node("QuantizeLinear", "m r v", "n"), node("DequantizeLinear", "n r v", "nd"),
        node("MaxPool", "pd", "pm", kernel_shape=[2, 2], strides=[1, 1]),
        node("Concat", "nd pm", "j", axis=1),
        node("QuantizeLinear", "j r v", "jq"), node("DequantizeLinear", "jq r v", "jd"),
        node("GlobalAveragePool", "jd", "g"),
        node("QuantizeLinear", "g u e", "gq"), node("DequantizeLinear", "gq u e", "y"),
    ]  # fmt: skip
    graph = simplified(model_of(nodes, {**COMMON, **more}))
    found = integer_layers(graph, lambda node: True)
    kinds = [each.op.name for each in found.nodes]
    assert "add" not in kinds
    assert [kinds.count(f"qnn.{name}") for name in ("add", "global_avg_pool2d")] == [1, 1]
    pools = [each for each in found.nodes if isinstance(each.op, ops.MaxPool2d | ops.Concatenate)]
    assert {each.outputs[0].dtype for each in pools} == {"uint8"}
    np.testing.assert_allclose(found.run(IMAGE)[0], graph.run(IMAGE)[0], atol=0.0701)


def test_sums_of_what_no_kernel_made_bytes_of_stay_in_floats():
    nodes = [
        node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"),
        node("Add", "d d", "a"), node("MaxPool", "a", "m", kernel_shape=[2, 2]),
        node("QuantizeLinear", "m s z", "k"), node("DequantizeLinear", "k s z", "y"),
    ]  # fmt: skip
    found = integer_layers(simplified(model_of(nodes, COMMON)), lambda node: False)
    assert not any(each.op.name == "qnn.add" for each in found.nodes)


def test_a_residual_becomes_the_end_of_a_convolution_where_a_kernel_computes_both():
    nodes = [
        *OPERATORS[:2], node("DequantizeLinear", "p t v", "pd"),
        node("QLinearConv", "q s z w ws wz t z b", "o", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("DequantizeLinear", "o t z", "od"), node("Add", "pd od", "a"),
        node("QuantizeLinear", "a t v", "k"), node("DequantizeLinear", "k t v", "y"),
    ]  # fmt: skip
    graph = integer_layers(simplified(model_of(nodes, COMMON)), lambda node: True)
    found = joined_residuals(graph, lambda node: True)
    kinds = [each.op.name for each in found.nodes]
    assert sorted(each for each in kinds if "conv" in each) == ["qnn.conv2d", "qnn.conv2d_add"]
    np.testing.assert_array_equal(found.run(IMAGE)[0], graph.run(IMAGE)[0])
    (made,) = compile_network(found, "c").instance()(IMAGE)
    np.testing.assert_allclose(made.numpy(), found.run(IMAGE)[0], atol=0.0501)
    assert joined_residuals(graph, lambda node: False).nodes == graph.nodes


def test_maxima_of_steps_that_are_negative_stay_in_floats():
    weights = {**COMMON, "minus": np.float32(-0.05), "f8": np.full((8, 8, 1, 1), -60, "int8")}
    nodes = [
        *OPERATORS[:2], node("DequantizeLinear", "p minus v", "d"),
        node("MaxPool", "d", "m", kernel_shape=[2, 2]),
        node("DequantizeLinear", "f8 ws wz", "f", axis=0), node("Conv", "m f", "c"),
        node("QuantizeLinear", "c t v", "k"), node("DequantizeLinear", "k t v", "y"),
    ]  # fmt: skip
    graph = simplified(model_of(nodes, weights))
    found = integer_layers(graph, lambda node: True)
    np.testing.assert_allclose(found.run(IMAGE)[0], graph.run(IMAGE)[0], atol=0.0501)


def test_a_sum_is_joined_to_no_convolution_of_which_it_takes_another_zero_point():
    nodes = [
        *OPERATORS[:2], node("DequantizeLinear", "p t z", "d"),
        node("QLinearConv", "q s z w ws wz t z b", "o", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("DequantizeLinear", "o t v", "e"), node("Add", "d e", "a"),
        node("QuantizeLinear", "a t v", "k"), node("DequantizeLinear", "k t v", "y"),
    ]  # fmt: skip
    graph = integer_layers(simplified(model_of(nodes, COMMON)), lambda node: True)
    assert any(isinstance(each.op, ops.QuantisedAdd) for each in graph.nodes)
    assert joined_residuals(graph, lambda node: True).nodes == graph.nodes


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E5M2"])
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "listed"])
def test_weights_of_few_bits_are_dequantised_while_the_model_is_read(kind, raw):
    number = getattr(onnx.TensorProto, kind)
    whole = kind.endswith("INT4")
    values = (
        np.arange(-7, 8) if kind == "INT4" else np.arange(15) if whole else np.arange(15) % 4 / 2
    )
    weight = values.astype("float32").reshape(3, 5)
    tensor = helper.make_tensor("w", number, (3, 5), weight.reshape(-1))
    if raw:
        bits = [n & 255 for n in tensor.int32_data]
        tensor.ClearField("int32_data")
        tensor.raw_data = bytes(bits)
    nodes = [node("DequantizeLinear", "w s", "f"), node("MatMul", "x f", "y")]
    x = np.eye(3, dtype="float32")
    for scale in (np.float32(0.5), np.float32([1, 2, 3, 4, 5])):
        model = model_of(nodes, {"s": scale}, x)
        model.graph.initializer.append(tensor)
        (result,) = from_onnx(model).graph.run(x)
        np.testing.assert_array_equal(result, weight * scale)


def test_weights_of_few_bits_are_for_dequantising_alone():
    tensor = helper.make_tensor("w", onnx.TensorProto.INT4, (2, 2), [1, 2, 3, 4])
    model = model_of([node("Add", "x w", "y")], {}, np.ones((2, 2), "float32"))
    model.graph.initializer.append(tensor)
    with pytest.raises(GraphError, match=r"Add of 'y': .*int4"):
        from_onnx(model)
    model = model_of([node("Identity", "w", "y")], {}, np.ones((2, 2), "float32"))
    model.graph.initializer.append(tensor)
    with pytest.raises(GraphError, match="the output 'y' is of int4"):
        from_onnx(model)
