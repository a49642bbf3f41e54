"""A value that is read twice and what is made of it, by one kernel with two results."""

import numpy as np
import pytest

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import joint_functions, partition
from autotune.measure import MeasureInput, MeasureResult
from autotune.network import History, check, compile_network, lock_network, tune_network
from autotune.network.choice import RULE, by_dispatch, choose_untuned
from autotune.network.compile import simplify_graph
from autotune.network.implementations import offers_of
from autotune.network.tuning_log import NetworkLog
from autotune.target import Target
from autotune.task import ApplyHistoryBest
from tests.graph.networks import inputs_of

CPU, EMULATED = Target("c"), Target("cuda -emulate")
RNG = np.random.default_rng(0)
DATA = TensorType((1, 4, 5, 6))


def constant(*shape):
    return Constant.of(RNG.normal(size=shape).astype("float32"))


def conv(data):
    return apply(ops.Conv2d(padding=(1,)), data, constant(4, 4, 3, 3))


def activated(x):
    """Return what a batch norm and a ReLU make of a value; a scale below 0 stays where it is."""
    scale = Constant.of(np.float32([0.5, -2, 3, -1]).reshape(4, 1, 1))
    return shifted(apply(ops.Multiply(), x, scale))


def shifted(x):
    return apply(ops.Relu(), apply(ops.Add(), x, constant(4, 1, 1)))


def block():
    """Return a residual block whose sum is read by the next one and by its batch norm."""
    data = Variable(DATA, "data")
    x = apply(ops.Add(), conv(data), data)
    return Graph.of(apply(ops.Add(), conv(activated(x)), x))


def joint_of(graph):
    return joint_functions(graph, partition(graph))


def sizes(network):
    return [len(unit.function.outputs) for unit in network.plan.kernels]


@pytest.mark.parametrize("target", [CPU, EMULATED], ids=str)
def test_a_convolution_writes_its_sum_and_what_a_batch_norm_makes_of_it(target):
    (x,) = block().outputs
    graph = Graph.of(apply(ops.Add(), conv(shifted(x)), x))
    instance = compile_network(graph, target, jobs=2).instance()
    assert sizes(instance.network) == [2, 2, 1]
    arrays = inputs_of(graph)
    (got,), (want,) = instance(*arrays), graph.run(*arrays)
    assert np.linalg.norm(got.numpy() - want) < 1e-5 * np.linalg.norm(want)
    assert check(instance, arrays)


def test_a_sum_that_is_an_output_and_what_is_made_of_it_are_joint():
    x = conv(Variable(DATA, "data"))
    (joint,) = joint_of(Graph.of(x, activated(x)))
    assert [each.name for each in joint.parts] == [
        "fused_nn_conv2d", "fused_multiply_add_nn_relu",
    ]  # fmt: skip
    assert joint.outputs == tuple(part.outputs[0] for part in joint.parts)
    assert choose_untuned(joint, CPU).offer.nodes == 4


def test_what_is_made_of_two_sums_is_joint_with_the_later_one():
    x = conv(Variable(DATA, "data"))
    other = conv(x)
    (joint,) = joint_of(Graph.of(apply(ops.Relu(), apply(ops.Multiply(), x, other)), x, other))
    assert joint.outputs[0].shape == other.shape
    assert joint.inputs[0] not in joint.outputs
    assert len(joint.parts[0].inputs) == 2


def smaller():
    x = conv(Variable(DATA, "data"))
    return Graph.of(x, apply(ops.MaxPool2d(pool_size=(2,)), x))


def elementwise():
    x = apply(ops.Tanh(), Variable(DATA, "data"))
    return Graph.of(x, activated(x))


@pytest.mark.parametrize("graph", [smaller, elementwise])
def test_what_is_no_sum_and_what_has_another_shape_stay_apart(graph):
    assert joint_of(graph()) == []


def test_what_a_template_cannot_keep_stays_apart():
    x = conv(Variable(DATA, "data"))
    for then in (apply(ops.Tanh(), x), apply(ops.Multiply(), x, x)):
        (joint,) = joint_of(Graph.of(x, then))
        assert offers_of(joint, CPU) == offers_of(joint, EMULATED) == []
        assert choose_untuned(joint, CPU) is RULE


def trial(function, name, number, seconds):
    (offer,) = [each for each in offers_of(function, CPU) if each.task.name == name]
    candidate = offer.task.config_space.get(number)
    result = MeasureResult((seconds,), 0, 0.0, 0.0)
    return MeasureInput(CPU, offer.task, candidate), result


def test_trials_of_the_sum_alone_serve_both_until_there_are_better_ones_of_both(tmp_path):
    (joint,) = joint_of(block())
    (first, _), name = joint.parts, "conv2d_nchw.cpu"
    number = next(iter(offers_of(first, CPU)[0].task.config_space.sample(1, RNG)))
    log = NetworkLog(tmp_path / "net.log", [trial(first, name, number, 2e-6)])
    log.path.touch()
    chosen = History(log).choose(joint, CPU)
    assert (chosen.candidate.index, chosen.offer.nodes) == (number, len(joint.nodes))
    log.templates.append(trial(joint, name, number + 1, 1e-6))
    assert History(log).choose(joint, CPU).candidate.index == number + 1
    log.templates[-1] = trial(joint, name, number + 1, 1e-3)
    assert History(log).choose(joint, CPU) is RULE
    # So does a context of records.
    with ApplyHistoryBest([log.templates[0]]) as context:
        assert by_dispatch(context)(joint, CPU).candidate.index == number


def test_a_record_of_another_template_for_the_sum_alone_counts_before_what_is_untuned():
    (joint,) = joint_of(block())
    pair = trial(joint.parts[0], "te/conv2d_nchw.cpu", 3, 1e-6)
    with ApplyHistoryBest([pair]) as context:
        assert by_dispatch(context)(joint, CPU) is RULE
        assert by_dispatch(context)(joint.parts[0], CPU).workload.name == "te/conv2d_nchw.cpu"


def test_one_kernel_or_two_is_raced_and_the_log_says_which_ever_after(tmp_path, monkeypatch):
    graph, log = block(), tmp_path / "net.log"
    network = tune_network(graph, None, CPU, budget_s=3, log=log, on_round=None, seed=1)
    (joint,) = joint_of(simplify_graph(graph))
    (note,) = [n for n in NetworkLog.read(log).notes if n.get("function") == joint.signature]
    assert "rule" in dict(note["race"])
    again = compile_network(block(), CPU, choose=History(log).choose)
    assert [u.key for u in again.plan.kernels] == [u.key for u in network.plan.kernels]
    path = tmp_path / "autotune.lock"
    lock_network(network, path, time=False)
    monkeypatch.setenv("AUTOTUNE_LOCK", str(path))
    monkeypatch.setenv("AUTOTUNE_FROZEN", "1")
    frozen = compile_network(block(), CPU)
    assert [u.key for u in frozen.plan.kernels] == [u.key for u in network.plan.kernels]
