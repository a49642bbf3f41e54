"""A run whose processes are killed at random ends, loses nothing, and blames no trial for it."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import defaultdict
from pathlib import Path

from tests.faults.test_faults import gone

ROOT = Path(__file__).parent.parent.parent
SEED = 0
# Trials of one run; there are as many runs as it takes.
SPACE = 24
# More kills than this reach into the final race too, which takes seconds.
RACED = 50
# New rows in the log to wait for before the next kill; 0 kills what has only just started again.
MOMENTS = (0, 0, 1, 1, 2)
VICTIMS = ("builder", "runner", "fork", "compiler")
# How often in a row a worker is killed while it starts.
STARTS = (0, 0, 1, 3)
# Without a row or a victim for so long the run hangs, however busy the machine is.
STUCK_S = 120.0

SCRIPT = """
    import sys
    import autotune.task as at
    from autotune.kernel import SourceKernel, arg
    from autotune.measure import LocalBuilder, LocalRunner, measure_option
    from autotune.tuner import RandomTuner
    from autotune.tuner.callback import log_to_file

    log, space, finalists = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    CODE = '''
    void f(const float *x, float *y) {
      volatile int different = KNOB;
      for (int r = 0; r < 30000; r++)
        for (int i = 0; i < 1024; i++) y[i] = 2 * x[i];
    }'''

    @at.template("tests/kills")
    def kills():
        config = at.get_config()
        config.define_knob("knob", list(range(space)))
        return SourceKernel(
            "f", CODE, defines={"KNOB": config["knob"].val},
            args=[arg("x", (1024,)), arg("y", (1024,), role="out")], reference=lambda x: 2 * x,
        )

    builder = LocalBuilder(n_parallel=2, cache=False, timeout=60)
    runner = LocalRunner(number=1, repeat=1, cooldown_interval=0, timeout=60)
    tuner = RandomTuner(at.create("tests/kills", (), target="c"), seed=0)
    option = measure_option(builder, runner)
    tuner.tune(space, option, callbacks=[log_to_file(log)], finalists=finalists)
"""


class Campaign:
    """One run after another, and what was killed in them."""

    def __init__(self, folder, kills, script=SCRIPT, victims=VICTIMS):
        self.folder, self.left = folder, kills
        self.script, self.victims = textwrap.dedent(script), victims
        self.finalists = 4 if kills > RACED else 0
        self.rng = random.Random(SEED)
        self.next = []
        self.killed = dict.fromkeys(victims, 0)
        self.starting = self.starts_left = 0
        self.seen = set()
        self.logs = []

    def run(self):
        """Start a run and kill what belongs to it until it ends."""
        self.starts_left = 0
        log = self.folder / f"{len(self.logs)}.json"
        self.logs.append(log)
        command = [sys.executable, "-c", self.script]
        command += map(str, (log, SPACE, self.finalists))
        errors = self.folder / "errors"
        with (
            errors.open("w") as stderr,
            subprocess.Popen(command, cwd=ROOT, stderr=stderr) as run,
        ):
            try:
                self.kill_until_the_end(run, log)
                assert run.wait(timeout=STUCK_S) == 0, errors.read_text()
            finally:
                run.kill()
        assert all(gone(pid) for pid in self.seen)

    def kill_until_the_end(self, run, log):
        rows, enough, changed = 0, 0, time.monotonic()
        while run.poll() is None and self.left:
            assert time.monotonic() - changed < STUCK_S, "the run hangs"
            victim, processes = self.victim(), processes_of(run.pid)
            fresh = set(processes[victim]) - self.seen
            self.seen.update(pid for pids in processes.values() for pid in pids)
            if rows_of(log) > rows:
                rows, changed = rows_of(log), time.monotonic()
            prey = fresh if self.starts_left else processes[victim]
            if rows < enough or not prey:
                time.sleep(0.005)
                continue
            time.sleep(self.rng.choice((0, 0.01, 0.1)) * self.rng.random())
            if self.kill(self.rng.choice(sorted(prey)), victim):
                enough = rows if self.starts_left else rows + self.rng.choice(MOMENTS)

    def victim(self):
        """Return what is killed next: each as often as the others, those that start more often."""
        if not self.next:
            self.next = self.rng.sample(self.victims, len(self.victims))
        return self.next[-1]

    def kill(self, pid, victim):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.killed[victim] += 1
        self.left -= 1
        if self.starts_left:
            self.starting += 1
            self.starts_left -= 1
        elif victim in ("builder", "runner"):
            self.starts_left = self.rng.choice(STARTS)
        if not self.starts_left:
            self.next.pop()
        return True


def processes_of(caller):
    """Return the processes of a run by what they are."""
    children = children_by_parent()
    found = {victim: [] for victim in VICTIMS}
    for pid in children[caller]:
        command = command_of(pid)
        if "build.worker" in command:
            found["builder"].append(pid)
            found["compiler"] += descendants(pid, children)
        elif "run.worker" in command:
            found["runner"].append(pid)
            found["fork"] += children[pid]
    return found


def children_by_parent():
    children = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            children[int(fields[1])].append(int(stat.parent.name))
    return children


def descendants(pid, children):
    return [one for child in children[pid] for one in (child, *descendants(child, children))]


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def rows_of(log):
    return log.read_bytes().count(b"\n") if log.exists() else 0


def check(campaign):
    """Run until all is killed that shall be; nothing is lost, false, or there twice."""
    while campaign.left:
        campaign.run()
    lost, false, twice = 0, [], 0
    for log in campaign.logs:
        lines = [line for line in log.read_text().splitlines() if not line.startswith("#")]
        records = [json.loads(line) for line in lines]
        indices = [record["config"]["index"] for record in records]
        false += [record for record in records if record["result"][1]]
        lost += SPACE - len(set(indices))
        twice += len(indices) - len(set(indices))
    print(
        f"killed {campaign.killed}, {campaign.starting} of them while they started, "
        f"in {len(campaign.logs)} runs of {SPACE} trials"
    )
    assert (lost, false, twice) == (0, [], 0)


def test_kills_at_random_moments_cost_no_trial(tmp_path, pytestconfig):
    check(Campaign(tmp_path, pytestconfig.getoption("--kills")))
