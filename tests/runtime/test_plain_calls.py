"""Kernels that were compiled elsewhere run where there is no compiler."""

import numpy as np
import pytest

import autotune
from autotune import build, load_module
from autotune.errors import CompilerMissing
from autotune.graph import Graph, apply, ops
from autotune.kernel.source import call, workspace
from autotune.network import compile_network, export_network, load_network
from autotune.runtime.host import host_helper
from tests.graph.arithmetic import variable

SOURCE = """
void summed(const float* x, float* y, int* count) {
#pragma omp parallel for
  for (int i = 0; i < 100; ++i) y[i] = x[i] + 1;
  for (int i = 0; i < 100; ++i) count[0] += 1;
  y[0] += count[0];
}
"""


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    """Leave no compiler to be found, as in a process that has not compiled the helper."""

    def hide():
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CC", raising=False)
        host_helper.host_helper.cache_clear()

    yield hide
    host_helper.host_helper.cache_clear()


def test_a_file_of_one_function_runs_without_a_compiler(no_compiler, tmp_path):
    kernel = autotune.SourceKernel(
        "summed",
        source=SOURCE,
        args=[autotune.arg("x", (100,)), autotune.arg("y", (100,), role="out")],
        calls=[call("summed", ["x", "y", "count"])],
        workspace=[workspace("count", (1,), "int32", zero=True)],
    )
    build(kernel, target="c").export_library(tmp_path / "summed.so")
    no_compiler()
    function = load_module(tmp_path / "summed.so")
    x, y = np.arange(100, dtype="float32"), np.zeros(100, "float32")
    for _ in range(2):  # the workspace is cleared before each call
        function(x, y)
        assert (y[0], y[99]) == (101, 100)
    with pytest.raises(CompilerMissing):
        function.time_evaluator(function.entry_name, autotune.cpu())(x, y)


def test_a_file_of_a_network_runs_without_a_compiler(no_compiler, tmp_path):
    x = variable(4, 8, name="x", dtype="float32")
    graph = Graph.of(apply(ops.Softmax(), apply(ops.Dense(), x, x)))
    export_network(compile_network(graph, "c"), tmp_path / "net.network")
    no_compiler()
    network = load_network(tmp_path / "net.network")
    assert repr(network).startswith("CompiledNetwork(x: float32[4, 8] -> float32[4, 4]; 2 kernels")
    instance = network.instance()
    given = np.random.default_rng(0).normal(size=(4, 8)).astype("float32")
    (result,) = instance(given)
    np.testing.assert_allclose(result.numpy(), graph.run(given)[0], rtol=1e-5)
