"""A value that is read twice and what is made of it, by one kernel with two results."""

import json

import numpy as np
import pytest
from autotune.templates.epilogue import activated as applied
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import function_of, joint_functions, partition
from autotune.graph.graph import run_values
from autotune.lock import read_functions
from autotune.measure import MeasureInput, MeasureResult
from autotune.network import (
    History,
    check,
    check_functions,
    compile_network,
    lock_network,
)
from autotune.network.choice import RULE, ByTemplate, by_dispatch, choose_untuned, same_for
from autotune.network.compile import simplify_graph
from autotune.network.implementations import offers_of
from autotune.network.layer import layers_of
from autotune.network.tuning import tune
from autotune.network.tuning.budget import Budget
from autotune.network.tuning.program_race import FunctionRace
from autotune.network.tuning.tuning_log import NetworkLog
from autotune.network.tuning.variants import Variants
from autotune.target import Target
from autotune.task import ApplyHistoryBest
from tests.graph.networks import inputs_of
from tests.network.rounds import tune_rounds

CPU, EMULATED = Target("c"), Target("cuda -emulate")
RNG = np.random.default_rng(0)
DATA = TensorType((1, 4, 5, 6))


def constant(*shape):
    return Constant.of(RNG.normal(size=shape).astype("float32"))


def conv(data, channels=4):
    return apply(ops.Conv2d(padding=(1,)), data, constant(channels, channels, 3, 3))


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


def winograd_joint(*steps):
    """Return a graph of a convolution that is read twice, its second reader these steps."""
    data = Variable(TensorType((1, 16, 5, 6)), "data")
    given = apply(ops.Add(), conv(data, 16), constant(16, 1, 1))
    x = made = apply(ops.Add(), given, data)
    for name in steps:
        made = STEPS[name](made)
    return Graph.of(x, made)


def test_a_shift_without_a_scale_may_follow_winograds_sum():
    (joint,) = joint_of(winograd_joint("add", "relu"))
    (offer,) = [o for o in offers_of(joint, EMULATED) if o.task.name == "winograd_conv2d.cuda"]
    assert (offer.nodes, offer.task.args[-3:]) == (len(joint.nodes), ("NCHW", True, True))


def test_both_tiles_of_winograds_are_tried_where_tiles_are_few_and_parts_keep_theirs():
    def offers(function):
        every = offers_of(function, EMULATED)
        return {o.task.args[5]: o for o in every if o.task.name == "winograd_conv2d.cuda"}

    for extents, tiles in (((14, 14), {2, 4}), ((7, 7), {2}), ((56, 56), {4})):
        x = conv(Variable(TensorType((1, 16, *extents)), "data"), 16)
        (joint,) = joint_of(Graph.of(x, STEPS["relu"](x)))
        found = offers(joint)
        assert set(found) == tiles
        for tile, offer in found.items():
            whole = ByTemplate(offer, offer.task.default())
            first = same_for(joint.parts[0], whole, EMULATED)
            assert first.workload.args[5] == tile
            assert same_for(joint, first, EMULATED).workload == offer.task


def test_winograds_kernels_write_the_sum_too():
    graph = winograd_joint("multiply", "add", "relu")

    def choose(function, target):
        names = {each.task.name: each for each in offers_of(function, target)}
        offer = names.get("winograd_conv2d.cuda")
        if offer is None:
            return RULE
        return ByTemplate(offer, offer.task.default())

    network = compile_network(graph, EMULATED, jobs=2, choose=choose)
    assert sizes(network) == [2]
    assert network.plan.kernels[0].choice.workload.name == "winograd_conv2d.cuda"
    arrays = inputs_of(graph)
    for got, want in zip(network.instance()(*arrays), graph.run(*arrays), strict=True):
        assert np.linalg.norm(got.numpy() - want) < 1e-5 * np.linalg.norm(want)


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
    network = tune_rounds(1, graph, CPU, log, seed=1)
    (joint,) = joint_of(simplify_graph(graph, CPU))
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


# ---- what follows a sum, and in which order


