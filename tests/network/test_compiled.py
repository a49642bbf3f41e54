"""Networks compiled without tuning: right answers, one block of memory, errors with places."""

import threading

import numpy as np
import pytest

from autotune.errors import GraphError, ScheduleError
from autotune.graph import Constant, Graph, Node, TensorType, Variable, apply, ops, passes
from autotune.network import compile_network
from autotune.network.choice import by_rule
from autotune.network.compile import fallback_kernel
from autotune.network.plan import MemoryKind, plan_network
from autotune.runtime import cpu, cuda
from autotune.runtime.timing import TimeOptions
from tests.graph.networks import SMALL, bound, inputs_of


def relative(got, want):
    return np.linalg.norm(got - want) / np.linalg.norm(want)


# The two SqueezeNets have layers of the same kinds.
@pytest.mark.many_cases
@pytest.mark.parametrize("name", sorted(SMALL.keys() - {"squeezenet-1.0"}))
def test_every_network_of_the_zoo_is_right_on_the_cpu_untuned(name):
    graph = bound(name)
    arrays = inputs_of(graph)
    network = compile_network(graph, "c", jobs=2)
    got = [each.numpy() for each in network.instance()(*arrays)]
    for one, want in zip(got, graph.run(*arrays), strict=True):
        assert relative(one, want) < 1e-5


def test_a_network_is_right_on_the_emulated_gpu_untuned():
    graph = bound("mlp")
    arrays = inputs_of(graph)
    network = compile_network(graph, "cuda -emulate", jobs=2)
    got = [each.numpy() for each in network.instance()(*arrays)]
    for one, want in zip(got, graph.run(*arrays), strict=True):
        assert relative(one, want) < 1e-5


@pytest.mark.parametrize(("target", "waits"), [("c", False), ("cuda -emulate", True)])
def test_kernels_of_networks_wait_for_the_one_before_on_gpus_alone(target, waits):
    network = compile_network(bound("mlp"), target, jobs=2)
    assert network.modules
    for module in network.modules:
        assert ("autotune_wait_for_kernel_before" in module.kernel.source) == waits


def test_a_kernel_of_a_network_may_work_in_place_on_the_emulated_gpu():
    data = Variable(TensorType((1, 8)), "data")
    weight = Constant.of(np.eye(8, dtype="float32"))
    x = apply(ops.Dense(), data, weight)
    y = apply(ops.Dense(), apply(ops.Relu(), apply(ops.Relu(), x)), weight)
    graph = Graph.of(y)
    arrays = inputs_of(graph)
    network = compile_network(graph, "cuda -emulate", opt_level=0, jobs=2)
    ends = [(step.places[0], step.places[-1]) for step in network.plan.steps]
    assert any((first.memory, first.at) == (last.memory, last.at) for first, last in ends)
    (got,) = network.instance()(*arrays)
    assert relative(got.numpy(), graph.run(*arrays)[0]) < 1e-5


def joined(graph):
    network = compile_network(graph, "c", jobs=2)
    arrays = inputs_of(graph)
    got = [each.numpy() for each in network.instance()(*arrays)]
    for one, want in zip(got, graph.run(*arrays), strict=True):
        assert relative(one, want) < 1e-5
    return [unit.function.name for unit in network.plan.kernels]


def test_kernels_are_compiled_while_others_are_still_chosen():
    begun = threading.Event()
    waited = []

    def kernel_for(function, target):
        begun.set()
        return fallback_kernel(function, target)

    def choose(function, target):
        if waited or function.outputs[0].shape[-1] == 3:  # the last of the functions
            waited.append(begun.wait(20))
        return by_rule(function, target)

    data = Variable(TensorType((2, 5)), "data")
    weights = [Constant.of(np.ones(shape, "float32")) for shape in ((4, 5), (3, 4))]
    graph = Graph.of(apply(ops.Dense(), apply(ops.Dense(), data, weights[0]), weights[1]))
    network = compile_network(graph, "c", kernel_for=kernel_for, choose=choose, jobs=2)
    assert waited == [True]
    (got,) = network.instance()(np.ones((2, 5), "float32"))
    assert (got.numpy() == 20).all()


