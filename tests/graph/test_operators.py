"""Each operator's type, its numpy reference and its tensor expression agree."""

import numpy as np
import pytest

from autotune import te
from autotune.errors import GraphError
from autotune.graph import OPERATORS, Graph, TensorType, Variable, apply, graph_text, ops
from tests.topi.evaluate import evaluate

I4 = (1, 4, 7, 6)
N4 = (1, 7, 6, 4)
CASES = [
    *[(OPERATORS[name](), (2, 3)) for name in (
        "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "floor", "ceil",
        "abs", "negative", "copy", "tan", "sinh", "cosh", "asin", "acos", "atan", "trunc",
        "nearbyint", "sign", "isnan", "isinf", "logical_not", "nn.relu", "nn.leaky_relu",
        "nn.gelu", "nn.silu", "log1p", "asinh", "acosh", "atanh",
        "exp2", "log2", "log10",
    )],
    (ops.Clip(0.2, 0.8), (2, 3)),
    (ops.Gelu("tanh"), (2, 3)),
    (ops.Cast("float64"), (2, 3)),
    *[(OPERATORS[name](), (2, 3), (1, 3)) for name in (
        "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "mod", "floor_mod",
    )],
    *[(OPERATORS[name](), (2, 3), (3,)) for name in (
        "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    )],
    (ops.BiasAdd(), (2, 3, 4), (3,)),
    (ops.BiasAdd(-1), (2, 3, 4), (4,)),
    (ops.Prelu(), (2, 3, 4), (3,)),
    (ops.ExpandDims(1, 2), (2, 3)),
    (ops.BroadcastTo((4, 2, 3)), (2, 3)),
    (ops.Where(), (2, 3), (2, 3), (2, 3)),
    (ops.Conv2d((2, 2), (1, 1)), I4, (5, 4, 3, 3)),
    (ops.Conv2d((1,), (1, 0, 2, 1), (2, 1)), I4, (5, 4, 3, 2)),
    (ops.Conv2d(padding=(1,), groups=4), I4, (4, 1, 3, 3)),
    (ops.Conv2d(padding=(1,), groups=2), I4, (6, 2, 3, 3)),
    (ops.Conv2d((2,), (1,), data_layout="NHWC", kernel_layout="HWIO"), N4, (3, 3, 4, 5)),
    (ops.Conv2d((2,), (1,), (1,), 4, "NHWC", "HWOI"), N4, (3, 3, 4, 1)),
    (ops.Conv2d((2,), (1,), (1,), 2, "NHWC", "HWIO"), N4, (3, 3, 2, 6)),
    (ops.Conv3d((1, 2, 2), (1,)), (1, 2, 4, 5, 5), (3, 2, 3, 3, 3)),
    (ops.Conv3d((1,), (1,), data_layout="NDHWC", kernel_layout="DHWIO"), (1, 4, 5, 5, 2),
     (3, 3, 3, 2, 3)),
    (ops.Conv2dTranspose((2,), (1,)), (1, 3, 4, 5), (3, 2, 4, 4)),
    (ops.Conv2dTranspose((2, 1), (1, 0, 0, 2), (1, 0)), (1, 3, 4, 5), (3, 2, 3, 2)),
    (ops.Conv2dTranspose((1,), (2,)), (1, 3, 4, 5), (3, 2, 2, 2)),
    (ops.WinogradConv2d(2, (1,)), (1, 7, 6, 3), (4, 4, 2, 3)),
    (ops.Dense(), (2, 5), (3, 5)),
    (ops.BatchMatmul(), (2, 3, 4), (2, 5, 4)),
    (ops.BatchMatmul(True, False), (2, 4, 3), (1, 4, 5)),
    (ops.MaxPool2d((3, 3), (2, 2), (1, 1)), I4),
    (ops.MaxPool2d((2, 3), (2, 2), (0,), (1,), "NHWC", True), N4),
    (ops.AvgPool2d((3,), (1,), (1,)), I4),
    (ops.AvgPool2d((3,), (2,), (1,), count_include_pad=True), I4),
    (ops.GlobalAvgPool2d(), I4),
    (ops.GlobalMaxPool2d("NHWC"), N4),
    (ops.GlobalAvgPool3d(), (1, 2, 3, 4, 5)),
    (ops.GlobalAvgPool3d("NDHWC"), (1, 3, 4, 5, 2)),
    (ops.Softmax(), (3, 5)),
    (ops.Softmax(1), (2, 3, 4)),
    (ops.LogSoftmax(), (3, 5)),
    (ops.LayerNorm(), (2, 3, 5), (5,), (5,)),
    (ops.LayerNorm(1, 0.1, scale=False), (2, 3, 5), (3,)),
    (ops.LayerNorm(center=False), (2, 5), (5,), (5,)),
    (ops.RmsNorm(), (2, 3, 5), (5,)),
    (ops.RmsNorm(0, 0.1, False), (4, 3)),
    (ops.GroupNorm(2), (2, 4, 3, 2), (4,), (4,)),
    (ops.GroupNorm(3, 0.1, False, False), (2, 6)),
    (ops.InstanceNorm(0.1), (2, 3, 4, 2), (3,), (3,)),
    (ops.InstanceNorm(center=False), (2, 3, 5), (3,)),
    (ops.Attention(), (2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 5)),
    (ops.Attention(True, 0.3), (1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)),
    (ops.Attention(True), (1, 1, 5, 4), (1, 1, 3, 4), (1, 1, 3, 4)),
    (ops.Attention(True), (2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 5), (1, 4, 1, 6)),
    (ops.RowsFirstAttention(), (2, 3, 4, 5), (2, 6, 2, 5), (2, 6, 2, 5)),
    (ops.RowsFirstAttention(), (2, 3, 4, 5), (2, 6, 2, 5), (2, 6, 2, 5), (2, 1, 3, 6)),
    (ops.PackedAttention(), (2, 5, 6, 4), (2, 2, 5, 5)),
    (ops.RowsFirstAttention(True, 0.3), (1, 3, 2, 4), (1, 5, 2, 4), (1, 5, 2, 4)),
    (ops.PackedAttention(True), (2, 5, 6, 4)),
    (ops.PackedAttention(scale=0.3, kv_heads=1), (1, 3, 4, 4)),
    (ops.Cumsum(), (3, 7)),
    (ops.Cumsum(1), (2, 10, 3)),
    (ops.Cumsum(0), (1,)),
    (ops.Cummax(1), (2, 10, 3)),
    (ops.Cummin(), (3, 7)),
    (ops.WriteSlice((0, 2), (1, 3)), (3, 9), (3, 2)),
    (ops.WriteSlice((1, 0, 4), (1, 1, 1)), (3, 4, 7), (1, 4, 3)),
    (ops.WriteSlice((0, 0), (1, 1)), (3, 4), (3, 4)),
    (ops.Atan2(), (3, 4), (1, 4)),
    (ops.Copysign(), (3, 4), (1, 4)),
    (ops.Cumprod(), (3, 7)),
    (ops.Logcumsumexp(1), (2, 10, 3)),
    (ops.Cumprod(1), (2, 10, 3)),
    (ops.Reshape((0, -1)), (2, 3, 4)),
    (ops.BatchFlatten(), (2, 3, 4)),
    (ops.Transpose((1, 2, 0)), (2, 3, 4)),
    (ops.Transpose(), (2, 3)),
    (ops.TileLayout(((1, 2), (0, 6), (1, 4))), (6, 8)),
    (ops.Squeeze(), (1, 3, 1)),
    (ops.Squeeze((0,)), (1, 3, 1)),
    (ops.Concatenate(1), (2, 3), (2, 4), (2, 1)),
    (ops.Split(3, 1), (2, 6)),
    (ops.Stack(1), (2, 3), (2, 3)),
    (ops.StridedSlice((0, 1), (2, 5), (1, 2)), (2, 6)),
    (ops.Pad(((1, 0), (2, 1)), 0.5), (2, 3)),
    (ops.Upsampling(2), I4),
    (ops.Upsampling(3, "NHWC"), N4),
    *[(OPERATORS[name]((1,), keep), (2, 3, 4)) for name in (
        "sum", "mean", "max", "min", "prod",
    ) for keep in (False, True)],
    (ops.Argmax((1,)), (3, 5)),
    (ops.Argmin((-1,), True), (3, 5)),
]  # fmt: skip


def case_name(case):
    return f"{case[0].name}-{'-'.join('x'.join(map(str, shape)) for shape in case[1:])}"


def drawn(case):
    """float32 arrays on which the operator of a case is defined."""
    op, *shapes = case
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.1, 1, shape).astype("float32") for shape in shapes]
    if op.name in ("abs", "negative", "sign", "nn.relu", "nn.leaky_relu", "nn.prelu"):
        arrays[0] -= 0.5
    if op.name == "acosh":
        arrays[0] += 1.0
    if op.name == "where":
        arrays[0] = (arrays[0] > 0.5).astype("float32")
    return arrays


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_type_reference_and_expression_agree(case):
    op, arrays = case[0], drawn(case)
    types = [TensorType(a.shape) for a in arrays]
    given = op.infer(*types)
    expected = given if isinstance(given, tuple) else (given,)
    results = op.reference(*[a.astype("float64") for a in arrays])
    results = results if isinstance(results, tuple) else (results,)
    placeholders = [te.placeholder(a.shape, a.dtype.name) for a in arrays]
    tensors = op.compute(*placeholders)
    tensors = tensors if isinstance(tensors, list) else [tensors]
    for kind, array, tensor in zip(expected, results, tensors, strict=True):
        assert tuple(tensor.shape) == kind.shape == np.asarray(array).shape
        assert tensor.dtype == kind.dtype
        computed = evaluate(tensor, list(zip(placeholders, arrays, strict=True)))
        np.testing.assert_allclose(computed, array, rtol=2e-4, atol=2e-5)
    assert op.flop(*types, *expected) >= 0


