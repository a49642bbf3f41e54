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

SCRIPT = """
    import sys
    import autotune.task as at
    from autotune.measure import LocalBuilder, LocalRunner, measure_option
    from autotune.tuner import RandomTuner
    from autotune.tuner.callback import log_to_file
    from tests.measure import kernels
    log = sys.argv[1]
    task = at.create("measure_test.scale", (64, 400), target="c")
    option = measure_option(LocalBuilder(), LocalRunner(cooldown_interval=0))
    print("started", flush=True)
    RandomTuner(task, seed=int(sys.argv[2])).tune(
        400, option, callbacks=[log_to_file(log)], resume=log
    )
"""


def start(log, seed):
    script = textwrap.dedent(SCRIPT)
    return subprocess.Popen(
        [sys.executable, "-c", script, str(log), str(seed)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def test_a_run_killed_at_random_moments_resumes_with_nothing_lost_and_nothing_twice(tmp_path):
    log = tmp_path / "log.json"
    rng = random.Random(0)
    sizes = []
    for seed in range(KILLS):
        with start(log, seed) as run:
            run.stdout.readline()
            time.sleep(rng.uniform(0.2, 1.2))
            run.send_signal(signal.SIGKILL)
        sizes.append(log.stat().st_size if log.exists() else 0)
    with start(log, KILLS) as run:
        assert run.wait(timeout=300) == 0
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > KILLS // 4, "most runs were killed before their first record"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    indices = [record["config"]["index"] for record in records]
    assert sorted(indices) == list(range(400))
    assert all(record["result"][1] == 0 for record in records)