def test_what_fails_to_compile_early_is_told_with_its_place():
    def kernel_for(function, target):
        raise ScheduleError("no loops")

    graph = bound("mlp")
    with pytest.raises(GraphError, match=r"fused_nn_dense.*no loops"):
        compile_network(graph, "c", kernel_for=kernel_for, jobs=2)


def halves(batch, width=4):
    data = Variable(TensorType((batch, width, 4, 4)), "data")
    return data, apply(ops.Relu(), data), apply(ops.Tanh(), data)


def barrier(value):
    """Something that no function fuses with what comes before or after."""
    return apply(ops.MaxPool2d(pool_size=(3,), padding=(1,)), value)


def test_values_that_are_joined_are_computed_where_they_belong():
    data, one, two = halves(1)
    both = apply(ops.Concatenate(along=1), barrier(one), barrier(two))
    assert not any("concatenate" in name for name in joined(Graph.of(barrier(both))))
    # Parts may be joined again, and read elsewhere before and after.
    again = apply(ops.Concatenate(along=1), both, barrier(data))
    parts = barrier(apply(ops.Relu(), barrier(one))), barrier(again), barrier(both)
    assert joined(Graph.of(*parts))


def test_values_are_joined_by_a_kernel_where_their_memory_cannot_be_one():
    def names(batch, width, along, *others):
        _, one, two = halves(batch, width)
        parts = [barrier(one), barrier(two), *(barrier(each) for each in others)]
        both = apply(ops.Concatenate(along=along), *parts)
        return joined(Graph.of(barrier(both)))

    assert "fused_concatenate" in names(2, 4, 1)  # images of a batch lie between
    assert "fused_concatenate" in names(1, 4, 2)
    _, one, two = halves(1)
    twice = barrier(one)
    same = Graph.of(barrier(apply(ops.Concatenate(along=1), twice, twice)))
    assert "fused_concatenate" in joined(same)
    elsewhere = apply(ops.Concatenate(along=1), twice, barrier(two))
    assert "fused_concatenate" in joined(Graph.of(elsewhere))  # the network's output


def test_a_part_is_not_written_over_while_the_joined_value_is_read():
    _, one, two = halves(1)
    part = barrier(one)
    both = apply(ops.Concatenate(along=1), part, barrier(two))
    changed = barrier(apply(ops.Tanh(), apply(ops.Relu(), part)))
    graph = Graph.of(changed, barrier(both))
    joined(graph)
    network = compile_network(graph, "c", opt_level=0, jobs=2)
    arrays = inputs_of(graph)
    for got, want in zip(network.instance()(*arrays), graph.run(*arrays), strict=True):
        assert relative(got.numpy(), want) < 1e-5


@pytest.mark.parametrize(
    "pipeline", [passes.RELAY_CPU, passes.RELAY_TEMPLATES], ids=lambda p: p.name
)
def test_tvm_s_passes_give_networks_that_run_too_winograd_included(pipeline):
    graph = bound("resnet-nhwc")
    arrays = inputs_of(graph)
    network = compile_network(graph, "c", pipeline, jobs=2)
    (got,) = network.instance()(*arrays)
    # Winograd's convolution errs about ten times as much as the plain sum.
    assert relative(got.numpy(), graph.run(*arrays)[0]) < 1e-5


def test_without_optimisation_each_operator_is_a_kernel():
    module_graph = passes.simplify_inference(bound("mlp"))
    network = compile_network(module_graph, "c", opt_level=0, jobs=2)
    arrays = inputs_of(module_graph)
    (got,) = network.instance()(*arrays)
    assert relative(got.numpy(), module_graph.run(*arrays)[0]) < 1e-5
    assert len(network.plan.steps) == len(module_graph.nodes) - 1  # flatten moves nothing


@pytest.fixture(scope="module")
def small():
    return compile_network(bound("squeezenet-1.1"), "c", jobs=2)


