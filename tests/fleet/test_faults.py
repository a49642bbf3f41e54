"""What breaks costs what it had under way, and is said in clear words."""

import contextlib
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import autotune.task as at
from autotune.errors import FleetError
from autotune.fleet import Fleet
from autotune.measure import MeasureInput, Session
from autotune.record import load_from_file
from autotune.tuner import GridSearchTuner
from autotune.tuner.callback import log_to_file
from tests.fleet.doubles import expected_error
from tests.fleet.test_chaos import FAST
from tests.fleet.workers import Worker, started_scheduler
from tests.forked import Script


@pytest.fixture
def troop(scheduler):
    """Starts workers; all end with the test."""
    made = []

    def start(name, kind="quick"):
        made.append(Worker(scheduler, name, kind))
        return made[-1]

    yield start
    for worker in made:
        worker.close()


def task_of(salt):
    return at.create("fleet_test.chaos", (salt,), target="c")


def measured(fleet, task, knobs):
    """Return the error numbers of some trials."""
    with Session(fleet) as session:
        return [r.error_no for r in session.measure(task, map(task.config_space.get, knobs))]


def test_a_worker_that_fails_what_others_pass_is_set_aside_and_blames_no_trial(troop, scheduler):
    troop("honest")
    troop("liar", "liar")
    with Fleet(scheduler, run=FAST) as fleet:
        fleet.wait(2)
        knobs = range(40)
        assert measured(fleet, task_of("liar"), knobs) == [expected_error(one) for one in knobs]
        (aside,) = [row for row in fleet.status() if row["aside"]]
    assert aside["worker"] == "liar"
    assert "trials that others passed" in aside["aside"]


def test_a_worker_without_room_is_set_aside_with_its_reason(troop, scheduler):
    troop("roomy")
    troop("full", "full")
    with Fleet(scheduler, run=FAST) as fleet:
        fleet.wait(2)
        knobs = range(12)
        assert measured(fleet, task_of("full"), knobs) == [expected_error(one) for one in knobs]
        aside = {row["worker"]: row["aside"] for row in fleet.status() if row["aside"]}
    assert "No space left on device" in aside["full"]


def test_a_worker_that_never_answers_a_trial_is_set_aside_and_its_trials_go_elsewhere(
    troop, scheduler
):
    troop("honest")
    troop("mute", "mute")
    with Fleet(scheduler, run=FAST, patience_s=0.5) as fleet:
        fleet.wait(2)
        knobs = range(12)
        assert measured(fleet, task_of("mute"), knobs) == [expected_error(one) for one in knobs]
        aside = {row["worker"]: row["aside"] for row in fleet.status() if row["aside"]}
    assert "it has not answered for" in aside["mute"]
    assert "nothing waits or runs there" in aside["mute"]


def test_a_worker_that_hangs_is_given_up_and_taken_back(troop, scheduler):
    one, two = troop("one"), troop("two")
    with Fleet(scheduler, run=FAST, lease_s=1.2) as fleet:
        fleet.wait(2)
        one.stop()
        knobs = range(10)
        assert measured(fleet, task_of("hang"), knobs) == [expected_error(k) for k in knobs]
        deadline = time.monotonic() + 30  # a busy machine may have lost sight of both for a moment
        while sum(fleet.classes().values()) != 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        one.resume()
        two.kill()
        fleet.wait(1)
        assert measured(fleet, task_of("hang 2"), knobs) == [expected_error(k) for k in knobs]


def test_who_joins_late_is_given_work(troop, scheduler):
    with Fleet(scheduler, run=FAST) as fleet:
        threading.Timer(0.3, lambda: troop("late")).start()
        assert measured(fleet, task_of("late"), [0, 1]) == [0, 0]


def test_when_the_last_worker_is_gone_the_run_ends_in_words_and_its_log_is_whole(
    troop,
    scheduler,
    tmp_path,
):
    worker, log = troop("only"), tmp_path / "a.log"
    task = task_of("last")

    def kill(tuner, inputs, results):
        if len(list(load_from_file(str(log)))) >= 5:
            worker.kill()

    with Fleet(scheduler, run=FAST, patience_s=1.0) as fleet:
        fleet.wait(1)
        with pytest.raises(FleetError, match=r"no worker of the fleet .* go on with resume="):
            GridSearchTuner(task).tune(
                200, fleet, callbacks=[log_to_file(str(log)), kill], finalists=0
            )
        known = [inp.config.index for inp, _ in load_from_file(str(log))]
        assert len(known) == len(set(known)) >= 5
        troop("next")
        fleet.wait(1)
        tuner = GridSearchTuner(task)
        tuner.tune(30, fleet, callbacks=[log_to_file(str(log))], resume=str(log), finalists=0)
    rows = [inp.config.index for inp, _ in load_from_file(str(log))]
    assert sorted(rows) == sorted(set(rows))
    assert len(rows) >= 30


@pytest.fixture
def mortal(scheduler):
    """Starts further schedulers, also at a port where one was; they end with the test."""
    with contextlib.ExitStack() as made:

        def start(port=0):
            one = contextlib.ExitStack()
            made.enter_context(one)
            return one.enter_context(started_scheduler(port)), one.close

        yield start


