"""Two tasks on one session, in turns or mixed, killed at random: they end as each alone does."""

import json
import random
import time
from collections import Counter

import pytest

from tests.faults.test_killed_runs import Runs, _forkserver  # noqa: F401 - a fixture

SPACE, TURN = 12, 4
# New records after which a run is killed, and those that it may go on to log before that. A turn
# logs its trials before the callback sees them, which leaves some for the run that ends.
MOMENTS = (2, 0, 1)
MOST_MORE = 1
# Knobs of either task whose answer is wrong.
WRONG = {2: [3, 10], 3: [8]}

# A callback of the run kills its workers; the test kills the run, which waits for that when its
# log is as long as it may become.
SCRIPT = """
    import contextlib, os, random, signal, sys, time
    import numpy as np
    import autotune.task as at
    from autotune.kernel import SourceKernel, arg
    from autotune.measure import LocalBuilder, LocalRunner, Session
    from autotune.tuner import RandomTuner
    from autotune.tuner.callback import log_to_file

    log, (space, turn, seed, most) = sys.argv[1], map(int, sys.argv[3:])
    WRONG = {2: [3, 10], 3: [8]}
    CODE = '''void f(const float *x, float *y) {
      *y = FACTOR * *x + WRONG; volatile int different = KNOB; }'''

    @at.template("tests/sessions")
    def times(factor):
        config = at.get_config()
        config.define_knob("knob", list(range(space)))
        knob = config["knob"].val
        return SourceKernel(
            "f", CODE,
            defines={"FACTOR": factor, "KNOB": knob, "WRONG": int(knob in WRONG[factor])},
            args=[arg("x", (1,)), arg("y", (1,), role="out")],
            reference=lambda x: np.float32(factor) * x,
        )

    rng = random.Random(seed)

    def kill(tuner, inputs, results):
        pids = [*session.builder.pids, *session.runner.pids]
        if seed >= 0 and pids and rng.random() < 0.4:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(pids), signal.SIGKILL)
        while open(log).read().count(chr(10)) >= most:
            time.sleep(1)

    tasks = [at.create("tests/sessions", (factor,), target="c") for factor in WRONG]
    builder = LocalBuilder(n_parallel=2, timeout=60)
    runner = LocalRunner(number=1, repeat=1, cooldown_interval=0, timeout=60)
    print("started", flush=True)
    with Session(builder, runner) as session:
        for trials in range(turn, space + 1, turn):
            for task in tasks:
                tuner = RandomTuner(task, seed=0)
                watch = [log_to_file(log), kill]
                tuner.tune(trials, session, callbacks=watch, resume=log, finalists=0)
"""

# All that no log has yet in one queue, the tasks alternating.
MIXED = (
    SCRIPT.partition("        for trials in range")[0]
    + """
        from autotune.measure import MeasureInput
        from autotune.record import load_from_file
        from autotune.record.writer import LogWriter

        writer = LogWriter(log)
        known = {inp for inp, _ in load_from_file(log)} if os.path.exists(log) else set()
        known = {(inp.task.args, inp.key) for inp in known}
        inputs = [
            MeasureInput(task.target, task, task.config_space.get(index))
            for index in range(space) for task in tasks if (task.args, str(index)) not in known
        ]
        for inp, result in session.stream(inputs):
            writer.append(inp, result)
            kill(None, None, None)
"""
)


def trials_of(log):
    """Return how often each configuration of each task is in a log, with what came of it."""
    rows = [json.loads(line) for line in log.read_text().splitlines() if line[0] != "#"]
    return Counter((row["input"][2][0], row["config"]["index"], row["result"][1]) for row in rows)


@pytest.mark.parametrize("script", [SCRIPT, MIXED], ids=["in turns", "mixed"])
def test_two_tasks_on_one_session_killed_and_resumed_end_as_each_alone(tmp_path, script):
    seed = 0
    rng = random.Random(seed)
    runs = Runs(tmp_path, script, SPACE, TURN, seed, 0)
    for more in MOMENTS:
        enough = runs.rows + more
        runs.arguments[-1] = enough + MOST_MORE
        with runs.start() as run:
            run.stdout.readline()
            while runs.rows < enough and run.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.2))
            run.kill()
    assert sum(MOMENTS) <= runs.rows < 2 * SPACE
    runs.arguments[-1] = 2 * SPACE + 1
    runs.finish()
    expected = {
        (factor, knob, 5 if knob in WRONG[factor] else 0): 1
        for factor in WRONG
        for knob in range(SPACE)
    }
    assert trials_of(runs.log) == expected
