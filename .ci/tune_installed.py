"""Tune, replay and verify with an installed package; run where no checkout can be imported."""

import subprocess
import sys
import tempfile
from pathlib import Path

import autotune.templates
import numpy as np

import autotune

EMULATED = """
extern "C" __global__ void twice(const float* a, float* b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  b[i] = 2 * a[i];
}
"""


def tune_and_replay(log: Path) -> None:
    """Tune a shipped template for the CPU, replay the log, and compare with numpy."""
    task = autotune.create("gemm_nn.cpu", args=(32, 48, 64), target="llvm")
    runner = autotune.LocalRunner(number=1, repeat=1, cooldown_interval=0, verify="all")
    tuner = autotune.tuner.RandomTuner(task, seed=0)
    option = autotune.measure_option(autotune.LocalBuilder(), runner)
    tuner.tune(4, option, callbacks=[autotune.callback.log_to_file(log)])
    assert tuner.best_config is not None, "no trial succeeded"
    with autotune.apply_history_best(log), autotune.Target("llvm"):
        multiply = autotune.build(autotune.templates.source.gemm_nn_cpu(32, 48, 64))
    a, b = (np.random.rand(*shape).astype("float32") for shape in ((32, 64), (64, 48)))
    c = np.zeros((32, 48), "float32")
    multiply(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)


def emulate() -> None:
    """Run CUDA text on the CPU, which needs the headers that the package ships."""
    args = [autotune.arg("a", (64,)), autotune.arg("b", (64,), role="out")]
    kernel = autotune.SourceKernel("twice", EMULATED, args, grid=2, block=32)
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    autotune.build(kernel, target="cuda -emulate")(a, b)
    np.testing.assert_array_equal(b, 2 * a)


def serve_tvm(folder: Path) -> None:
    """Run a script of TVM as it is."""
    script = folder / "script.py"
    script.write_text(
        "import tvm\nfrom tvm.autotvm.task.space import SplitEntity\nprint(tvm.cpu())\n"
    )
    subprocess.run([sys.executable, "-m", "autotune.tvm", str(script)], check=True)


def main() -> None:
    """Do all of it, from the environment that this interpreter belongs to."""
    home = Path(autotune.__file__)
    assert Path(sys.prefix) in home.parents, f"{home} is not what was installed"
    with tempfile.TemporaryDirectory() as folder:
        tune_and_replay(Path(folder, "gemm.log"))
        serve_tvm(Path(folder))
    emulate()
    print(f"tuned, replayed and emulated with {home.parent}")


if __name__ == "__main__":
    main()
