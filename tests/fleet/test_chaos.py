"""Workers that are killed, stopped, cut off and replaced at random lose and double nothing."""

import contextlib
import json
import os
import random
import threading
import time
from collections import Counter

import pytest

import autotune.task as at
from autotune.fleet import Fleet
from autotune.kernel import SourceKernel, arg
from autotune.measure import MeasureInput, Session
from autotune.record import open_database
from autotune.tuner.callback import log_to_database, log_to_file
from tests.contract import postgresql
from tests.fleet.doubles import expected_error
from tests.fleet.workers import Worker

FAST = {"number": 1, "repeat": 1, "cooldown_interval": 0}
WORKERS, SPACE = 4, 100_000
CODE = "void f(const float *x, float *y) { *y = 2 * *x; volatile int different = KNOB; }"


@at.template("fleet_test.chaos")
def chaos(salt):
    config = at.get_config()
    config.define_knob("knob", list(range(SPACE)))
    return SourceKernel(
        "f",
        CODE,
        defines={"KNOB": config["knob"].val, "SALT": salt},
        args=[arg("x", (1,)), arg("y", (1,), role="out")],
        reference=lambda x: 2 * x,
        language="c",
    )


@pytest.fixture
def databases(tmp_path):
    """URLs of databases: one of SQLite, and one of PostgreSQL where it is installed."""
    with contextlib.ExitStack() as servers:
        found = [f"sqlite:///{tmp_path / 'trials.db'}"]
        if not postgresql.why_not():
            found.append(servers.enter_context(postgresql.server()))
        yield found


class Troop:
    """Workers, and what befalls them."""

    def __init__(self, scheduler, rng, kind="quick"):
        self.scheduler, self.rng, self.kind = scheduler, rng, kind
        self.count = 0
        self.workers = [self.new() for _ in range(WORKERS)]
        self.events = Counter()

    def new(self):
        self.count += 1
        return Worker(self.scheduler, f"worker{self.count}", self.kind)

    def event(self):
        """Let something happen to one of them."""
        index = self.rng.randrange(WORKERS)
        worker = self.workers[index]
        if not worker.lives:
            what = "join"
            worker.close()
            self.workers[index] = self.new()
        elif worker.stopped:
            what = self.rng.choice(["resume", "resume", "kill"])
            getattr(worker, what)()
        else:
            what = self.rng.choice(["kill", "stop", "cut", "cut", "leave"])
            getattr(worker, what)()
        self.events[what] += 1

    def close(self):
        for worker in self.workers:
            worker.close()


def campaign(scheduler, logs, events, seed, kind="quick", pause_s=0.05):
    """Measure trials while things happen; return how often each has a result, by whom told."""
    rng = random.Random(seed)
    told, knobs = Counter(), iter(range(SPACE))
    troop = Troop(scheduler, rng, kind)
    watchers = [log_to_file(logs[-1])]
    watchers += [log_to_database(open_database(url)) for url in logs[:-1]]
    task = at.create("fleet_test.chaos", (os.urandom(4).hex(),), target="c")
    over = threading.Event()

    def befall():
        try:
            for _ in range(events):
                time.sleep(rng.uniform(0, 2 * pause_s))
                troop.event()
            for worker in troop.workers:
                worker.resume()
        finally:
            over.set()

    def ended(inp, result):
        told[inp.config.index] += 1
        for watch in watchers:
            watch(None, [inp], [result])

    try:
        with (
            Fleet(scheduler, run=FAST, patience_s=30, lease_s=1.5) as fleet,
            Session(fleet) as session,
        ):
            fleet.wait(1)
            thread = threading.Thread(target=befall)
            thread.start()
            futures, results = [], {}
            while not over.is_set() or len(futures) < 50:
                if sum(not one.done() for one in futures[-64:]) >= 24:
                    time.sleep(0.01)
                    continue
                knob = next(knobs)
                inp = MeasureInput(task.target, task, task.config_space.get(knob))
                futures.append(session.start(inp, ended))
            for knob, future in enumerate(futures):
                results[knob] = future.result(timeout=60)
            thread.join()
    finally:
        troop.close()
    return results, told, troop.events


def rows_of(lines):
    """Return how often each trial has a row, with what came of it."""
    rows = [json.loads(line) for line in lines if not line.startswith("#")]
    return Counter((row["config"]["index"], row["result"][1]) for row in rows)


def test_whatever_befalls_four_workers_no_trial_is_lost_or_doubled(
    scheduler, databases, tmp_path, request
):
    asked = request.config.getoption
    events = asked("--events") or (200 if asked("--all-cases") else 60)
    log, seed = str(tmp_path / "a.log"), 1
    results, told, happened = campaign(scheduler, [*databases, log], events, seed)
    print(f"{events} events ({dict(happened)}), {len(results)} trials, logged to {databases}")
    assert sum(happened.values()) == events
    expected = {(knob, int(expected_error(knob))): 1 for knob in results}
    assert {(knob, r.error_no): 1 for knob, r in results.items()} == expected
    assert set(told.values()) == {1}
    for place in (*databases, log):
        with open_database(place) as kept:
            assert rows_of(kept.lines()) == expected
