"""Networks: writing, building, running and keeping them."""

import functools
import tempfile

import autotune.templates  # noqa: F401 - registers those that networks' layers are tasks of
import numpy as np

from autotune import tvm
from autotune.network import compile_network, load_network, template_tasks
from autotune.tvm import auto_scheduler, autotvm, relay
from autotune.tvm.contrib import graph_executor
from tests.badcalls import pools as bad
from tests.badcalls.api import Api

MODULE = [5, None, "abc", [], {}, bad.Odd(), 1.5]
PARAMS = [5, "abc", [], bad.Odd(), {"fc1_weight": "abc"}, {"fc1_weight": np.zeros(3)}]
NUMBERS = ["abc", 1.5, {}, None, bad.Odd(), [None], ["x"], [1.5]]
# Inputs are set by name and number.
KEY = [-1, 5, "abc", [], {}, 1.5, True, bad.Odd(), None]


@functools.cache
def network():
    """Return the module of a small network and its parameters."""
    return relay.testing.mlp.get_workload(1, image_shape=(1, 4, 4))


@functools.cache
def library():
    module, params = network()
    return relay.build(module, target="c", params=params)


def executor():
    return graph_executor.GraphModule(library()["default"](tvm.cpu(0)))


def given(**more):
    module, params = network()
    return lambda: {"mod": module, "params": params, **more}


def images():
    return {"data": relay.var("data", shape=(1, 4, 8, 8))}


def filtered():
    return {**images(), "weight": relay.var("weight", shape=(2, 4, 3, 3))}


def graph():
    return {"graph": network()[0]["main"].graph.bind(network()[1]), "target": "c"}


def exported():
    path = tempfile.mktemp()
    library().export_library(path)
    return path


