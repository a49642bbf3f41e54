"""Child processes: they answer, they are killed whole, and they never outlive their parent."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from autotune.measure.process.worker import StartFailed, Worker
from autotune.utils import command
from autotune.utils.children import Child, ChildDied, ChildTimeout
from autotune.utils.exits import describe_exit

HERE = Path(__file__).parent


@pytest.fixture
def child(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    child = Child("echo_child")
    yield child
    child.close()


def gone(pid: int, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False


def test_a_child_answers_in_order(child):
    for number in range(3):
        child.send(("echo", {"number": number}))
    assert [child.receive(10)["number"] for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("room", range(8))
def test_a_child_for_which_there_are_too_few_descriptors_leaves_none_open(room):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(taken[0], *descriptors()) + 9, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(taken[0]))
        for _ in range(room):
            os.close(taken.pop())
        with pytest.raises(OSError, match="Too many open files"):
            Child("echo_child")
        before = len(taken)
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(taken[0]))
        assert len(taken) - before == room
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


def descriptors():
    return map(int, os.listdir("/proc/self/fd"))


def test_large_messages_arrive_whole(child):
    child.send(("echo", "x" * 3_000_000))
    assert len(child.receive(10)) == 3_000_000


def test_a_stopped_child_that_takes_no_message_is_killed(child, monkeypatch):
    monkeypatch.setattr("autotune.utils.children._SEND_TIMEOUT_S", 0.3)
    child.send(("echo", 1))
    assert child.receive(10) == 1
    os.kill(child.pid, signal.SIGSTOP)
    child.send(("echo", "what the pipe holds"))
    with pytest.raises(ChildDied, match="killed by SIGKILL"):
        child.send(("echo", "x" * 3_000_000))


def test_what_a_child_prints_does_not_disturb_the_protocol(child):
    child.send(("print", "noise " * 40_000))
    assert child.receive(10) == "printed"
    assert child.output.endswith("noise")


def test_a_crash_is_reported_with_signal_and_output(child):
    child.send(("crash", "about to crash"))
    with pytest.raises(ChildDied, match=r"^killed by SIGSEGV\n.* printed: about to crash"):
        child.receive(10)


def test_an_exit_is_reported_with_its_status(child):
    child.send(("exit", 3))
    with pytest.raises(ChildDied, match="exited with status 3"):
        child.receive(10)


def test_garbage_on_the_reply_pipe_is_a_dead_child(child):
    child.send(("garbage", None))
    with pytest.raises(ChildDied, match="garbage"):
        child.receive(10)


@pytest.mark.parametrize("timeout_s", [1e9, float("inf")])
def test_an_answer_may_take_for_ever(child, timeout_s):
    child.send(("echo", 1))
    assert child.receive(timeout_s) == 1


def test_a_late_answer_times_out_and_the_child_can_be_killed(child):
    child.send(("sleep", 60))
    with pytest.raises(ChildTimeout, match=r"within 0\.2 s"):
        child.receive(0.2)
    child.kill()
    with pytest.raises(ChildDied, match="killed by SIGKILL"):
        child.receive(10)


def test_kill_takes_grandchildren_too(child):
    child.send(("grandchild", None))
    grandchild = child.receive(10)
    child.kill()
    assert gone(grandchild)


def test_close_leaves_no_process_and_no_descriptor(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    before = len(os.listdir("/proc/self/fd"))
    child = Child("echo_child")
    child.send(("grandchild", None))
    grandchild = child.receive(10)
    child.close()
    child.close()
    assert gone(grandchild)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_child_answers_a_program_that_runs_without_standard_streams(tmp_path):
    text = f"""
        import os, sys
        sys.path.insert(0, {str(HERE)!r})
        for fd in range(3):
            os.close(fd)
        from autotune.utils.children import Child
        child = Child("echo_child")
        child.send(("echo", "heard"))
        answer = child.receive(10)
        with open({str(tmp_path / "answer")!r}, "w") as file:
            file.write(answer)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(text)], timeout=60)
    assert (tmp_path / "answer").read_text() == "heard"


