"""What is cut off is no trial: it is not logged, and is measured when the run goes on."""

import os
import signal
import threading
import time

import pytest

import autotune.task as at
from autotune import te
from autotune.errors import MeasureError
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, Pipeline, measure_option
from autotune.record import load_from_file
from autotune.te import math as te_math
from autotune.tuner import GridSearchTuner, callback
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.measure.doubles import PlainBuilder, PlainRunner
from tests.trials import inputs_of
from tests.tuner.test_interrupts import ctrl_c_when

SPACE = 8


@pytest.fixture
def task():
    """Every kernel takes a tenth of a second a run, so that trials are under way at any time."""
    return at.create("measure_test.faulty", (["slow", "slow_too"],), target="c")


@pytest.fixture
def option():
    runner = LocalRunner(number=1, repeat=1, cooldown_interval=0)
    return measure_option(LocalBuilder(n_parallel=2), runner)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.json"


def rows(log):
    return list(load_from_file(log)) if log.exists() else []


def check_and_finish(task, option, log, tuner=None):
    """Nothing false is logged; the rest of the space is measured by a run that goes on."""
    before = [inp.config.index for inp, _ in rows(log)]
    assert all(res.ok for _, res in rows(log))
    assert len(before) < SPACE
    (tuner or GridSearchTuner(task)).tune(
        SPACE, option, callbacks=[callback.log_to_file(log)], resume=log, finalists=0
    )
    assert all(res.ok for _, res in rows(log))
    assert sorted(inp.config.index for inp, _ in rows(log)) == list(range(SPACE))


@pytest.mark.many_cases
@pytest.mark.parametrize("same_tuner", [False, True])
@pytest.mark.parametrize("reproducible", [False, True])
def test_trials_under_way_at_ctrl_c(task, option, log, reproducible, same_tuner):
    tuner = GridSearchTuner(task)
    with pytest.raises(KeyboardInterrupt), ctrl_c_when(lambda: len(rows(log)) >= 2):
        tuner.tune(
            SPACE,
            option,
            callbacks=[callback.log_to_file(log)],
            reproducible=reproducible,
        )
    assert tuner.cut_off
    check_and_finish(task, option, log, tuner if same_tuner else None)


def test_trials_under_way_when_a_callback_raises(task, option, log):
    def fail(tuner, inputs, results):
        raise OSError("no screen")

    with pytest.raises(OSError, match="no screen"):
        GridSearchTuner(task).tune(SPACE, option, callbacks=[callback.log_to_file(log), fail])
    check_and_finish(task, option, log)


@pytest.mark.parametrize("limit", [{"early_stopping": 1}, {"timeout_s": 0.5}])
def test_trials_under_way_when_it_is_enough(task, option, log, limit):
    # The first is the fastest: those with a higher knob sleep longer.
    GridSearchTuner(task).tune(
        SPACE, option, callbacks=[callback.log_to_file(log)], finalists=0, **limit
    )
    check_and_finish(task, option, log)


@at.template("tests/cut_off/slow_reference")
def slow_reference(kind, n):
    config = at.get_config()
    config.define_knob("knob", list(range(SPACE)))
    if kind == "loops":
        a, k = te.placeholder((n, n), name="a"), te.reduce_axis((0, n), name="k")
        b = te.compute((n, n), lambda i, j: te.max(te_math.exp(a[i, k]) * a[k, j], axis=k))
        return te.create_schedule(b.op), [a, b]

    def reference(x):
        time.sleep(60)
        return 2 * x

    return SourceKernel(
        "f", "void f(const float *x, float *y) { for (int i = 0; i < N; i++) y[i] = 2 * x[i]; }",
        defines={"N": n, "KNOB": config["knob"].val}, reference=reference,
        args=[arg("x", (n,)), arg("y", (n,), role="out")],
    )  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("reproducible", [False, True])
@pytest.mark.parametrize(("kind", "n"), [("loops", 4000), ("function", 64)])
def test_the_time_is_not_waited_beyond_for_a_reference(option, log, kind, n, reproducible):
    task = at.create("tests/cut_off/slow_reference", (kind, n), target="c")
    started = time.monotonic()
    result = GridSearchTuner(task).tune(
        SPACE,
        option,
        callbacks=[callback.log_to_file(log)],
        timeout_s=1.0,
        reproducible=reproducible,
    )
    assert time.monotonic() - started < 20
    assert result.trials == 0
    assert result.stop_reason == "the time of 1 s is used up"
    assert rows(log) == []


def test_trials_under_way_when_no_worker_can_be_started(task, option, log, monkeypatch, hasty):
    runner = option["runner"]

    def refuse(self):
        raise OSError("no more processes")

    def break_down(tuner, inputs, results):
        monkeypatch.setattr("autotune.measure.process.worker.Worker._launched", refuse)
        for pid in runner.pids:
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(MeasureError, match=r"run\.worker could not be started: no more processes"):
        GridSearchTuner(task).tune(
            SPACE, option, callbacks=[callback.log_to_file(log), break_down]
        )
    monkeypatch.undo()
    check_and_finish(task, option, log)


def test_compilations_under_way_at_the_end_are_no_refusals(task, option, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    slow = tmp_path / "slowcc"
    slow.write_text(
        '#!/bin/sh\ngrep -q "define KNOB" kernel.c 2>/dev/null && sleep 30\nexec cc "$@"\n'
    )
    slow.chmod(0o755)
    monkeypatch.setenv("CC", str(slow))
    ended = []
    inputs = inputs_of(task, range(4))
    pipeline = Pipeline(task, option, on_end=lambda inp, res: ended.append(res))
    pipeline.submit(inputs)
    while not option["builder"].pids:
        time.sleep(0.01)
    time.sleep(0.3)
    pipeline.close()
    assert ended == []
    assert pipeline.leave() == []
    assert pipeline.cut_off() == inputs
    with pytest.raises(MeasureError, match="a trial was cancelled: its builder or runner was clo"):
        pipeline.next_results()


def test_what_fails_while_all_is_ended_is_cut_off_in_anyones_runner(task):
    class Falls(PlainRunner):
        """Fails what it runs because it is closed."""

        def __init__(self):
            super().__init__(failing=range(8))
            self.begun, self.closing = threading.Event(), threading.Event()

        def run(self, measure_inputs, build_results):
            self.begun.set()
            self.closing.wait(10)
            return super().run(measure_inputs, build_results)

        def close(self):
            self.closing.set()
            super().close()

    runner, ended = Falls(), []
    inputs = inputs_of(task, range(4))
    pipeline = Pipeline(
        task, measure_option(PlainBuilder(), runner), on_end=lambda inp, res: ended.append(res)
    )
    pipeline.submit(inputs)
    assert runner.begun.wait(10)
    pipeline.close()
    assert ended == []
    assert pipeline.cut_off() == inputs
