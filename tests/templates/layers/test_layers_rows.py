"""Norms, cumulative sums, attention and elementwise operators by templates, in the emulator."""

import ml_dtypes
import numpy as np
import pytest

import autotune
from autotune.graph import OPERATORS, Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import function_of
from autotune.network import compile_network, templates_for
from autotune.network.choice import RULE
from autotune.network.implementations import offers_of, serves
from autotune.target import Target
from autotune.task.template import TASK_TABLE

EMULATED, CPU = Target("cuda -emulate"), Target("c")
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}


def numpy_type(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def drawn(shape, dtype="float32", seed=0, most=2):
    """Return numbers whose logarithms and roots are there."""
    return np.random.default_rng(seed).uniform(0.2, most, shape).astype(numpy_type(dtype))


def by_name(op, shapes, dtype, target, tmp_path, most=2):
    """Call an operator by its name; return what came, what is right, and what ran."""
    inputs = [drawn(shape, dtype, seed, most) for seed, shape in enumerate(shapes)]
    kind = op.infer(*[TensorType(shape, dtype) for shape in shapes])
    out = np.zeros(kind.shape, numpy_type(kind.dtype))
    attributes = vars(op)
    call = autotune.jit(op.name, key=lambda *_: attributes, target=target, store=tmp_path / "log")
    call(*inputs, out)
    want = op.reference(*[each.astype("float64") for each in inputs])
    return out.astype("float64"), want, call.choice(*inputs, out)


ROWS = {
    "softmax.cuda": (ops.Softmax(), [(3, 5, 33)]),
    "log_softmax.cuda": (ops.LogSoftmax(2), [(3, 5, 33)]),
    "layer_norm.cuda": (ops.LayerNorm(), [(2, 3, 40), (40,), (40,)]),
    "layer_norm.cuda without gamma": (ops.LayerNorm(scale=False), [(7, 33), (33,), (33,)]),
    "layer_norm.cuda alone": (ops.LayerNorm(1, 0.1, False, False), [(5, 1000)]),
    "rms_norm.cuda": (ops.RmsNorm(), [(2, 3, 40), (40,)]),
    "rms_norm.cuda alone": (ops.RmsNorm(scale=False), [(1, 17)]),
    "group_norm.cuda": (ops.GroupNorm(3), [(2, 6, 5, 3), (6,), (6,)]),
    "group_norm.cuda of vectors": (ops.GroupNorm(2, center=False), [(4, 6), (6,)]),
    "group_norm.cuda of channels": (ops.InstanceNorm(), [(2, 3, 4, 5), (3,), (3,)]),
    "cumsum.cuda": (ops.Cumsum(1), [(5, 70)]),
    "cumsum.cuda of one row": (ops.Cumsum(0), [(300,)]),
}


# Each in float32 and in one type of 16 bits.
SHORT = {name: ("float16", "bfloat16")[i % 2] for i, name in enumerate(ROWS)}


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float32") for name in ROWS), *SHORT.items()]
)
def test_maps_of_rows_are_called_by_name(name, dtype, tmp_path):
    op, shapes = ROWS[name]
    got, want, choice = by_name(op, shapes, dtype, EMULATED, tmp_path)
    assert (choice.origin, choice.template) == ("default", name.split()[0])
    np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


