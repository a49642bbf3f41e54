"""Layers of networks by CUDA templates, in the emulator, and the registry that lists them."""

import autotune.templates  # noqa: F401
import numpy as np
import pytest

from autotune.errors import AutotuneError, GraphError
from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import partition
from autotune.network import compile_network, templates_for
from autotune.network.choice import RULE, ByTemplate, by_dispatch
from autotune.network.implementations import offers_of
from autotune.target import Target
from autotune.task import create
from tests.graph.networks import inputs_of

EMULATED = Target("cuda -emulate")
RNG = np.random.default_rng(0)


def constant(*shape):
    return Constant.of(RNG.normal(size=shape).astype("float32"))


def variable(*shape):
    return Variable(TensorType(shape), "data")


def depthwise_relu6(layout):
    nchw = layout == "NCHW"
    data = variable(1, 4, 7, 6) if nchw else variable(1, 7, 6, 4)
    weight = constant(4, 1, 3, 3) if nchw else constant(3, 3, 4, 1)
    op = ops.Conv2d(
        padding=(0, 0, 1, 1), strides=(2,), groups=4, data_layout=layout,
        kernel_layout="OIHW" if nchw else "HWOI",
    )  # fmt: skip
    bias = constant(4, 1, 1) if nchw else constant(4)
    return apply(ops.Clip(0.0, 6.0), apply(ops.Add(), apply(op, data, weight), bias))


def relu6(value, bias):
    return apply(ops.Clip(0.0, 6.0), apply(ops.Add(), value, bias))


LAYERS = {
    "depthwise_conv2d.cuda NHWC": lambda: depthwise_relu6("NHWC"),
    "conv2d_nchw.cuda": lambda: apply(
        ops.Clip(0.0, 6.0),
        apply(
            ops.Conv2d(padding=(1, 0, 2, 1), dilation=(2,), groups=2),
            variable(1, 4, 7, 6), constant(6, 2, 3, 3),
        ),
    ),
    "winograd_conv2d.cuda": lambda: relu6(
        apply(ops.Conv2d(padding=(1, 0, 0, 2)), variable(1, 16, 6, 5), constant(16, 16, 3, 3)),
        constant(16, 1, 1),
    ),
    "te/conv2d_nchw_winograd.cuda": lambda: apply(
        ops.Conv2d(padding=(1,)), variable(1, 16, 6, 5), constant(16, 16, 3, 3)
    ),
    "pool2d.cuda max": lambda: apply(
        ops.MaxPool2d(pool_size=(3,), strides=(2,), padding=(1,), ceil_mode=True),
        variable(1, 3, 8, 8),
    ),
    "reduce.cuda": lambda: apply(ops.Argmax((1, 2), keepdims=True), variable(3, 4, 5, 2)),
    "conv2d_nhwc.cuda": lambda: relu6(
        apply(
            ops.Conv2d(padding=(1,), strides=(2,), data_layout="NHWC", kernel_layout="HWIO"),
            variable(1, 7, 6, 4), constant(3, 3, 4, 6),
        ),
        constant(6),
    ),
    "matvec.cuda": lambda: relu6(
        apply(ops.Dense(), variable(1, 40), constant(12, 40)), constant(12)
    ),
    "gemm.cuda": lambda: relu6(
        apply(ops.Dense(), variable(9, 20), constant(12, 20)), constant(12)
    ),
    "gemm.cuda of a batch": lambda: apply(
        ops.Relu(), apply(ops.BatchMatmul(transpose_a=True), variable(3, 8, 5), constant(1, 7, 8))
    ),
    "log_softmax.cuda": lambda: apply(ops.LogSoftmax(), variable(2, 3, 40)),
    "transpose.cuda": lambda: apply(ops.Transpose((2, -3, 1)), variable(3, 4, 5)),
    "take_rows.cuda": lambda: apply(
        ops.Take(), variable(9, 4, 3), Constant.of(np.array([[8, 0, 12], [-1, 3, 3]], "int32"))
    ),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_with_all_that_follows_is_one_kernel_of_a_template(name):
    graph = Graph.of(LAYERS[name]())

    def choose(function, target):
        for offer in offers_of(function, target):
            if offer.task.name == name.split()[0] and offer.nodes == len(function.nodes):
                return ByTemplate(offer, offer.task.default())
        return RULE

    network = compile_network(graph, EMULATED, choose=choose, jobs=2)
    assert [unit.choice.kind for unit in network.plan.kernels] == ["template"]
    arrays = inputs_of(graph)
    (got,), (want,) = network.instance()(*arrays), graph.run(*arrays)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-5)