STEPS = {
    "relu": lambda x: apply(ops.Relu(), x),
    "relu6": lambda x: apply(ops.Clip(0.0, 6.0), x),
    "add": lambda x: apply(ops.Add(), x, constant(x.shape[1], 1, 1)),
    "multiply": lambda x: apply(ops.Multiply(), constant(x.shape[1], 1, 1), x),
    "residual": lambda x: apply(ops.Add(), constant(*x.shape), x),
}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=5), st.integers(0, 5))
def test_an_epilogue_computes_what_its_operators_do_in_their_order(names, read_twice):
    values = [conv(Variable(TensorType((2, 4, 3, 2)), "data"))]
    for name in names:
        values.append(STEPS[name](values[-1]))
    kept = values[min(read_twice, len(names))]
    function = function_of(Graph.of(*dict.fromkeys([kept, values[-1]])))
    graph = function.graph
    arrays = {each: RNG.normal(size=each.shape) for each in graph.inputs}
    arrays |= {None: np.float64(0)}
    for count, layer in layers_of(function, CPU):
        wanted = (graph.nodes[0].output, graph.nodes[count - 1].output, graph.outputs[0])
        sums, want, first = run_values(wanted, {k: v for k, v in arrays.items() if k}, "float64")
        epilogue = layer.epilogue
        before = sums + arrays[epilogue.bias] + arrays[epilogue.residual]
        scaled = before if epilogue.scale is None else before * arrays[epilogue.scale]
        got = applied(scaled + arrays[epilogue.shift], epilogue.activation)
        np.testing.assert_allclose(got, want, atol=1e-12)
        if epilogue.kept:
            np.testing.assert_allclose(before, first, atol=1e-12)


def test_a_sum_that_is_shifted_before_it_is_scaled_is_right():
    x = conv(Variable(DATA, "data"))
    graph = Graph.of(x, STEPS["relu"](STEPS["multiply"](STEPS["add"](x))))
    arrays = inputs_of(graph)
    wants, gots = graph.run(*arrays), compile_network(graph, CPU).instance()(*arrays)
    for got, want in zip(gots, wants, strict=True):
        assert np.linalg.norm(got.numpy() - want) < 1e-5 * np.linalg.norm(want)


# ---- one kernel or two, where networks, logs and locks meet


def test_one_kernel_is_chosen_by_a_log_only_where_one_was_raced(tmp_path):
    x = conv(Variable(TensorType((1, 16, 16, 16)), "data"), 16)
    graph = Graph.of(x, STEPS["relu"](x))
    (joint,) = joint_of(graph)
    assert choose_untuned(joint.parts[0], CPU).workload.name == "winograd_conv2d.cpu"
    assert Variants(graph, CPU).joint == []  # it keeps no sum
    first = joint.parts[0]
    (offer,) = [each for each in offers_of(first, CPU) if each.task.name == "conv2d_nchw.cpu"]
    number = next(iter(offer.task.config_space.sample(1, RNG)))
    log = NetworkLog(tmp_path / "net.log", [trial(first, "conv2d_nchw.cpu", number, 1e-6)])
    log.path.touch()
    assert History(log).choose(joint, CPU) is RULE
    assert History(log).choose(first, CPU).workload.name == "conv2d_nchw.cpu"


def test_a_part_that_stands_elsewhere_too_keeps_what_won_its_own_race(tmp_path, monkeypatch):
    x = conv(Variable(DATA, "data"))
    other = conv(x)
    graph = Graph.of(other, STEPS["relu"](other))
    (joint,) = joint_of(graph)
    first = joint.parts[0]
    log = NetworkLog(tmp_path / "net.log", [trial(first, "te/conv2d_nchw.cpu", 3, 1e-6)])
    log.path.touch()
    tuning = tune._Tuning(graph, CPU, log, Budget(100.0), None)
    monkeypatch.setattr(tuning, "_entrants", lambda finalists, where: [None] * 9)

    def race(finalists, instances, left_s):
        return [
            FunctionRace(key, "", field[-1], (1.0,) * len(field), tuple(field), 4)
            for key, field in finalists.items()
        ]

    monkeypatch.setattr(tune, "race", race)
    tuning._race(tuning._finalists(History(log)))
    notes = [n for n in NetworkLog.read(log.path).notes if n.get("function") == first.signature]
    assert [json.loads(n["choice"]["task"])[0] for n in notes] == ["te/conv2d_nchw.cpu"]


def test_a_network_that_is_locked_again_with_two_kernels_gets_two(tmp_path, monkeypatch):
    def apart(function, target):
        return RULE if function.parts else choose_untuned(function, target)

    graph, path = block(), tmp_path / "autotune.lock"
    one, two = compile_network(graph, CPU), compile_network(graph, CPU, choose=apart)
    assert (sizes(one), sizes(two)) == ([2, 1], [1, 1, 1])
    monkeypatch.setenv("AUTOTUNE_LOCK", str(path))
    for network in (one, two, one):
        lock_network(network, path, time=False)
        with monkeypatch.context() as patched:
            patched.setenv("AUTOTUNE_FROZEN", "1")
            assert sizes(compile_network(block(), CPU)) == sizes(network)


def test_what_is_locked_of_two_results_still_holds(tmp_path):
    path = tmp_path / "autotune.lock"
    lock_network(compile_network(block(), CPU), path, time=False)
    assert [each.outcome for each in check_functions(read_functions(path), None)] == ["holds"] * 2