ATTENTION = {
    "plain": (ops.Attention(), [(2, 2, 9, 16), *[(2, 2, 12, 16)] * 2]),
    "causal, of grouped queries": (ops.Attention(True), [(1, 4, 9, 40), *[(1, 2, 9, 40)] * 2]),
    "one query": (ops.Attention(True, 0.3), [(1, 4, 1, 64), *[(1, 1, 33, 64)] * 2]),
    "queries that see nothing": (ops.Attention(True), [(1, 1, 9, 8), *[(1, 1, 5, 8)] * 2]),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_called_by_name(name, dtype, tmp_path):
    op, shapes = ATTENTION[name]
    got, want, choice = by_name(op, shapes, dtype, EMULATED, tmp_path)
    assert choice.template == "attention.cuda"
    np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


LEFT = {
    "another axis": (ops.LayerNorm(0), [(4, 3), (4,), (4,)], "float32"),
    "narrow whole numbers": (ops.Cumsum(), [(4, 30)], "int16"),
    "float64": (ops.RmsNorm(), [(4, 3), (3,)], "float64"),
    "heads of an odd size": (ops.Attention(), [(1, 2, 3, 13)] * 3, "float16"),
    "large heads": (ops.Attention(), [(1, 1, 3, 264)] * 3, "float16"),
    "attention in float64": (ops.Attention(), [(1, 2, 3, 16)] * 3, "float64"),
    "a negative factor": (ops.Attention(scale=-1.0), [(1, 2, 3, 16)] * 3, "float16"),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("target", ["c", "cuda -emulate"])
@pytest.mark.parametrize("name", LEFT)
def test_what_no_template_takes_is_computed_by_rule(name, target, tmp_path):
    op, shapes, dtype = LEFT[name]
    got, want, choice = by_name(op, shapes, dtype, target, tmp_path)
    assert (choice.origin, choice.template) == ("rule", "")
    tolerance = TOLERANCE.get(dtype, 1e-4)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.many_cases
@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("op", [ops.Softmax, ops.LogSoftmax])
def test_softmax_along_any_axis_is_called_by_name(op, axis, tmp_path):
    got, want, choice = by_name(op(axis), [(3, 5, 33)], "float32", EMULATED, tmp_path)
    assert choice.template == f"{op.name.removeprefix('nn.')}.cuda"
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("argmax", "int32"),
        ("argmin", "int8"),
        ("max", "uint8"),
        ("min", "int16"),
        ("sum", "int32"),
    ],
)
@pytest.mark.parametrize("axes", [(1,), (2,), None])
def test_whole_numbers_are_reduced_by_name(name, dtype, axes, tmp_path):
    op = OPERATORS[name](axes)
    got, want, choice = by_name(op, [(3, 50, 7)], dtype, EMULATED, tmp_path, most=100)
    assert choice.template == "reduce.cuda"
    np.testing.assert_array_equal(got, want)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("name", "dtype", "axes"),
    [
        ("sum", "float32", (0, 2)),
        ("mean", "float64", (1, 3)),
        ("argmax", "int64", (0, 3)),
        ("max", "float16", (0, 2, 3)),
        ("sum", "int64", (2,)),
    ],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_any_axes_are_reduced_by_name(name, dtype, axes, keepdims, tmp_path):
    op = OPERATORS[name](axes, keepdims)
    got, want, choice = by_name(op, [(3, 5, 4, 7)], dtype, EMULATED, tmp_path)
    assert choice.template == "reduce.cuda"
    np.testing.assert_allclose(got, want, rtol=1e-2 if dtype == "float16" else 1e-5, atol=1e-5)


def test_sums_of_columns_are_computed_by_rule_on_a_cpu(tmp_path):
    got, want, choice = by_name(ops.Cumsum(0), [(4, 30)], "float32", CPU, tmp_path)
    assert choice.origin == "rule"
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_axes_that_are_no_neighbours_are_reduced_by_rule_on_a_cpu(tmp_path):
    got, want, choice = by_name(ops.Sum((0, 2)), [(3, 5, 4)], "float32", CPU, tmp_path)
    assert choice.origin == "rule"
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "int64"])
@pytest.mark.parametrize("along", [0, 1, -1])
def test_sums_along_any_axis_are_called_by_name(along, dtype, tmp_path):
    got, want, choice = by_name(ops.Cumsum(along), [(3, 40, 5)], dtype, EMULATED, tmp_path)
    assert choice.template == "cumsum.cuda"
    np.testing.assert_allclose(got, want, rtol=1e-2 if dtype == "float16" else 1e-5, atol=1e-2)


def test_whole_numbers_are_reduced_by_rule_on_a_cpu(tmp_path):
    got, want, choice = by_name(ops.Argmax((1,)), [(3, 50)], "int32", CPU, tmp_path, most=100)
    assert choice.origin == "rule"
    np.testing.assert_array_equal(got, want)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ROWS)
def test_a_cpu_computes_them_by_templates_of_the_same_names(name, tmp_path):
    op, shapes = ROWS[name]
    got, want, choice = by_name(op, shapes, "float32", CPU, tmp_path)
    assert choice.template == name.split()[0].replace("cuda", "cpu")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_cpu_computes_16_bit_rows_by_rule(tmp_path):
    op, shapes = ROWS["layer_norm.cuda"]
    got, want, choice = by_name(op, shapes, "float16", CPU, tmp_path)
    assert choice.origin == "rule"
    np.testing.assert_allclose(got, want, rtol=1e-2, atol=1e-2)


# ---- elementwise operators


