"""Child processes that do one job at a time and can be killed at any moment.

A child is a fresh interpreter that runs one module of this package: no fork of the caller, no
`multiprocessing`, so notebooks, scripts without a ``__main__`` guard and threads are all safe. It
leads a process group of its own, and everything it starts is in that group and dies with it:

- on `Child.kill`, at once;
- when the parent dies in whatever way, because the request pipe then ends, and the child kills its
  group at that.

A process that waits for a device inside of Linux does not end when it is killed, until the device
answers. It is waited for half a minute, and left to Linux then (`Child.stuck`).

Messages travel over two private pipes. What the child, or a kernel in it, prints goes to a third
one, of which the parent keeps the end for error messages. Requests are pickled plain data; replies
are JSON, so a corrupted child can send a malformed reply but cannot run code in the parent.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.errors import AutotuneError
from autotune.utils.deadline import LOOK_S, Deadline
from autotune.utils.exits import END_S, describe_exit, leave_behind

_PACKAGE = Path(__file__).parent.parent
_HEADER = struct.Struct("<I")
_MOST_BYTES = 1 << 30  # a longer reply is garbage
_READ_JSON = json.JSONDecoder().raw_decode
_OUTPUT_KEPT = 4096  # bytes of the child's own output kept for messages
_SEND_TIMEOUT_S = 60.0  # for a message that a pipe cannot hold whole
_LAST_STANDARD_STREAM = 2
_MOST_READS = 16  # of the output at a time: a child that prints without end must not hold us

# The child makes empty package objects for those it is told of, because their __init__ imports far
# more than the child's module needs; it so starts in the time its own module takes.
_BOOT = """
import importlib, json, sys, types
path, root, bare, module, *pipes = json.loads(sys.argv[1])
sys.path[:] = path
for name in bare:
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = ["/".join([root, *name.split(".")[1:]])]
importlib.import_module("autotune.utils.child").run(module, *pipes)
"""


class ChildTimeout(AutotuneError):
    """A child did not answer in time."""


class ChildDied(AutotuneError):
    """A child ended, or answered garbage, instead of replying.

    Args:
        message: how.
        exit_code: its exit status, negative for a signal; None when it answered garbage.
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def framed(payload: bytes) -> memoryview:
    """Returns a message with its length before it."""
    return memoryview(_HEADER.pack(len(payload)) + payload)


def write_frame(fd: int, payload: bytes) -> None:
    """Write one length-prefixed message, whole."""
    view = framed(payload)
    while view:
        view = view[os.write(fd, view) :]


