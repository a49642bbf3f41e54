"""Looking into a network: times and floors of its kernels, and which of them is wrong."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from autotune.errors import DeviceError, GraphError
from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.network import check, compile_network, export_network, load_network, report
from autotune.network.choice import by_rule
from autotune.network.compile import fallback_kernel
from autotune.runtime import cpu
from autotune.runtime.arrays.array import array
from autotune.runtime.device import Device
from tests.graph.networks import bound, inputs_of


@pytest.fixture(scope="module")
def mlp():
    graph = bound("mlp")
    return graph, compile_network(graph, "c", jobs=2).instance()


def test_the_report_has_every_kernel_with_its_part_of_the_time_and_where_it_comes_from(mlp):
    _, instance = mlp
    found = report(instance, rounds=3, floors=False)
    assert len(found.steps) == len(instance.network.plan.steps)
    assert sum(each.share for each in found.steps) == pytest.approx(1)
    assert found.seconds == pytest.approx(sum(each.seconds for each in found.steps))
    kernels = [each.kernel for each in found.steps]
    assert any("gemm_packed.cpu #" in each or "gemm_nn.cpu #" in each for each in kernels)
    assert "by rule, untuned" in kernels
    assert str(found).count("\n") == len(found.steps) + 1


def test_all_kernels_of_a_network_are_checked_on_what_they_meet_in_it(mlp):
    graph, instance = mlp
    found = check(instance, inputs_of(graph))
    assert found
    assert f"all {len(instance.network.plan.steps)} kernels are right" in str(found)


def test_the_first_wrong_kernel_is_named_and_not_what_comes_after_it():
    graph = bound("dqn")

    def wrong(function, target):
        kernel = fallback_kernel(function, target)
        if "dense" not in function.name:
            return kernel
        return replace(kernel, source=kernel.source.replace(" + ", " - ", 1))

    instance = compile_network(graph, "c", kernel_for=wrong, jobs=2).instance()
    found = check(instance, inputs_of(graph))
    assert not found
    assert "dense" in found.first.name
    assert sum(each.error > 1e-5 for each in found.deviations) <= 2  # the dense layers themselves
    assert f"step {found.first.step}, {found.first.name}" in str(found)


def test_of_a_network_from_a_file_nobody_knows_what_is_right(mlp, tmp_path):
    _, instance = mlp
    export_network(instance.network, tmp_path / "net")
    loaded = load_network(tmp_path / "net").instance()
    with pytest.raises(GraphError, match="the network comes from a file"):
        check(loaded, [])
    assert report(loaded, rounds=1).steps[0].kernel == "from a file"


def test_inputs_are_read_where_they_lie_without_a_copy(mlp):
    graph, instance = mlp
    (first,) = inputs_of(graph)
    one, other = array(first, cpu(0)), array(2 * first, cpu(0))
    wants = [graph.run(each.numpy())[0] for each in (one, other)]
    for _ in range(2):
        for bound_array, want in zip((one, other), wants, strict=True):
            instance.bind_input(0, bound_array)
            instance.run()
            np.testing.assert_allclose(instance.outputs[0].numpy(), want, rtol=1e-4, atol=1e-6)
    other.copyfrom(first)  # what is written there is what the next run reads
    instance.run()
    np.testing.assert_allclose(instance.outputs[0].numpy(), wants[0], rtol=1e-4, atol=1e-6)


def test_many_places_take_turns_and_only_the_kernels_that_read_them_are_told(mlp, monkeypatch):
    graph, instance = mlp
    (first,) = inputs_of(graph)
    program, told = instance.program, []
    rebind = program.rebind
    monkeypatch.setattr(program, "rebind", lambda steps: told.append([*steps]) or rebind(steps))
    places = [array(scale * first, cpu(0)) for scale in range(1, 9)]
    wants = [graph.run(each.numpy())[0] for each in places]
    for _ in range(2):
        for place, want in zip(places, wants, strict=True):
            instance.bind_input(0, place)
            instance.run()
            np.testing.assert_allclose(instance.outputs[0].numpy(), want, rtol=1e-4, atol=1e-6)
    assert instance.program is program
    assert told == [[0]] * 16


def test_a_tensor_of_another_library_is_read_where_it_lies(mlp):
    graph, instance = mlp
    (first,) = inputs_of(graph)
    block = np.zeros(first.nbytes + 64, "uint8")
    start = -block.ctypes.data % 64
    given = block[start : start + first.nbytes].view("float32").reshape(first.shape)
    instance.bind_input(0, given)
    given[:] = first
    instance.run()
    want = graph.run(first)[0]
    np.testing.assert_allclose(instance.outputs[0].numpy(), want, rtol=1e-4, atol=1e-6)
    given.flags.writeable = False
    with pytest.raises(GraphError, match="bind_input: expected an array"):
        instance.bind_input(0, given)


def test_a_cpu_has_no_streams(mlp):
    _, instance = mlp
    with pytest.raises(DeviceError, match="has no streams"):
        instance.start(stream=7)


def test_values_that_are_set_do_not_go_into_an_array_that_was_bound(mlp):
    graph, instance = mlp
    (first,) = inputs_of(graph)
    given = array(first, cpu(0))
    instance.bind_input(0, given)
    instance.set_input(0, 2 * first)
    instance.run()
    np.testing.assert_array_equal(given.numpy(), first)
    want = graph.run(2 * first)[0]
    np.testing.assert_allclose(instance.outputs[0].numpy(), want, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_read_in_place_is_refused(mlp):
    _, instance = mlp
    own = instance.inputs[0]
    for given in (
        own.numpy().tolist(),
        own.numpy()[..., ::2],
        array(np.zeros(3, "float32"), cpu(0)),
    ):
        with pytest.raises(GraphError, match="bind_input"):
            instance.bind_input(0, given)
    assert instance.inputs[0] is own


def test_a_returned_input_is_the_one_that_is_bound():
    data = Variable(TensorType((4, 4)), "data")
    instance = compile_network(Graph((data,), (data, apply(ops.Relu(), data))), "c").instance()
    given = array(np.arange(-8, 8, dtype="float32").reshape(4, 4), cpu(0))
    instance.bind_input(0, given)
    instance.start()
    instance.wait()
    np.testing.assert_array_equal(instance.outputs[0].numpy(), given.numpy())


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_returned_input_is_the_one_that_the_run_was_given(kind):
    data = Variable(TensorType((4, 4)), "data")
    instance = compile_network(Graph((data,), (data, apply(ops.Relu(), data))), "c").instance()
    instance.device = Device(kind)  # a GPU runs by itself: outputs are copied later
    one, other = (np.full((4, 4), value, "float32") for value in (1, 2))
    instance.set_input(0, one)
    instance.start()
    instance.set_input(0, other)
    for _ in range(2):
        instance.wait()
        np.testing.assert_array_equal(instance.outputs[0].numpy(), one)


def test_an_output_is_read_in_place_only_where_it_is_written_later():
    def fed(op, number):
        data = Variable(TensorType((4, 4)), "data")
        weights = [Constant.of(np.eye(4, dtype="float32"))] * isinstance(op, ops.Dense)
        first = apply(op, data, *weights)
        graph = Graph((data,), (first, apply(ops.Softmax(), first)))
        instance = compile_network(graph, "c").instance()
        instance.bind_input(0, instance.outputs[number])

    fed(ops.Relu(), 0)  # each element over itself
    fed(ops.Dense(), 1)  # written after the input was read
    with pytest.raises(GraphError, match="is in output 0, which a run writes while it"):
        fed(ops.Dense(), 0)


def test_instances_share_weights_and_run_at_once(mlp):
    _, instance = mlp
    other = instance.network.instance()
    assert [a.pointer for a in other.constants] == [a.pointer for a in instance.constants]
    assert other.arena.pointer != instance.arena.pointer


def test_memory_between_the_calls_of_a_kernel_is_of_each_instance():
    data = Variable(TensorType((4, 64)), "data")
    graph = Graph.of(apply(ops.LogSoftmax(), data))
    network = compile_network(graph, "c", choose=by_rule)
    assert network.modules[0].kernel.workspace
    nets = [network.instance() for _ in range(2)]
    addresses = [{a.pointer for w in net._workspaces for a in w.values()} for net in nets]
    assert addresses[0].isdisjoint(addresses[1])
    inside = threading.Barrier(2, timeout=10)
    results = {}

    def work(number):
        (rows,) = inputs_of(graph, seed=number)
        inside.wait()
        for _ in range(200):
            got = nets[number](rows)[0].numpy()
        results[number] = np.abs(got - graph.run(rows)[0]).max()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert max(results[0], results[1]) < 1e-4


def test_a_network_on_the_emulated_gpu_is_checked_too():
    graph = bound("mlp")
    instance = compile_network(graph, "cuda -emulate", jobs=2).instance()
    assert check(instance, inputs_of(graph))