def test_a_paused_child_makes_no_progress(child):
    child.send(("echo", 1))
    assert child.receive(10) == 1
    child.pause()
    child.send(("echo", 2))
    with pytest.raises(ChildTimeout):
        child.receive(0.2)
    child.resume()
    assert child.receive(10) == 2


@pytest.mark.parametrize("busy", ["busy", "idle", "paused"])
def test_children_and_grandchildren_die_when_the_parent_is_killed(busy):
    text = f"""
        import sys, time
        sys.path.insert(0, {str(HERE)!r})
        from autotune.utils.children import Child
        child = Child("echo_child")
        child.send(("grandchild", None))
        grandchild = child.receive(10)
        if {busy!r} == "busy":
            child.send(("sleep", 60))
        if {busy!r} == "paused":
            child.pause()
        print(child.pid, grandchild, flush=True)
        time.sleep(60)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, text=True
    )
    with parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)


def test_a_child_paused_while_it_starts_dies_when_the_parent_is_killed():
    text = """
        import time
        from autotune.utils.children import Child
        child = Child("echo_child")
        child.pause()
        print(child.pid, flush=True)
        time.sleep(60)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, text=True
    )
    with parent:
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)


@pytest.fixture
def stuck():
    """Returns a function after whose call a process does not end when it is killed.

    Another process traces it, and so holds it where it would end, as a driver does that waits for
    its device.
    """
    tracers = []

    def trace(pid: int) -> None:
        seize, trace_exit = 0x4206, 0x40
        text = f"""
            import ctypes, time
            libc = ctypes.CDLL(None, use_errno=True)
            failed = libc.ptrace({seize}, {pid}, None, ctypes.c_void_p({trace_exit}))
            print(ctypes.get_errno() if failed else 0, flush=True)
            time.sleep(60)
        """
        tracer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, text=True
        )
        tracers.append(tracer)
        error = int(tracer.stdout.readline())
        if error:
            pytest.skip(f"processes may not be traced here: {os.strerror(error)}")

    yield trace
    for tracer in tracers:
        with tracer:
            tracer.kill()


def test_a_child_that_does_not_end_when_it_is_killed_is_left_behind(child, stuck, monkeypatch):
    monkeypatch.setattr("autotune.utils.children.END_S", 0.3)
    child.send(("sleep", 60))
    stuck(child.pid)
    child.kill()
    with pytest.raises(ChildDied, match=r"was killed, but has not ended within .*: its state is"):
        child.receive(60)
    started = time.monotonic()
    child.close()
    assert time.monotonic() - started < 10
    assert "left behind" in child.stuck
    assert not child.alive


def test_what_a_stuck_process_waits_for_no_other_is_started_to_wait_for(stuck, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setattr("autotune.utils.children.END_S", 0.3)
    worker = Worker("echo_worker", "hello", dict, bare=())
    assert worker.ask({"sleep": 0}, timeout_s=10) == {"slept": 0}
    stuck(worker.pid)
    with pytest.raises(ChildTimeout):
        worker.ask({"sleep": 60}, timeout_s=0.2)
    with pytest.raises(StartFailed, match="was killed, but has not ended"):
        worker.ask({"sleep": 0}, timeout_s=10)
    assert worker.starts == 1


def test_a_command_that_does_not_end_when_it_is_killed_is_left_behind(
    stuck, monkeypatch, tmp_path
):
    monkeypatch.setattr("autotune.utils.command.END_S", 0.3)
    monkeypatch.setattr("autotune.utils.command._DRAIN_S", 0.3)
    ready = tmp_path / "ready"

    def trace() -> None:
        while not (ready.exists() and ready.read_text()):
            time.sleep(0.01)
        stuck(int(ready.read_text()))

    tracing = threading.Thread(target=trace)
    tracing.start()
    completed = command.run(["sh", "-c", f"echo $$ > {ready}; sleep 60; true"], timeout_s=3)
    tracing.join()
    assert completed.timed_out
    assert "was killed, but has not ended" in completed.output


def test_exits_are_described_in_words():
    assert describe_exit(0) == "exited with status 0"
    assert describe_exit(-11) == "killed by SIGSEGV"
    assert describe_exit(-64) in ("killed by SIGRTMAX", "killed by signal 64")