def elementwise_cases(rows, columns):
    """Return an operator with its shapes for each that the template of expressions has."""
    whole = (rows, columns)
    made = {name: (OPERATORS[name](), [whole]) for name in (
        "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "floor", "ceil",
        "abs", "negative", "copy", "nn.relu",
    )}  # fmt: skip
    for name in ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum"):
        made[name] = OPERATORS[name](), [whole, (columns,)]
    return made | {
        "nn.leaky_relu": (ops.LeakyRelu(0.3), [whole]),
        "clip": (ops.Clip(0.5, 1.5), [whole]),
        "clip from below": (ops.Clip(a_min=0.5), [whole]),
        "nn.bias_add": (ops.BiasAdd(0), [whole, (rows,)]),
        "nn.prelu": (ops.Prelu(1), [whole, (columns,)]),
        "where": (ops.Where(), [whole] * 3),
    }


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("rows", [1, 8])
def test_attention_with_a_mask_that_is_an_input_stays_one_operator(rows, dtype):
    shapes = (2, 4, rows, 64), (2, 2, 32, 64), (1, 1, rows, 32)
    types = map(TensorType, shapes, ("float16", "float16", dtype))
    q, k, mask = (Variable(each, f"x{i}") for i, each in enumerate(types))
    graph = Graph.of(apply(ops.Attention(), q, k, k, mask))
    network = compile_network(graph, EMULATED, jobs=2)
    names = [each.function.nodes[-1].op.name for each in network.plan.kernels]
    assert names[-1] == "nn.scaled_dot_product_attention"
    arrays = [drawn(v.shape, v.dtype, seed) for seed, v in enumerate(graph.inputs)]
    (got,) = network.instance()(*arrays)
    want = graph.run(*arrays)[0]
    np.testing.assert_allclose(got.numpy().astype("float64"), want, rtol=2e-2, atol=2e-2)


@pytest.mark.many_cases
@pytest.mark.parametrize(("target", "kind"), [(EMULATED, "cuda"), (CPU, "cpu")])
@pytest.mark.parametrize("name", elementwise_cases(1, 1))
def test_elementwise_operators_are_called_by_name(name, target, kind, tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.templates.layers.elementwise.MANY", 1)
    op, shapes = elementwise_cases(5, 24)[name]
    got, want, choice = by_name(op, shapes, "float32", target, tmp_path)
    assert choice.template == f"elementwise.{kind}"
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_the_template_of_expressions_is_tried_where_a_device_is_filled():
    def offered(op, *shapes, dtype="float32"):
        inputs = [Variable(TensorType(s, dtype), f"x{i}") for i, s in enumerate(shapes)]
        return serves(apply(op, *inputs).node, EMULATED)

    assert offered(ops.Relu(), (256, 512))
    assert not offered(ops.Relu(), (255, 512))
    assert not offered(ops.Relu(), (512, 512), dtype="int32")
    assert not offered(ops.Clip(0.0, 1e39), (512, 512))


# ---- the registry


def function(op, shapes, dtype):
    inputs = [Variable(TensorType(s, dtype), f"x{i}") for i, s in enumerate(shapes)]
    return function_of(Graph.of(apply(op, *inputs)))


TOO_LARGE = {
    "softmax": (ops.Softmax(), [(2**31, 1)], "float16"),
    "log softmax": (ops.LogSoftmax(), [(1, 2**31)], "float16"),
    "layer norm": (ops.LayerNorm(scale=False, center=False), [(2**16, 2**15, 2)], "float16"),
    "group norm": (ops.GroupNorm(1, scale=False, center=False), [(1, 2**20, 2**11)], "float16"),
    "cumsum": (ops.Cumsum(), [(2**31,)], "float16"),
    "sum": (ops.Sum((0,)), [(2**31, 2)], "float16"),
    "pooling": (ops.GlobalAvgPool2d(), [(2**16, 2**15, 2, 2)], "float16"),
    "attention": (ops.Attention(), [(1, 1, 2**30, 8)] * 3, "float16"),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_shapes_beyond_what_kernels_count_are_left_to_others(name):
    op, shapes, dtype = TOO_LARGE[name]
    by_hand = [each.task.name for each in offers_of(function(op, shapes, dtype), EMULATED)]
    assert not any(not each.startswith("te/") for each in by_hand)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (("nn.layer_norm", "cuda", None, "float16"), ["layer_norm.cuda"]),
        (("nn.rms_norm", "cuda"), ["rms_norm.cuda"]),
        (("nn.group_norm", "cuda", None, "bfloat16"), ["group_norm.cuda"]),
        (("nn.instance_norm", "cuda"), ["group_norm.cuda"]),
        (("nn.scaled_dot_product_attention", "cuda", None, "float16"), ["attention.cuda"]),
        (("nn.scaled_dot_product_attention", "cuda", None, "float32"), []),
        (("cumsum", "cuda", None, "float32"), ["cumsum.cuda"]),
        (("cumsum", "cuda", None, "int32"), ["cumsum.cuda"]),
        (("cumsum", "cuda", None, "int8"), []),
        (("nn.softmax", "cuda", None, "float16"), ["softmax.cuda"]),
        (("nn.softmax", "cuda", None, "float32"), ["softmax.cuda", "te/softmax.cuda"]),
        (("nn.global_avg_pool3d", "cuda", "NDHWC"), ["reduce.cuda"]),
        (("add", "cuda"), ["elementwise.cuda"]),
        (("nn.gelu", "cpu", None, "float32"), ["elementwise.cpu"]),
        (("nn.gelu", "cpu", None, "float16"), []),
        (("nn.conv3d", "cuda", "NDHWC"), ["conv3d.cuda", "conv3d_ndhwc.cuda"]),
        (
            ("nn.conv2d_transpose", "cuda"),
            ["conv2d_transpose.cuda", "conv2d_transpose_nchw.cuda"],
        ),
        (("nn.layer_norm", "cpu", None, "float32"), ["layer_norm.cpu"]),
        (("nn.layer_norm", "cpu", None, "float16"), []),
        (("nn.packed_attention", "cpu", None, "float32"), ["attention.cpu"]),
        (("nn.packed_attention", "cpu", None, "float16"), []),
        (("nn.batch_matmul", "cpu", None, "float32"), ["gemm.cpu"]),
    ],
)
def test_the_registry_lists_what_serves_norms_sums_and_attention(query, names):
    assert [entry.template for entry in templates_for(*query)] == names


