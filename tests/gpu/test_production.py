"""From a tuned log to production on a device: operators, tuning at calls, locks, exports."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import autotune
from autotune.errors import FrozenError
from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.just_in_time import background, store
from autotune.lock import check_lock, lock_records, read_functions, read_lock, write_lock
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.network import check_functions, compile_network, lock_network
from autotune.record import load_from_file
from autotune.ship import gather, write_project
from autotune.tuner import AutoTuner, callback

pytestmark = pytest.mark.gpu

TEXT = """
extern "C" __global__ void scale(const float *x, float *y) {
  for (int i = blockIdx.x * BLOCK + threadIdx.x; i < N; i += gridDim.x * BLOCK) y[i] = F * x[i];
}
"""
FACTOR = [2]


@autotune.template("tests.gpu.scale")
def scale(n):
    cfg = autotune.get_config()
    cfg.define_knob("block", [128, 64, 256])
    cfg.add_flop(n)
    block = cfg["block"].val
    args = [autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")]
    defines = {"N": n, "BLOCK": block, "F": FACTOR[0]}
    return autotune.SourceKernel(
        "scale", TEXT, args, defines, grid=(n + block - 1) // block, block=block,
        reference=lambda x: FACTOR[0] * x,
    )  # fmt: skip


@pytest.fixture
def here(monkeypatch, tmp_path):
    monkeypatch.setattr(store.environment, "cache_dir", lambda: tmp_path / "cache")
    yield tmp_path
    assert background.WORKER.join(120)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "scale.log"
    for n in (1 << 20, 1 << 21):
        task = autotune.create(scale, args=(n,), target="cuda")
        AutoTuner(task).tune(
            3, measure_option("local", "local"), callbacks=[callback.log_to_file(path)]
        )
    return path


def option_for(way):
    runner = LocalRunner(60, repeat=9, verify="all", **way.arguments())
    return measure_option(LocalBuilder(60), runner)


@pytest.mark.filterwarnings("ignore")
def test_an_operator_is_checked_compiled_exported_and_differentiated(torch, log):
    n = 1 << 20
    with autotune.apply_history_best(log), autotune.Target("cuda"):
        module = autotune.build(scale(n))
    op = autotune.torch.as_op(
        module, "autotune_tests_gpu::scaled", backward=lambda context, gradient: 2 * gradient
    )
    x = torch.randn(n, device="cuda", requires_grad=True)
    torch.library.opcheck(op, (x.detach(),))
    op(x).sum().backward()
    assert (x.grad == 2).all()

    class Model(torch.nn.Module):
        def forward(self, v):
            return op(op(v)) + 1

    with torch.no_grad():
        compiled = torch.compile(Model(), fullgraph=True)
        torch.testing.assert_close(compiled(x), 4 * x + 1)
        exported = torch.export.export(Model(), (x.detach(),))
        torch.testing.assert_close(exported.module()(x.detach()), 4 * x + 1)


@pytest.mark.parametrize("tune", ["first", "background"])
def test_a_template_is_tuned_at_its_call(torch, here, tune):
    function = autotune.jit(
        scale, key=lambda x, y: (x.shape[0],), tune=tune, budget_s=20, store=here / "jit.log"
    )
    x, y = torch.randn(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    function(x, y)
    torch.testing.assert_close(y, 2 * x)
    assert background.WORKER.join(120)
    assert function.choice(x, y).origin == "exact"
    y.zero_()
    function(x, y)
    torch.testing.assert_close(y, 2 * x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function(x, y)
    y.zero_()
    graph.replay()
    torch.testing.assert_close(y, 2 * x)


def test_an_operator_is_asked_of_jit_by_its_name(torch, here):
    @autotune.jit("nn.conv2d", store=here / "jit.log")
    def conv(data, weight, out):
        return {"padding": (1, 1)}

    data = torch.randn(1, 32, 28, 28, device="cuda")
    weight = torch.randn(64, 32, 3, 3, device="cuda")
    out = torch.zeros(1, 64, 28, 28, device="cuda")
    conv(data, weight, out)
    assert conv.choice(data, weight, out).template == "conv2d_nchw.cuda"
    expected = torch.nn.functional.conv2d(data.double(), weight.double(), padding=1)
    torch.testing.assert_close(out.double(), expected, rtol=1e-3, atol=1e-3)


def test_a_lock_holds_and_its_failures_are_told(log, tmp_path, monkeypatch):
    pytest.importorskip("tomli_w")
    path = tmp_path / "autotune.lock"
    entries, problems = lock_records(load_from_file(log, races=True))
    assert (len(entries), problems) == (2, [])
    write_lock(path, entries)
    found = list(check_lock(read_lock(path), option_for, fail_above=3.0))
    assert [each.outcome for each in found if not each.good] == []
    assert all("answer checked" in each.why for each in found)
    monkeypatch.setenv("AUTOTUNE_LOCK", str(path))
    monkeypatch.setenv("AUTOTUNE_FROZEN", "1")
    with autotune.Target("cuda"):
        autotune.build(scale(1 << 20))
        with pytest.raises(FrozenError, match=r"argument 1 is \d+, not 4194304") as missing:
            scale(1 << 22)
    with (
        autotune.Target("cuda -arch=sm_75"),
        pytest.raises(FrozenError, match="not locked for cuda sm_75") as elsewhere,
    ):
        scale(1 << 20)
    FACTOR[0] = 3
    try:
        with (
            autotune.Target("cuda"),
            pytest.raises(FrozenError, match="the kernel has another text now") as text,
        ):
            scale(1 << 20)
    finally:
        FACTOR[0] = 2
    for each in (missing, elsewhere, text):
        print(each.value)


def test_a_network_is_locked_timed_and_frozen(tmp_path, monkeypatch):
    pytest.importorskip("tomli_w")
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(64, 32, 3, 3)), rng.normal(size=(64, 1, 1))
    data = Variable(TensorType((1, 32, 28, 28)), "data")
    layer = apply(ops.Conv2d(padding=(1,)), data, Constant.of(weight.astype("float32")))
    layer = apply(ops.Relu(), apply(ops.Add(), layer, Constant.of(bias.astype("float32"))))
    graph = Graph.of(apply(ops.Softmax(), apply(ops.BatchFlatten(), layer)))
    network, path = compile_network(graph, "cuda"), tmp_path / "autotune.lock"
    assert lock_network(network, path) == 2
    checked = list(check_functions(read_functions(path), option_for, fail_above=3.0))
    assert [each.outcome for each in checked if not each.good] == []
    monkeypatch.setenv("AUTOTUNE_LOCK", str(path))
    monkeypatch.setenv("AUTOTUNE_FROZEN", "1")
    again = compile_network(graph, "cuda").instance()
    values = rng.normal(size=(1, 32, 28, 28)).astype("float32")
    (got,), (want,) = again(values), graph.run(values)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-5)
    with pytest.raises(FrozenError, match="1 of 1 functions of the network are not in"):
        compile_network(Graph.of(apply(ops.Exp(), data)), "cuda")


CALLS = """
import sys
sys.modules["autotune"] = None
import torch, tuned
x = torch.randn({n}, device="cuda")
y = torch.zeros_like(x)
tuned.load()
tuned.tests_gpu_scale(x, y)
torch.testing.assert_close(y, 2 * x)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    tuned.tests_gpu_scale(x, y)
y.zero_()
graph.replay()
torch.testing.assert_close(y, 2 * x)
print("right")
"""


def test_an_exported_project_runs_without_autotune(torch, log, tmp_path):
    project = tmp_path / "tuned"
    shipment = gather(load_from_file(log, races=True), "tuned", ["sm_80"])
    write_project(shipment, project)
    kinds = {path.suffix for path in project.glob("kernels/*")}
    assert kinds == {".cubin", ".ptx"}
    text = CALLS.format(n=1 << 21)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(project / "python"), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "right", done.stderr
    cmake = shutil.which("cmake")
    if cmake is not None:
        build = tmp_path / "build"
        for words in (["-S", str(project), "-B", str(build)], ["--build", str(build)]):
            subprocess.run([cmake, *words], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([build / "example"], check=True, timeout=100)
    assert json.loads((project / "manifest.json").read_text())["device"] == "cuda"
