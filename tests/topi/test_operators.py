"""Elementwise, broadcasting, reducing and moving operators compute what numpy computes."""

import json

import numpy as np
import pytest
from scipy import special

from autotune import te, topi
from autotune.driver import build
from autotune.errors import ExpressionError
from tests.topi.evaluate import evaluate

RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 0.9, (3, 4)).astype(np.float32)


def run(operator, *arrays):
    tensors = [te.placeholder(a.shape, str(a.dtype), f"p{i}") for i, a in enumerate(arrays)]
    return evaluate(operator(*tensors), zip(tensors, arrays, strict=True))


UNARY = (
    "exp log log2 log10 sqrt rsqrt tanh sigmoid sin cos tan sinh cosh asin acos atan asinh acosh "
    "atanh erf floor ceil trunc round abs isnan isinf isfinite negative identity sign"
)
BINARY = (
    "add subtract multiply divide maximum minimum power equal not_equal less less_equal greater "
    "greater_equal"
)
ELEMENTWISE = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sigmoid": special.expit,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": special.erf, "rsqrt": lambda x: 1 / np.sqrt(x), "identity": lambda x: x,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY.split())
def test_elementwise(name):
    values = X if name in ("log", "log2", "log10", "sqrt", "rsqrt") else X * 4 - 2
    if name in ("asin", "acos", "atanh"):
        values = X
    if name == "acosh":
        values = X + 1
    reference = ELEMENTWISE.get(name) or getattr(np, name)
    got = run(getattr(topi, name), values)
    np.testing.assert_allclose(got, reference(values), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", BINARY.split())
def test_broadcast(name):
    other = RNG.uniform(0.1, 0.9, (2, 1, 4)).astype(np.float32)
    got = run(getattr(topi, name), X, other)
    wanted = getattr(np, name)(X, other)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert got.dtype == wanted.dtype
    scalar = run(lambda x: getattr(topi, name)(x, 0.5), X)
    np.testing.assert_allclose(scalar, getattr(np, name)(X, np.float32(0.5)), rtol=1e-5)


def test_operators_on_integers():
    a, b = np.arange(-6, 6, dtype=np.int32), np.full(12, 4, np.int32)
    np.testing.assert_array_equal(run(topi.floor_divide, a, b), a // b)
    np.testing.assert_array_equal(run(topi.floor_mod, a, b), a % b)
    np.testing.assert_array_equal(run(topi.mod, a, b), np.fmod(a, b))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"):
        np.testing.assert_array_equal(run(getattr(topi, name), a, b), getattr(np, name)(a, b))
    np.testing.assert_array_equal(run(topi.bitwise_not, a), ~a)


# TVM defines topi.mod as truncmod, C's remainder, and topi.floor_mod as floormod.
@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("operator", "reference"), [(topi.mod, np.fmod), (topi.floor_mod, np.mod)]
)
@pytest.mark.parametrize("target", ["c", "cuda -emulate"])
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "float32"])
def test_mod_is_tvms_remainder_towards_zero_and_floor_mod_is_numpys(
    operator, reference, target, dtype
):
    lhs, rhs = np.meshgrid(np.arange(-7, 8), [-3, -1, 1, 2, 4])
    if dtype == "uint8":
        lhs, rhs = abs(lhs), abs(rhs)
    a, b = lhs.astype(dtype), rhs.astype(dtype)
    tensors = [te.placeholder(a.shape, dtype, name) for name in "ab"]
    result = operator(*tensors)
    schedule = te.create_schedule(result.op)
    if "cuda" in target:
        fused = schedule[result].fuse(*result.op.axis)
        schedule[result].bind(fused, te.thread_axis("threadIdx.x"))
    out = np.empty_like(a)
    build(schedule, [*tensors, result], target)(a, b, out)
    np.testing.assert_array_equal(out, reference(a, b))
    np.testing.assert_array_equal(run(lambda x: operator(x, 3), a), reference(a, a.dtype.type(3)))


def test_logic():
    a, b = X > 0.5, X > 0.3
    np.testing.assert_array_equal(run(topi.logical_and, a, b), a & b)
    np.testing.assert_array_equal(run(topi.logical_or, a, b), a | b)
    np.testing.assert_array_equal(run(topi.logical_xor, a, b[:1]), a ^ b[:1])
    np.testing.assert_array_equal(run(topi.logical_not, a), ~a)
    np.testing.assert_array_equal(run(lambda x: topi.any(x, 1), a), a.any(1))
    np.testing.assert_array_equal(run(lambda x: topi.all(x, 0, True), b), b.all(0, keepdims=True))


