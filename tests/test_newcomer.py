"""What somebody who just installed the package does first, in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
KERNEL = '''GEMM = r"""
extern "C" __global__ void gemm(const float* a, const float* b, float* c) {
  int row = blockIdx.y * TILE_M + threadIdx.y, col = blockIdx.x * TILE_N + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < K; k += VEC)
    for (int v = 0; v < VEC; ++v) sum += a[row * K + k + v] * b[(k + v) * N + col];
  c[row * N + col] = sum;
}
"""
'''
# What of the example is changed, so that it ends soon and needs no device.
SMALLER = {"1024, 1024, 1024": "16, 16, 16", "300": "6", '"cuda"': '"cuda -emulate"'}
CALL = """
import numpy
a, b = numpy.random.rand(2, 16, 16).astype("float32")
c = numpy.zeros((16, 16), "float32")
"""
SCALE = """
import sys
import autotune

@autotune.template("newcomer.scale")
def scale(n):
    cfg = autotune.get_config()
    cfg.define_knob("unroll", list(range(2_000)))
    return autotune.SourceKernel(
        "scale",
        source="void scale(const float* a, float* b) {"
        "  for (int i = 0; i < N; ++i) b[i] = 2 * a[i] + 0 * UNROLL; }",
        defines={"N": n, "UNROLL": cfg["unroll"].val},
        args=[autotune.arg("a", (n,)), autotune.arg("b", (n,), role="out")],
        reference=lambda a: 2 * a,
    )

def tune(log, n_trial):
    tuner = autotune.tuner.RandomTuner(autotune.create("newcomer.scale", (64,), target="llvm"))
    option = autotune.measure_option(
        autotune.LocalBuilder(n_parallel=1), autotune.LocalRunner(number=1, cooldown_interval=0)
    )
    tuner.tune(n_trial, option, callbacks=[autotune.callback.log_to_file(log)], resume=log)
    return tuner.best_config
"""


def python(code, *args, cwd=ROOT, stdin=None, **variables):
    """Run code as ``python -c``; a variable that is None is not set."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)] if stdin is None else [sys.executable, "-"],
        input=stdin,
        cwd=cwd,
        env={name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=120,
    )


def indices(log):
    rows = [line for line in log.read_text().splitlines() if not line.startswith("#")]
    return [json.loads(row)["config"]["index"] for row in rows]


def readme_script():
    """Return the first example of the README with a kernel, a small shape and few trials."""
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"```python\n(import[^`]*?\n\nGEMM.*?)```", text, flags=re.DOTALL)
    block = re.sub(r'GEMM = """.*?"""\n', lambda _: KERNEL, block, flags=re.DOTALL)
    for written, run in SMALLER.items():
        assert written in block
        block = block.replace(written, run)
    head, call, tail = block.partition("gemm(a, b, c)")
    assert call
    return f"{head}{CALL}{call}{tail}\nassert abs(c - a @ b).max() < 1e-4\n"


def test_the_example_of_the_readme_tunes_resumes_and_replays(tmp_path):
    folder = tmp_path / "a folder with ünïcode →"
    folder.mkdir()
    for _ in range(2):  # the second run finds all trials in the log
        done = python("", cwd=folder, stdin=readme_script())
        assert done.returncode == 0, done.stderr
        assert "6 trials, best" in done.stdout
        assert len(set(indices(folder / "gemm.log"))) == 6


def test_tuning_works_in_a_thread_without_a_home_and_leaves_no_file(tmp_path):
    scratch = tmp_path / "scrätch dir"
    scratch.mkdir()
    log = tmp_path / "log with space.json"
    code = f"""
import threading
{SCALE}
best = []
thread = threading.Thread(target=lambda: best.append(tune(sys.argv[1], 5)))
thread.start()
thread.join()
assert best[0] is not None
"""
    done = python(
        code, log, cwd="/", HOME=None, XDG_CACHE_HOME=None, TMPDIR=str(scratch),
        AUTOTUNE_CACHE_DIR=str(tmp_path / "cache"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(indices(log)) == 5
    assert not list(scratch.iterdir())


def test_code_of_a_notebook_cell_tunes(tmp_path):
    log = tmp_path / "log.json"
    cell = f"exec({SCALE!r}, globals())\nassert tune({str(log)!r}, 5) is not None"
    done = python("", stdin=f"exec({cell!r}, {{'__name__': '__main__'}})")
    assert done.returncode == 0, done.stderr
    assert len(indices(log)) == 5


def test_an_interrupted_run_has_a_complete_log_and_goes_on(tmp_path):
    log = tmp_path / "log.json"
    code = f"{SCALE}\ntune(sys.argv[1], int(sys.argv[2]))"
    run = subprocess.Popen(
        [sys.executable, "-c", code, str(log), "2000"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not log.exists() and run.poll() is None:
        time.sleep(0.05)
    time.sleep(0.2)
    run.send_signal(signal.SIGINT)
    _, printed = run.communicate(timeout=30)
    assert run.returncode != 0
    told = re.search(r"interrupted after (\d+) trials; the log is complete", printed)
    assert told, printed
    before = indices(log)
    assert len(before) == int(told[1])
    assert python(code, log, len(before) + 5).returncode == 0
    after = indices(log)
    assert after[: len(before)] == before
    assert len(set(after)) == len(after) == len(before) + 5


MISTAKES = {
    "a knob that is not defined": ('cfg["tile"]', "there is no knob 'tile'; defined so far: u"),
    "no value to choose": (
        'cfg.define_knob("v", [])',
        "knob 'v': the list of candidates is empty",
    ),
    "a tile that divides nothing": (
        'cfg.define_split("t", 7, num_outputs=2, filter=lambda s: s.size[1] == 2)',
        "knob 't': no split of 7 into 2 is left",
    ),
    "a filter that rejects all": (
        "cfg.multi_filter(lambda c: False)",
        "rejects every configuration; relax it",
    ),
    "a filter with a misspelt knob": (
        'cfg.multi_filter(lambda c: c["U"].val)',
        "there is no knob 'U'; the space has u",
    ),
    "no kernel returned": ("return 1, 2, 3", "expected it to return a SourceKernel or"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_template_is_one_error_before_any_trial(mistake):
    import autotune

    line, message = MISTAKES[mistake]
    code = f"cfg.define_knob('u', [1, 2])\n    {line}\n    return kernel"
    names = {"autotune": autotune, "kernel": autotune.SourceKernel("f", source="", args=[])}
    exec(f"def body():\n    cfg = autotune.get_config()\n    {code}", names)
    autotune.template("newcomer.mistake", names["body"])
    try:
        with pytest.raises(autotune.AutotuneError, match=re.escape(message)):
            autotune.tuner.RandomTuner(
                autotune.create("newcomer.mistake", (), target="llvm")
            ).tune(3, autotune.measure_option("local", "local"))
    finally:
        del autotune.task.TASK_TABLE["newcomer.mistake"]