def test_every_template_of_autotune_can_be_asked_for_by_an_operator():
    named = {
        entry.template for name in OPERATORS for kind in ("cuda", "cpu")
        for entry in templates_for(name, kind)
    }  # fmt: skip
    own = {name for name in TASK_TABLE if name.endswith((".cuda", ".cpu")) and "tests" not in name}
    # What TVM's logs call a template that stands here under its own name, and products of a
    # second operand that no operator has.
    others = {
        "batch_matmul.cuda", "conv2d_nchw_winograd.cuda", "depthwise_conv2d_nchw.cuda",
        "group_conv2d_nchw.cuda", "te/gemm.cuda", "te/gemm.cpu",
        # `templates.operators_narrow`
        "batch_matmul_int8.cuda", "batch_matmul_tensorcore.cuda", "conv2d_NCHWc_int8.cuda",
        "conv2d_nhwc_tensorcore.cuda", "dense_int8.cuda", "dense_tensorcore.cuda",
    }  # fmt: skip
    assert own - named <= others


# ---- networks


def transformer(dtype, heads=2, size=8, rows=5):
    """Return a block of GPT-2: norms before, causal attention, and a product that follows."""
    rng, width = np.random.default_rng(0), heads * size

    def constant(*shape):
        return Constant.of(rng.normal(size=shape, scale=width**-0.5), dtype=dtype)

    def norm(x):
        return apply(ops.LayerNorm(), x, constant(width), constant(width))

    def dense(x, units):
        return apply(
            ops.Add(), apply(ops.Dense(), x, constant(units, x.shape[1])), constant(units)
        )

    def heads_of(x):
        apart = apply(ops.Reshape((1, rows, heads, size)), x)
        return apply(ops.Transpose((0, 2, 1, 3)), apart)

    x = Variable(TensorType((rows, width), dtype), "x")
    q, k, v = (heads_of(dense(norm(x), width)) for _ in range(3))
    seen = apply(ops.Attention(causal=True), q, k, v)
    back = apply(ops.Reshape((rows, width)), apply(ops.Transpose((0, 2, 1, 3)), seen))
    x = apply(ops.Add(), x, dense(back, width))
    return Graph.of(apply(ops.RmsNorm(scale=False), dense(norm(x), 3)))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_transformer_runs_by_these_templates_where_they_fit(dtype):
    graph = transformer(dtype)
    network = compile_network(graph, EMULATED, jobs=2)
    names = [u.choice.workload.name for u in network.plan.kernels if u.choice.kind == "template"]
    assert ("attention.cuda" in names) == (dtype == "float16")
    assert ("softmax.cuda" in names) == (dtype == "float32")
    assert {"layer_norm.cuda", "rms_norm.cuda"} <= {*names}
    array = np.random.default_rng(1).normal(size=graph.inputs[0].shape).astype(dtype)
    (got,), (want,) = network.instance()(array), graph.run(array)
    np.testing.assert_allclose(got.numpy(), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_norms_attention_and_layers_of_known_weights_are_templates_on_a_cpu():
    graph = transformer("float32")
    network = compile_network(graph, CPU, jobs=2)
    templates = [u.choice.workload.name for u in network.plan.kernels if u.choice != RULE]
    assert {*templates} == {"layer_norm.cpu", "rms_norm.cpu", "attention.cpu", "gemm_packed.cpu"}
    array = np.random.default_rng(1).normal(size=graph.inputs[0].shape).astype("float32")
    (got,), (want,) = network.instance()(array), graph.run(array)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)


def test_without_passes_of_its_level_norms_stay_arithmetic():
    network = compile_network(transformer("float32"), EMULATED, opt_level=2, jobs=2)
    assert not any("layer_norm" in unit.function.name for unit in network.plan.kernels)
    assert RULE.kind in {unit.choice.kind for unit in network.plan.kernels}
