"""A device is timed by one program at a time, whatever happens to the programs."""

import os
import signal
import time
from dataclasses import replace
from itertools import groupby

import pytest

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, Session, exclusive
from autotune.measure.exclusive import devices
from autotune.measure.exclusive.devices import device_lock
from autotune.measure.exclusive.holders import holder, named
from autotune.measure.exclusive.lock import Claim, DeviceLock
from autotune.measure.run import pool
from autotune.target import Target
from autotune.utils.children import Child
from tests.measure.forked_locks import SOON_S, Forked, another, holds, nothing, taken_by_others


@at.template("measure_test.turn")
def turn():
    cfg = at.get_config()
    cfg.define_knob("knob", list(range(4)))
    return SourceKernel(
        "f",
        "void f(const float *x, float *y) { volatile int different = KNOB; *y = *x; }",
        defines={"KNOB": cfg["knob"].val},
        args=[arg("x", (1,)), arg("y", (1,), role="out")],
        reference=lambda x: x,
        language="c",
    )


def test_holds_never_overlap_though_their_holders_are_killed(lock, tmp_path):
    spans = tmp_path / "spans"

    def program(rounds):
        def run(say):
            out = os.open(spans, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            for _ in range(rounds):
                with lock.held(nothing, nothing):
                    os.write(out, b"(")
                    time.sleep(0.002)
                    os.write(out, b")")
                    say(".")

        return run

    lasting = [Forked(program(40)) for _ in range(2)]
    for _ in range(8):
        killed = Forked(program(1000))
        killed.line()
        time.sleep(0.001)
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
    assert [one.wait() for one in lasting] == [0, 0]
    text = spans.read_text()
    # A killed one may leave its hold unfinished; none begins inside another's.
    assert text.count("(") - text.count(")") <= 8
    assert "))" not in text
    assert text.count("()") >= 80


def test_two_programs_take_turns(lock, tmp_path):
    order = tmp_path / "order"
    gate, opens = os.pipe()

    def program(name):
        def run(say):
            out = os.open(order, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.close(opens)
            say(".")
            os.read(gate, 1)  # returns when all have closed the other end
            for _ in range(60):
                with lock.held(nothing, nothing):
                    os.write(out, name)
                    time.sleep(0.001)

        return run

    both = [Forked(program(name)) for name in (b"a", b"b")]
    assert [one.line() for one in both] == [".", "."]
    os.close(opens)
    assert [one.wait() for one in both] == [0, 0]
    os.close(gate)
    text = order.read_text()
    # From when both want it until one has done: never twice in a row but for a slow start.
    first, last = (
        text.index("b" if text[0] == "a" else "a"),
        min(text.rindex("a"), text.rindex("b")),
    )
    runs = [len(list(same)) for _, same in groupby(text[first:last])]
    # Only a system that is slow to wake one up lets the other go first twice; unfair ones give
    # runs of dozens.
    assert sum(runs) / len(runs) < 2


@pytest.mark.parametrize("queue", [False, True], ids=["has it", "waits for it"])
def test_a_program_that_is_killed_lets_go_at_once(lock, queue):
    first = Forked(holds(lock, forever=True))
    assert first.line() == "holds"
    assert taken_by_others(lock)
    second = Forked(holds(lock, forever=True))
    assert second.line() == "waits"
    third = Forked(holds(lock))
    assert third.line() == "waits"
    (second if queue else first).kill()
    (second if queue else first).wait()
    if not queue:
        assert second.line() == "holds"
        second.kill()
        second.wait()
    else:
        first.kill()
        first.wait()
    assert third.line() == "holds"
    assert third.wait() == 0


def test_programs_on_other_cores_do_not_wait_and_one_on_all_does(tmp_path):
    low, high, middle = (
        DeviceLock(str(tmp_path), (Claim("cpu", shared=True), *(Claim(f"cpu-{i}") for i in mine)))
        for mine in ((0, 1), (2,), (1, 2))
    )
    whole = DeviceLock(str(tmp_path), (Claim("cpu"),))
    with another(low), another(high):
        assert [taken_by_others(lock) for lock in (low, middle, whole)] == [True] * 3
    with another(low):
        assert not taken_by_others(high)
    with another(whole):
        assert [taken_by_others(lock) for lock in (low, middle, high)] == [True] * 3
    assert not taken_by_others(whole)


def test_a_process_bound_to_some_cores_claims_those(own_folder):
    every = sorted(os.sched_getaffinity(0))
    if len(every) < 2 or len(every) != os.sysconf("SC_NPROCESSORS_ONLN"):
        pytest.skip("this process is bound to some cores already, or there is one only")
    assert device_lock(Target("c")).claims == (Claim("cpu"),)
    try:
        os.sched_setaffinity(0, every[1:2])
        bound = device_lock(Target("c")).claims
    finally:
        os.sched_setaffinity(0, every)
    assert bound == (Claim("cpu", shared=True), Claim(f"cpu-{every[1]}"))
    assert device_lock(Target("cuda -emulate")).claims == (Claim("cpu"),)


def test_a_gpu_is_known_by_its_uuid(own_folder, monkeypatch):
    class Driver:
        """Answers as ``libcuda`` does of one device."""

        def __getattr__(self, name):
            return lambda *args: 0

        def cuDeviceGetUuid_v2(self, value, device):
            value[:] = range(16)
            return 0

    monkeypatch.setattr("autotune.target.query._driver", Driver)
    found = device_lock(Target("cuda -arch=sm_90"), 3)
    assert found.claims == (Claim("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"),)


def test_what_a_program_has_it_has_for_those_that_it_starts_too(own_folder):
    lock = device_lock(Target("c"))
    with exclusive("c"), exclusive("c"):
        stranger = Forked(holds(lock), orphan=True)
        assert stranger.line() == "waits"
        # Though the stranger stands in the queue: else it would be for ever.
        assert not taken_by_others(lock)
        with exclusive("c"):
            pass
    assert stranger.line() == "holds"
    assert stranger.line() == ""


def test_a_process_forked_inside_does_not_hold_on_what_its_parent_had(own_folder):
    lock = device_lock(Target("c"))

    def program(say):
        with exclusive("c"):
            if child := os.fork():
                say(str(child))
            time.sleep(SOON_S)

    parent = Forked(program)
    child = int(parent.line())
    assert taken_by_others(lock)
    parent.kill()
    parent.wait()
    assert not taken_by_others(lock)
    os.kill(child, signal.SIGKILL)


def test_trials_of_a_program_that_has_the_device_to_itself_go_on(own_folder):
    task = at.create("measure_test.turn", (), target="c")
    with exclusive("c"), Session(LocalBuilder(n_parallel=1), runner()) as session:
        stranger = Forked(holds(device_lock(Target("c"))), orphan=True)
        assert stranger.line() == "waits"
        results = session.measure(task, [task.config_space.get(i) for i in range(3)])
    assert all(r.ok for r in results)
    assert stranger.line() == "holds"
    assert stranger.line() == ""


@pytest.mark.parametrize("isolated", [True, False], ids=["in a fork", "in the device's process"])
def test_a_wait_is_said_once_and_counts_for_no_trial(own_folder, caplog, monkeypatch, isolated):
    if not isolated:  # as on a GPU

        def setup(target, device, plan):
            return replace(made(target, device, plan), isolated=False)

        made = pool._setup
        monkeypatch.setattr(pool, "_setup", setup)
    monkeypatch.setattr(devices, "NOTABLE_S", 0.3)
    # A busy system may spend most of the time below on the build.
    monkeypatch.setattr("autotune.measure.run.host_load._LEAST_WAIT_S", 0.1)
    task = at.create("measure_test.turn", (), target="c")
    candidates = [task.config_space.get(i) for i in range(3)]
    with Session(LocalBuilder(), runner(timeout=SOON_S)) as session:
        (alone,) = session.measure(task, candidates[:1])
    assert alone.ok
    limit_s = max(1.0, 5 * alone.all_cost)  # however fast this machine is
    used = runner(timeout=limit_s)
    with caplog.at_level("WARNING", "autotvm"), Session(LocalBuilder(), used) as session:
        assert session.measure(task, candidates[:1])[0].ok
        for candidate, waits in zip(candidates[1:], (1.3, 0.4), strict=True):
            with another(device_lock(Target("c"))):
                (future,) = session.submit(task, [candidate])
                time.sleep(waits * limit_s)
                assert not future.done()
            result = future.result(3 * SOON_S)
            assert result.ok
            assert result.all_cost < 1.2 * limit_s
        note = used.host_note_of(task)
    said = [r.message for r in caplog.records if "take turns" in r.message]
    assert len(said) == 1
    assert said[0].startswith("this host is in use by another program, process ")
    assert "the device was shared: trials waited" in note


def test_who_does_not_want_to_wait_does_not(own_folder):
    task = at.create("measure_test.turn", (), target="c")
    with (
        another(device_lock(Target("c"))),
        Session(LocalBuilder(n_parallel=1), runner(exclusive=False)) as session,
    ):
        assert session.measure(task, [task.config_space.get(0)])[0].ok


def test_a_runner_that_waits_can_be_closed(own_folder):
    task = at.create("measure_test.turn", (), target="c")
    with another(device_lock(Target("c"))), Session(LocalBuilder(), runner()) as session:
        (future,) = session.submit(task, [task.config_space.get(0)])
        time.sleep(0.5)
        started = time.monotonic()
        session.close()
        assert time.monotonic() - started < SOON_S
        assert future.cancelled()


def runner(**options):
    return LocalRunner(number=1, repeat=1, cooldown_interval=0, **options)


def test_the_holder_is_named(lock):
    with another(lock) as other:
        assert holder(os.path.join(lock.folder, "device")).startswith(f"process {other.pid} (")
    assert holder(os.path.join(lock.folder, "device")) == ""


def test_a_process_that_a_run_started_is_named_as_the_run():
    mine = named(os.getpid())
    assert mine.startswith(f"process {os.getpid()} (")
    child = Child("tests.utils.echo_child")
    try:
        child.send(("echo", "begun"))  # until it is executed it has no command line
        assert child.receive(30) == "begun"
        assert named(child.pid) == mine
    finally:
        child.close()
