"""Quiet on the host while a CPU kernel is timed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Pausable(Protocol):
    """What can be made to stand still and to go on."""

    def pause(self) -> None:
        """Stop all work on this host."""

    def resume(self) -> None:
        """Go on."""


class HostGate:
    """Keeps timing on the CPU apart from everything else this library does on the host.

    Either kernels are timed (`quiet`), and builders stand still, or the caller's process works
    (`work`: lowering templates, fitting models), and nobody times. Builders need no ticket: they
    are paused where they stand, and so lose nothing but the time of the timing.
    """

    def __init__(self, builder: Pausable) -> None:
        self._builder = builder
        self._lock = threading.RLock()

    def work(self) -> AbstractContextManager[object]:
        """Return a context that holds off timing while the caller's process is busy."""
        return self._lock

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Pause the builders and hold off the caller's process."""
        with self._lock:
            self._builder.pause()
            try:
                yield
            finally:
                self._builder.resume()
