"""A tuning run killed again and again loses nothing and measures nothing twice."""

import json
import random
import time
from collections import Counter

import pytest

from tests.forked import Script, forkserver_with

KILLS = {"in turn": 10, "in batches": 6}
SPACE = 80
# New records after which a run is killed; 0 kills while the workers start.
MOMENTS = (0, 1, 1, 2, 3, 5)
# Those that a run may go on to log before it is killed.
MOST_MORE = 4

# Every fifth trial compiles for long, so that others end behind it. A run whose log is as long as
# it may become waits to be killed: a fast machine leaves something for the kills that follow.
SCRIPT = """
    import os, sys, threading, time
    import autotune.task as at
    from concurrent.futures import Future
    from autotune.kernel import SourceKernel, arg
    from autotune.measure import LocalBuilder, LocalRunner, measure_option
    from autotune.tuner import RandomTuner
    from autotune.tuner.callback import log_to_file

    log, ended, space, mode = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    most = int(sys.argv[5])
    notes = open(ended, "a", buffering=1)
    CODE = "void f(const float *x, float *y) { *y = 2 * *x; volatile int different = KNOB; }"

    @at.template("tests/killed")
    def killed():
        config = at.get_config()
        config.define_knob("knob", list(range(space)))
        return SourceKernel(
            "f", CODE, defines={"KNOB": config["knob"].val},
            args=[arg("x", (1,)), arg("y", (1,), role="out")], reference=lambda x: 2 * x,
        )

    class Builder(LocalBuilder):
        def submit(self, measure_input):
            built = super().submit(measure_input)
            if measure_input.config.index % 5:
                return built
            late = Future()
            give = lambda: late.set_result(built.result())
            threading.Timer(0.3, give).start()
            return late

    class Runner(LocalRunner):
        def submit(self, measure_input, build_result):
            run = super().submit(measure_input, build_result)
            run.add_done_callback(lambda _: self.note(run, measure_input.config.index))
            return run

        def note(self, run, index):
            while os.path.exists(log) and open(log).read().count(chr(10)) >= most:
                time.sleep(1)
            if not run.cancelled() and not run.exception():
                notes.write(f"{index}\\n")

    class Tuner(RandomTuner):
        def update(self, inputs, results):
            super().update(inputs, results)
            time.sleep(0.02 * len(inputs))

    task = at.create("tests/killed", (), target="c")
    option = measure_option(
        Builder(n_parallel=2), Runner(number=1, repeat=1, cooldown_interval=0)
    )
    print("started", flush=True)
    Tuner(task).tune(
        space, option, callbacks=[log_to_file(log)], resume=log, reproducible=mode == "in batches"
    )
"""


@pytest.fixture(scope="module", autouse=True)
def _forkserver():
    with forkserver_with(["tests.tuner.doubles"]):
        yield


class Runs:
    """Starts the same run over and over; knows its log and what was measured."""

    def __init__(self, folder, script, *arguments):
        self.log, self.ended = folder / "log.json", folder / "ended"
        self.script, self.arguments = script, list(arguments)

    def start(self):
        return Script(self.script, self.log, self.ended, *self.arguments)

    def finish(self):
        with self.start() as run:
            assert run.wait(timeout=300) == 0

    @property
    def rows(self):
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    def indices(self):
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        records = [json.loads(line) for line in lines if not line.startswith("#")]
        assert all(record["result"][1] == 0 for record in records)
        return [record["config"]["index"] for record in records]

    def measured(self):
        """Return the configurations that were measured, as often as they were."""
        return [*map(int, self.ended.read_text().split())] if self.ended.exists() else []


@pytest.mark.parametrize("mode", KILLS)
def test_a_run_killed_at_random_moments_resumes_with_nothing_lost_and_nothing_twice(
    tmp_path, mode
):
    runs = Runs(tmp_path, SCRIPT, SPACE, mode, 0)
    rng = random.Random(0)
    before, lost = b"", Counter()
    for _ in range(KILLS[mode]):
        enough, known = runs.rows + rng.choice(MOMENTS), len(runs.measured())
        runs.arguments[-1] = enough + MOST_MORE
        with runs.start() as run:
            run.stdout.readline()
            while runs.rows < enough and run.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.3))
            run.kill()
        after = runs.log.read_bytes() if runs.log.exists() else b""
        assert after.startswith(before)
        before = after
        unlogged = set(runs.measured()[known:]) - set(runs.indices())
        # One trial runs at a time: the kill caught it between its end and its row.
        assert len(unlogged) <= 1
        lost.update(unlogged)
    assert KILLS[mode] < runs.rows < SPACE
    runs.arguments[-1] = 10 * SPACE
    runs.finish()
    assert sorted(runs.indices()) == list(range(SPACE))
    assert Counter(runs.measured()) == Counter(range(SPACE)) + lost


# One trial never ends, or the tuner never ends to learn, until the run is resumed.
STUCK = """
    import sys, time
    from autotune.tuner import GridSearchTuner
    from autotune.tuner.callback import log_to_file
    from tests.tuner.doubles import Empty, Stuck, loop_task

    log, ended, where, held = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

    class Tuner(GridSearchTuner):
        def update(self, inputs, results):
            super().update(inputs, results)
            while where == "learning" and held >= 0:
                time.sleep(1)

    option = {"builder": Empty(), "runner": Stuck([held], ended)}
    Tuner(loop_task()).tune(
        32, option, callbacks=[log_to_file(log)], resume=log, reproducible=where == "batch"
    )
"""


@pytest.mark.parametrize(
    ("where", "held", "logged"),
    [
        ("line", 0, [1, 2, 3, 4, 5]),
        ("line", 4, [0, 1, 2, 3, 5, 6, 7, 8, 9]),
        ("batch", 7, [*range(7), *range(8, 16)]),
        ("learning", 100, [0, 1, 2, 3, 4, 5]),
    ],
    ids=["behind the oldest", "behind another", "within a batch", "while learning"],
)
def test_a_run_killed_while_it_waits_has_logged_all_that_ended(tmp_path, where, held, logged):
    runs = Runs(tmp_path, STUCK, where, held)
    with runs.start() as run:
        deadline = time.monotonic() + 60
        while runs.rows < len(logged) and time.monotonic() < deadline:
            time.sleep(0.01)
        run.kill()
    assert sorted(runs.indices())[: len(logged)] == logged
    kept = set(runs.indices())
    runs.arguments[-1] = -1
    runs.finish()
    assert sorted(runs.indices()) == list(range(32))
    measured = [*map(int, runs.ended.read_text().split())]
    assert set(measured) == set(range(32))
    # Only a trial that the kill caught between its end and its row is measured again.
    twice = [index for index in set(measured) if measured.count(index) > 1]
    assert len(measured) == 32 + len(twice)
    assert len(twice) <= 1
    assert not kept.intersection(twice)
