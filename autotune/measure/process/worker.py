"""A child process that is started when needed, and replaced when it died."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Generic, TypeVar

from autotune.errors import MeasureError
from autotune.measure.process.blame import Attempts, killed_from_outside
from autotune.utils.children import Child, ChildDied, ChildTimeout

_START_TIMEOUT_S = 60.0

Event = Callable[[str], None]
Reply = TypeVar("Reply")


class StartFailed(MeasureError):
    """No process could be started, or it could not get ready to work."""


class WorkerEnded(CancelledError):
    """The worker was ended on purpose: what it was asked is cancelled, and did not fail."""


class _NotReady(Exception):
    """A child did not come to life; the next may.

    Attributes:
        passing: whether for a reason that passes: it was killed, or the machine was out of
            resources.
    """

    def __init__(self, reason: str, passing: bool) -> None:
        super().__init__(reason)
        self.passing = passing


def _no_pause() -> float:
    return 0.0


class Worker(Generic[Reply]):
    """Answers one job after another through a child that is started on first use.

    `ask` belongs to one thread; `end`, `pause` and `resume` may come from any.

    Args:
        module: the child's module; its first request is ``hello`` and its first reply is a
            dictionary, sent when it is ready to work. It holds ``"error"`` when it cannot, and
            ``"passing"`` when the next attempt may do better.
        hello: what the child must know before the first job.
        read: decodes a reply of the child; raises ValueError if it is malformed.
        starting: held while a child is started, so that none starts during a pause.
        environment: variables added to the child's environment.
        bare: packages whose ``__init__`` the child does without, see `Child`.
    """

    def __init__(
        self,
        module: str,
        hello: object,
        read: Callable[[object], Reply],
        starting: threading.Lock | None = None,
        environment: dict[str, str] | None = None,
        bare: Sequence[str] = ("autotune.measure",),
    ) -> None:
        self._module = module
        self._environment = environment
        self._bare = bare
        self._hello = hello
        self._read = read
        self._starting = starting or threading.Lock()
        self._child: Child | None = None
        self._over = threading.Event()
        self._stuck = ""
        self.starts = 0
        self.answered = 0

    def ask(
        self,
        job: object,
        timeout_s: float,
        event: Event | None = None,
        paused_s: Callable[[], float] = _no_pause,
    ) -> Reply:
        """Send a job to the child and wait for the reply.

        Args:
            job: the job, which is pickled.
            timeout_s: the longest time between two messages of the child.
            event: called with the name of each event that the child reports before its reply.
            paused_s: returns the seconds for which the child was paused so far; they do not count.

        Raises:
            ChildTimeout, ChildDied: the job has failed in this way; the next job gets a new child.
            StartFailed: no child could be started.
            WorkerEnded: `end` was called; no child is started any more.
        """
        try:
            child = self._send(job)
            while "event" in (message := _receive(child, timeout_s, paused_s)):
                if event is not None:
                    event(str(message["event"]))
            reply = self._understand(message)
        except BaseException as error:
            self.close()
            if self._over.is_set() and isinstance(error, (ChildDied, ChildTimeout)):
                raise WorkerEnded(f"{self._module} was ended") from error
            raise
        self.answered += 1
        return reply

    def _understand(self, message: dict[str, object]) -> Reply:
        try:
            return self._read(message)
        except ValueError as error:
            raise ChildDied(f"it sent garbage: {error}") from error

    def tell(self, message: object) -> None:
        """Send a message in answer to an event; a child that just died is noticed by `ask`."""
        if self._child is not None:
            self._child.send(message)

    def _send(self, job: object) -> Child:
        """Return a child that has received the job; one that died while idle is replaced."""
        child = self.start()
        try:
            child.send(job)
        except ChildDied:
            self.close()
            child = self.start()
            child.send(job)
        return child

    def start(self) -> Child:
        """Start a child if none lives, and wait until it is ready.

        One that dies while it starts, lacks resources to, or does not get ready within a minute,
        is replaced a few times, after a growing pause. One that could not be killed is not
        replaced: what it waits for, another would wait for as well.

        Raises:
            StartFailed: none could be started; the message says why.
            WorkerEnded: `end` was called meanwhile.
        """
        if self._child is not None:
            return self._child
        attempts = Attempts()
        while True:
            self.rest(attempts.pause_s)
            if self._stuck:
                raise self._failure(self._stuck)
            try:
                return self._begin()
            except _NotReady as error:
                if attempts.record_shortage() if error.passing else attempts.record_crash():
                    raise self._failure(f"{error} ({attempts.tries} attempts)") from error

    def rest(self, seconds: float) -> None:
        """Wait.

        Raises:
            WorkerEnded: at once when `end` is called.
        """
        if self._over.wait(seconds):
            raise WorkerEnded(f"{self._module} was ended")

    def _begin(self) -> Child:
        """Start a child and wait until it is ready."""
        self.starts += 1
        self.answered = 0
        try:
            child = self._launched()
            child.send(self._hello)
            ready = child.receive(_START_TIMEOUT_S)
        except ChildDied as error:
            self.close()
            raise _NotReady(_one_line(error), killed_from_outside(error.exit_code)) from error
        except OSError as error:  # no more processes, descriptors or memory
            self.close()
            raise _NotReady(str(error), passing=True) from error
        except ChildTimeout as error:  # stopped by somebody, or on a host that hardly moves
            self.close()
            raise _NotReady(f"no answer within {_START_TIMEOUT_S:g} s", passing=False) from error
        except BaseException:
            self.close()
            raise
        if "error" not in ready:
            return child
        self.close()
        if ready.get("passing"):
            raise _NotReady(ready["error"], passing=True)
        raise self._failure(ready["error"])

    def _launched(self) -> Child:
        with self._starting:
            self._child = child = Child(self._module, self._environment, self._bare)
        # A call of `end` before there was a child relies on this check.
        if self._over.is_set():
            child.kill()
        return child

    def _failure(self, reason: object) -> StartFailed:
        return StartFailed(f"{self._module} could not be started: {reason}")

    @property
    def pid(self) -> int | None:
        """Process id of the child, if there is one."""
        child = self._child
        return child.pid if child is not None and child.alive else None

    def take_output(self) -> str:
        """Return the end of what the child printed since the last call."""
        return "" if self._child is None else self._child.take_output()

    def pause(self) -> None:
        """Stop the child's process group where it is."""
        if (child := self._child) is not None:
            child.pause()

    def resume(self) -> None:
        """Let the child's process group go on."""
        if (child := self._child) is not None:
            child.resume()

    def end(self) -> None:
        """Kill the child's process group for good; a waiting `ask` raises `WorkerEnded`."""
        self._over.set()
        if (child := self._child) is not None:
            child.kill()

    def close(self) -> None:
        """Kill the child and release its pipes. For the owning thread."""
        child, self._child = self._child, None
        if child is not None:
            child.close()
            self._stuck = child.stuck


def _one_line(error: ChildDied) -> str:
    """Return how a child died and the last line it printed: an exception, if there was one."""
    lines = str(error).splitlines()
    printed = lines[-1].partition(" printed: ")[2] if len(lines) == 2 else lines[-1]
    said = "" if len(lines) < 2 or printed == "nothing" else f"; it printed last: {printed}"
    return lines[0] + said


def _receive(child: Child, timeout_s: float, paused_s: Callable[[], float]) -> dict[str, object]:
    paused = paused_s()
    wait_s = timeout_s
    while True:
        try:
            reply = child.receive(wait_s)
        except ChildTimeout:
            wait_s = paused_s() - paused
            paused += wait_s
            if wait_s < 1e-3:
                raise ChildTimeout(f"no answer within {timeout_s:g} s") from None
            continue
        if not isinstance(reply, dict):
            raise ChildDied(f"it sent garbage\nprocess {child.pid}: {reply!r}")
        return reply
