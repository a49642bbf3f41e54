"""Workload keys: those in logs that TVM's auto-scheduler wrote for ResNet-18 are found again."""

import json

import pytest

from autotune import te
from autotune.ir import Not, TruncMod, const
from autotune.te import workload_key, workload_text


def convolution(size, inputs, outputs, stride, kernel=1, epilogue=False):
    """A convolution in NHWC layout with the names that TVM's topi gives."""
    edge = kernel // 2
    p0 = te.placeholder((1, size, size, inputs), name="p0")

    def pad(*i):
        if not edge:
            return p0(*i)
        inside = te.all(i[1] >= edge, i[1] < size + edge, i[2] >= edge, i[2] < size + edge)
        return te.if_then_else(inside, p0[i[0], i[1] - edge, i[2] - edge, i[3]], 0.0)

    wide = size + 2 * edge
    padded = te.compute((1, wide, wide, inputs), pad, name="pad_temp")
    p1 = te.placeholder((kernel, kernel, inputs, outputs), name="p1")
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")
    rc = te.reduce_axis((0, inputs), "rc")

    def convolve(nn, yy, xx, ff):
        value = padded[nn, yy * stride + ry, xx * stride + rx, rc] * p1[ry, rx, rc, ff]
        return te.sum(value, axis=[ry, rx, rc])

    out = (size - 1) // stride + 1
    conv = te.compute((1, out, out, outputs), convolve, name="conv2d_nhwc")
    if not epilogue:
        return [p0, p1, conv]
    p2 = te.placeholder((1, 1, 1, outputs), name="p2")
    total = conv + p2
    relu = te.compute(
        total.shape, lambda ax0, ax1, ax2, ax3: te.max(total(ax0, ax1, ax2, ax3), 0.0), "T_relu"
    )
    return [p0, p1, p2, relu]


def softmax(n):
    p0 = te.placeholder((1, n), name="p0")
    k = te.reduce_axis((0, n), "k")
    largest = te.compute((1,), lambda i0: te.max(p0[i0, k], axis=k), "T_softmax_maxelem")
    exp = te.compute((1, n), lambda i0, i1: te.exp(p0[i0, i1] - largest[i0]), "T_softmax_exp")
    total = te.compute((1,), lambda i0: te.sum(exp[i0, k], axis=k), "T_softmax_expsum")
    return [p0, te.compute((1, n), lambda i0, i1: exp[i0, i1] / total[i0], "T_softmax_norm")]


@pytest.mark.parametrize(
    ("tensors", "digest", "shapes"),
    [
        (
            convolution(56, 64, 64, 1),
            "2d10de6646307f0e3e5cf4b31c20e69b",
            [[1, 56, 56, 64], [1, 1, 64, 64], [1, 56, 56, 64]],
        ),
        (
            convolution(14, 256, 512, 2),
            "0fad1b42d0d33418e0a8d15d3bbad3c9",
            [[1, 14, 14, 256], [1, 1, 256, 512], [1, 7, 7, 512]],
        ),
        (
            convolution(56, 64, 128, 2, kernel=3, epilogue=True),
            "07f9fcad27bdd3233f86fe35a5185d33",
            [[1, 56, 56, 64], [3, 3, 64, 128], [1, 1, 1, 128], [1, 28, 28, 128]],
        ),
        (softmax(1000), "7d79c516e212fe1d73f5dbb90eaca2cf", [[1, 1000], [1, 1000]]),
    ],
    ids=["conv1x1", "conv1x1_strided", "conv3x3_bias_relu", "softmax"],
)
def test_the_key_is_the_one_in_the_logs(tensors, digest, shapes):
    # Source of the digests: records of ResNet-18 NHWC, batch 1, by TVM's auto-scheduler tutorial.
    assert json.loads(workload_key(tensors)) == [digest, *shapes]


def test_the_key_does_not_depend_on_the_order_of_the_tensors():
    tensors = convolution(14, 8, 8, 1, kernel=3, epilogue=True)
    assert workload_key(tensors) == workload_key(tensors[::-1])


def test_the_text_of_a_softmax():
    assert workload_text(softmax(10)) == (
        "p0 = PLACEHOLDER [1, 10]\n"
        "T_softmax_maxelem(i0) max= p0[i0, k]\n"
        "T_softmax_exp(i0, i1) = tir.exp((p0[i0, i1] - T_softmax_maxelem[i0]))\n"
        "T_softmax_expsum(i0) += T_softmax_exp[i0, k]\n"
        "T_softmax_norm(i0, i1) = (T_softmax_exp[i0, i1]/T_softmax_expsum[i0])\n"
    )


def test_the_simple_text_leaves_out_shapes_and_the_arguments_of_a_call():
    first, _, third, *_ = workload_text(softmax(10), simple=True).splitlines()
    assert first == "p0 = PLACEHOLDER "
    assert third == "T_softmax_exp(i0, i1) = Op(tir.exp)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lambda x, i: te.Select(i // 2 == 1, x, 0.5), "select((floordiv(i, 2) == 1), T[i], 0.5f)"),
        (lambda x, i: TruncMod(i, const(3)), "(i % 3)"),
        (lambda x, i: te.min(i % 4, 3), "min(floormod(i, 4), 3)"),
        (lambda x, i: x.astype("float16") + 1e-5, "(float16(T[i]) + 1e-05h)"),
        (lambda x, i: te.any(Not(i < 3), i > 5), "(!(i < 3) || (i > 5))"),
        (lambda x, i: te.const(1, "int64"), "(int64)1"),
        (lambda x, i: te.const(1.5, "float64"), "1.5"),
    ],
)
def test_the_text_of_a_value(value, text):
    t = te.placeholder((8,), name="T")
    b = te.compute((8,), lambda i: value(t[i], i), name="B")
    assert workload_text([b]).splitlines()[-1] == f"B(i) = {text}"


def test_a_custom_reduction_prints_its_combiner_alone():
    t = te.placeholder((8, 4), name="T")
    k = te.reduce_axis((0, 4), "k")
    product = te.comm_reducer(lambda x, y: x * y, lambda d: te.const(1, d))
    b = te.compute((8,), lambda i: product(t[i, k], axis=k), "B")
    assert workload_text([b]).splitlines()[-1] == "B(i)reduce(x*y)"


def test_an_argmax_prints_its_choice_and_its_sources():
    index = te.placeholder((8, 4), name="I", dtype="int32")
    value = te.placeholder((8, 4), name="V")
    k = te.reduce_axis((0, 4), "k")

    def choose(lhs, rhs):
        larger = lhs[1] >= rhs[1]
        return te.Select(larger, lhs[0], rhs[0]), te.Select(larger, lhs[1], rhs[1])

    argmax = te.comm_reducer(choose, lambda t0, t1: (te.const(-1, t0), te.min_value(t1)))
    both = te.compute((8,), lambda i: argmax((index[i, k], value[i, k]), axis=k), "T")
    assert workload_text(both).splitlines()[-2:] == [
        "T(i).v0 select((lhs_1 >= rhs_1), lhs_0, rhs_0)= (I[i, k],V[i, k])",
        "T(i).v1 select((lhs_1 >= rhs_1), lhs_1, rhs_1)= (I[i, k],V[i, k])",
    ]
