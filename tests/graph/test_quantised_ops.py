"""Operators on 8-bit integers: what kernels by rule compute is what numpy says."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.graph import Graph, TensorType, Variable, apply, ops
from autotune.network import compile_network

RNG = np.random.default_rng(0)


def drawn(shape, dtype):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def computed(op, *arrays):
    """Return what the kernel by rule makes of arrays, and what the reference does."""
    inputs = [
        Variable(TensorType(each.shape, str(each.dtype)), f"x{i}") for i, each in enumerate(arrays)
    ]
    graph = Graph.of(apply(op, *inputs))
    (made,) = compile_network(graph, "c").instance()(*arrays)
    return made.numpy(), op.reference(*arrays)


@pytest.mark.parametrize(
    ("zeros", "out", "limits"),
    [
        ((-128, 127), ("int8", -128), (-np.inf, np.inf)),
        ((0, 255), ("uint8", 255), (-np.inf, np.inf)),
        ((3, 200), ("uint8", 0), (0.0, 60.0)),
        ((5, 5), ("float32", 0), (0.0, np.inf)),
    ],
)
def test_sums_of_two_scales_are_rounded_once(zeros, out, limits):
    kinds = ["int8" if zero < 0 or zeros[0] < 0 else "uint8" for zero in zeros]
    op = ops.QuantisedAdd(
        low=limits[0], high=limits[1], out_dtype=out[0], out_zero=out[1], scales=(0.37, 1.21),
        zeros=zeros,
    )  # fmt: skip
    got, want = computed(op, *(drawn((2, 3, 5, 7), kind) for kind in kinds))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_averages_are_sums_of_integers_that_are_scaled_once(layout):
    for dtype, zero, out_zero in (("int8", -128, 127), ("uint8", 255, 0)):
        op = ops.QuantisedGlobalAvgPool2d(
            zero=zero, scale=2.3, layout=layout, out_dtype=dtype, out_zero=out_zero
        )
        got, want = computed(op, drawn((2, 6, 7, 5), dtype))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_convolutions_of_either_layout_give_the_same_integers(groups):
    data, weight = drawn((2, 6, 7, 8), "uint8"), drawn((6, 6 // groups, 3, 2), "int8")
    sums = weight.reshape(6, -1).sum(1, dtype="int32")
    scale, shift = np.full(6, 0.003, "float32"), RNG.normal(0, 9, 6).astype("float32")
    op = ops.QuantisedConv2d(
        zero=201,
        strides=(2, 1),
        padding=(1, 0, 2, 1),
        groups=groups,
        out_dtype="int8",
        out_zero=-5,
    )
    _, want = computed(op, data, weight, sums, scale, shift)
    last = ops.QuantisedConv2d(**{**vars(op), "data_layout": "NHWC"})
    moved = [np.ascontiguousarray(each.transpose(0, 2, 3, 1)) for each in (data, weight)]
    got, _ = computed(last, *moved, sums, scale, shift)
    np.testing.assert_array_equal(got, want.transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("op", "types", "message"),
    [
        (ops.QuantisedAdd(), ["int8[2, 3]", "int8[3, 2]"], "rhs must be of the shape"),
        (ops.QuantisedAdd(), ["int32[2, 3]", "int8[2, 3]"], "lhs must be int8 or uint8"),
        (ops.QuantisedAdd(out_dtype="int32"), ["int8[2]", "int8[2]"], "out_dtype must be one of"),
        (ops.QuantisedGlobalAvgPool2d(), ["int8[2, 3]"], "data must be of 4 dimensions"),
        (ops.QuantisedConv2d(data_layout="CHWN"), ["int8[1, 2, 3, 3]"] * 5, "data_layout must be"),
    ],
)
def test_what_does_not_fit_is_refused(op, types, message):
    inputs = []
    for text in types:
        dtype, shape = text[:-1].split("[")
        kind = TensorType(tuple(map(int, shape.split(", "))), dtype)
        inputs.append(Variable(kind, f"x{len(inputs)}"))
    with pytest.raises(GraphError, match=message):
        apply(op, *inputs)
