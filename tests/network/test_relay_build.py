"""TVM's way through a network: extract, build, run, benchmark, export, load."""

import json
import struct

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import GraphError, KernelError
from autotune.tvm import auto_scheduler, relay
from autotune.tvm.contrib import graph_executor, graph_runtime
from tests.auto_scheduler.resnet18 import printed_tasks
from tests.graph.networks import SMALL, drawn, inputs_of


@pytest.fixture(scope="module")
def squeezenet():
    module, params = SMALL["squeezenet-1.1"]()
    params = drawn(params)
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(module, target="llvm", params=params)
    graph = module["main"].graph.bind(params)
    (data,) = inputs_of(graph)
    return library, data, graph.run(data)[0]


def test_the_tasks_of_the_tutorial_are_extracted_with_weights_and_texts():
    module, params = relay.testing.resnet.get_workload(
        num_layers=18, batch_size=1, layout="NHWC", dtype="float32", image_shape=(224, 224, 3)
    )
    target = tvm.target.Target("cuda")
    tasks, weights = auto_scheduler.extract_tasks(module["main"], params, target)
    printed = {task.key: task.text for task in printed_tasks()}
    assert {task.workload_key: str(task.compute_dag) for task in tasks} == printed
    assert (len(tasks), sum(weights), sorted(weights)[-1]) == (24, 25, 2)
    assert tasks[0].desc == "fused_nn_conv2d_add_nn_relu"
    again, _ = auto_scheduler.extract_tasks(module, params, "cuda")
    assert [task.workload_key for task in again] == [task.workload_key for task in tasks]


def test_simple_tasks_and_the_text_of_all_graphs_are_given_where_asked_for(tmp_path):
    data, weight = relay.var("data", shape=(4, 32)), relay.var("weight", shape=(32, 32))
    out = relay.nn.relu(relay.nn.dense(relay.nn.relu(relay.nn.dense(data, weight)), weight))
    module = tvm.IRModule.from_expr(relay.add(out, relay.transpose(relay.transpose(out))))
    params = {"weight": np.ones((32, 32), "float32")}
    log = tmp_path / "dags.json"
    tasks, weights = auto_scheduler.extract_tasks(
        module, params, "llvm", dump_workload_to_dag_log=str(log)
    )
    assert (len(tasks), weights) == (1, [2])
    assert json.loads(log.read_text())[tasks[0].workload_key] == str(tasks[0].compute_dag)
    more, _ = auto_scheduler.extract_tasks(module, params, "llvm", include_simple_tasks=True)
    assert len(more) > 1


def test_a_network_runs_as_the_tutorial_runs_it(squeezenet):
    library, data, want = squeezenet
    dev = tvm.device("llvm", 0)
    module = graph_executor.GraphModule(library["default"](dev))
    module.set_input("data", tvm.nd.array(data))
    module.run()
    got = module.get_output(0).numpy()
    assert np.linalg.norm(got - want) / np.linalg.norm(want) < 1e-5
    out = module.get_output(0, tvm.nd.empty(want.shape))
    np.testing.assert_array_equal(out.numpy(), got)
    module.set_input(0, np.zeros_like(data))
    module.run(data=data)
    np.testing.assert_array_equal(module["get_output"](0).numpy(), got)
    assert module.get_input_info() == ({"data": (1, 3, 56, 56)}, {"data": "float32"})
    assert (module.get_input_index("data"), module.get_input_index("weight")) == (0, -1)
    assert (module.get_num_inputs(), module.get_num_outputs()) == (1, 1)


def test_times_are_printed_as_tvm_prints_them(squeezenet):
    library, data, _ = squeezenet
    dev = tvm.device("llvm", 0)
    module = graph_executor.GraphModule(library["default"](dev))
    result = module.benchmark(dev, repeat=2, number=1, data=data)
    lines = str(result).split("\n")
    assert lines[0] == "Execution time summary:"
    assert lines[1] == " mean (ms)   median (ms)    max (ms)     min (ms)     std (ms)  "
    assert [len(cell) for cell in lines[2].split()] == [len(f"{x * 1e3:.4f}") for x in (
        result.mean, result.median, result.max, result.min, result.std)]  # fmt: skip
    assert len(lines[2]) == 5 * 12 + 4 + 15
    assert module.benchmark(dev, repeat=1, number=1, end_to_end=True).mean > 0
    with pytest.raises(GraphError, match="expected 'run'"):
        module.benchmark(dev, func_name="get_output")


def test_wrong_inputs_are_told(squeezenet):
    library, data, _ = squeezenet
    module = graph_executor.GraphModule(library["default"](tvm.cpu(0)))
    with pytest.raises(RuntimeError, match="Could not find 'image' in graph's inputs"):
        module.set_input("image", data)
    module.set_input(image=data)  # skipped, as in TVM
    with pytest.raises(RuntimeError, match="shape"):
        module.set_input("data", data[:, :2])
    with pytest.raises(GraphError, match='expected lib\\["default"\\]'):
        graph_executor.GraphModule(library)
    with pytest.raises(GraphError, match="expected 'default', got 'main'"):
        library["main"]


