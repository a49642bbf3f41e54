"""Workers that somebody stops (``kill -STOP``): the run goes on without them, or says why not."""

import json
import os
import signal

import pytest

import autotune.task as at
from autotune.errors import MeasureError
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.measure.process.worker import Worker
from autotune.tuner import GridSearchTuner
from autotune.tuner.callback import log_to_file
from tests.measure import kernels  # noqa: F401 - registers a template

TRIALS = 3
MODULES = {"builder": "autotune.measure.build.worker", "runner": "autotune.measure.run.worker"}


@pytest.fixture
def stop(monkeypatch):
    """Stop the first workers of a kind as soon as they exist; return how many were stopped.

    What those do not answer is waited for half a second only, and others have all their time.
    """

    def install(module, most):
        launched, stopped = Worker._launched, []

        def launched_and_stopped(worker):
            child = launched(worker)
            if worker._module == module and len(stopped) < most:
                os.kill(child.pid, signal.SIGSTOP)
                stopped.append(child.pid)
                receive = child.receive
                child.receive = lambda timeout_s: receive(min(timeout_s, 0.5))
            return child

        monkeypatch.setattr(Worker, "_launched", launched_and_stopped)
        return stopped

    return install


def tuned(log):
    task = at.create("measure_test.faulty", (["none"] * TRIALS,), target="c")
    option = measure_option(
        LocalBuilder(n_parallel=1, cache=False), LocalRunner(number=1, cooldown_interval=0)
    )
    GridSearchTuner(task).tune(TRIALS, option, callbacks=[log_to_file(log)], finalists=0)


@pytest.mark.parametrize("kind", MODULES)
def test_a_worker_stopped_while_it_starts_is_replaced(kind, stop, tmp_path):
    stopped = stop(MODULES[kind], 1)
    tuned(tmp_path / "log.json")
    assert len(stopped) == 1
    rows = [json.loads(line) for line in (tmp_path / "log.json").read_text().splitlines()]
    assert [row["result"][1] for row in rows] == [0] * TRIALS


@pytest.mark.parametrize("kind", MODULES)
def test_workers_that_are_all_stopped_end_the_run_with_one_line(kind, stop, tmp_path, hasty):
    stopped = stop(MODULES[kind], 1000)
    said = rf"^{MODULES[kind]} could not be started: no answer within 60 s \(3 attempts\)$"
    with pytest.raises(MeasureError, match=said):
        tuned(tmp_path / "log.json")
    assert len(stopped) >= 3
    log = tmp_path / "log.json"
    assert not log.exists() or not log.read_text()
