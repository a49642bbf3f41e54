"""Networks on a CPU: weights are laid out once, ahead of time, in the order of a state's loops."""

import json

import numpy as np
import pytest

from autotune import tvm
from autotune.auto_scheduler import LayoutRewriteOption, RecordedState, SketchPolicy
from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import partition
from autotune.network import check, compile_network, lock_network, report
from autotune.network.choice import RULE, BySearch
from autotune.network.choice_json import choice_from_json, choice_to_json, search_task
from autotune.network.export import export_network, load_network
from autotune.network.plan import plan_network
from autotune.network.search_tasks import extract_tasks
from autotune.target import Target
from autotune.tvm import auto_scheduler, relay
from tests.graph.networks import inputs_of

CPU = Target("c")
NO, INSERT, AHEAD = LayoutRewriteOption
RNG = np.random.default_rng(0)


def constant(*shape):
    return Constant.of(RNG.normal(size=shape).astype("float32"))


def conv():
    data = Variable(TensorType((1, 8, 6, 6)), "data")
    return apply(ops.Relu(), apply(ops.Conv2d(padding=(1,)), data, constant(16, 8, 3, 3)))


def dense(weight):
    return apply(ops.Dense(), Variable(TensorType((4, 16)), "x"), weight)


def tiled_state(function, target=CPU):
    """Return the task of a function, and a state that reads its weights in its own order."""
    task = search_task(function, target)
    ahead = task.rewriting(AHEAD)
    states = SketchPolicy(ahead, seed=0).proposer.sample(32)
    return task, next(each for each in states if any(ahead.layouts_of(each)))


def by_search(function, target):
    """Choose a state for what reduces something."""
    if not function.has_reduction:
        return RULE
    return BySearch(*tiled_state(function, target))


def is_right(graph, network):
    arrays = inputs_of(graph)
    for got, want in zip(network.instance()(*arrays), graph.run(*arrays), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)


def test_weights_are_constants_in_the_order_of_the_loops():
    graph = Graph.of(conv())
    (function,) = partition(graph)
    choice = by_search(function, CPU)
    (layout,) = [each for each in choice.workload.layouts_of(choice.candidate) if each]
    plan = plan_network(graph, target=CPU, choose=lambda *_: choice)
    (weights,) = plan.constants
    assert weights.shape == layout.tiled_shape
    np.testing.assert_array_equal(layout.inverse(weights.array), function.inputs[1].array)
    is_right(graph, compile_network(graph, CPU, choose=lambda *_: choice, jobs=1))


def test_weights_that_two_functions_share_are_laid_out_once():
    weight = constant(24, 16)
    other = Variable(TensorType((4, 16)), "y")
    graph = Graph.of(dense(weight), apply(ops.Dense(), other, weight))
    assert len(plan_network(graph, target=CPU, choose=by_search).constants) == 1
    is_right(graph, compile_network(graph, CPU, choose=by_search, jobs=1))


def test_weights_that_are_inputs_are_read_as_they_are():
    weight = Variable(TensorType((24, 16)), "w")
    (function,) = partition(Graph.of(dense(weight)))
    assert search_task(function, CPU).layout_rewrite_option is NO
    graph = Graph.of(dense(weight))
    is_right(graph, compile_network(graph, CPU, choose=by_search, jobs=1))


def test_of_two_layers_of_one_structure_the_one_with_known_weights_has_them_laid_out():
    data, weight = Variable(TensorType((4, 16)), "y"), Variable(TensorType((24, 16)), "w")
    graph = Graph.of(dense(constant(24, 16)), apply(ops.Dense(), data, weight))
    network = compile_network(graph, CPU, choose=by_search, jobs=1)
    tiled = [bool(unit.choice.prepared) for unit in network.plan.kernels]
    assert tiled == [True, False]
    is_right(graph, network)


def test_a_report_says_so_and_all_kernels_are_right():
    graph = Graph.of(conv())
    instance = compile_network(graph, CPU, choose=by_search, jobs=1).instance()
    (step,) = report(instance, rounds=1, floors=False).steps
    assert step.kernel.startswith("auto-scheduler state-")
    assert step.kernel.endswith(", weights laid out ahead of time")
    assert check(instance, inputs_of(graph))


