"""Networks built with the records of a log: they are found, used, and right."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from autotune import tvm
from autotune.driver import kernel_of
from autotune.errors import RecordError
from autotune.graph.fuse import partition
from autotune.network.search_tasks import pipeline_for
from autotune.target import Target
from autotune.tvm import auto_scheduler, relay
from autotune.tvm.contrib import graph_executor

PUBLISHED = Path(__file__).parent.parent / "data/auto_scheduler/resnet-18-NHWC-B1-cuda.json"
TUNED = {"relay.backend.use_auto_scheduler": True}


def two_layers():
    """Return a module of a convolution and a dense layer, and its parameters."""
    data, filters = relay.var("data", shape=(1, 6, 6, 4)), relay.var("filters", shape=(1, 1, 4, 8))
    layer = relay.nn.conv2d(data, filters, data_layout="NHWC", kernel_layout="HWIO")
    flat = relay.nn.batch_flatten(relay.nn.relu(layer))
    out = relay.nn.dense(flat, relay.var("weight", shape=(10, 288)))
    rng = np.random.default_rng(0)
    shapes = {"filters": (1, 1, 4, 8), "weight": (10, 288)}
    params = {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    return tvm.IRModule.from_expr(out), params


def build(history, module, params):
    with history, tvm.transform.PassContext(opt_level=3, config=TUNED):
        return relay.build(module, target="llvm", params=params)


def body(kernel):
    """Return the text of a kernel from its parameters on."""
    return kernel.source.rpartition("void ")[2].partition("(")[2]


def is_right(library, module, params):
    data = np.random.default_rng(1).normal(size=(1, 6, 6, 4)).astype("float32")
    dev = tvm.device("llvm", 0)
    net = graph_executor.GraphModule(library["default"](dev))
    net.set_input("data", tvm.nd.array(data))
    net.run()
    (want,) = module["main"].graph.bind(params).run(data)
    return np.allclose(net.get_output(0).numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """Return a tuned network, its parameters, its tasks and its log."""
    log = tmp_path_factory.mktemp("tuned") / "net.json"
    module, params = two_layers()
    tasks, weights = auto_scheduler.extract_tasks(
        module["main"], params, tvm.target.Target("llvm")
    )
    context = auto_scheduler.LocalRPCMeasureContext(repeat=1, min_repeat_ms=1, timeout=10)
    options = auto_scheduler.TuningOptions(
        num_measure_trials=4 * len(tasks), runner=context.runner,
        measure_callbacks=[auto_scheduler.RecordToFile(str(log))],
    )  # fmt: skip
    auto_scheduler.TaskScheduler(tasks, weights, callbacks=[]).tune(options)
    return module, params, tasks, log


def test_the_best_records_of_a_log_are_the_kernels_of_a_network(tuned):
    module, params, tasks, log = tuned
    library = build(auto_scheduler.ApplyHistoryBest(str(log)), module, params)
    bodies = [body(each.kernel) for each in library.network.modules]
    for task in tasks:
        best, _ = auto_scheduler.load_best_record(str(log), task.workload_key, "llvm")
        option = task.layout_rewrite_option
        schedule, arguments = task.compute_dag.apply_steps_from_state(best.state, option)
        kernel = kernel_of((schedule, list(arguments)), Target("llvm"), "any")
        assert body(kernel) in bodies
    untuned = build(auto_scheduler.ApplyHistoryBest(None), module, params)
    other = [body(each.kernel) for each in untuned.network.modules]
    assert not set(bodies) & set(other)
    assert is_right(library, module, params)


def test_records_may_be_given_themselves_and_logs_may_be_several(tuned):
    _, _, tasks, log = tuned
    pairs = list(auto_scheduler.RecordReader(str(log)))
    keys = [task.workload_key for task in tasks]
    for records in (pairs, [str(log), log.parent / "none.json"], (each for each in pairs)):
        history = auto_scheduler.ApplyHistoryBest(records)
        assert all(history.query(Target("llvm"), key) for key in keys)
        assert not any(history.query(Target("cuda"), key) for key in keys)


def test_a_record_that_does_not_fit_costs_a_warning_and_the_function_runs_untuned(
    tuned, tmp_path, caplog
):
    module, params, tasks, log = tuned
    one, other = (task.workload_key for task in tasks)
    name = {key: key.split('"')[1] for key in (one, other)}
    text = log.read_text().replace(name[one], "held").replace(name[other], name[one])
    # The steps of each layer under the key of the other one.
    shapes = {key: key.partition(",")[2] for key in (one, other)}
    text = text.replace(shapes[one], "shapes").replace(shapes[other], shapes[one])
    text = text.replace("held", name[other]).replace("shapes", shapes[other])
    # What says of which graph they are would tell; TVM's logs do not say it.
    text = re.sub(r'"graph_hash": "\w*"', '"graph_hash": null', text)
    (tmp_path / "wrong.json").write_text(text)
    library = build(auto_scheduler.ApplyHistoryBest(tmp_path / "wrong.json"), module, params)
    assert "cannot be used" in caplog.text
    assert is_right(library, module, params)


def test_the_fastest_record_that_fits_is_used_and_not_an_untuned_kernel(tuned, tmp_path, caplog):
    module, params, tasks, log = tuned
    broken = []
    for line in log.read_text().splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            row["i"][1][1] = [["SP", 99, 0, 64, [4], 1]]
            row["r"][0] = [1e-12]
            broken.append(json.dumps(row))
    (tmp_path / "broken.json").write_text("\n".join([*broken, log.read_text()]))
    wanted = build(auto_scheduler.ApplyHistoryBest(str(log)), module, params)
    assert not caplog.text
    history = auto_scheduler.ApplyHistoryBest(tmp_path / "broken.json")
    library = build(history, module, params)
    bodies = [[body(each.kernel) for each in one.network.modules] for one in (wanted, library)]
    assert bodies[0] == bodies[1]
    assert caplog.text.count("cannot be used") == len(tasks)
    assert caplog.text.count("a slower one is used") == len(tasks)
    for task in tasks:
        best, _ = auto_scheduler.load_best_record(str(log), task.workload_key, "llvm")
        found = history.query(Target("llvm"), task.workload_key, dag=task.compute_dag)
        assert found == best.config


def test_every_task_of_resnet_18_finds_its_record_in_the_published_log():
    module, params = relay.testing.resnet.get_workload(
        num_layers=18, batch_size=1, layout="NHWC", dtype="float32", image_shape=(224, 224, 3)
    )
    target = Target("cuda")
    history = auto_scheduler.ApplyHistoryBest(str(PUBLISHED))
    found = []
    best = history.best
    history.best = lambda *asked: found.append(best(*asked)) or found[-1]
    graph = pipeline_for(target)(module["main"].graph.bind(params), 3)
    functions = {each.signature: each for each in partition(graph, 3) if not each.is_free}
    kernels = [history.kernel_for(each, target) for each in functions.values()]
    used = {each.task.workload_key for each in found if each is not None}
    assert (len(used), len(kernels)) == (24, 29)


def test_a_record_whose_key_was_changed_is_found_by_the_graph_that_it_says(tuned, tmp_path):
    _, _, tasks, log = tuned
    one, other = tasks
    text = log.read_text()
    key = json.dumps(one.workload_key)[1:-1]
    swapped = tmp_path / "swapped.json"
    swapped.write_text(text.replace(key, json.dumps(other.workload_key)[1:-1]))
    history = auto_scheduler.ApplyHistoryBest(str(swapped))
    graph = one.graph_hash
    assert history.best(Target("llvm"), one.workload_key, graph) is None
    best, _ = auto_scheduler.load_best_record(str(log), one.workload_key, "llvm")
    assert str(history.best(Target("llvm"), graph).state) == str(best.state)
    own, _ = auto_scheduler.load_best_record(str(log), other.workload_key, "llvm")
    found = history.best(Target("llvm"), other.workload_key, other.graph_hash)
    assert str(found.state) == str(own.state)


def test_a_script_asks_with_the_five_arguments_of_tvm(tuned, caplog):
    _, _, tasks, log = tuned
    one, other = tasks
    empty, full = auto_scheduler.ApplyHistoryBest(None), auto_scheduler.ApplyHistoryBest(str(log))
    asked = ("llvm", one.workload_key, True, one.compute_dag, "fused_dense")
    best, _ = auto_scheduler.load_best_record(str(log), one.workload_key, "llvm")
    assert full.query(*asked) == best.state
    one.compute_dag.apply_steps_from_state(full.query(*asked))
    assert full.query("llvm", "another key", True, one.compute_dag, "found by its graph")
    assert not caplog.text
    assert [empty.query(*asked) for _ in range(2)] == [None, None]
    assert caplog.text.count("fused_dense\nCannot find tuned schedules for target=llvm") == 1
    assert empty.query("llvm", "simple", False, None, "simple") is None
    assert "simple" not in caplog.text
    with full, empty:
        found = auto_scheduler.DispatchContext.current.query(*asked)
        assert found == best.state, "the context around it knows"
    assert empty.query(*asked) is None
    empty.update("llvm", one.workload_key, best.state)
    assert empty.query(*asked) == best.state
    assert empty.query("llvm", other.workload_key) is None
    assert auto_scheduler.DispatchContext.current.query("llvm", one.workload_key) is None


def test_the_context_around_has_the_records_of_functions_that_the_inner_one_has_not(tuned):
    module, params, tasks, log = tuned
    # Both contexts take pairs, which do not tell of the races that a log knows.
    pairs = list(auto_scheduler.RecordReader(str(log)))
    first = [pair for pair in pairs if pair[0].task.workload_key == tasks[0].workload_key]
    with auto_scheduler.ApplyHistoryBest(pairs):
        nested = build(auto_scheduler.ApplyHistoryBest(first), module, params)
    plain = build(auto_scheduler.ApplyHistoryBest(pairs), module, params)
    bodies = [[body(each.kernel) for each in one.network.modules] for one in (nested, plain)]
    assert bodies[0] == bodies[1]


def test_a_context_that_is_entered_again_within_another_asks_each_once(tuned):
    _, _, tasks, log = tuned
    pairs = list(auto_scheduler.RecordReader(str(log)))
    keys = [task.workload_key for task in tasks]
    parts = [[pair for pair in pairs if pair[0].task.workload_key == key] for key in keys]
    one, other = map(auto_scheduler.ApplyHistoryBest, parts)

    def known(context):
        return [context.query("llvm", key) is not None for key in (*keys, "a third")]

    with one:
        with other:
            with one:
                assert known(one) == known(other) == [True, True, False]
            assert known(other) == [True, True, False]
        assert known(one) == [True, False, False], "the other one was left"
    with auto_scheduler.ApplyHistoryBest(None) as empty, empty:
        assert empty.is_empty


@pytest.mark.parametrize("records", [5, 1.5, [5], [None], ""])
def test_what_is_no_log_is_refused(records):
    with pytest.raises(RecordError, match="ApplyHistoryBest: records must be a"):
        auto_scheduler.ApplyHistoryBest(records)


def test_a_record_is_used_whose_graph_is_the_same_under_another_key(tuned, tmp_path):
    module, params, tasks, log = tuned
    text = log.read_text()
    for number, task in enumerate(tasks):
        text = text.replace(json.loads(task.workload_key)[0], f"{number:032d}")
    renamed = tmp_path / "renamed.json"
    renamed.write_text(text)
    libraries = [
        build(auto_scheduler.ApplyHistoryBest(str(each)), module, params)
        for each in (log, renamed)
    ]
    first, second = ([body(m.kernel) for m in each.network.modules] for each in libraries)
    assert first == second
    untuned = build(auto_scheduler.ApplyHistoryBest(None), module, params)
    assert first != [body(each.kernel) for each in untuned.network.modules]