def test_values_and_casts():
    np.testing.assert_array_equal(run(lambda x: topi.clip(x, 0.3, 0.6), X), X.clip(0.3, 0.6))
    assert run(lambda x: topi.cast(x, "float64"), X).dtype == np.float64
    np.testing.assert_array_equal(run(lambda x: topi.full_like(x, 2.0), X), np.full((3, 4), 2.0))
    np.testing.assert_allclose(run(lambda x, y: topi.elemwise_sum([x, y, x]), X, X), 3 * X)
    np.testing.assert_array_equal(
        run(lambda x: topi.broadcast_to(x, (2, 3, 4)), X), np.broadcast_to(X, (2, 3, 4))
    )
    got = run(topi.where, (X > 0.5), X, -X)
    np.testing.assert_array_equal(got, np.where(X > 0.5, X, -X))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean"])
def test_reductions(name, axis, keepdims):
    values = RNG.uniform(0.5, 1.5, (2, 3, 4)).astype(np.float32)
    got = run(lambda x: getattr(topi, name)(x, axis, keepdims), values)
    wanted = getattr(np, name)(values, axis=axis, keepdims=keepdims)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_index_of_an_extreme_is_the_first(name, axis):
    values = RNG.integers(0, 3, (4, 5)).astype(np.float32)
    got = run(lambda x: getattr(topi, name)(x, axis), values)
    np.testing.assert_array_equal(got, getattr(np, name)(values, axis=axis))
    assert got.dtype == np.int32


def test_transforms():
    v = RNG.standard_normal((2, 1, 3, 4)).astype(np.float32)
    same = np.testing.assert_array_equal
    same(run(topi.transpose, v), v.T)
    same(run(lambda x: topi.transpose(x, (0, 3, 1, -2)), v), v.transpose(0, 3, 1, 2))
    same(run(lambda x: topi.reshape(x, (4, -1)), v), v.reshape(4, 6))
    same(run(lambda x: topi.reshape(x, (3, 2, 4)), v), v.reshape(3, 2, 4))
    same(run(lambda x: topi.expand_dims(x, 1, 2), X), X[:, None, None])
    same(run(lambda x: topi.expand_dims(x, -1), X), X[..., None])
    same(run(topi.squeeze, v), v.squeeze())
    same(run(lambda x: topi.squeeze(x, 1), v), v.squeeze(1))
    same(run(lambda x: topi.flip(x, 1), X), X[:, ::-1])
    same(run(lambda x, y: topi.concatenate([x, y, x], -1), X, X + 1), np.hstack([X, X + 1, X]))
    same(run(lambda x: topi.strided_slice(x, [0, 1], [3, 4], [2, 1]), X), X[0:3:2, 1:4])
    same(run(lambda x: topi.strided_slice(x, [2, 3], [0, 0], [-1, -2]), X), X[2:0:-1, 3:0:-2])


def test_copies_and_parts():
    same = np.testing.assert_array_equal
    for reps in (2, [3, 1], [2, 1, 3]):
        same(run(lambda x, reps=reps: topi.tile(x, reps), X), np.tile(X, reps))
    same(run(lambda x: topi.repeat(x, 3, -1), X), np.repeat(X, 3, 1))
    same(run(lambda x, y: topi.stack([x, y, x], -1), X, -X), np.stack([X, -X, X], -1))
    for at in (2, [1, 3]):
        for i, wanted in enumerate(np.split(X, at, 1)):
            same(run(lambda x, at=at, i=i: topi.split(x, at, 1)[i], X), wanted)


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_elements_are_taken_by_indices(mode):
    indices = np.array([[0, 2], [7, -1]], np.int32)
    for axis in (0, 1, None):
        got = run(lambda x, i, axis=axis: topi.take(x, i, axis, mode=mode), X, indices)
        np.testing.assert_array_equal(got, np.take(X, indices, axis, mode=mode))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: topi.split(x, 3, 1), "indices_or_sections must be a number that divides 4"),
        (lambda x: topi.split(x, [3, 2], 1), "indices_or_sections must be ascending"),
        (lambda x: topi.tile(x, 0), r"reps\[0\] must be a whole number of at least 1"),
        (lambda x: topi.stack([x, topi.transpose(x)]), r"tensors\[1\] must be a tensor of shape"),
        (lambda x: topi.take(x, x), "indices must be a tensor of whole numbers"),
        (lambda x: topi.any(x), "data must be a tensor of bools"),
        (lambda x: topi.transpose(x, (0, 0)), "axes must be different"),
        (lambda x: topi.reshape(x, (5, -1)), "newshape must be extents of 12 elements"),
        (lambda x: topi.squeeze(x, 0), "axis must be axes of extent 1"),
        (lambda x: topi.concatenate([x, topi.transpose(x)], 0), r"a_tuple\[1\] must be"),
        (lambda x: topi.broadcast_to(x, (4, 3)), "shape must be one that"),
        (lambda x: topi.sum(x, axis=2), "axis must be a whole number from -2 to 1, got 2"),
        (lambda x: topi.sum(x, axis=(0, -2)), "given twice"),
    ],
)
def test_arguments_that_cannot_be_are_named(make, message):
    with pytest.raises(ExpressionError, match=message):
        make(te.placeholder((3, 4), name="x"))