def test_a_network_in_a_file_keeps_the_order_of_its_weights(tmp_path):
    graph = Graph.of(conv())
    network = compile_network(graph, CPU, choose=by_search, jobs=1)
    export_network(network, tmp_path / "net.so")
    again = load_network(tmp_path / "net.so")
    assert [c.shape for c in again.plan.constants] == [c.shape for c in network.plan.constants]
    np.testing.assert_array_equal(again.plan.constants[0].array, network.plan.constants[0].array)
    is_right(graph, again)


def test_such_a_network_is_locked_timed_and_frozen(tmp_path, monkeypatch):
    """The trials of the lock verify the kernels, the weights laid out as they read them."""
    graph, path = Graph.of(conv()), tmp_path / "autotune.lock"
    network = compile_network(graph, CPU, choose=by_search, jobs=1)
    assert lock_network(network, path) == 1
    monkeypatch.setenv("AUTOTUNE_LOCK", str(path))
    monkeypatch.setenv("AUTOTUNE_FROZEN", "1")
    again = compile_network(graph, CPU)
    assert [unit.key for unit in again.plan.kernels] == [unit.key for unit in network.plan.kernels]
    is_right(graph, again)


def test_a_choice_is_made_again_from_its_data():
    (function,) = partition(Graph.of(conv()))
    choice = by_search(function, CPU)
    again = choice_from_json(json.loads(json.dumps(choice_to_json(choice))), function, CPU)
    assert again.key == choice.key
    assert again.prepared == choice.prepared
    natural = BySearch(choice.workload.rewriting(NO), choice.candidate)
    assert natural.key != choice.key


@pytest.mark.parametrize(("target", "option"), [("llvm", AHEAD), ("cuda -arch=sm_90", NO)])
def test_tasks_of_a_network_measure_what_it_will_run(target, option):
    tasks, _ = extract_tasks(Graph.of(conv()), None, target)
    assert [task.layout_rewrite_option for task in tasks] == [option]
    product = apply(ops.BatchMatmul(), *[
        apply(ops.Relu(), Variable(TensorType((2, 4, 8)), name)) for name in "ab"
    ])  # fmt: skip
    graph = Graph.of(apply(ops.Relu(), product))
    assert {task.layout_rewrite_option for task in extract_tasks(graph, None, target)[0]} <= {
        option, NO,
    }  # fmt: skip


def test_records_are_replayed_with_the_weights_laid_out(tmp_path):
    """Keys are those that TVM gives, and the log says which option was measured."""
    data, weight = relay.var("data", shape=(1, 6, 6, 8)), relay.var("w", shape=(3, 3, 8, 16))
    layer = relay.nn.conv2d(data, weight, data_layout="NHWC", kernel_layout="HWIO", padding=(1, 1))
    module = tvm.IRModule.from_expr(relay.nn.relu(layer))
    params = {"w": RNG.normal(size=(3, 3, 8, 16)).astype("float32")}
    (task,), _ = auto_scheduler.extract_tasks(module["main"], params, Target("llvm"))
    states = SketchPolicy(task, seed=0).proposer.sample(32)
    state = next(each for each in states if any(task.layouts_of(each)))
    result = auto_scheduler.MeasureResult([1e-6], 0, "", 0.1, 0)
    log = tmp_path / "log.json"
    auto_scheduler.save_records(
        log, [auto_scheduler.MeasureInput(task, RecordedState(state.transform_steps))], [result]
    )
    (row,) = [json.loads(line) for line in log.read_text().splitlines() if line[0] == "{"]
    assert row["i"][0][4] == AHEAD
    context = tvm.transform.PassContext(
        opt_level=3, config={"relay.backend.use_auto_scheduler": True}
    )
    with auto_scheduler.ApplyHistoryBest(str(log)), context:
        library = relay.build(module, target="llvm", params=params)
    network = library.network
    assert any(unit.choice.prepared for unit in network.plan.kernels)
    is_right(module["main"].graph.bind(params), network)
