"""Convolutions of volumes and transposed ones as convolutions of images."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.passes import OWN, to_conv2d
from autotune.network import compile_network

RNG = np.random.default_rng(0)


def constant(*shape):
    return Constant.of(RNG.normal(size=shape).astype("float32"))


def data(*shape):
    return Variable(TensorType(shape), "data")


def rewritten(*outputs):
    """Returns the graph after the pass, which computes the same."""
    graph = Graph.of(*outputs)
    after = to_conv2d(graph)
    arrays = [RNG.normal(size=v.shape) for v in graph.inputs]
    for a, b in zip(graph.run(*arrays), after.run(*arrays), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)
    return after


def names(graph):
    return [node.op.name for node in graph.nodes]


pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=80, deadline=None)
@given(st.tuples(st.integers(1, 5), st.integers(1, 5)), pairs, pairs, st.data())
def test_transposed_convolutions_spread_nothing(taps, strides, extents, draw):
    cut = [draw.draw(st.integers(0, min(k + 1, n * s + k - s - 1)), "cut") for k, s, n in zip(
        (*taps, *taps), (*strides, *strides), (*extents, *extents), strict=True)]  # fmt: skip
    more = tuple([draw.draw(st.integers(0, s - 1), "more") for s in strides])
    op = ops.Conv2dTranspose(strides=strides, padding=tuple(cut), output_padding=more)
    spread = [
        (n - 1) * s + k - before - after + extra
        for n, s, k, before, after, extra in zip(
            extents, strides, taps, cut[:2], cut[2:], more, strict=True
        )
    ]
    if min(spread) < 1:
        return
    after = rewritten(apply(op, data(2, 3, *extents), constant(3, 4, *taps)))
    # Where more is cut off than a filter reaches beyond the data, the layer stays.
    reaches = all(c < k for c, k in zip(cut[:2], taps, strict=True))
    if reaches and not any(cut[2:]):
        assert "nn.conv2d_transpose" not in names(after)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(["NCDHW", "NDHWC"]), st.data())
def test_volumes_are_convolved_as_planes(layout, draw):
    def three(most, least=1):
        return tuple([draw.draw(st.integers(least, most)) for _ in range(3)])

    taps, holes, sides = three(3), three(2), (*three(2, 0), *three(2, 0))
    extents = [(k - 1) * hole + 1 + n for k, hole, n in zip(taps, holes, three(3, 0), strict=True)]
    groups = draw.draw(st.sampled_from([1, 2])) if layout == "NCDHW" else 1
    images = (2, 4, *extents) if layout == "NCDHW" else (2, *extents, 4)
    filters = (6, 4 // groups, *taps) if layout == "NCDHW" else (*taps, 4, 6)
    kernel_layout = "OIDHW" if layout == "NCDHW" else "DHWIO"
    op = ops.Conv3d(three(2), sides, holes, groups, layout, kernel_layout)
    after = rewritten(apply(op, data(*images), constant(*filters)))
    assert "nn.conv2d" in names(after)
    assert "nn.conv3d" not in names(after)


def test_a_bias_for_each_channel_and_an_activation_are_applied_before_the_pixel_shuffle():
    x = apply(ops.Conv2dTranspose((2,), (1,)), data(1, 3, 4, 5), constant(3, 2, 4, 4))
    for op, other in ((ops.Multiply(), (2, 1, 1)), (ops.Add(), (1, 2, 1, 1)), (ops.Add(), ())):
        x = apply(op, x, constant(*other))
    after = rewritten(apply(ops.Relu(), x))
    assert names(after)[:5] == ["nn.conv2d", "multiply", "add", "add", "nn.relu"]
    assert names(after)[5:] == ["reshape", "transpose", "reshape"]


def test_numbers_for_rows_are_added_to_shuffled_images():
    x = apply(ops.Conv2dTranspose((2,), (1,)), data(1, 3, 4, 5), constant(3, 2, 4, 4))
    after = rewritten(apply(ops.Add(), x, constant(8, 1)))
    assert names(after)[-1] == "add"


def test_sums_of_two_volumes_stay_planes_and_pooling_gets_volumes():
    x = data(1, 2, 3, 4, 5)
    made = [apply(ops.Conv3d(padding=(1,)), x, constant(4, 2, 3, 3, 3)) for _ in range(2)]
    biased = apply(ops.Add(), apply(ops.Add(), *made), constant(4, 1, 1, 1))
    after = rewritten(apply(ops.GlobalAvgPool3d(), biased))
    found = names(after)
    assert found[-4:] == ["add", "reshape", "transpose", "nn.global_avg_pool3d"]


@pytest.mark.parametrize(
    ("taps", "steps"), [((1, 1, 1), (1,)), ((1, 1, 3), (1, 1, 2)), ((3, 1, 1), (2, 1, 1))]
)
@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
def test_filters_of_one_element_of_two_axes_convolve_volumes_where_they_lie(taps, steps, layout):
    first, sides = layout == "NCDHW", tuple([n // 2 for n in taps])
    op = ops.Conv3d(steps, sides, (1,), 1, layout, "OIDHW" if first else "DHWIO")
    images = data(2, 3, 4, 5, 6) if first else data(2, 4, 5, 6, 3)
    after = rewritten(apply(op, images, constant(7, 3, *taps) if first else constant(*taps, 3, 7)))
    assert names(after) == ["reshape", "nn.conv2d", "reshape"]


def test_layers_whose_weights_are_not_known_stay():
    weights = Variable(TensorType((3, 2, 4, 4)), "weights")
    after = rewritten(apply(ops.Conv2dTranspose((2,), (1,)), data(1, 3, 4, 5), weights))
    assert names(after) == ["nn.conv2d_transpose"]


@pytest.mark.parametrize("target", ["c", "cuda -emulate"])
def test_a_network_that_samples_down_and_up_again_is_right(target):
    x = data(1, 3, 8, 8)
    y = apply(ops.Relu(), apply(ops.Conv2d(strides=(2,), padding=(1,)), x, constant(8, 3, 3, 3)))
    y = apply(ops.Conv2dTranspose((2,), (1,), (1,)), y, constant(8, 4, 3, 3))
    y = apply(ops.Relu(), apply(ops.Add(), y, constant(4, 1, 1)))
    graph = Graph.of(apply(ops.Conv2d(), y, constant(2, 4, 1, 1)))
    array = RNG.normal(size=x.shape).astype("float32")
    (want,) = graph.run(array)
    for passes in (OWN, dataclasses.replace(OWN, composes=False)):
        (found,) = compile_network(graph, target, passes).instance()(array)
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-4)
