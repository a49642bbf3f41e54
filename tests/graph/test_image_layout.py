"""Images in another layout: what is transposed, what is not."""

import numpy as np
import pytest

from autotune.graph import Constant, Graph, TensorType, Variable, apply, graph_text, ops, passes
from autotune.graph.fuse import partition
from autotune.graph.passes import channels_first, channels_last
from tests.graph.networks import bound

RNG = np.random.default_rng(0)


def constant(*shape):
    return Constant.of(RNG.normal(size=shape).astype("float32"))


def image(*shape, dtype="float32"):
    return Variable(TensorType(shape, dtype), "data")


def conv(x, filters=6, **kwargs):
    op = ops.Conv2d(padding=(1,), data_layout="NHWC", kernel_layout="HWIO", **kwargs)
    return apply(op, x, constant(3, 3, x.shape[3], filters))


def rewritten(*outputs):
    """Returns the graph after the pass, which computes the same."""
    graph = Graph.of(*outputs)
    after = passes.fold_constant(channels_first(graph))
    arrays = [RNG.normal(size=v.shape) for v in graph.inputs]
    for a, b in zip(graph.run(*arrays), after.run(*arrays), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)
    return after


def names(graph):
    return [node.op.name for node in graph.nodes]


def test_a_chain_is_transposed_once_at_each_end():
    x = conv(image(1, 5, 6, 4))
    x = apply(ops.Relu(), apply(ops.Add(), x, constant(6)))
    x = apply(ops.Multiply(), conv(x), constant(5, 1, 1))  # a number a row
    after = rewritten(apply(ops.Add(), x, Constant.of(np.float32(2))))
    assert names(after) == [
        "transpose", "nn.conv2d", "add", "nn.relu", "nn.conv2d", "multiply", "add", "transpose",
    ]  # fmt: skip
    assert "data_layout='NHWC'" not in graph_text(after)


def test_branches_are_joined_along_the_channels_and_residuals_stay_transposed():
    first = apply(ops.MaxPool2d(pool_size=(3,), padding=(1,), layout="NHWC"), image(1, 5, 6, 4))
    both = apply(ops.Concatenate(3), conv(first, 4), apply(ops.Add(), first, conv(first, 4)))
    after = rewritten(apply(ops.GlobalAvgPool2d(layout="NHWC"), both))
    assert names(after).count("transpose") == 1
    # What has one pixel lies in memory alike in both orders.
    assert names(after)[-1] == "reshape"


def test_who_knows_the_order_of_axes_gets_the_old_one():
    x = apply(ops.BatchFlatten(), conv(image(1, 5, 6, 4)))
    softmax = apply(ops.Softmax(3), conv(image(1, 5, 6, 4)))
    for out, last in ((x, "nn.batch_flatten"), (softmax, "nn.softmax")):
        assert names(rewritten(out)) == ["transpose", "nn.conv2d", "transpose", last]


def test_a_gate_for_each_channel_and_an_image_that_comes_from_elsewhere_are_transposed_too():
    x = conv(image(1, 5, 6, 8))
    gate = Variable(TensorType((1, 1, 1, 6)), "gate")
    after = rewritten(apply(ops.Multiply(), apply(ops.Add(), x, image(1, 5, 6, 6)), gate))
    assert names(after).count("transpose") == 3  # data, the other image, and back
    row = Variable(TensorType((6,)), "row")
    assert names(rewritten(apply(ops.Add(), conv(image(1, 5, 6, 4)), row)))[-2:] == [
        "transpose", "add",
    ]  # fmt: skip


def test_depthwise_filters_keep_their_channels():
    op = ops.Conv2d(groups=4, data_layout="NHWC", kernel_layout="HWOI", padding=(1,))
    after = rewritten(conv(apply(op, image(2, 5, 6, 4), constant(3, 3, 4, 1))))
    shapes = [each.inputs[1].shape for each in after.nodes if each.op.name == "nn.conv2d"]
    assert shapes == [(4, 1, 3, 3), (6, 4, 3, 3)]
    # By itself it computes little.
    alone = Graph.of(apply(op, image(2, 5, 6, 4), constant(3, 3, 4, 1)))
    assert channels_first(alone) is alone


