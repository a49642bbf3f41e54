"""TVM's ``relay.vm.compile`` and ``VirtualMachine``, for networks of constant extents."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.tvm import cpu, nd, relay
from autotune.tvm.contrib.graph_executor import GraphModule
from autotune.tvm.runtime import load_module, vm

X, W = np.arange(6, dtype="float32").reshape(2, 3), np.ones((4, 3), "float32")


def machine():
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    module = relay.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    return vm.VirtualMachine(relay.vm.compile(module, "llvm", params={"w": nd.array(W)}), cpu())


def test_inputs_are_set_before_a_run_or_given_to_it():
    one = machine()
    one.set_input("main", **{"x": nd.array(X)})
    for result in (one.run(), one.run(X), one.invoke("main", X)):
        np.testing.assert_array_equal(result.numpy(), X @ W.T)


def test_inputs_are_set_one_by_one_and_outputs_read_afterwards():
    one = machine()
    with pytest.raises(GraphError, match="expected a run before it"):
        one.get_outputs()
    one.set_one_input("main", "x", X)
    one.invoke_stateful("main")
    (first,) = one.get_outputs()
    one.set_one_input("main", x=nd.array(X + 1))
    into = nd.empty((2, 4))
    one.set_outputs("main", into)
    one.invoke_stateful("main")
    np.testing.assert_array_equal(first.numpy(), X @ W.T)
    np.testing.assert_array_equal(into.numpy(), (X + 1) @ W.T)
    assert one.get_outputs()[0] is into
    assert (one.get_input_index("x"), one.get_input_index("w")) == (0, -1)


def test_whole_runs_are_timed():
    one = machine()
    for more in ({"end_to_end": True}, {"min_repeat_ms": 1}):
        times = one.benchmark(cpu(), X, func_name="main", repeat=3, number=2, **more)
        assert len(times.results) == 3
        assert times.mean > 0
        assert "mean (ms)" in str(times)


def test_a_network_that_was_loaded_is_run(tmp_path):
    x = relay.var("x", shape=(2, 3))
    code, library = relay.vm.compile(relay.Function([x], relay.nn.relu(x)), "llvm").save()
    library.export_library(tmp_path / "a.so")
    loaded = vm.Executable.load_exec(bytearray(code), load_module(tmp_path / "a.so"))
    got = relay.vm.VirtualMachine(loaded, [cpu(), cpu()]).invoke("main", X - 2)
    np.testing.assert_array_equal(got.numpy(), np.maximum(X - 2, 0))
    net = GraphModule(loaded.get_function("default")(cpu()))
    net.run(x=X - 2)
    np.testing.assert_array_equal(net.get_output(0).numpy(), got.numpy())
    with pytest.raises(GraphError, match=r"bytecode must be what Executable\.save returned"):
        vm.Executable.load_exec(b"TVM's", loaded)
    with pytest.raises(GraphError, match="bytecode must be what"):
        vm.Executable.load_exec(None, loaded)
    assert loaded.save()[0] == code


def test_results_go_to_arrays_of_the_runtime_alone():
    with pytest.raises(GraphError, match="set_outputs: args must be arrays of"):
        machine().set_outputs("main", X)


@pytest.mark.parametrize("args", [(), ("x",), (X, X, X), ({}, X)], ids=len)
def test_what_is_not_one_input_is_refused(args):
    with pytest.raises(GraphError, match="set_one_input: "):
        machine().set_one_input("main", *args)


def test_other_functions_and_other_libraries_are_refused():
    with pytest.raises(GraphError, match="func_name must be one of"):
        machine().set_input("x", X)
    with pytest.raises(GraphError, match=r"exe must be what relay\.vm\.compile returns"):
        vm.VirtualMachine("library.so", cpu())