OF_WHOLE_NUMBERS = (
    "trunc_divide", "floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift",
    "right_shift", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip


@pytest.mark.parametrize("name", [*OF_WHOLE_NUMBERS, "mod", "floor_mod"])
def test_expressions_of_whole_numbers_and_bools_are_their_references(name):
    op = OPERATORS[name]()
    a, b = np.array([[-7, 7, 5], [0, -6, 3]], "int32"), np.array([2, 3, 1], "int32")
    if name.startswith("logical"):
        a, b = a > 0, b > 1
    elif "divide" in name or "mod" in name:
        b = np.array([2, -3, 1], "int32")
    given = [te.placeholder(x.shape, x.dtype.name) for x in (a, b)]
    computed = evaluate(op.compute(*given), list(zip(given, (a, b), strict=True)))
    np.testing.assert_array_equal(computed, op.reference(a, b))
    assert op.infer(*[TensorType(x.shape, x.dtype.name) for x in (a, b)]).dtype == computed.dtype


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint64", "int8"])
def test_negative_of_whole_numbers_wraps_around_in_their_dtype(dtype):
    x = np.array([0, 1, 5, 127], dtype)
    given = te.placeholder(x.shape, dtype)
    computed = evaluate(ops.Negative().compute(given), [(given, x)])
    assert computed.dtype == dtype
    np.testing.assert_array_equal(computed, np.negative(x))


def test_halves_round_to_even_and_signs_keep_what_is_not_a_number():
    x = np.array([0.5, 1.5, -2.5, np.nan, -0.1], "float32")
    given = te.placeholder(x.shape, x.dtype.name)
    for op in (ops.Nearbyint(), ops.Sign(), ops.Trunc(), ops.IsNan()):
        computed = evaluate(op.compute(given), [(given, x)])
        np.testing.assert_array_equal(computed, op.reference(x))


@pytest.mark.parametrize(("tile", "padding"), [(2, 1), (4, 1), (4, 0), (3, 2)])
def test_winograd_by_transformed_weights_is_the_plain_convolution(tile, padding):
    rng = np.random.default_rng(1)
    data, weight = rng.normal(size=(2, 9, 7, 3)), rng.normal(size=(3, 3, 3, 5))
    plain = ops.Conv2d(padding=(padding,), data_layout="NHWC", kernel_layout="HWIO")
    transformed = ops.WinogradWeight(tile).reference(weight)
    assert transformed.shape == ops.WinogradWeight(tile).infer(TensorType(weight.shape)).shape
    result = ops.WinogradConv2d(tile, (padding,)).reference(data, transformed)
    np.testing.assert_allclose(result, plain.reference(data, weight), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        (ops.Conv2d(), [I4, (5, 3, 3, 3)], "weight must be of 4 input channels in 1 groups, got"),
        (ops.Conv2d(), [I4, (5, 4, 9, 3)], "weight must be no larger than the padded data"),
        (ops.Conv2d(dilation=(4, 4)), [I4, (5, 4, 3, 3)], "no larger, with its elements 4 apart"),
        (ops.Conv2d(padding=(1, 2, 3)), [I4, (5, 4, 3, 3)], "padding must be 1, 2 or 4 whole"),
        (ops.Conv2d(data_layout="NC"), [I4, (5, 4, 3, 3)], "one of NCHW, NHWC, got 'NC'"),
        (ops.Dense(), [(2, 3), (4, 5)], r"weight must be \[out, in\] for data float32\[2, 3\]"),
        (OPERATORS["add"](), [(2, 3), (4,)], "rhs must be of a shape that meets"),
        (OPERATORS["add"](), [(2, 3)], "expected 2 inputs, got 1"),
        (ops.Concatenate(1), [(2, 3), (3, 3)], "data must be tensors like"),
        (ops.Reshape((4, -1)), [(2, 3)], "newshape must be extents of 6 elements"),
        (ops.Softmax(2), [(2, 3)], "axis must be a whole number of -2 to 1, got 2"),
        (ops.LayerNorm(), [(2, 3), (3,)], "expected 3 inputs, got 2"),
        (ops.LayerNorm(), [(2, 3), (3,), (2,)], r"beta must be float32\[3\], got float32\[2\]"),
        (ops.RmsNorm(2), [(2, 3), (3,)], "axis must be a whole number of -2 to 1, got 2"),
        (ops.GroupNorm(4), [(2, 6, 3), (6,), (6,)], "num_groups must be a divisor of 6, got 4"),
        (ops.GroupNorm(0), [(2, 6, 3), (6,), (6,)], "num_groups must be a divisor of 6, got 0"),
        (ops.InstanceNorm(), [(2, 6), (6,), (6,)], "data must be of at least 3 dimensions"),
        (
            ops.Attention(),
            [(2, 3, 4)] * 3,
            r"q must be \(batch, heads, queries, size\) of float16",
        ),
        (ops.Attention(), [(1, 3, 4, 8), *[(1, 2, 5, 8)] * 2], "kv_heads dividing 3"),
        (ops.Attention(), [(1, 2, 4, 8), (1, 2, 5, 8), (1, 2, 5, 4)], "v must be .*, as k is"),
        (
            ops.Attention(),
            [*[(1, 2, 4, 8)] * 3, (2, 2, 4, 4)],
            "bias must be .* of float32, where",
        ),
        (ops.Attention(scale="1"), [(1, 2, 4, 8)] * 3, "scale must be a number, or None"),
        (ops.RowsFirstAttention(), [(1, 4, 3, 8), *[(1, 5, 2, 8)] * 2], "kv_heads dividing 3"),
        (ops.PackedAttention(), [(1, 4, 8)], r"data must be \(batch, rows, heads \+ 2"),
        (ops.PackedAttention(), [(1, 4, 5, 8)], "data must be of three heads, or a multiple"),
        (ops.PackedAttention(kv_heads=2), [(1, 4, 4, 8)], "kv_heads must be a whole number"),
        (ops.PackedAttention(kv_heads=2), [(1, 4, 7, 8)], "kv_heads dividing 3"),
        (ops.Gelu("exp"), [(4,)], "approximate must be none or tanh"),
        (ops.Cumsum(1), [(4,)], "along must be a whole number of -1 to 0, got 1"),
        (ops.BatchNorm(), [(2, 3), (3,), (3,), (2,), (3,)], "moving_mean must be float32"),
    ],
    ids=lambda x: x.name if hasattr(x, "name") else "",
)
def test_what_does_not_fit_is_refused_with_the_line_of_the_user(op, shapes, message):
    inputs = [Variable(TensorType(s), f"x{i}") for i, s in enumerate(shapes)]
    with pytest.raises(GraphError, match=rf"test_operators\.py:\d+: {op.name}: .*{message}"):
        apply(op, *inputs)


