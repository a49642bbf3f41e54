"""A program that mypy checks strictly can use what the book shows."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROGRAM = """
import autotune
from autotune.record import load_from_file
from autotune.tuner import AutoTuner, TuneResult


@autotune.template("typed")
def scale(n: int) -> autotune.SourceKernel:
    cfg = autotune.get_config()
    cfg.define_knob("step", [1, 2])
    cfg.multi_filter(lambda c: c["step"].val < 9)
    step: int = cfg["step"].val
    args = [autotune.arg("x", (n,), role="inout")]
    return autotune.SourceKernel("f", "void f(float* x) {}", args, defines={"S": step})


def tune() -> TuneResult:
    task = autotune.create("typed", args=(64,), target="llvm")
    option = autotune.measure_option("local", "local")
    return AutoTuner(task, seed=0).tune(10, option, resume="x.log", timeout_s=5.0)


def show(result: TuneResult) -> None:
    print(autotune.ConfigEntity.of(result.best_config)["step"].val, result.failures)
    for inp, out in load_from_file("x.log"):
        print(autotune.Task.of(inp.task).args, autotune.ConfigEntity.of(inp.config)["step"].val)
        print(out.seconds * 1e6 if out.ok else out.error_msg)
"""


def test_a_strictly_typed_program_tunes_and_reads_its_log(tmp_path):
    pytest.importorskip("mypy")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    # From the folder and with the settings of `make check`, whose cache it takes.
    argv = [sys.executable, "-m", "mypy", "--strict", str(path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
