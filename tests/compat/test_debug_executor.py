"""TVM's debug executor, under both of its names, and the old name of a device."""

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import GraphError, KernelError
from autotune.tvm import relay, te
from autotune.tvm.contrib import graph_runtime
from autotune.tvm.contrib.debugger import debug_executor, debug_runtime


@pytest.fixture(scope="module")
def library():
    x = relay.var("x", shape=(2, 4))
    w = relay.var("w", shape=(3, 4))
    value = relay.nn.softmax(relay.nn.dense(x, w))
    return relay.build(tvm.IRModule.from_expr(relay.Function([x, w], value)), target="llvm")


def test_a_run_prints_the_time_of_each_kernel(library, capsys):
    module = debug_executor.create(library.get_graph_json(), library, tvm.cpu())
    x, w = np.ones((2, 4), "float32"), np.ones((3, 4), "float32")
    module.run(number=2, x=x, w=w)
    head, *kernels, total = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["function", "us"]
    times = [float(line.split()[1]) for line in kernels]
    assert times == sorted(times, reverse=True)
    assert total.startswith("sum")
    assert len(module.run_individual(2)) == len(kernels)
    np.testing.assert_allclose(module.get_output(0).numpy(), np.full((2, 3), 1 / 3), rtol=1e-6)


def test_the_source_of_a_library_is_that_of_its_kernels(library):
    kernels = [each.get_source() for each in library.imported_modules]
    assert library.get_source() == "\n".join(kernels)
    assert len(kernels) > 1


def test_a_library_makes_a_debug_executor_as_in_later_versions(library):
    device = tvm.cpu()
    made = library["debug_create"]("default", device)
    module = debug_executor.GraphModuleDebug(made, [device], library.get_graph_json(), None)
    module.set_input(x=np.ones((2, 4), "float32"), w=np.ones((3, 4), "float32"))
    assert min(module.run_individual(1, 1, 0, cooldown_interval_ms=10)) > 0
    with pytest.raises(GraphError, match="expected 'default', got 'other'"):
        library["debug_create"]("other", device)


def test_old_names_of_executors_and_devices_work(library):
    assert debug_runtime.create is debug_executor.create
    module = graph_runtime.create(library.get_graph_json(), library, ctx=[tvm.cpu()])
    assert module.module.time_evaluator("run", ctx=tvm.cpu(), number=1)().mean > 0
    with pytest.raises(GraphError, match="device must be one device"):
        graph_runtime.create(library.get_graph_json(), library)


def test_a_function_is_timed_on_a_device_by_its_old_name():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    function = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
    arrays = tvm.nd.array(np.ones(4, "float32")), tvm.nd.empty((4,))
    timer = function.time_evaluator(function.entry_name, ctx=tvm.cpu(), number=2)
    assert timer(*arrays).mean > 0
    with pytest.raises(KernelError, match="dev must be cpu"):
        function.time_evaluator(function.entry_name, ctx=tvm.cuda(3))