@pytest.mark.parametrize("why", ["channels first", "weights unknown", "16 bits", "pools only"])
def test_what_has_nothing_to_gain_stays_the_same_graph(why):
    data = image(1, 5, 6, 4, dtype="float16" if why == "16 bits" else "float32")
    weight = Variable(TensorType((3, 3, 4, 6), data.dtype), "weight")
    out = {
        "channels first": lambda: apply(ops.Conv2d(), data, constant(2, 5, 3, 3)),
        "weights unknown": lambda: apply(
            ops.Conv2d(data_layout="NHWC", kernel_layout="HWIO"), data, weight
        ),
        "16 bits": lambda: apply(
            ops.Conv2d(data_layout="NHWC", kernel_layout="HWIO"), data,
            Constant.of(np.zeros((3, 3, 4, 6), "float16")),
        ),
        "pools only": lambda: apply(ops.MaxPool2d(pool_size=(2,), layout="NHWC"), data),
    }[why]()  # fmt: skip
    graph = Graph.of(out)
    assert channels_first(graph) is graph


def test_a_network_has_as_many_kernels_in_either_layout_and_tvms_keys_stay_theirs():
    counts = {
        layout: len(partition(passes.OWN(bound(f"resnet-{layout}"))))
        for layout in ("nchw", "nhwc")
    }
    assert counts["nchw"] == counts["nhwc"]
    text = graph_text(passes.RELAY_CUDA(bound("resnet-nhwc")))
    assert "NHWC" in text
    assert "NCHW" not in text


def half(*shape):
    return image(*shape, dtype="float16")


def known(*shape):
    return Constant.of(RNG.normal(size=shape).astype("float16"))


def first(x, filters=6, **kwargs):
    """A convolution of 16-bit images whose channels are first."""
    weight = known(filters, x.shape[1] // kwargs.get("groups", 1), 3, 3)
    return apply(ops.Conv2d(padding=(1,), **kwargs), x, weight)


def last(*outputs, serves=lambda node: True):
    """Returns the graph with its channels last, which computes the same."""
    graph = Graph.of(*outputs)
    after = passes.fold_constant(channels_last(graph, serves))
    arrays = [RNG.normal(size=v.shape) for v in graph.inputs]
    for a, b in zip(graph.run(*arrays), after.run(*arrays), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)
    return after


def test_images_of_16_bits_get_their_channels_last():
    x = apply(ops.Add(), first(half(1, 4, 5, 6)), known(6, 1, 1))
    x = apply(ops.MaxPool2d(pool_size=(2,)), apply(ops.Relu(), x))
    after = last(apply(ops.GlobalAvgPool2d(), apply(ops.Add(), x, first(x))))
    assert names(after) == [
        "transpose", "nn.conv2d", "add", "nn.relu", "nn.max_pool2d", "nn.conv2d", "add",
        "nn.global_avg_pool2d", "reshape",
    ]  # fmt: skip
    assert "'NCHW'" not in graph_text(after)


@pytest.mark.parametrize("why", ["nobody computes it", "32 bits", "weights unknown"])
def test_images_that_gain_nothing_keep_their_channels_first(why):
    data = image(1, 4, 5, 6) if why == "32 bits" else half(1, 4, 5, 6)
    weight = Constant.of(np.ones((6, 4, 3, 3), data.dtype))
    if why == "weights unknown":
        weight = Variable(weight.type, "weight")
    graph = Graph.of(apply(ops.Conv2d(), data, weight))
    assert channels_last(graph, lambda node: why != "nobody computes it") is graph


def test_depthwise_filters_have_their_channels_last_and_several_for_a_channel_stay():
    alike = first(first(half(1, 4, 5, 6), 4, groups=4))
    layouts = [n.op.kernel_layout for n in last(alike).nodes if n.op.name == "nn.conv2d"]
    assert layouts == ["HWOI", "HWIO"]
    several = first(first(half(1, 4, 5, 6), 8, groups=4))
    layouts = [n.op.kernel_layout for n in last(several).nodes if n.op.name == "nn.conv2d"]
    assert layouts == ["OIHW", "HWIO"]


def test_transposes_of_a_network_that_turned_images_itself_cancel():
    x = apply(ops.Transpose((0, 2, 3, 1)), first(half(1, 4, 5, 6)))
    x = apply(ops.Transpose((0, 3, 1, 2)), apply(ops.Softmax(3), x))
    assert names(last(apply(ops.GlobalAvgPool2d(), first(x)))) == [
        "transpose", "nn.conv2d", "nn.softmax", "nn.conv2d", "nn.global_avg_pool2d", "reshape",
    ]  # fmt: skip


def test_the_mean_over_pixels_has_no_layout():
    x = apply(ops.Mean((2, 3)), first(half(2, 4, 5, 6)))
    assert names(last(x)) == ["transpose", "nn.conv2d", "mean"]
    channel = apply(ops.Mean((1,)), first(half(2, 4, 5, 6)))
    assert names(last(channel)) == ["transpose", "nn.conv2d", "mean"]
    row = apply(ops.Mean((2,)), first(half(2, 4, 5, 6)))
    assert names(last(row)) == ["transpose", "nn.conv2d", "transpose", "mean"]
