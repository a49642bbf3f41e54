"""Quiet on the host while a CPU kernel is timed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Pausable(Protocol):
    """What can be made to stand still and to go on."""

    def pause(self) -> None:
        """Stop all work on this host."""

    def resume(self) -> None:
        """Go on."""


class HostGate:
    """Keeps timing on the CPU apart from everything else this library does on the host.

    Either kernels are timed (`quiet`), one after another, and builders stand still; or the
    caller's process works (`work`: lowering candidates, computing references, fitting models), in
    as many threads as it likes, and nobody times. Builders need no ticket: they are paused where
    they stand, and so lose nothing but the time of the timing.

    Whoever wants to time goes before those who want to begin to work; a thread that works already
    may go on with more.
    """

    def __init__(self, builder: Pausable) -> None:
        self._builder = builder
        self._changed = threading.Condition()
        self._working: dict[int, int] = {}
        self._timing = 0
        self._quiet: int | None = None

    @contextmanager
    def work(self) -> Iterator[None]:
        """Hold off timing while the caller's process is busy."""
        me = threading.get_ident()
        with self._changed:
            while self._timing and me not in self._working and self._quiet != me:
                self._changed.wait()
            self._working[me] = self._working.get(me, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._working[me] -= 1
                if not self._working[me]:
                    del self._working[me]
                    self._changed.notify_all()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Pause the builders and hold off the caller's process."""
        me = threading.get_ident()
        with self._changed:
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
            self._builder.pause()
            try:
                yield
            finally:
                self._builder.resume()
        finally:
            with self._changed:
                self._quiet = None
                self._timing -= 1
                self._changed.notify_all()
