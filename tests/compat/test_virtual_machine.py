"""TVM's ``relay.vm.compile`` and ``VirtualMachine``, for networks of constant extents."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.tvm import cpu, nd, relay
from autotune.tvm.runtime import vm

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


def test_other_functions_and_other_libraries_are_refused():
    with pytest.raises(GraphError, match="func_name must be one of"):
        machine().set_input("x", X)
    with pytest.raises(GraphError, match=r"exe must be what relay\.vm\.compile returns"):
        vm.VirtualMachine("library.so", cpu())