BUILDING = [
    Api(
        "relay.build",
        lambda mod, **more: relay.build(mod, **more),
        given(target="c"),
        {"mod": MODULE, "params": PARAMS, "mod_name": bad.NAME},
        {"mod": "module", "params": ""},
    ),
    Api(
        "auto_scheduler.extract_tasks",
        auto_scheduler.extract_tasks,
        given(target="llvm"),
        {
            "mod": MODULE, "params": PARAMS, "opt_level": [*bad.WHOLE, -1],
            "hardware_params": [5, "abc", [], bad.Odd()],
            "dump_workload_to_dag_log": [5, [], {}, bad.Odd(), 1.5, ""],
        },
        {"mod": "module", "params": ""},
    ),
    Api(
        "extract_from_program",
        autotvm.task.extract_from_program,
        given(target="llvm"),
        {"mod": MODULE, "params": PARAMS, "ops": [5, "nn.dense", 1.5, bad.Odd()]},
        {"mod": "module", "params": ""},
    ),
    Api(
        "template_tasks",
        template_tasks,
        lambda: {**graph(), "params": None},
        {"graph": bad.OBJECT, "operators": [5, "abc", bad.Odd()]},
    ),
    Api(
        "compile_network",
        compile_network,
        graph,
        {
            "graph": bad.OBJECT, "pipeline": bad.FUNCTION, "opt_level": [*bad.WHOLE, -1],
            "kernel_for": [f for f in bad.FUNCTION if f is not None],
            "progress": [5, "abc", [], {}, bad.Odd()],
            "jobs": [n for n in bad.COUNT if n is not None],
        },
    ),
    Api(
        "ApplyHistoryBest",
        auto_scheduler.ApplyHistoryBest,
        lambda: {"records": None},
        {"records": [5, 1.5, bad.Odd(), "", [5], [None], [""]]},
    ),
]  # fmt: skip
RUNNING = [
    Api(
        "GraphModule",
        graph_executor.GraphModule,
        lambda: {"module": library()["default"](tvm.cpu(0))},
        {"module": [*MODULE, library]},
        {"module": "GraphModule"},
    ),
    Api(
        "library()",
        lambda device: library()["default"](device),
        lambda: {"device": tvm.cpu(0)},
        {"device": [5, "cpu", [], bad.Odd(), tvm.cuda(0)]},
    ),
    Api(
        "set_input",
        lambda key, value: executor().set_input(key, value),
        lambda: {"key": "data", "value": np.zeros((1, 1, 4, 4))},
        {"key": KEY, "value": [5, None, "abc", [], bad.Odd(), [[1], [2, 3]], np.zeros((1, 4, 4))]},
        {"key": "input", "value": "copyfrom"},
    ),
    Api(
        "get_output",
        lambda **given: executor().get_output(**given),
        lambda: {"index": 0},
        {"index": [*bad.INDEX, 1], "out": [5, "abc", [], bad.Odd(), np.zeros((1, 10), "f4")]},
    ),
    Api(
        "get_input",
        lambda index: executor().get_input(index),
        lambda: {"index": 0},
        {"index": KEY},
        {"index": "input"},
    ),
    Api(
        "load_params",
        lambda data: executor().load_params(data),
        lambda: {"data": relay.save_param_dict({"data": np.zeros((1, 1, 4, 4))})},
        {"data": [5, None, "abc", [], {}, b"", b"abc", bytes(100), bad.Odd()]},
        {"data": "load_param_dict"},
    ),
    Api(
        "save_param_dict",
        relay.save_param_dict,
        lambda: {"params": {"a": np.zeros(2)}},
        {"params": [5, None, "abc", [], bad.Odd(), {5: np.zeros(2)}, {None: np.zeros(2)}]},
        {"params": "param"},
    ),
    Api(
        "GraphModule.benchmark",
        lambda **given: executor().benchmark(**given),
        lambda: {"device": tvm.cpu(0), "repeat": 1, "number": 1},
        {
            "device": [5, None, "cpu", [], tvm.cuda(0), tvm.cpu(1)], "func_name": bad.CHOICE,
            "repeat": bad.COUNT, "number": bad.COUNT,
            "min_repeat_ms": [n for n in bad.NOT_NEGATIVE if n is not None],
            "cooldown_interval_ms": bad.NOT_NEGATIVE, "repeats_to_cooldown": bad.COUNT,
        },
        {"device": "benchmark", "func_name": "benchmark"},
    ),
    Api(
        "library.export_library",
        lambda path: library().export_library(path),
        lambda: {"path": tempfile.mktemp()},
        {"path": [*bad.PATH, ""]},
    ),
    Api(
        "load_network",
        load_network,
        lambda: {"path": exported()},
        {"path": [*bad.PATH, "", "no_such_file"]},
    ),
    Api(
        "tvm.runtime.load_module",
        tvm.runtime.load_module,
        lambda: {"path": exported()},
        {"path": [*bad.PATH, "", "no_such_file"]},
    ),
]  # fmt: skip
WRITING = [
    Api(
        "relay.var",
        relay.var,
        lambda: {"name_hint": "x", "shape": (2, 3)},
        {
            "name_hint": bad.TEXT,
            "shape": [*(n for n in NUMBERS if n is not None), (0,), (-1,)],
            "dtype": ["float31", 5, []],
        },
    ),
    Api(
        "Function",
        relay.Function,
        lambda: {"params": list(images().values()), "body": relay.const(1.0)},
        {"params": [*bad.LIST, [5], [None]], "body": [5, None, "abc", {}, bad.Odd()]},
        {"body": "expression"},
    ),
    Api("IRModule", tvm.IRModule, dict, {"functions": [5, "abc", [], bad.Odd()]}),
    Api(
        "relay.const",
        relay.const,
        lambda: {"value": 1.0},
        {"value": [None, "abc", {}, bad.Odd(), ["x"]]},
    ),
    Api(
        "nn.conv2d",
        relay.nn.conv2d,
        filtered,
        {
            "data": bad.OBJECT, "weight": bad.OBJECT, "strides": [*NUMBERS, 0, (1, 2, 3)],
            "padding": [*NUMBERS, -1, (1, 2, 3)], "dilation": [*NUMBERS, 0],
            "groups": [*bad.COUNT, 3], "channels": [5, "abc", []],
            "kernel_size": ["abc", 1.5, {}, bad.Odd(), [], 5, (3, 5)],
            "data_layout": bad.CHOICE, "kernel_layout": bad.CHOICE,
        },
        {"groups": "", "channels": "channels", "kernel_size": "", "data_layout": "layout"},
    ),
    Api(
        "nn.max_pool2d",
        relay.nn.max_pool2d,
        images,
        {
            "data": bad.OBJECT, "pool_size": [*NUMBERS, 0], "strides": [*NUMBERS, 0],
            "padding": [*NUMBERS, -1], "dilation": [*NUMBERS, 0], "layout": bad.CHOICE,
            "ceil_mode": [None, "yes", 5, []],
        },
    ),
    Api(
        "relay.reshape",
        relay.reshape,
        lambda: {**images(), "newshape": (4, 64)},
        {"newshape": [*NUMBERS, (3, 3)]},
        {"newshape": "shape"},
    ),
    Api(
        "relay.transpose",
        relay.transpose,
        images,
        {"axes": ["abc", 1.5, {}, bad.Odd(), (0, 1), (0, 0, 1, 2), (0, 1, 2, 9)]},
    ),
    Api(
        "relay.sum",
        relay.sum,
        images,
        {"axis": ["abc", 1.5, {}, bad.Odd(), 9, -9], "data": bad.OBJECT},
    ),
    Api(
        "nn.pad",
        relay.nn.pad,
        lambda: {**images(), "pad_width": ((0, 0), (0, 0), (1, 1), (1, 1))},
        {"pad_width": [5, None, "abc", [5], [(1,)], [(1, 2, 3)]], "pad_value": bad.NO_NUMBER},
    ),
]  # fmt: skip
NETWORKS = [*BUILDING, *RUNNING, *WRITING]