class FrameReader:
    """Cuts what arrives on a pipe into messages."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._data = bytearray()

    def take(self) -> bytes | None:
        """Return the next whole message that has arrived, or None."""
        if len(self._data) < _HEADER.size:
            return None
        (size,) = _HEADER.unpack_from(self._data)
        if size > _MOST_BYTES:
            raise ChildDied(f"a message of {size} bytes was announced: the pipe holds garbage")
        end = _HEADER.size + size
        if len(self._data) < end:
            return None
        payload = bytes(self._data[_HEADER.size : end])
        del self._data[:end]
        return payload

    def fill(self) -> bool:
        """Read the available bytes, waiting for at least one; False at the end of the pipe."""
        chunk = os.read(self.fd, 1 << 16)
        self._data += chunk
        return bool(chunk)

    def read(self) -> bytes | None:
        """Wait for the next message; None at the end of the pipe."""
        while (payload := self.take()) is None:
            if not self.fill():
                return None
        return payload


def _command(module: str, bare: Sequence[str], pipes: Sequence[int]) -> list[str]:
    """Return the command line of a child."""
    spec = [sys.path, str(_PACKAGE), ["autotune", *bare], module, *pipes]
    return [sys.executable, "-c", _BOOT, json.dumps(spec)]


def _polling(*events_by_fd: tuple[int, int]) -> select.poll:
    poll = select.poll()
    for fd, events in events_by_fd:
        poll.register(fd, events)
    return poll


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """Make a pipe, each end of which is closed with its stack; return them, that to read first.

    They are not numbered like standard streams. A program that runs with these closed is given
    their numbers, and a child would lose such an end when it gets standard streams of its own.
    """
    read, write = map(_beyond_standard_streams, os.pipe())
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


def _beyond_standard_streams(fd: int) -> int:
    if fd > _LAST_STANDARD_STREAM:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LAST_STANDARD_STREAM + 1)
    finally:
        os.close(fd)


def is_child(command: Sequence[str]) -> bool:
    """Whether a process with this command line is a `Child`."""
    return list(command[1:3]) == ["-c", _BOOT]


class Child:
    """One child process, owned by the thread that makes it.

    Only that thread may send and receive; `kill`, `pause` and `resume` may be called from any.

    Attributes:
        stuck: if it did not end when it was killed: what is known of it.

    Args:
        module: a module of this package with ``main(port: autotune.utils.child.Port)``.
        environment: variables added to the child's environment.
        bare: packages besides ``autotune`` whose ``__init__`` the child must not run; neither it
            nor what it imports may use a name from there.

    Example::

        child = Child("autotune.measure.build.worker")
        child.send(job)
        reply = child.receive(timeout_s=10)
    """

    def __init__(
        self,
        module: str,
        environment: dict[str, str] | None = None,
        bare: Sequence[str] = (),
    ) -> None:
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            request_read, self._requests = _pipe(reader=theirs, writer=ours)
            reply_read, reply_write = _pipe(reader=ours, writer=theirs)
            output_read, output_write = _pipe(reader=ours, writer=theirs)
            armed_read, armed_write = _pipe(reader=ours, writer=theirs)
            pipes = (request_read, reply_write, armed_write)
            self._process = subprocess.Popen(
                _command(module, bare, pipes),
                stdin=subprocess.DEVNULL,
                stdout=output_write,
                stderr=output_write,
                pass_fds=pipes,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
            ours.pop_all()  # `close` closes them
        self._replies = FrameReader(reply_read)
        self._output_fd = output_read
        self._output = bytearray()
        self._armed_fd = armed_read
        self._armed = _polling((armed_read, select.POLLIN))
        self._may_be_paused = False
        self._poll = _polling((reply_read, select.POLLIN), (output_read, select.POLLIN))
        self._writable = _polling((self._requests, select.POLLOUT))
        os.set_blocking(output_read, False)
        os.set_blocking(self._requests, False)
        self._closed = False
        self._parent = os.getpid()
        self._killed_at = math.inf
        self.stuck = ""

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return not self._closed and self._process.poll() is None

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            ChildDied: the child has ended; or it was stopped, read nothing, and was killed.
        """
        view = framed(pickle.dumps(message, protocol=5))
        deadline = time.monotonic() + _SEND_TIMEOUT_S
        try:
            while view:
                if not self._writable.poll(max(0.0, deadline - time.monotonic()) * 1e3):
                    self.kill()
                    raise self._death()
                with contextlib.suppress(BlockingIOError):
                    view = view[os.write(self._requests, view) :]
        except OSError as error:
            raise self._death() from error

    def receive(self, timeout_s: float) -> Any:
        """Wait for the next message of the child, for ``timeout_s`` in which this process runs.

        Time in which the child, or what it started, waits for a processor hardly counts.

        Raises:
            ChildTimeout: nothing came in time; the child still runs.
            ChildDied: the child ended or sent garbage; the message says how and what it printed.
        """
        deadline = Deadline(timeout_s, self.pid)
        while (payload := self._replies.take()) is None:
            ready = self._poll.poll(min(deadline.left_s(), LOOK_S) * 1e3)
            if not ready and time.monotonic() > self._killed_at + END_S:
                raise self._death()
            if not ready and not deadline.left_s():
                raise ChildTimeout(f"no answer within {timeout_s:g} s\nfrom process {self.pid}")
            for fd, _ in ready:
                if fd == self._output_fd:
                    self._drain_output()
                elif not self._replies.fill():
                    raise self._death()
        try:
            text = payload.decode()
            message, end = _READ_JSON(text)
            if end == len(text):
                return message
            raise ValueError(f"{len(text) - end} characters too many")
        except ValueError as error:
            self.kill()
            raise ChildDied(f"it sent garbage\nprocess {self.pid}: {payload[:80]!r}") from error

    def _drain_output(self) -> None:
        """Take what the child printed, up to a point, and keep the end of it."""
        for _ in range(_MOST_READS):
            try:
                chunk = os.read(self._output_fd, 1 << 16)
            except BlockingIOError:
                return
            if not chunk:
                self._stop_listening()
                return
            self._output += chunk
            del self._output[:-_OUTPUT_KEPT]

    def _stop_listening(self) -> None:
        with contextlib.suppress(KeyError):
            self._poll.unregister(self._output_fd)

    @property
    def output(self) -> str:
        """The end of what the child printed so far."""
        return self._output.decode("utf-8", "replace").strip()

    def take_output(self) -> str:
        """Return the end of what the child printed since the last call."""
        self._drain_output()
        text = self.output
        self._output.clear()
        return text

    def _death(self) -> ChildDied:
        """Reap the child and describe its end."""
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.kill()
            self._await_end()
            if self.stuck:
                return ChildDied(self.stuck)
            code = self._process.returncode
        self._drain_output()
        # What differs from one death to the next stands behind the first line, by which failures
        # are counted.
        printed = self.output or "nothing"
        return ChildDied(f"{describe_exit(code)}\nprocess {self.pid} printed: {printed}", code)

    def _await_end(self) -> None:
        """Wait for the end of the killed process, or until it is certain that it is stuck."""
        if self.stuck:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=max(0.0, self._killed_at + END_S - time.monotonic()))
            return
        self.stuck = leave_behind(self._process)

    def pause(self) -> None:
        """Stop the whole process group.

        A process that is still starting is not stopped: until it has asked Linux to be continued
        at the end of its parent, it would remain stopped forever if the parent ended now.
        """
        if self._closed:
            return
        if self._may_be_paused or self._armed.poll(0):
            self._may_be_paused = True
            self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process group go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the whole process group; a waiting `receive` then raises `ChildDied`."""
        self._killed_at = min(self._killed_at, time.monotonic())
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._closed or (self._process.returncode is not None and number != signal.SIGKILL):
            return
        if os.getpid() != self._parent:  # a fork that ends: its parent still needs the process
            return
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):  # it is gone, or is another's by now
            return

    def close(self) -> None:
        """Kill what still runs and release the pipes. By the owner, once or more.

        A process that does not end (`stuck`) is left behind.
        """
        if self._closed:
            return
        self.kill()
        self._await_end()
        self._closed = True
        for fd in (self._requests, self._replies.fd, self._output_fd, self._armed_fd):
            os.close(fd)