def test_a_scheduler_that_is_gone_is_said_and_one_in_its_place_is_joined(mortal, tmp_path):
    address, kill = mortal()
    worker = Worker(address, "faithful")
    log, task = tmp_path / "a.log", task_of("gone")
    ended, enough = [], threading.Event()

    def note(tuner, inputs, results):
        ended.extend(inp.config.index for inp in inputs)
        if len(ended) >= 5 and not enough.is_set():
            enough.set()
            threading.Thread(target=outlast_patience).start()

    def outlast_patience():
        """Skip the time that a busy scheduler may take to answer, once there is none."""
        fleet._members._answer_s = 0.5
        kill()
        while fleet._members._silent_since is None:
            time.sleep(0.01)
        fleet._members._clock = lambda: time.monotonic() + 60

    note.at_once = True
    try:
        with Fleet(address, run=FAST, patience_s=60) as fleet:
            fleet.wait(1)
            with pytest.raises(FleetError, match=r"the scheduler at .* has not answered for"):
                GridSearchTuner(task).tune(
                    5000, fleet, callbacks=[log_to_file(str(log)), note], finalists=0
                )
            known = [inp.config.index for inp, _ in load_from_file(str(log))]
            assert len(known) == len(set(known)) >= 5
            assert sorted(known) == sorted(ended)
            assert mortal(address.rpartition(":")[2])[0] == address
            fleet.wait(1, timeout_s=30)
            assert measured(fleet, task, [0, 1]) == [0, 0]
    finally:
        worker.close()


CLIENT = """
    import sys
    from autotune.fleet import Fleet
    from autotune.tuner import GridSearchTuner
    from autotune.tuner.callback import log_to_file
    from tests.fleet.test_chaos import FAST
    from tests.fleet.test_faults import task_of

    scheduler, log = sys.argv[1:3]
    with Fleet(scheduler, run=FAST) as fleet:
        tuner = GridSearchTuner(task_of("client"))
        tuner.tune(40, fleet, callbacks=[log_to_file(log)], resume=log, finalists=0)
    print("ended", flush=True)
"""


def test_a_client_that_is_killed_goes_on_where_it_was(troop, scheduler, tmp_path):
    troop("one")
    log = tmp_path / "a.log"
    for enough in (3, 20):
        client = Script(CLIENT, scheduler, log)
        deadline = time.monotonic() + 30
        while rows(log) < enough and time.monotonic() < deadline:
            time.sleep(0.02)
        client.kill()
        client.wait(10)
        client.stdout.close()
    with Script(CLIENT, scheduler, log) as client:
        assert client.stdout.readline() == "ended\n"
    known = [inp.config.index for inp, _ in load_from_file(str(log))]
    assert sorted(known) == list(range(40))


def rows(log):
    return log.read_bytes().count(b"\n") if log.exists() else 0


def test_two_clients_share_a_device_by_weight(troop, scheduler):
    troop("shared", "slow")
    done = {1.0: 0, 3.0: 0}
    over = threading.Event()

    def work(weight):
        with Fleet(scheduler, run=FAST, weight=weight) as fleet, Session(fleet) as session:
            task = task_of(f"weight {weight:g}")
            knobs = (k for k in range(10**5) if not expected_error(k))
            inputs = (MeasureInput(task.target, task, task.config_space.get(k)) for k in knobs)
            for _ in session.stream(inputs):
                done[weight] += 1
                if over.is_set():
                    return

    threads = [threading.Thread(target=work, args=(weight,)) for weight in done]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 120
    while min(done.values()) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    for _ in range(6):  # a machine that stalls both clients leaves the device without a choice
        before = dict(done)
        while sum(done.values()) - sum(before.values()) < 40 and time.monotonic() < deadline:
            time.sleep(0.02)
        got = {weight: done[weight] - before[weight] for weight in done}
        if 1.8 < got[3.0] / max(1, got[1.0]) < 4.5:
            break
    over.set()
    for thread in threads:
        thread.join(20)
    assert 1.8 < got[3.0] / max(1, got[1.0]) < 4.5, got


def test_four_devices_are_at_work_at_the_same_time(troop, scheduler, tmp_path):
    devices, trials = 4, 6
    for number in range(devices):
        troop(f"device {number}", f"meets {devices} {tmp_path}")
    task, done = task_of("scaling"), Counter()
    knobs = (knob for knob in range(10**5) if not expected_error(knob))
    with Fleet(scheduler, run=FAST) as fleet, Session(fleet) as session:
        fleet.wait(devices)
        inputs = (MeasureInput(task.target, task, task.config_space.get(knob)) for knob in knobs)
        for _, result in session.stream(inputs):
            assert result.ok
            done[result.evidence.device] += 1
            if len(done) == devices and min(done.values()) >= trials:
                break
        (tmp_path / "over").touch()


def wakings(pid):
    """Returns how often the threads of a process went to sleep so far."""
    found = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        (row,) = (r for r in status.read_text().splitlines() if r.startswith("voluntary_ctxt"))
        found += int(row.split()[1])
    return found


def test_a_worker_that_has_nothing_to_do_sleeps(troop):
    worker = troop("idle")
    assert worker.script.stdout.readline()  # it has joined
    time.sleep(0.3)
    before = wakings(worker.script._process.pid)
    time.sleep(1.0)
    assert wakings(worker.script._process.pid) - before < 50


def test_a_worker_that_finds_no_scheduler_ends_when_it_is_told_to(scheduler):
    worker = Worker("tcp://127.0.0.1:9", "lonely")
    try:
        time.sleep(1.0)
        assert worker.lives
        worker.leave()
        worker.script.wait(10)
        assert not worker.lives
    finally:
        worker.close()
