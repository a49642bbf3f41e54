"""A tuning run killed again and again loses nothing and measures nothing twice."""

import json
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
KILLS = 20
SPACE = 160
# New records after which a run is killed; 0 kills while the workers start.
MOMENTS = (0, 1, 1, 2, 3, 5)

SCRIPT = """
    import sys
    import autotune.task as at
    from autotune.measure import LocalBuilder, LocalRunner, measure_option
    from autotune.tuner import RandomTuner
    from autotune.tuner.callback import log_to_file
    from tests.measure import kernels
    log, space = sys.argv[1], int(sys.argv[2])
    task = at.create("measure_test.scale", (64, space), target="c")
    option = measure_option(
        LocalBuilder(), LocalRunner(number=1, repeat=1, cooldown_interval=0)
    )
    print("started", flush=True)
    RandomTuner(task).tune(space, option, callbacks=[log_to_file(log)], resume=log)
"""


def start(log):
    script = textwrap.dedent(SCRIPT)
    return subprocess.Popen(
        [sys.executable, "-c", script, str(log), str(SPACE)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def rows(log):
    return log.read_bytes().count(b"\n") if log.exists() else 0


def test_a_run_killed_at_random_moments_resumes_with_nothing_lost_and_nothing_twice(tmp_path):
    log = tmp_path / "log.json"
    rng = random.Random(0)
    before = b""
    for _ in range(KILLS):
        enough = rows(log) + rng.choice(MOMENTS)
        with start(log) as run:
            run.stdout.readline()
            while rows(log) < enough and run.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.1))
            run.send_signal(signal.SIGKILL)
        after = log.read_bytes() if log.exists() else b""
        assert after.startswith(before)
        before = after
    assert KILLS < rows(log) < SPACE
    with start(log) as run:
        assert run.wait(timeout=300) == 0
    lines = log.read_text().splitlines()
    records = [json.loads(line) for line in lines if not line.startswith("#")]
    assert sorted(record["config"]["index"] for record in records) == list(range(SPACE))
    assert all(record["result"][1] == 0 for record in records)