def test_a_network_has_the_time_evaluator_of_a_module(squeezenet):
    library, _, _ = squeezenet
    module = graph_executor.GraphModule(library["default"](tvm.cpu(0)))
    timed = module.module.time_evaluator("run", tvm.cpu(0), number=1, repeat=1)()
    assert timed.results
    assert timed.min > 0
    with pytest.raises(GraphError, match="time_evaluator: func_name must be 'run', got 'main'"):
        module.module.time_evaluator("main")
    with pytest.raises(GraphError, match="dev must be cpu:0, where the network runs"):
        module.module.time_evaluator("run", tvm.cuda(0))
    with pytest.raises(KernelError, match="time_evaluator: number must be"):
        module.module.time_evaluator("run", number=0)
    with pytest.raises(AttributeError, match="save is not here: export_library"):
        library.save("net.o")


def test_a_library_comes_back_from_a_file_with_the_same_bits(squeezenet, tmp_path):
    library, data, _ = squeezenet
    first = graph_executor.GraphModule(library["default"](tvm.cpu(0)))
    first.run(data=data)
    library.export_library(tmp_path / "net.so")
    loaded = tvm.runtime.load_module(tmp_path / "net.so")
    module = graph_executor.GraphModule(loaded["default"](tvm.cpu(0)))
    module.run(data=data)
    np.testing.assert_array_equal(module.get_output(0).numpy(), first.get_output(0).numpy())
    (tmp_path / "cut.so").write_bytes((tmp_path / "net.so").read_bytes()[:5000])
    with pytest.raises(RuntimeError, match="must be what export_library wrote"):
        tvm.runtime.load_module(tmp_path / "cut.so")
    with pytest.raises(GraphError, match="cannot write"):
        library.export_library(tmp_path / "no" / "net.so")


def test_the_three_parts_of_old_scripts_can_be_taken_apart(squeezenet):
    library, data, want = squeezenet
    with pytest.warns(DeprecationWarning, match="legacy graph executor"):
        graph, lib, params = library
    assert json.loads(graph)["arg_nodes"] == [0]
    module = graph_runtime.create(graph, lib, tvm.cpu(0))
    module.set_input(**params)
    module.run(data=data)
    assert np.linalg.norm(module.get_output(0).numpy() - want) < 1e-5 * np.linalg.norm(want)
    assert "void" in library.get_lib().imported_modules[0].get_source()


def test_a_log_that_is_missing_costs_a_warning_and_the_network_runs(tmp_path, caplog):
    module, params = SMALL["mlp"]()
    with (
        auto_scheduler.ApplyHistoryBest(str(tmp_path / "none.json")),
        tvm.transform.PassContext(opt_level=3, config={"relay.backend.use_auto_scheduler": True}),
    ):
        library = relay.build(module, target="llvm", params=params)
    assert "none.json" in caplog.text
    graph_executor.GraphModule(library["default"](tvm.cpu(0))).run()


def test_parameters_have_the_bytes_of_tvm():
    data = relay.save_param_dict({"b": np.float32([1, 2]), "a": np.int8([[3]])})
    head = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, 2)
    names = struct.pack("<Q", 1) + b"a" + struct.pack("<Q", 1) + b"b" + struct.pack("<Q", 2)
    magic = 0xDD5E40F096B4A13F
    first = struct.pack("<QQiiiBBHqqq", magic, 0, 1, 0, 2, 0, 8, 1, 1, 1, 1) + b"\x03"
    second = struct.pack("<QQiiiBBHqqff", magic, 0, 1, 0, 1, 2, 32, 1, 2, 8, 1, 2)
    assert data == head + names + first + second
    loaded = tvm.runtime.load_param_dict(data)
    assert [*loaded] == ["a", "b"]
    np.testing.assert_array_equal(loaded["b"].numpy(), np.float32([1, 2]))
    for bad in (data[:-3], b"x" * 100, b""):
        with pytest.raises(GraphError, match="load_param_dict: expected"):
            relay.load_param_dict(bad)


def test_expressions_are_written_as_in_tvm_and_what_is_not_there_says_so():
    x = relay.var("x", shape=(2, 3))
    function = relay.Function([x], relay.nn.softmax(relay.nn.relu(x)))
    module = tvm.IRModule.from_expr(function)
    assert relay.analysis.free_vars(function.body) == [x]
    assert "nn.softmax(%0)" in str(module["main"])
    wrapped = relay.Function(
        module["main"].params, relay.exp(module["main"].body), None, function.type_params,
        function.attrs,
    )  # fmt: skip
    assert "exp" in str(tvm.IRModule.from_expr(wrapped))
    with pytest.raises(GraphError, match="expected one of \\['main'\\]"):
        module["other"]
    with pytest.raises(AttributeError):
        _ = relay.nn.unknown_operator
    with pytest.raises(GraphError, match="target must be given"):
        relay.build(module)
    with pytest.raises(GraphError, match="expected a shape"):
        relay.exp(relay.var("weight"))


def test_attributes_of_a_transposed_convolution_that_its_weight_contradicts_are_refused():
    data, weight = relay.var("data", shape=(1, 4, 5, 5)), relay.var("weight", shape=(4, 6, 3, 3))
    fits = {"channels": 6, "kernel_size": (3, 3)}
    assert relay.nn.conv2d_transpose(data, weight, strides=(2, 2), **fits).shape == (1, 6, 11, 11)
    for wrong, message in (
        ({"channels": 7}, "7 output channels"),
        ({"kernel_size": 4}, "windows 4"),
    ):
        with pytest.raises(GraphError, match=message):
            relay.nn.conv2d_transpose(data, weight, **fits | wrong)
