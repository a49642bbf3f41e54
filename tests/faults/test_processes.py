"""Processes around a trial that are killed or cannot be started: workers, and the caller."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

import autotune.task as at
from autotune.errors import DeviceError, MeasureError
from autotune.kernel import SourceKernel, arg
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    Pipeline,
    measure_option,
)
from autotune.measure.process.worker import Worker
from autotune.tuner import GridSearchTuner
from autotune.utils.children import Child
from tests.faults.test_faults import children_of, gone
from tests.measure import (
    devices,  # noqa: F401 - registers a template
    kernels,
)
from tests.measure.kernels import faulty_task
from tests.trials import inputs_of, results_of

ROOT = Path(__file__).parent.parent.parent


def test_workers_killed_while_idle_cost_nothing():
    task = faulty_task("none")
    option = measure_option(LocalBuilder(n_parallel=1, cache=False), LocalRunner())
    with Pipeline(task, option) as pipeline:
        for index in range(3):
            pipeline.submit(inputs_of(task, [index]))
            assert results_of(pipeline)[0].ok
            for pid in option["builder"].pids + option["runner"].pids:
                os.kill(pid, signal.SIGKILL)


@at.template("tests/processes/gated")
def gated(gate):
    """The first of each two waits while a file is there."""
    config = at.get_config()
    config.define_knob("waits", [1, 0])
    config.define_knob("knob", [0, 1])
    code = """
    #include <unistd.h>
    void f(const float *x, float *y) {
      while (WAITS && !access(GATE, F_OK)) usleep(1000);
      y[0] = 2 * x[0] + 0 * KNOB;
    }"""
    defines = {"WAITS": config["waits"].val, "KNOB": config["knob"].val, "GATE": f'"{gate}"'}
    args = [arg("x", (1,)), arg("y", (1,), role="out")]
    return SourceKernel("f", code, args, defines, reference=lambda x: 2 * x)


@pytest.fixture
def gate(tmp_path):
    path = tmp_path / "gate"
    path.touch()
    return path


def test_a_runner_killed_mid_trial_is_replaced_and_the_trial_done_again(gate):
    task = at.create("tests/processes/gated", (str(gate),), target="c")
    runner = LocalRunner(timeout=30, cooldown_interval=0)
    with Pipeline(task, measure_option(LocalBuilder(), runner)) as pipeline:
        pipeline.submit(inputs_of(task, [1]))
        assert results_of(pipeline)[0].ok
        pipeline.submit(inputs_of(task, [0, 3]))
        first = runner.pids[0]
        while not children_of(first):
            time.sleep(0.01)
        os.kill(first, signal.SIGKILL)
        gate.unlink()
        results = results_of(pipeline)
        assert runner.pids[0] != first
    assert [r.error_no for r in results] == [0, 0]


def test_a_trial_killed_by_somebody_else_is_done_again(gate):
    task = at.create("tests/processes/gated", (str(gate),), target="c")
    runner = LocalRunner(timeout=30, cooldown_interval=0)
    with Pipeline(task, measure_option(LocalBuilder(), runner)) as pipeline:
        pipeline.submit(inputs_of(task, [1]))
        assert results_of(pipeline)[0].ok
        pipeline.submit(inputs_of(task, [0, 3]))
        worker = runner.pids[0]
        for _ in range(2):
            while not (trials := children_of(worker)):
                time.sleep(0.01)
            os.kill(trials[0], signal.SIGKILL)
            while trials[0] in children_of(worker):
                time.sleep(0.01)
        gate.unlink()
        results = results_of(pipeline)
        assert runner.pids == [worker]
    assert [r.error_no for r in results] == [0, 0]


def test_a_worker_killed_while_it_starts_is_started_again(monkeypatch):
    launched, killed = Worker._launched, []

    def launched_and_killed(worker):
        child = launched(worker)
        if worker._module.endswith("run.worker") and len(killed) < 4:
            os.kill(child.pid, signal.SIGKILL)
            killed.append(child.pid)
        return child

    monkeypatch.setattr(Worker, "_launched", launched_and_killed)
    task = faulty_task("none")
    with Pipeline(task, measure_option(LocalBuilder(n_parallel=1), LocalRunner())) as pipeline:
        pipeline.submit(inputs_of(task, [0]))
        assert results_of(pipeline)[0].ok
    assert len(killed) == 4


def test_a_runner_killed_again_and_again_costs_one_trial(hasty):
    task = faulty_task("kills_parent", "none")
    with Pipeline(task, measure_option(LocalBuilder(), LocalRunner())) as pipeline:
        pipeline.submit(inputs_of(task, [1, 0, 2, 3]))
        results = results_of(pipeline)
    died = MeasureErrorNo.RUNTIME_DEVICE
    assert [r.error_no for r in results] == [0, died, died, 0]
    # No two deaths differ in their first line, by which failures are counted.
    for result in results[1:3]:
        first, *rest = result.error_msg.splitlines()
        assert first == ("the process that runs kernels died: killed by SIGKILL, 3 times in a row")
        assert re.fullmatch(r"process \d+ printed: nothing", "\n".join(rest))


def scarce(monkeypatch, times, module):
    """Let the system refuse new processes, as it does under a process limit."""
    left = [times]

    def start(name, *args):
        if name.endswith(module) and left[0]:
            left[0] -= 1
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return Child(name, *args)

    monkeypatch.setattr("autotune.measure.process.worker.Child", start)


@pytest.mark.parametrize("module", ["run.worker", "build.worker"])
def test_a_process_that_cannot_be_started_at_first_is_started_later(monkeypatch, hasty, module):
    scarce(monkeypatch, 2, module)
    task = faulty_task("none")
    with Pipeline(task, measure_option(LocalBuilder(n_parallel=1), LocalRunner())) as pipeline:
        pipeline.submit(inputs_of(task, [0]))
        assert results_of(pipeline)[0].ok


@pytest.mark.parametrize("module", ["run.worker", "build.worker"])
def test_a_process_that_cannot_be_started_at_all_ends_the_run(monkeypatch, hasty, module):
    scarce(monkeypatch, 1 << 30, module)
    task = faulty_task("none")
    with Pipeline(task, measure_option(LocalBuilder(n_parallel=2), LocalRunner())) as pipeline:
        pipeline.submit(inputs_of(task, [0, 1, 2]))
        with pytest.raises(MeasureError, match=f"{module} could not be.*unavailable.*3 attempts"):
            results_of(pipeline)


def test_compiling_goes_on_with_the_workers_that_can_be_started(monkeypatch, caplog, hasty):
    builder = LocalBuilder(n_parallel=2)
    refused = []

    def start(name, *args):
        while len(builder._pool._workers) < 2:
            time.sleep(0.01)
        refused.append(threading.get_ident())
        if refused[-1] == refused[0]:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return Child(name, *args)

    monkeypatch.setattr("autotune.measure.process.worker.Child", start)
    task = faulty_task("none")
    builder.set_task(task, {})
    results = builder.build(inputs_of(task, range(4)))
    builder.close()
    assert [r.error_no for r in results] == [0] * 4
    assert "compiling goes on with 1 worker: " in caplog.text


@pytest.mark.parametrize("which", [[999], [0, 999]])
def test_a_device_that_is_not_there_is_told_in_one_line_before_the_first_trial(which):
    task = at.create("measure_test.stated", (2,), target="cuda -arch=sm_90")
    builder = LocalBuilder(n_parallel=1, compiler="nvrtc")
    seen = []
    with pytest.raises(DeviceError, match=r"cuda:\d+: there is no such device here") as caught:
        GridSearchTuner(task).tune(
            2,
            measure_option(builder, LocalRunner(devices=which)),
            callbacks=[lambda tuner, inputs, results: seen.append(inputs)],
        )
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert builder.pids == seen == []


def test_nobody_waits_for_a_reference_when_all_is_over(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    begun, go_on = threading.Event(), threading.Event()

    original = kernels.twice

    def endless(x):
        begun.set()
        go_on.wait(60)
        return original(x)

    before = set(threading.enumerate())
    task = faulty_task("none")
    monkeypatch.setattr(kernels, "twice", endless)
    pipeline = Pipeline(task, measure_option(LocalBuilder(n_parallel=1), LocalRunner()))
    pipeline.submit(inputs_of(task, [0]))
    assert begun.wait(30)
    threads = set(threading.enumerate()) - before
    started = time.monotonic()
    pipeline.close()
    assert time.monotonic() - started < 10
    assert list(tmp_path.iterdir()) == []
    go_on.set()
    for thread in threads:
        thread.join(timeout=10)
    assert list(tmp_path.iterdir()) == []


def test_what_is_built_while_the_program_ends_starts_nothing_again(monkeypatch, tmp_path):
    """At its end Python ends runners and builders nobody closed, one after another."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    task = faulty_task("none")
    builder, runner = LocalBuilder(n_parallel=2, cache=False), LocalRunner()
    pipeline = Pipeline(task, measure_option(builder, runner))
    pipeline.submit(inputs_of(task, [0]))
    assert results_of(pipeline)[0].ok
    pipeline.submit(inputs_of(task, range(1, 4)))
    runner._pool.end()
    built = [builder.submit(inp).result() for inp in inputs_of(task, range(1, 4))]
    assert all(one.ok for one in built)
    builder._pool.end()
    assert runner.pids == builder.pids == []
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(MeasureError, match="their owner was ended"):
        builder.submit(inputs_of(task, [1])[0])
    assert runner.submit(inputs_of(task, [1])[0], built[0]).cancelled()
    assert list(tmp_path.iterdir()) == []