def test_a_template_that_does_no_relu6_computes_the_sum_and_leaves_the_rest():
    plain = apply(ops.Conv2d(padding=(1,)), variable(1, 4, 7, 6), constant(6, 4, 3, 3))
    (clipped,) = partition(Graph.of(apply(ops.Clip(0.0, 6.0), plain)))
    offers = offers_of(clipped, Target("c"))
    assert {offer.task.name: offer.nodes for offer in offers} == {
        "conv2d_nchw.cpu": 2, "te/conv2d_nchw.cpu": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "width", "arch", "names"),
    [
        (4, 2048, "sm_90", ["gemm.cuda"]),
        (4, 2048, "sm_80", ["matvec.cuda", "gemm.cuda"]),
        (4, 512, "sm_90", ["matvec.cuda", "gemm.cuda"]),
        (3, 2048, "sm_90", ["matvec.cuda"]),
        (2, 8192, "sm_90", ["gemm.cuda"]),
        (2, 8192, "sm_80", ["matvec.cuda"]),
        (1, 8192, "sm_90", ["matvec.cuda"]),
    ],
    ids=["streamed", "other-device", "small", "fewer", "large", "large-elsewhere", "one"],
)
def test_weights_that_several_rows_stream_are_not_read_by_vectors(rows, width, arch, names):
    data, weight = (Variable(TensorType((n, width), "float16"), "x") for n in (rows, width))
    (function,) = partition(Graph.of(apply(ops.Dense(), data, weight)))
    offers = offers_of(function, Target(f"cuda -arch={arch}"))
    assert [offer.task.name for offer in offers] == names


@pytest.mark.parametrize(
    ("rows", "width", "known", "padded"),
    [
        (64, 515, True, ((0, 0), (0, 61))),
        (1024, 1026, True, ((0, 0), (0, 62))),
        (64, 515, False, None),  # weights that are an input of the network
        (16, 515, True, None),  # read as they are as fast
        (64, 514, True, None),  # read in words of two
        (64, 520, True, None),
    ],
)
def test_known_weights_with_unaligned_rows_are_padded_once(rows, width, known, padded):
    data = Variable(TensorType((rows, width), "float16"), "x")
    kind = TensorType((1024, width), "float16")
    weight = Constant(kind, lambda: np.ones(kind.shape, "float16"))
    graph = Graph.of(apply(ops.Dense(), data, weight if known else Variable(kind, "w")))
    (function,) = partition(graph)
    offers = offers_of(function, Target("cuda -arch=sm_90"))
    (offer,) = (o for o in offers if o.task.name == "gemm.cuda")
    assert [op.pad_width for _, op in offer.prepared] == ([padded] if padded else [])
    (plain, made) = offer.task.args[:7], offer.task.args[14:]
    assert plain == (rows, 1024, width, "float16", 1, False, True)
    assert made == ((width + padded[1][1],) if padded else ())


def test_a_network_with_such_weights_is_right():
    data = Variable(TensorType((64, 131), "float16"), "x")
    weight = Constant.of(RNG.normal(size=(24, 131)).astype("float16"))
    graph = Graph.of(apply(ops.Dense(), data, weight))
    network = compile_network(graph, EMULATED)
    (stored,) = network.plan.constants
    assert stored.shape == (24, 136)
    (got,), (want,) = network.instance()(*inputs_of(graph)), graph.run(*inputs_of(graph))
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-2, atol=6e-2)


class OneRecord:
    """A source of configurations that has one."""

    def __init__(self, task, config):
        self.workload, self.config = task.workload, config

    def known(self, target, workload):
        return self.config if workload == self.workload else None


@pytest.mark.parametrize("more", [(), (False, "none", False, False)], ids=["short", "whole"])
def test_records_of_products_on_copies_of_both_serve_weights_that_are_padded_once(more):
    data, target = Variable(TensorType((64, 515), "float16"), "x"), Target("cuda -arch=sm_90")
    weight = Constant.of(np.ones((1024, 515), "float16"))
    (function,) = partition(Graph.of(apply(ops.Dense(), data, weight)))
    task = create("gemm.cuda", (64, 1024, 515, "float16", 1, False, True, *more), target)
    configs = (
        task.config_space.get(i) for i in task.config_space.sample(500, np.random.default_rng(0))
    )
    config = next(each for each in configs if each["wgmma"].val == 1)
    choice = by_dispatch(OneRecord(task, config))(function, target)
    assert choice.candidate != choice.workload.default()
    assert choice.candidate.key == choice.workload.own(config).key
    assert choice.workload.args[-1] == 576


