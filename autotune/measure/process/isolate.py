"""A forked process for each trial on the CPU.

A C kernel shares the address space of its caller: it can crash it, exit it, or scribble over it so
that a later, innocent trial crashes. Here each trial runs in a fork of a worker that never runs a
kernel itself. That costs a millisecond, not the start of an interpreter, and nothing that a trial
does outlives it.

The worker has one thread and has made no threads, so forking it is safe.

A trial cannot speak for its worker. It keeps no descriptor but its own two pipes and what it
prints to, and each message carries a secret made for this trial: a kernel that writes to whatever
descriptors it finds is found out. (Not one that searches its memory for the secret: native code
that means harm needs a machine of its own.)
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from autotune.emulator.stop import StopFlag
from autotune.measure.process.died import Died
from autotune.utils.child import Port, die_with_parent
from autotune.utils.children import ChildDied, FrameReader, write_frame
from autotune.utils.command import end_children
from autotune.utils.deadline import LOOK_S, Deadline
from autotune.utils.exits import describe_exit
from autotune.utils.plain_data import mapping

Speak = Callable[[str], None]

_SECRET_BYTES = 16
# When to look whether a silent trial still lives: at first soon, then ever later. The end of its
# pipe does not tell: what it forked may hold it open, and a kernel may close it and go on.
_FIRST_LOOK_S = 0.05
_EXIT_S = 1e-3
_PROCESS = "the process of the trial"
# How long a trial that is asked to stop may take to say what it was doing: several runs of the
# program that finds lines.
STOP_S = 5.0


class ForkFailed(Exception):
    """The system gave no process for a trial."""


def in_fork(
    port: Port,
    timeout_s: float,
    trial: Callable[[Speak], object],
    stop: StopFlag | None = None,
) -> object:
    """Run ``trial`` in a fork and return what it returns, or `Died`.

    Nothing that it started is left then. The caller has no other children.

    Args:
        port: of this worker to its parent, for the events of the trial.
        timeout_s: seconds the trial may take in which this process runs; waiting for the answer to
            an event does not count, nor does the time between events ``"wait"`` and ``"turn"``.
        trial: called in the fork with a function that sends an event: ``speak("quiet")`` returns
            when the parent has answered, every other event at once.
        stop: set when the time is over; the trial may then return within `STOP_S` what it was
            doing. Without one it is killed at once.

    Raises:
        ForkFailed: the system gave no process; the trial was not begun.
    """
    secret = os.urandom(_SECRET_BYTES)
    worker = os.getpid()
    if stop is not None:
        stop.clear()
    with ExitStack() as undo:
        up_read, up_write = _pipe(undo)
        down_read, down_write = _pipe(undo)
        sys.stdout.flush()
        pid = _fork()
        undo.pop_all()
    if pid == 0:
        _close_all_but(up_write, down_read)
        _run_and_exit(worker, _Channel(secret, up_write, down_read), trial)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    os.close(up_write)
    os.close(down_read)
    try:
        return _Watch(port, pid, secret, up_read, down_write, stop).wait(timeout_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # it may have left its group
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        end_children()
        os.close(up_read)
        os.close(down_write)


def _pipe(undo: ExitStack) -> tuple[int, int]:
    try:
        ends = os.pipe()
    except OSError as error:
        raise ForkFailed(f"no pipe could be made for a trial: {error}") from error
    for fd in ends:
        undo.callback(os.close, fd)
    return ends


def _fork() -> int:
    try:
        return os.fork()
    except OSError as error:  # no more processes, or no memory for one
        raise ForkFailed(f"no process could be forked for a trial: {error}") from error


def _close_all_but(*kept: int) -> None:
    """Close every descriptor but these and the three standard ones."""
    start = 3
    for fd in sorted(kept):
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))


class _Channel:
    """The fork's end of the pipes to its worker.

    Args:
        secret: known to the worker; begins every message.
        up, down: pipes to the worker and from it.
    """

    def __init__(self, secret: bytes, up: int, down: int) -> None:
        self._secret = secret
        self._up = up
        self._down = down

    def speak(self, event: str) -> None:
        """Tell of an event; after ``quiet`` wait until the worker answers."""
        self.send({"event": event})
        if event == "quiet" and not os.read(self._down, 1):
            os._exit(1)

    def send(self, message: object) -> None:
        write_frame(self._up, self._secret + json.dumps(message).encode())


def _run_and_exit(worker: int, channel: _Channel, trial: Callable[[Speak], object]) -> None:
    """The fork: never returns."""
    status = 1
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        die_with_parent(worker)
        channel.send({"result": trial(channel.speak)})
        status = 0
    finally:
        # The interpreter must not run the worker's own clean-up.
        sys.stdout.flush()
        os._exit(status)


class _Watch:
    """Waits for a fork, for the parent of the worker, and for the clock."""

    def __init__(
        self, port: Port, pid: int, secret: bytes, up: int, down: int, stop: StopFlag | None
    ) -> None:
        self._port = port
        self._stop = stop
        self._pid = pid
        self._secret = secret
        self._up = up
        self._down = down
        self._frames = FrameReader(up)
        self._poll = select.poll()
        self._poll.register(up, select.POLLIN)
        # No event asked for: only the end of the parent is reported.
        self._poll.register(port.requests.fd, 0)
        self._died: Died | None = None
        self._waits_for_turn = False

    def wait(self, timeout_s: float) -> object:
        deadline = Deadline(timeout_s)
        pause_s = _FIRST_LOOK_S
        while True:
            while (message := self._take_message()) is not None:
                if isinstance(message, Died):
                    return message
                if "result" in message:
                    return message["result"]
                deadline.left_s(counts=not self._waits_for_turn)
                self._pass_on(str(message["event"]))
                deadline.left_s(counts=False)
            left_s = 0.0 if self._died else deadline.left_s(counts=not self._waits_for_turn)
            ready = dict(self._poll.poll(min(pause_s, left_s) * 1e3))
            if self._port.requests.fd in ready:
                os.killpg(self._pid, signal.SIGKILL)
                os.killpg(0, signal.SIGKILL)
            if self._up in ready:
                pause_s = pause_s if self._read() else _EXIT_S
            elif self._died:
                return self._died
            elif left_s <= 0 and self._stop is not None and not self._stop.asked:
                self._stop.set()
                deadline = Deadline(STOP_S)
            elif left_s <= 0:
                return Died(
                    f"the kernel ran longer than {timeout_s:g} s and was killed", timed_out=True
                )
            else:
                pause_s = min(2 * pause_s, LOOK_S)
                self._died = self._look_for_end()

    def _read(self) -> bool:
        """Take what has arrived; False when no more will come."""
        more = self._frames.fill()
        if not more:
            self._poll.unregister(self._up)
        return more

    def _look_for_end(self) -> Died | None:
        """Say how the fork ended; None while it lives. Its answer may still be in the pipe."""
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return None
        code = os.waitstatus_to_exitcode(status)
        was = "was " if code < 0 else ""
        return Died(f"{_PROCESS} {was}{describe_exit(code)}", exit_code=code)

    def _take_message(self) -> Mapping[str, object] | Died | None:
        """Return the next message that has arrived whole, if any; `Died` when it is forged."""
        forged = Died(f"{_PROCESS} wrote to a descriptor that it did not open")
        try:
            payload = self._frames.take()
            if payload is None:
                return None
            told, secret = payload[_SECRET_BYTES:], payload[:_SECRET_BYTES]
            return mapping(json.loads(told)) if secret == self._secret else forged
        except (ChildDied, TypeError, ValueError):
            return forged

    def _pass_on(self, event: str) -> None:
        """Tell the parent of an event, and wait for its answer if there is one."""
        self._port.send({"event": event})
        if event == "quiet":
            self._port.receive()
            with contextlib.suppress(BrokenPipeError):
                os.write(self._down, b"\n")
        if event in ("wait", "turn"):
            self._waits_for_turn = event == "wait"