def test_no_two_values_that_live_together_share_memory(small):
    def ranges(places):
        arena = [p for p in places if p.memory is MemoryKind.ARENA]
        return [(p.at, p.at + int(np.prod(p.shape)) * 4) for p in arena]

    for step in small.plan.steps:
        for start, end in ranges(step.places):
            assert start % 256 == 0
            assert end <= small.plan.memory.bytes
        # A result may lie in the very place of an operand, where a kernel is elementwise.
        whole = not small.plan.kernels[step.kernel].in_place
        for start, end in ranges(step.places[-1:]):
            for a, b in ranges(step.places[:-1]):
                assert end <= a or b <= start or (not whole and (a, b) == (start, end))


@pytest.mark.parametrize("name", SMALL)
def test_the_block_is_within_a_tenth_of_what_any_plan_needs(name):
    memory = plan_network(passes.OWN(bound(name))).memory
    assert memory.least <= memory.bytes <= 1.1 * memory.least


def test_runs_do_not_leave_traces_in_one_another(small):
    instance = small.instance()
    first = np.random.default_rng(1).normal(size=(1, 3, 56, 56)).astype("float32")
    second = np.random.default_rng(2).normal(size=(1, 3, 56, 56)).astype("float32")
    a = instance(first)[0].numpy()
    instance(second)
    instance.arena.fill_bytes(0xFF)
    np.testing.assert_array_equal(instance(first)[0].numpy(), a)


def test_two_instances_are_strangers(small):
    one, other = small.instance(), small.instance()
    data = np.ones((1, 3, 56, 56), "float32")
    a = one(data)[0].numpy()
    other(np.zeros_like(data))
    np.testing.assert_array_equal(one.outputs[0].numpy(), a)


def test_a_network_is_timed_as_a_whole(small):
    # Samples in which a thread loses its core are left out, unless nobody observes it.
    timing = small.instance().time(TimeOptions(number=2, repeat=3, observe=False))
    assert len(timing.results) == 3
    assert 0 < timing.min <= timing.median <= timing.max


def test_inputs_constants_and_reshaped_values_may_be_outputs_and_one_may_be_two():
    data = Variable(TensorType((2, 3)), "data")
    x = apply(ops.Relu(), data)
    flat = apply(ops.Reshape((6,)), x)
    known = Constant.of(np.arange(3.0, dtype="float32"))
    graph = Graph((data,), (data, flat, x, known, apply(ops.Reshape((3, 2)), data)))
    array = np.random.default_rng(0).normal(size=(2, 3)).astype("float32")
    outputs = [each.numpy() for each in compile_network(graph, "c").instance()(array)]
    relu = np.maximum(array, 0)
    for got, want in zip(
        outputs, (array, relu.reshape(6), relu, np.arange(3), array.reshape(3, 2)), strict=True
    ):
        np.testing.assert_array_equal(got, want)


def test_all_functions_that_cannot_be_compiled_are_told_at_once():
    def refuse(function, target):
        raise GraphError("no kernel today")

    data = Variable(TensorType((2, 3)), "data")
    x = Node(ops.Softmax(), (data,), "model.py:1").output
    x = Node(ops.LogSoftmax(), (Node(ops.Tanh(), (x,), "model.py:2").output,), "model.py:3").output
    with pytest.raises(GraphError) as caught:
        compile_network(Graph.of(x), "c", kernel_for=refuse)
    text = str(caught.value)
    assert "cannot be compiled (2)" in text
    assert "model.py:1, model.py:2: fused_nn_softmax_tanh: no kernel today" in text
    assert "model.py:3: fused_nn_log_softmax: no kernel today" in text


def test_progress_is_told_for_each_kernel():
    told = []
    network = compile_network(bound("mlp"), "c", progress=lambda *pair: told.append(pair))
    count = len(network.modules)
    assert told == [(i, count) for i in range(1, count + 1)]


def test_wrong_calls_are_refused(small):
    with pytest.raises(GraphError, match="an array for each of data, got 0"):
        small.instance()()
    with pytest.raises(GraphError, match="device must be a cpu device"):
        small.instance(cuda(0))
    assert small.instance(cpu(0)).device == cpu(0)