@pytest.mark.parametrize("first", [True, False], ids=["known first", "known last"])
def test_weights_that_are_inputs_are_multiplied_by_templates_beside_known_ones(first):
    data = Variable(TensorType((64, 131), "float16"), "x")
    other = Variable(TensorType((24, 131), "float16"), "w")
    weight = Constant.of(RNG.normal(size=(24, 131)).astype("float16"))
    ordered = (weight, other) if first else (other, weight)
    graph = Graph.of(*(apply(ops.Dense(), data, each) for each in ordered))
    network = compile_network(graph, EMULATED)
    assert {unit.choice.kind for unit in network.plan.kernels} == {"template"}
    results = network.instance()(*inputs_of(graph))
    for got, want in zip(results, graph.run(*inputs_of(graph)), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-2, atol=6e-2)


def hard_swish(value):
    return value * apply(ops.Clip(0.0, 6.0), value + 3.0) / 6.0


@pytest.mark.parametrize(("follows", "expression"), [
    (lambda x: apply(ops.Clip(0.0, 5.0), x), "(max(min(a, 5.0), 0.0))"),
    (hard_swish, "((a * (max(min((a + (3.0)), 6.0), 0.0))) / (6.0))"),
    (lambda x: apply(ops.Sigmoid(), apply(ops.Relu(), x)), "(sigmoid((relu(a))))"),
])  # fmt: skip
def test_functions_of_one_number_follow_a_convolution_on_a_gpu_in_its_kernel(follows, expression):
    data = variable(1, 4, 7, 6)
    plain = apply(ops.Conv2d(padding=(1,)), data, constant(6, 4, 3, 3)) + constant(6, 1, 1)
    (function,) = partition(Graph.of(follows(plain)))
    whole = [o for o in offers_of(function, EMULATED) if o.nodes == len(function.nodes)]
    assert whole
    assert all(expression in offer.task.args for offer in whole)
    (function,) = partition(Graph.of(follows(plain) + variable(1, 6, 7, 6)))
    assert all(expression not in each.task.args for each in offers_of(function, EMULATED))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (("nn.conv2d", "cuda", "NHWC", "float32"), ["depthwise_conv2d.cuda", "conv2d_nhwc.cuda"]),
        (("nn.conv2d", "cuda", "NHWC", "float16"), ["depthwise_conv2d.cuda", "conv2d_nhwc.cuda"]),
        (("nn.dense", "cuda", None, "float16"), ["matvec.cuda", "gemm.cuda"]),
        (("nn.batch_matmul", "cuda", None, "bfloat16"), ["gemm.cuda"]),
        (("nn.conv2d", "cpu", "NCHW"), [
            "winograd_conv2d.cpu", "conv2d_nchw.cpu", "depthwise_conv2d.cpu",
            "te/depthwise_conv2d_nchw.cpu", "te/conv2d_nchw.cpu",
        ]),
        (("nn.conv2d", "cuda", "NCHW"), [
            "conv2d_nchw.cuda", "depthwise_conv2d.cuda", "te/conv2d_nchw_winograd.cuda",
            "winograd_conv2d.cuda", "te/depthwise_conv2d_nchw.cuda", "te/conv2d_nchw.cuda",
        ]),
        (("nn.log_softmax", "cuda", None, "bfloat16"), ["log_softmax.cuda"]),
        (("argmax", "cuda"), ["reduce.cuda"]),
        (("transpose", "cuda", None, "int8"), ["transpose.cuda"]),
        (("take", "cuda"), ["take_rows.cuda"]),
        (("nn.dense", "cuda", None, "int8"), []),
    ],
)  # fmt: skip
def test_the_registry_lists_templates_by_operator_layout_and_type(query, names):
    assert [entry.template for entry in templates_for(*query)] == names


@pytest.mark.parametrize(("target", "kind"), [("llvm", "cpu"), ("cuda -emulate", "cuda")])
def test_templates_are_listed_for_targets_too(target, kind):
    assert templates_for("nn.conv2d", target) == templates_for("nn.conv2d", kind) != []
    with pytest.raises(AutotuneError, match="hexagon"):
        templates_for("nn.conv2d", "hexagon")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (("nn.conv2", "cuda"), "operator must be .* got 'nn.conv2'; did you mean 'nn.conv2d'"),
        (("nn.conv2d", "cuda", "NHCW"), "layout must be one of .* got 'NHCW'"),
        (("nn.conv2d", "cuda", None, "fp16"), "dtype 'fp16' is unknown; expected one of"),
    ],
)
def test_a_slip_in_a_question_to_the_registry_is_no_empty_answer(query, message):
    with pytest.raises(GraphError, match=message):
        templates_for(*query)