def test_every_operator_is_in_a_case_or_replaced_before_kernels_are_made():
    checked = {case[0].name for case in CASES}
    left = {name for name, op in OPERATORS.items() if name not in checked}
    replaced = {
        "nn.batch_norm", "nn.dropout", "nn.winograd_weight_nhwc", "nn.packed_weight",
        "nn.packed_filters",
    }  # fmt: skip
    # Those of quantised models are in test_quantised_ops.py and in tests/importers.
    quantised = {name for name in OPERATORS if name.startswith("qnn.")}
    # Those that write are in tests/network/test_write_over.py.
    apart = {"take", "full", "write", "write_over", "write_slice_over"}
    assert left - replaced == {*apart, *OF_WHOLE_NUMBERS, *quantised}


def test_take_limits_its_indices_and_full_writes_one_value():
    data, index = np.arange(12.0).reshape(3, 4), np.array([[2, 0], [9, -1]], "int32")
    op = ops.Take(0)
    places = [te.placeholder((3, 4), "float32"), te.placeholder((2, 2), "int32")]
    tensor = op.compute(*places)
    out = evaluate(tensor, [(places[0], data.astype("float32")), (places[1], index)])
    np.testing.assert_array_equal(out, op.reference(data, index))
    for dtype, far in (("int64", 1 << 32), ("int64", -(1 << 32)), ("uint32", (1 << 31) + 1)):
        index = np.array([[1, 0], [far, 2]], dtype)
        places[1] = te.placeholder((2, 2), dtype)
        out = evaluate(
            op.compute(*places), [(places[0], data.astype("float32")), (places[1], index)]
        )
        np.testing.assert_array_equal(out, op.reference(data, index), err_msg=dtype)
    value = Variable(TensorType(()), "value")
    graph = Graph.of(apply(ops.Full((2, 2)), value))
    np.testing.assert_array_equal(graph.run(np.float32(3))[0], np.full((2, 2), 3.0))
    assert "full(value, shape=(2, 2)) : float32[2, 2]" in graph_text(graph)