def test_names_and_tags_are_those_that_records_were_hashed_by():
    data = te.placeholder((1, 4, 7, 7), name="data")
    weight = te.placeholder((8, 4, 3, 3), name="kernel")
    conv = topi.nn.conv2d_nchw(data, weight, 1, 1)
    pad = conv.op.input_tensors[0]
    assert (pad.name, pad.op.tag) == ("pad_temp", "injective,pad")
    assert (conv.name, conv.op.tag) == ("compute", "conv2d_nchw")
    assert [a.var.name for a in conv.op.axis] == ["nn", "ff", "yy", "xx"]
    assert [a.var.name for a in conv.op.reduce_axis] == ["rc", "ry", "rx"]
    total = conv + te.placeholder((1, 8, 1, 1), name="bias")
    assert (total.name, [a.var.name for a in total.op.axis]) == (
        "T_add",
        ["ax0", "ax1", "ax2", "ax3"],
    )
    assert topi.tag.is_broadcast(total.op.tag)
    out = topi.nn.softmax(te.placeholder((2, 3)))
    names = [t.name for t in out.op.input_tensors]
    assert names == ["T_softmax_exp", "T_softmax_expsum"]
    assert (out.name, out.op.tag, out.op.attrs["axis"]) == ("T_softmax_norm", "softmax_output", 1)


def test_constants_of_shapes():
    from autotune.topi import utils

    assert utils.get_const_tuple((1, te.const(2, "int32"), 3)) == (1, 2, 3)
    assert utils.get_const_int(te.const(5, "int32")) == 5
    assert utils.get_const_float(te.const(0.5, "float32")) == 0.5
    assert utils.equal_const_int(te.const(5, "int32"), 5)
    with pytest.raises(ExpressionError, match="expected a constant integer"):
        utils.get_const_int(te.var("n"))


def test_traverse_inline_inlines_what_is_injective_and_visits_inputs_first():
    x = te.placeholder((4, 4), name="x")
    a = topi.exp(x)
    b = topi.sum(a, axis=1)
    c = topi.nn.relu(b)
    s = te.create_schedule([c.op])
    visited = []
    topi.utils.traverse_inline(s, c.op, visited.append)
    assert visited == [x.op, a.op, b.op, c.op]
    assert s[a].attach_type == "inline"
    assert s[b].attach_type == s[c].attach_type == "root"


def conv_nhwc(size, ci, co, stride):
    x, w = (
        te.placeholder((1, size, size, ci), name="p0"),
        te.placeholder((1, 1, ci, co), name="p1"),
    )
    return [x, w, topi.nn.conv2d_nhwc(x, w, stride, 0)]


def biased_conv(size, ci, co):
    x, w = (
        te.placeholder((1, size, size, ci), name="p0"),
        te.placeholder((3, 3, ci, co), name="p1"),
    )
    bias = te.placeholder((1, 1, 1, co), name="p2")
    total = topi.nn.conv2d_nhwc(x, w, 2, 1) + bias
    # Networks come with a relu of this name; that of `topi.nn` is called "compute".
    relu = te.compute(
        total.shape, lambda ax0, ax1, ax2, ax3: te.max(total[ax0, ax1, ax2, ax3], 0.0), "T_relu"
    )
    return [x, w, bias, relu]


def softmax():
    x = te.placeholder((1, 1000), name="p0")
    return [x, topi.nn.softmax(x)]


def dense():
    x, w = te.placeholder((1, 512), name="p0"), te.placeholder((1000, 512), name="p1")
    bias = te.placeholder((1, 1000), name="p2")
    return [x, w, bias, topi.nn.dense(x, w) + bias]


def average_pool():
    x = te.placeholder((1, 7, 7, 512), name="p0")
    return [x, topi.nn.global_pool(x, "avg", "NHWC")]


# Source: records of ResNet-18 in layout NHWC at batch 1, of TVM's auto-scheduler tutorial.
@pytest.mark.parametrize(
    ("tensors", "digest"),
    [
        (conv_nhwc(56, 64, 64, 1), "2d10de6646307f0e3e5cf4b31c20e69b"),
        (conv_nhwc(14, 256, 512, 2), "0fad1b42d0d33418e0a8d15d3bbad3c9"),
        (biased_conv(56, 64, 128), "07f9fcad27bdd3233f86fe35a5185d33"),
        (softmax(), "7d79c516e212fe1d73f5dbb90eaca2cf"),
        (dense(), "00a059b856ac30ac172b6252254479a6"),
        (average_pool(), "8c53ca2904398da2889aa7508082d7bb"),
    ],
    ids=["conv", "strided", "conv_bias_relu", "softmax", "dense", "average_pool"],
)
def test_operators_hash_as_in_recorded_logs(tensors, digest):
    assert json.loads(te.workload_key(tensors))[0] == digest
