"""Pauses other work on the host, such as compilers, while a CPU kernel is timed."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Protocol


class Pausable(Protocol):
    """Work that can be paused and resumed."""

    def pause(self) -> None:
        """Stop all work on this host."""

    def resume(self) -> None:
        """Go on."""


class HostGate:
    """Separates timing on the CPU from all other work of this library on the host.

    Either kernels are timed (`quiet`), one after another, while builders are paused; or the
    caller's process works (`work`: lowering candidates, computing references, fitting models) in
    any number of threads, and nothing is timed. Builders need not ask: their processes are stopped
    at any point, and continue afterwards.

    Timing has priority over threads that want to begin work; a thread that is working may begin
    more.
    """

    def __init__(self, builder: Pausable) -> None:
        self._still: tuple[Pausable, ...] = (builder,)
        # Entered itself, not by its condition: an interrupt cannot come between taking it and
        # being bound to give it back, and it costs no call.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._work = _Work(self)
        self._working: dict[int, int] = {}
        self._timing = 0
        self._quiet: int | None = None
        self._paused: list[Pausable] = []

    def keep_still(self, bystander: Pausable) -> None:
        """Pause another process too while kernels are timed, such as one that shows the run."""
        with self._lock:
            if bystander not in self._still:
                self._still = (*self._still, bystander)

    def work(self) -> AbstractContextManager[None]:
        """Hold off timing while the caller's process is busy."""
        return self._work

    def quiet(self) -> AbstractContextManager[None]:
        """Pause the builders and bystanders, and hold off the caller's process."""
        return _Quiet(self)

    def begin_work(self) -> None:
        """Wait until nothing is timed, and prevent timing until the work ends."""
        me = threading.get_ident()
        with self._lock:
            while self._timing and me not in self._working and self._quiet != me:
                self._changed.wait()
            self._working[me] = self._working.get(me, 0) + 1

    def end_work(self) -> None:
        """End what `begin_work` of this thread began."""
        me = threading.get_ident()
        with self._lock:
            self._working[me] -= 1
            if not self._working[me]:
                del self._working[me]
                if self._timing:
                    self._changed.notify_all()

    def begin_quiet(self) -> None:
        """Wait until no other thread times or works, and pause the builders."""
        me = threading.get_ident()
        with self._lock:
            self._timing += 1
            try:
                while self._quiet is not None or self._working.keys() - {me}:
                    self._changed.wait()
                self._quiet = me
            finally:
                if self._quiet != me:  # interrupted
                    self._timing -= 1
                    self._changed.notify_all()
        try:
            for one in self._still:
                one.pause()
                self._paused.append(one)
        except BaseException:
            self.end_quiet()
            raise

    def end_quiet(self) -> None:
        """End what `begin_quiet` of this thread began."""
        try:
            while self._paused:
                self._paused.pop().resume()
        finally:
            if self._paused:  # one could not be resumed; the others go on
                self.end_quiet()
            else:
                self._end_timing()

    def _end_timing(self) -> None:
        with self._lock:
            self._quiet = None
            self._timing -= 1
            self._changed.notify_all()


class _Work(AbstractContextManager[None]):
    """The time in which a thread of the caller's process is busy; one for all threads."""

    def __init__(self, gate: HostGate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        self._gate.begin_work()

    def __exit__(self, *_: object) -> None:
        self._gate.end_work()


class _Quiet(AbstractContextManager[None]):
    """A time in which all else is paused."""

    def __init__(self, gate: HostGate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        self._gate.begin_quiet()

    def __exit__(self, *_: object) -> None:
        self._gate.end_quiet()
