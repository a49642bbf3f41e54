"""On a CPU nothing is compiled, and nothing runs in the caller, while a kernel is timed."""

import stat
import sys
import time

import pytest

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, Pipeline, measure_option
from autotune.measure.final.race import race
from autotune.measure.run.host_gate import HostGate
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.trials import inputs_of

# A compiler that notes the time as often as it can, and so shows when it was running.
BUSY_COMPILER = """#!{python}
import subprocess, sys, time
if "kernel.c" in sys.argv:
    end = time.monotonic() + 0.15
    with open({ticks!r}, "a") as file:
        while (now := time.monotonic()) < end:
            file.write(f"{{now}}\\n")
            file.flush()
sys.exit(subprocess.call(["cc", *sys.argv[1:]]))
"""
# From sending the signal until a process on another core stands still.
STOP_S = 2e-3


@pytest.fixture
def ticks(tmp_path, monkeypatch):
    path = tmp_path / "ticks"
    compiler = tmp_path / "busycc"
    compiler.write_text(BUSY_COMPILER.format(python=sys.executable, ticks=str(path)))
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    return path


@pytest.fixture
def windows(monkeypatch):
    """Record when the host is said to be quiet."""
    spans, begun = [], []
    begin, end = HostGate.begin_quiet, HostGate.end_quiet

    def recorded_begin(self):
        begin(self)
        begun.append(time.monotonic())

    def recorded_end(self):
        spans.append((begun.pop(), time.monotonic()))
        end(self)

    monkeypatch.setattr(HostGate, "begin_quiet", recorded_begin)
    monkeypatch.setattr(HostGate, "end_quiet", recorded_end)
    return spans


def test_no_compiler_runs_while_a_kernel_is_timed(ticks, windows):
    task = at.create("measure_test.faulty", (["slow", "slow_too"],), target="c")
    option = measure_option(
        LocalBuilder(n_parallel=2), LocalRunner(number=1, repeat=1, cooldown_interval=0)
    )
    with Pipeline(task, option) as pipeline:
        inputs = inputs_of(task, range(8))
        pipeline.submit(inputs[:1])
        results = [result for _, result in pipeline.next_results()]
        pipeline.submit(inputs[1:])
        while pipeline.outstanding:
            results += [result for _, result in pipeline.next_results()]
    assert all(r.ok for r in results)
    at_work = [float(line) for line in ticks.read_text().split()]
    assert len(windows) >= 2
    inside = [t for t in at_work if any(a + STOP_S < t < b for a, b in windows)]
    assert not inside
    # The compilers had work to do all along: without the pause they would have run inside.
    between = [t for t in at_work if windows[0][0] < t < windows[-1][1]]
    assert between
    assert sum(b - a for a, b in windows) > 0.3


def test_the_caller_works_only_outside_of_timing(windows):
    task = at.create("measure_test.faulty", (["slow"],), target="c")
    option = measure_option(LocalBuilder(n_parallel=1), LocalRunner(cooldown_interval=0))
    worked = []
    with Pipeline(task, option) as pipeline:
        pipeline.submit(inputs_of(task, [0]))
        deadline = time.monotonic() + 20
        while not windows and time.monotonic() < deadline:
            with pipeline.host_work():
                started = time.monotonic()
                time.sleep(0.01)
                worked.append((started, time.monotonic()))
            time.sleep(0.002)
        assert pipeline.next_results()[0][1].ok
    assert windows
    (quiet,) = windows
    assert all(b <= quiet[0] or a >= quiet[1] for a, b in worked)


@at.template("tests/quiet/noted")
def noted(runs):
    """A kernel that notes when it runs."""
    at.get_config().define_knob("knob", [0])
    code = """
    #include <stdio.h>
    #include <time.h>
    #include <unistd.h>
    static double now(void) {
      struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec;
    }
    void f(const float *x, float *y) {
      double begin = now();
      usleep(5000);
      *y = 2 * *x;
      FILE *file = fopen(RUNS, "a");
      if (file) fprintf(file, "%.9f %.9f\\n", begin, now());
      if (file) fclose(file);
    }"""
    args = [arg("x", (1,)), arg("y", (1,), role="out")]
    return SourceKernel("f", code, args, {"RUNS": f'"{runs}"'}, reference=lambda x: 2 * x)


def test_a_race_is_run_in_quiet_and_a_check_is_not(windows, tmp_path):
    runs = tmp_path / "runs"
    task = at.create("tests/quiet/noted", (str(runs),), target="c")
    runner = LocalRunner(number=1, repeat=1, cooldown_interval=0, verify="all")
    option = measure_option(LocalBuilder(n_parallel=1), runner)
    inputs = inputs_of(task, [0])
    with Pipeline(task, option) as pipeline:
        pipeline.submit(inputs)
        ((_, result),) = pipeline.next_results()
        race(inputs, option, rounds=3, least_s=1e-4)
    assert result.extra["verified"]
    spans = [tuple(map(float, line.split())) for line in runs.read_text().splitlines()]
    inside = [sum(a <= begin and end <= b for begin, end in spans) for a, b in windows]
    # Two runs to warm up and one that counts, or two if one lost its core; none is to be checked.
    timed, *heats = inside
    assert timed == 2 + len(result.costs) + (result.evidence.dropped or 0)
    assert len(heats) == 3
    assert min(heats) >= 2
    assert sum(inside) == len(spans)


def test_no_process_that_compiles_starts_in_a_pause():
    task = at.create("measure_test.scale", (64, 8), target="c")
    builder = LocalBuilder(n_parallel=2, cache=False)
    builder.set_task(task, {})
    builder.pause()
    futures = [
        builder.submit(MeasureInput(task.target, task, task.config_space.get(i))) for i in range(2)
    ]
    time.sleep(0.3)
    started = builder.pids
    builder.resume()
    results = [future.result(timeout=20) for future in futures]
    builder.close()
    assert started == []
    assert all(r.ok for r in results)


def test_pauses_do_not_count_as_compiling(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    task = at.create("measure_test.scale", (64, 8), target="c")
    inputs = inputs_of(task, range(2))
    builder = LocalBuilder(timeout=60, n_parallel=1)
    builder.set_task(task, {})
    first = builder.submit(inputs[0]).result(timeout=60)
    assert first.ok
    builder.timeout = timeout_s = max(0.5, 10 * first.time_cost)  # however fast this machine is
    builder.pause()
    future = builder.submit(inputs[1])
    time.sleep(1.5 * timeout_s)
    builder.resume()
    result = future.result(timeout=60)
    builder.close()
    assert result.ok
    assert result.time_cost < timeout_s
