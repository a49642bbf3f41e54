"""Tunes while the device is idle: between calls, and after the program has ended."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autotune.runtime import Device

logger = logging.getLogger("autotvm")

# After so long without a call, and with hardly any work of this process, the device is idle.
IDLE_S = 1.0
_PAUSE_S = 0.1
_BUSY_CORES = 0.5


@dataclass(frozen=True)
class Job:
    """Work for idle times.

    Attributes:
        key: a second one with the same key is not taken.
        work: what to do; is given what waits until the device is idle, to be called in between.
        at_exit: whether to do it after the program has ended, if it was not idle before.
        device: what it needs; None where that is this host.
    """

    key: object
    work: Callable[[Callable[[], None]], None]
    at_exit: bool
    device: Device | None = None


class Worker:
    """One thread that does jobs one by one while no calls are made.

    It is not a daemon thread: when the program ends, Python waits until it has finished.
    """

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._keys: set[object] = set()
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._calls = 0
        self._counting = threading.Lock()
        self._idle_since = time.monotonic()

    @contextlib.contextmanager
    def calling(self) -> Iterator[None]:
        """Keep jobs waiting while the caller is within; idle time begins when the last leaves."""
        with self._counting:
            self._calls += 1
        try:
            yield
        finally:
            with self._counting:
                self._calls -= 1
                self._idle_since = time.monotonic()

    def submit(self, job: Job) -> None:
        """Have a job done some time; one that was asked for before is not done again."""
        with self._condition:
            if job.key in self._keys:
                return
            self._idle_since = time.monotonic()
            self._keys.add(job.key)
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="autotune-jit")
                self._thread.start()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until all jobs are done; return whether they are."""
        with self._condition:
            return self._condition.wait_for(lambda: self._thread is None, timeout_s)

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._jobs:
                    self._thread = None
                    self._condition.notify_all()
                    return
                job = self._jobs.popleft()
            self._do(job)

    def _do(self, job: Job) -> None:
        try:
            self.wait_until_idle(job.device)
            if job.at_exit or threading.main_thread().is_alive():
                # Between its trials the device has been working, for this very job.
                job.work(self.wait_until_idle)
        except Exception as error:  # the caller's program goes on without
            logger.warning("tuning in the background failed: %s", error)

    def wait_until_idle(self, device: Device | None = None) -> None:
        """Return when nothing has been called for a while, or the program has ended.

        Args:
            device: has to do nothing either, for this process or for others, where it tells.
        """
        while threading.main_thread().is_alive():
            waited = not self._calls and time.monotonic() - self._idle_since >= IDLE_S
            if waited and not _is_busy() and not (device is not None and device.is_working):
                return
            time.sleep(_PAUSE_S)


def _is_busy() -> bool:
    """Return whether this process computes."""
    cpu, wall = os.times(), time.monotonic()
    time.sleep(_PAUSE_S)
    now = os.times()
    used = now.user + now.system - cpu.user - cpu.system
    return used > _BUSY_CORES * (time.monotonic() - wall)


WORKER = Worker()
