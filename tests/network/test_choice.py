"""Kernels of templates in networks: whole functions, parts of them, weights laid out ahead."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import partition
from autotune.network import compile_network, implementations
from autotune.network.choice import RULE, ByTemplate, by_rule, choose_untuned
from autotune.network.compile import simplify_graph
from autotune.network.implementations import Offer, implements, offers_of
from autotune.network.plan import plan_network
from autotune.target import Target
from autotune.task import FallbackContext, create
from autotune.task.dispatcher import provided
from tests.graph.networks import bound, inputs_of

CPU, EMULATED = Target("c"), Target("cuda -emulate")
RNG = np.random.default_rng(0)


def constant(*shape):
    return Constant.of(RNG.normal(size=shape).astype("float32"))


def conv(channels=4, filters=6, size=3, pad=1, image=9):
    data = Variable(TensorType((1, channels, image, image)), "data")
    op = ops.Conv2d(padding=(pad,), strides=(1,))
    return data, apply(op, data, constant(filters, channels, size, size))


def like(value, name="residual"):
    return Variable(value.type, name)


def vector(value):
    return constant(value.shape[1], 1, 1)


def affine(value):
    return apply(ops.Add(), apply(ops.Multiply(), value, vector(value)), vector(value))


EPILOGUES = {
    "bias-tanh": lambda x: apply(ops.Tanh(), apply(ops.Add(), x, vector(x))),
    "bias-relu": lambda x: apply(ops.Relu(), apply(ops.Add(), vector(x), x)),
    "residual": lambda x: apply(ops.Add(), like(x), x),
    "bias-residual-relu": lambda x: apply(
        ops.Relu(), apply(ops.Add(), apply(ops.Add(), x, vector(x)), like(x))),
    "residual-affine-relu": lambda x: apply(ops.Relu(), affine(apply(ops.Add(), x, like(x)))),
}  # fmt: skip
OTHERS = {
    "two-residuals": lambda x: apply(ops.Add(), apply(ops.Add(), x, like(x)), like(x, "b")),
    "column": lambda x: apply(ops.Add(), x, constant(1, 1, 1, x.shape[3])),
}


def only(name):
    """Choose the template of a name, with its default configuration."""

    def choose(function, target):
        for offer in offers_of(function, target):
            if offer.task.name == name:
                return ByTemplate(offer, offer.task.default())
        return RULE

    return choose


def check(graph, target, choose, kinds):
    network = compile_network(graph, target, choose=choose, jobs=2)
    assert [unit.choice.kind for unit in network.plan.kernels] == kinds
    arrays = inputs_of(graph)
    for got, want in zip(network.instance()(*arrays), graph.run(*arrays), strict=True):
        assert np.linalg.norm(got.numpy() - want) < 1e-5 * np.linalg.norm(want)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", EPILOGUES)
def test_a_convolution_with_what_follows_is_one_kernel_of_a_template(name):
    graph = Graph.of(EPILOGUES[name](conv()[1]))
    check(graph, CPU, choose_untuned, ["template"])


@pytest.mark.parametrize("name", OTHERS)
def test_what_a_template_does_not_compute_of_a_function_is_a_kernel_of_its_own(name):
    graph = Graph.of(OTHERS[name](conv()[1]))
    check(graph, CPU, choose_untuned, ["template", "rule"])


@pytest.mark.parametrize("image", [2, 5])
def test_a_residual_is_added_to_all_pixels_whatever_their_number(image):
    graph = Graph.of(EPILOGUES["residual-affine-relu"](conv(image=image)[1]))
    check(graph, CPU, choose_untuned, ["template"])


@pytest.mark.parametrize(
    ("template", "epilogue", "kinds"),
    [
        ("conv2d_nchw.cuda", "bias-residual-relu", ["template"]),
        ("conv2d_nchw.cuda", "residual-affine-relu", ["template"]),
        ("te/conv2d_nchw.cuda", "residual", ["template", "rule"]),
    ],
)
def test_templates_run_in_networks_on_the_emulated_gpu(template, epilogue, kinds):
    graph = Graph.of(EPILOGUES[epilogue](conv(image=5)[1]))
    check(graph, EMULATED, only(template), kinds)


def dense(batch, known=True):
    data = Variable(TensorType((batch, 20)), "data")
    weight = constant(7, 20) if known else Variable(TensorType((7, 20)), "weight")
    return apply(ops.Add(), apply(ops.Dense(), data, weight), constant(7))


def test_weights_are_laid_out_for_a_template_once_and_ahead_of_time():
    graph = Graph.of(dense(8))
    plan = plan_network(graph, target=CPU, choose=only("gemm_nn.cpu"))
    assert [each.shape for each in plan.constants] == [(20, 7), (7,)]
    check(graph, CPU, only("gemm_nn.cpu"), ["template", "rule"])


def test_weights_that_are_inputs_are_not_laid_out_anew():
    check(Graph.of(dense(8, known=False)), CPU, only("gemm_nn.cpu"), ["rule"])
    # Of two layers of one structure, one has weights that are known; the other takes the untuned
    # choice of a function whose weights are inputs.
    known, data = constant(7, 20), Variable(TensorType((8, 20)), "x")
    weight = Variable(TensorType((7, 20)), "w")
    graph = Graph.of(apply(ops.Dense(), data, known), apply(ops.Dense(), data, weight))
    check(graph, CPU, only("gemm_nn.cpu"), ["template", "template"])
    kernels = plan_network(graph, target=CPU, choose=only("gemm_nn.cpu")).kernels
    chosen = [(each.choice.workload.name, len(each.choice.prepared)) for each in kernels]
    assert chosen == [("gemm_nn.cpu", 1), ("gemm.cpu", 0)]


def test_functions_of_a_layer_on_many_channels_of_one_image_get_no_wrong_template():
    data = Variable(TensorType((1, 8, 8, 4)), "data")
    nhwc = ops.Conv2d(data_layout="NHWC", kernel_layout="HWIO", padding=(1,))
    (function,) = partition(Graph.of(apply(nhwc, data, constant(3, 3, 4, 6))))
    assert offers_of(function, CPU) == []


@pytest.mark.parametrize("name", ["conv2d_nchw.cpu", "te/conv2d_nchw.cpu"])
def test_a_convolution_whose_padding_differs_by_side_runs_by_templates_on_a_cpu(name):
    """As of TensorFlow, whose "SAME" pads below and to the right where the stride is 2."""
    op = ops.Conv2d(padding=(0, 0, 1, 1), strides=(2,))
    check(Graph.of(apply(op, conv()[0], constant(6, 4, 3, 3))), CPU, only(name), ["template"])


def test_a_template_of_the_user_is_asked_too(monkeypatch):
    asked = []
    monkeypatch.setitem(implementations._TABLE, ("nn.max_pool2d", "cpu"), [])

    @implements("nn.max_pool2d", "cpu")
    def pool(layer):
        asked.append(layer.epilogue.relu)
        known = {layer.inputs[0]: ops.Relu()}
        return Offer("mine", (), layer.inputs, known if layer.epilogue.relu else {})

    data = Variable(TensorType((1, 4, 8, 8)), "data")
    graph = Graph.of(apply(ops.Relu(), apply(ops.MaxPool2d(pool_size=(2, 2)), data)))
    with pytest.raises(GraphError, match="a matcher must look at"):
        offers_of(partition(graph)[0], CPU)
    assert asked == [True]


def test_what_is_elementwise_takes_over_the_memory_of_what_nobody_reads_any_more():
    _, x = conv()
    half = apply(ops.Tanh(), x)
    graph = Graph.of(apply(ops.Exp(), apply(ops.Conv2d(padding=(1,)), half, constant(6, 6, 3, 3))))
    plan = plan_network(graph, opt_level=0, target=CPU)
    assert plan.memory.bytes == plan.memory.least == 2 * 2048  # a convolution's two images
    check_same = compile_network(graph, "c", opt_level=0, choose=by_rule)
    (array,) = inputs_of(graph)
    np.testing.assert_allclose(
        check_same.instance()(array)[0].numpy(), graph.run(array)[0], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", ["mobilenet-nchw"])
def test_networks_of_any_template_that_fits_are_right(name):
    graph, arrays = bound(name), inputs_of(bound(name))

    def last(function, target):
        found = [each for each in offers_of(function, target) if each.task.default()]
        if not found:
            return RULE
        return ByTemplate(found[-1], found[-1].task.default())

    network = compile_network(graph, "c", choose=last, jobs=2)
    assert any(unit.choice.kind == "template" for unit in network.plan.kernels)
    for got, want in zip(network.instance()(*arrays), graph.run(*arrays), strict=True):
        assert np.linalg.norm(got.numpy() - want) < 1e-5 * np.linalg.norm(want)


def test_a_gpu_runs_what_moves_memory_whole_before_any_tuning():
    pool = ops.MaxPool2d(pool_size=(3,), strides=(2,), padding=(1,))
    data = Variable(TensorType((1, 6, 9, 9)), "data")
    whole, part = apply(pool, data), apply(ops.Relu(), affine(apply(pool, data)))
    kinds = [choose_untuned(partition(Graph.of(x))[0], EMULATED).kind for x in (whole, part)]
    assert kinds == ["template", "rule"]


def image(layout, *shape):
    letters = dict(zip("NCHW", shape, strict=True))
    return Variable(TensorType(tuple(letters[each] for each in layout), "float32"), "data")


def windows(layout):
    filters = constant(6, 1, 3, 3) if layout == "NCHW" else constant(3, 3, 6, 1)
    kernels = "OIHW" if layout == "NCHW" else "HWOI"
    data, around = image(layout, 1, 6, 7, 8), {"padding": (1, 0, 2, 1), "strides": (2, 1)}
    conv = ops.Conv2d(groups=6, data_layout=layout, kernel_layout=kernels, **around)
    bias = constant(6, 1, 1) if layout == "NCHW" else constant(6)
    return {
        "depthwise_conv2d.cuda": apply(
            ops.Relu(), apply(ops.Add(), apply(conv, data, filters), bias)
        ),
        "pool2d.cuda": apply(ops.AvgPool2d(pool_size=(3,), layout=layout, **around), data),
        "reduce.cuda": apply(ops.GlobalMaxPool2d(layout=layout), data),
    }


@pytest.mark.many_cases
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("template", ["depthwise_conv2d.cuda", "pool2d.cuda", "reduce.cuda"])
def test_windows_of_both_layouts_run_by_templates_on_the_emulated_gpu(template, layout):
    graph = Graph.of(windows(layout)[template])
    check(graph, EMULATED, only(template), ["template"])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_maxima_of_8_bit_integers_run_by_the_template_on_the_emulated_gpu(layout):
    data = Variable(TensorType(image(layout, 1, 8, 7, 8).shape, "int8"), "data")
    pool = ops.MaxPool2d(pool_size=(3,), strides=(2,), layout=layout)
    graph = Graph.of(apply(pool, data))
    network = compile_network(graph, EMULATED, choose=choose_untuned, jobs=2)
    assert [unit.choice.kind for unit in network.plan.kernels] == ["template"]
    array = RNG.integers(-128, 128, data.shape, np.int8)
    got, want = network.instance()(array)[0].numpy(), graph.run(array)[0]
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_maxima_of_8_bit_integers_run_by_the_template_of_a_cpu(dtype):
    data = Variable(TensorType((1, 8, 7, 8), dtype), "data")
    graph = Graph.of(apply(ops.MaxPool2d(pool_size=(3,), strides=(2,), padding=(1,)), data))
    choice = choose_untuned(partition(graph)[0], Target("llvm"))
    assert choice.kind == "template"


def test_groups_holes_and_uneven_padding_run_by_the_template_on_the_emulated_gpu():
    op = ops.Conv2d(groups=2, dilation=(2, 1), padding=(1, 0, 2, 1))
    graph = Graph.of(apply(ops.Relu(), apply(op, image("NCHW", 1, 4, 7, 6), constant(6, 2, 3, 3))))
    check(graph, EMULATED, only("conv2d_nchw.cuda"), ["template"])


def test_what_a_pack_has_of_a_layer_is_used_untuned_whatever_follows_the_layer():
    data = Variable(TensorType((1, 128, 28, 28)), "data")
    weight = Constant.of(np.zeros((128, 128, 3, 3), "float32"))
    x = apply(ops.Conv2d(padding=(1, 1)), data, weight)
    bias = Constant.of(np.zeros((128, 1, 1), "float32"))
    (function,) = partition(Graph.of(apply(ops.Relu(), apply(ops.Add(), x, bias))))
    task = create("conv2d_nchw.cuda", (1, 28, 28, 128, 128, 3, 3, 1, 1), "cuda -arch=sm_90")
    packed = provided(task.target, task.workload)  # the pack that ships has this layer
    assert packed is not None
    chosen = choose_untuned(function, task.target)
    knobs = {k: v.val for k, v in chosen.candidate.recorded.items()}
    assert {k: v.val for k, v in packed.recorded.items()}.items() <= knobs.items()
    with FallbackContext():
        plain = choose_untuned(function, task.target)
    for other in (plain, choose_untuned(function, Target("cuda -arch=sm_80"))):
        assert other.candidate == other.offer.task.default() != chosen.candidate


@pytest.mark.parametrize(
    ("filters", "template"),
    [((6, 2), "conv2d_nchw.cuda"), ((8, 1), "depthwise_conv2d.cuda")],
)
def test_what_follows_grouped_filters_is_part_of_their_kernel(filters, template):
    op = ops.Conv2d(groups=4 // filters[1], padding=(1,))
    x = apply(op, image("NCHW", 1, 4, 7, 6), constant(*filters, 3, 3))
    graph = Graph.of(EPILOGUES["residual-affine-relu"](x))
    check(graph, EMULATED, only(template), ["template"])
    check(graph, EMULATED, choose_untuned, ["template"])


def test_several_filters_of_each_channel_run_by_the_template_of_a_cpu():
    op = ops.Conv2d(groups=4, strides=(2,))
    x = apply(op, image("NCHW", 1, 4, 7, 6), constant(12, 1, 3, 3))
    check(Graph.of(EPILOGUES["bias-relu"](x)), CPU, only("depthwise_conv2d.cpu"), ["template"])


@pytest.mark.parametrize(("target", "layout"), [(CPU, "NCHW"), (EMULATED, "NHWC")])
def test_groups_of_channels_last_get_the_layout_that_a_template_of_the_target_has(target, layout):
    op = ops.Conv2d(groups=4, padding=(1,), data_layout="NHWC", kernel_layout="HWIO")
    graph = Graph.of(apply(op, image("NHWC", 1, 64, 14, 14), constant(3, 3, 16, 64)))
    simpler = simplify_graph(graph, target)
    (found,) = (each.op.data_layout for each in simpler.nodes if isinstance(each.op, ops.Conv2d))
    assert found == layout
    array = RNG.normal(size=(1, 14, 14, 64)).astype("float32")
    np.testing.assert_allclose(simpler.run(array)[0], graph.run(array)[0], rtol=1e-4, atol=1e-4)
