"""Exclusive use of devices: the locks of each, and a context manager for programs."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from autotune.measure.exclusive.folder import NoLocks, lock_folder
from autotune.measure.exclusive.lock import Claim, DeviceLock
from autotune.target import Target, cuda_device

logger = logging.getLogger("autotvm")

# A shorter wait is nothing to talk of.
NOTABLE_S = 1.0
_HOST = "cpu"


def device_lock(target: Target, device: int = 0) -> DeviceLock | None:
    """Return what must be held for a device to be one's own.

    That is one lock for a GPU, by its UUID, and one for the host where kernels may run on all its
    cores. A process that is bound to some of them holds one for each core, and shares that of the
    host with others that are bound; so programs on different cores do not wait for each other.

    Returns:
        None where no locks can be had; that is said once.
    """
    try:
        lock = DeviceLock(str(lock_folder()), _claims(target, device))
        lock.make()
    except NoLocks as error:
        say_unlocked(str(error))
        return None
    return lock


def _claims(target: Target, device: int) -> tuple[Claim, ...]:
    if target.backend.device != "cpu":
        found = cuda_device(device)
        name = found.uuid if found is not None and found.uuid else f"{target.kind}-{device}"
        return (Claim(re.sub(r"[^\w.-]", "_", name)),)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if not cores or len(cores) >= os.sysconf("SC_NPROCESSORS_ONLN"):
        return (Claim(_HOST),)
    return (Claim(_HOST, shared=True), *(Claim(f"{_HOST}-{core}") for core in cores))


def device_title(target: Target, device: int) -> str:
    """Return a device's name for people."""
    return "this host" if target.backend.device == "cpu" else f"{target.kind}:{device}"


@cache
def say_unlocked(why: str) -> None:
    """Say that a device is not held alone, each reason once."""
    logger.warning(
        "other programs may use the device while kernels are timed on it: %s. Set "
        "AUTOTUNE_DEVICE_LOCKS to a folder that all programs of this host share (mode 1777 for "
        "several users)",
        why,
    )


class Notice:
    """Says once that another program has the device, when that takes a while.

    Args:
        lock: of the device.
        device: its name for people.
    """

    def __init__(self, lock: DeviceLock | None, device: str) -> None:
        self._lock = lock
        self._device = device
        self._said = False
        self._timer: threading.Timer | None = None

    def begin(self, before_s: float = 0.0) -> None:
        """Note that a wait begins, after earlier ones that took some seconds in all."""
        if not self._said:
            self._timer = threading.Timer(max(0.0, NOTABLE_S - before_s), self.say)
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """It is over."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def say(self) -> None:
        """Say it."""
        self._said = True
        holders = self._lock.holders() if self._lock is not None else ()
        logger.warning(
            "%s is in use by another program%s: the two take turns, trial by trial, and waiting "
            "is not counted as time of a trial. LocalRunner(exclusive=False) does not wait",
            self._device,
            f", {' and '.join(holders)}" if holders else "",
        )


class _Own:
    """A lock as this process holds it: once, however often it is asked for."""

    def __init__(self, lock: DeviceLock) -> None:
        self._lock = lock
        self._changing = threading.Lock()
        self._depth = 0
        self._held = ExitStack()

    @contextmanager
    def held(self, notice: Notice) -> Iterator[None]:
        with self._changing:
            if not self._depth:
                self._held.enter_context(self._lock.held(notice.begin, notice.end))
            self._depth += 1
        try:
            yield
        finally:
            with self._changing:
                self._depth -= 1
                if not self._depth:
                    self._held.close()


# What this process has to itself. One that it forks inherits it by `held_by_ancestor`.
_own: dict[DeviceLock, _Own] = {}
os.register_at_fork(after_in_child=_own.clear)


@contextmanager
def exclusive(target: Target | str, device: int = 0) -> Iterator[None]:
    """Use a device exclusively inside ``with``, to time something there.

    Trials of all other programs on this host wait meanwhile; those of this program and of programs
    that it starts do not. May be nested. If locks are not possible, there is no exclusion.

    Args:
        target: the kind of the device.
        device: index of the device.

    Example::

        with autotune.measure.exclusive("cuda"):
            seconds = kernel.time_evaluator(kernel.entry_name, dev)(a, b).median
    """
    lock = device_lock(Target(str(target)), device)
    if lock is None:
        yield
        return
    notice = Notice(lock, device_title(Target(str(target)), device))
    with _own.setdefault(lock, _Own(lock)).held(notice):
        yield