SCRIPT = """
    import sys
    import autotune.task as at
    from autotune.measure import *
    from tests.measure import kernels
    from tests.trials import inputs_of
    task = at.create("measure_test.faulty", (["loop", "none"],), target="c")
    option = measure_option(LocalBuilder(n_parallel=2), LocalRunner(timeout=60))
    pipeline = Pipeline(task, option)
    inputs = inputs_of(task, (1, 0, 3))
    pipeline.submit(inputs[:1])
    pipeline.next_results()
    pipeline.submit(inputs[1:])
    print(*option["builder"].pids, *option["runner"].pids, flush=True)
    {ending}
"""


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("sent", "ending"),
    [
        (signal.SIGINT, "\n    with pipeline: pipeline.next_results()"),
        (signal.SIGINT, "pipeline.next_results()"),
        (signal.SIGKILL, "pipeline.next_results()"),
        (None, "pass"),
    ],
    ids=["ctrl-c", "ctrl-c without with", "kill", "a script that just ends"],
)
def test_nothing_outlives_the_caller(tmp_path, sent, ending):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    script = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT).format(ending=textwrap.dedent(ending))],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    with script:
        pids = [int(word) for word in script.stdout.readline().split()]
        assert pids
        if sent is not None:
            time.sleep(0.3)
            script.send_signal(sent)
        assert script.wait(timeout=20) is not None
    assert all(gone(pid) for pid in pids)
    if sent is not signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []
