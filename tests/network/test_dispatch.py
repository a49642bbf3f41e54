"""Networks built with the logs of templates: this project's, and those that TVM published."""

import json
from pathlib import Path

import autotune.templates
import numpy as np
import pytest

import autotune
from autotune.graph.fuse import partition
from autotune.graph.passes import OWN
from autotune.network import History, compile_network
from autotune.network.choice import by_dispatch
from autotune.network.implementations import FunctionOffer
from autotune.target import Target
from autotune.task import DispatchContext
from autotune.tvm import autotvm, relay
from autotune.tvm import transform as tvm_transform
from autotune.tvm.contrib import graph_executor
from autotune.tvm.relay import testing
from tests.graph.networks import bound, drawn, inputs_of

ROW = {
    "input": ["llvm", "conv2d_nchw.cpu", [1, 10, 10, 6, 4, 3, 3, [1, 1], [1, 1]], {}],
    "result": [[1.5e-05], 0, 0.06, 1795306234.8],
    "version": 0.2,
    "tvm_version": "0.12.0",
}
TOPHUB = Path("tests/data/logs/tophub_cuda_v0.10.log")


def layer():
    data = relay.var("data", shape=(1, 4, 10, 10))
    weight, bias = relay.var("weight", shape=(6, 4, 3, 3)), relay.var("bias", shape=(6,))
    x = relay.nn.conv2d(data, weight, channels=6, kernel_size=(3, 3), padding=(1, 1))
    x = relay.nn.relu(relay.nn.bias_add(x, bias))
    return testing.create_workload(relay.nn.batch_flatten(x))


def test_a_record_that_leaves_out_defaults_serves_a_layer_with_more_behind_it(tmp_path):
    """Scripts make tasks without the arguments that say what follows: no bias, no ReLU."""
    name, args = ROW["input"][1], (1, 10, 10, 6, 4, 3, 3, (1, 1), (1, 1))
    task = autotune.create(name, args, "llvm")
    other = task.config_space.get(250)
    assert other.key != task.default().key
    log = tmp_path / "log.json"
    log.write_text(json.dumps(ROW | {"config": other.to_json_dict()}) + "\n")
    module, params = layer()
    with autotvm.apply_history_best(str(log)), tvm_transform.PassContext(opt_level=3):
        library = relay.build_module.build(module, target="llvm", params=params)
    (unit,) = library.network.plan.kernels
    assert unit.choice.candidate.key == other.key


def test_the_loop_of_tvms_page_tunes_picks_and_builds(tmp_path):
    module, params = layer()
    tasks = autotvm.task.extract_from_program(
        module["main"], target="llvm", params=params, ops=(relay.op.get("nn.conv2d"),)
    )
    trials, log = str(tmp_path / "all.log.tmp"), str(tmp_path / "all.log")
    option = autotvm.measure_option(
        builder=autotvm.LocalBuilder(),
        runner=autotvm.LocalRunner(
            number=1, repeat=2, min_repeat_ms=0, enable_cpu_cache_flush=True
        ),
    )
    for i, task in enumerate(reversed(tasks)):
        tuner = autotvm.tuner.XGBTuner(task, loss_type="rank", feature_type="knob")
        if Path(trials).exists():
            tuner.load_history(autotvm.record.load_from_file(trials))
        count = min(2, len(task.config_space))
        calls = [
            autotvm.callback.progress_bar(count, prefix=f"[Task {i + 1:2d}/{len(tasks):2d}] "),
            autotvm.callback.log_to_file(trials),
        ]
        tuner.tune(n_trial=count, early_stopping=5, measure_option=option, callbacks=calls)
    autotvm.record.pick_best(trials, log)
    with autotvm.apply_history_best(log), tvm_transform.PassContext(opt_level=3):
        library = relay.build_module.build(module, target="llvm", params=params)
    best, _ = next(iter(autotvm.record.load_from_file(log)))
    (unit,) = library.network.plan.kernels
    # The task is of the convolution alone; what was found for it serves the whole function.
    assert unit.choice.workload.args[-2:] == (True, True)
    assert unit.choice.candidate.key == best.config.key
    net = graph_executor.GraphModule(library["default"](autotune.cpu(0)))
    data = np.random.default_rng(0).normal(size=(1, 4, 10, 10)).astype("float32")
    net.run(data=data)
    want = module["main"].graph.bind(params).run(data)[0]
    np.testing.assert_allclose(net.get_output(0).numpy(), want, rtol=1e-4, atol=1e-5)


def test_logs_that_tvm_published_give_layers_their_configurations():
    module, params = testing.resnet.get_workload(num_layers=50)
    graph = module["main"].graph.bind(drawn(params))
    target = Target("cuda -model=v100")
    with autotvm.apply_history_best(str(TOPHUB)):
        choose = by_dispatch(DispatchContext.current)
        functions = {f.signature: f for f in partition(OWN(graph)) if "conv2d" in f.name}
        choices = [choose(each, target) for each in functions.values()]
    # Those logs are of the template that TVM had; what is in none of them has a default.
    named = [each.workload.name for each in choices if each.kind == "template"]
    theirs = {"te/conv2d_nchw.cuda", "te/conv2d_nchw_winograd.cuda"}
    assert theirs <= set(named) <= theirs | {"conv2d_nchw.cuda"}
    assert sum(map(named.count, theirs)) >= len(choices) / 2
    # Of a layer with rows of both the faster one counts: by Winograd's method, for all 3x3.
    ways = [each for each in choices if each.workload and "winograd" in each.workload.name]
    assert all(each.offer.prepared for each in ways)
    # Outside the block nothing is known.
    choose = by_dispatch(DispatchContext.current)
    unknown = [choose(each, target) for each in functions.values()]
    assert all(each.kind == "rule" or each.workload.name == "conv2d_nchw.cuda" for each in unknown)


@autotune.template("tests/dispatch/one")
def one(n):
    autotune.get_config().define_knob("knob", [1, 2])
    return autotune.SourceKernel(
        "f", "void f(float *x) {}", args=[autotune.arg("x", (n,), role="out")]
    )


autotune.template("tests/dispatch/other", one.__wrapped__)


def test_a_time_of_another_device_wins_over_no_template_with_one_of_this(monkeypatch):
    """What is known of a template without a cost was measured elsewhere, however fast it was."""
    tasks = [autotune.create(f"tests/dispatch/{name}", (8,), "c") for name in ("one", "other")]
    offers = [FunctionOffer(task, 1, (), (), (task.workload,)) for task in tasks]
    monkeypatch.setattr("autotune.network.choice.offers_of", lambda function, target: offers)

    class Known(DispatchContext):
        def __init__(self, *costs):
            self.costs = dict(zip([task.workload for task in tasks], costs, strict=True))

        def _query_inside(self, target, workload):
            return tasks[0].config_space.get(1).with_cost(self.costs[workload])

    def chosen(*costs):
        return by_dispatch(Known(*costs))(None, Target("c")).workload.name

    assert chosen(None, 2e-3) == "tests/dispatch/other"
    assert chosen(1e-3, None) == chosen(1e-3, 2e-3) == chosen(None, None) == "tests/dispatch/one"


def test_a_log_without_the_networks_layers_leaves_it_untuned(tmp_path):
    log = tmp_path / "empty.log"
    log.write_text("")
    graph = bound("dqn")
    plain = compile_network(graph, "llvm")
    with autotvm.apply_history_best(str(log)):
        choose = by_dispatch(DispatchContext.current)
        other = compile_network(graph, "llvm", choose=choose)
    history = compile_network(graph, "llvm", choose=History(log).choose)
    keys = [unit.key for unit in plain.plan.kernels]
    assert [unit.key for unit in other.plan.kernels] == keys
    assert [unit.key for unit in history.plan.kernels] == keys
    assert other.instance()(*inputs_of(graph))


def volumes(layout, kernel):
    """Return a network of a convolution of volumes and of what follows it."""
    shape = {"N": 1, "C": 3, "D": 5, "H": 6, "W": 7}
    extents = {"O": 4, "I": 3, "D": 3, "H": 3, "W": 3}
    data = relay.var("data", shape=tuple(shape[letter] for letter in layout))
    weight = relay.var("weight", shape=tuple(extents[letter] for letter in kernel))
    x = relay.nn.conv3d(
        data, weight, channels=4, kernel_size=(3, 3, 3), padding=(1, 1, 1), strides=(1, 2, 1),
        data_layout=layout, kernel_layout=kernel,
    )  # fmt: skip
    return testing.create_workload(relay.nn.relu(x))


def transposed():
    data, weight = relay.var("data", shape=(1, 6, 5, 4)), relay.var("weight", shape=(6, 3, 4, 4))
    x = relay.nn.conv2d_transpose(
        data, weight, channels=3, kernel_size=(4, 4), strides=(2, 2), padding=(1, 1)
    )
    return testing.create_workload(relay.tanh(x))


OF_TVM = {
    "conv3d_ncdhw.cuda": lambda: volumes("NCDHW", "OIDHW"),
    "conv3d_ndhwc.cuda": lambda: volumes("NDHWC", "DHWIO"),
    "conv2d_transpose_nchw.cuda": transposed,
}


@pytest.mark.parametrize("name", OF_TVM)
def test_records_of_tvms_templates_of_volumes_and_of_transposed_layers_are_used(name, tmp_path):
    """Their tasks are those of `extract_from_program`, so that records of these fit."""
    module, params = OF_TVM[name]()
    target = "cuda -emulate"
    (task,) = [
        each
        for each in autotvm.task.extract_from_program(module["main"], target=target, params=params)
        if each.name == name
    ]
    config = task.config_space.get(len(task.config_space) // 3)
    row = {
        "input": [target, name, task.args, {}],
        "config": config.to_json_dict(),
        "result": [[1e-5], 0, 0.1, 1.6e9],
        "version": 0.2,
        "tvm_version": "0.9.0",
    }
    log = tmp_path / "tvm.log"
    log.write_text(json.dumps(row) + "\n")
    with autotvm.apply_history_best(str(log)), tvm_transform.PassContext(opt_level=3):
        library = relay.build_module.build(module, target=target, params=params)
    units = library.network.plan.kernels
    used = [unit.choice for unit in units if unit.choice.kind == "template"]
    assert [(each.workload.name, each.candidate.key) for each in used] == [(name, config.key)]
    graph = module["main"].graph.bind(params)
    (data,) = inputs_of(graph)
    (got,) = library.network.instance()(data)
    np.testing.assert_allclose(got.numpy(), graph.run(data)[0], rtol=1e-4, atol=1e-5)
