"""The process that owns a device: jobs are sent to it, and it is replaced whenever it dies."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from autotune.measure.exclusive.devices import device_title
from autotune.measure.process.blame import Attempts, OutOfMemoryWatch, killed_from_outside
from autotune.measure.process.died import Died
from autotune.measure.process.isolate import STOP_S
from autotune.measure.process.worker import StartFailed, Worker
from autotune.measure.run.host_gate import HostGate
from autotune.measure.run.jobs import Job, WorkerSetup
from autotune.measure.run.lock_waits import LockWaits
from autotune.measure.run.replies import Done, Failed, Ran, Reply, Unable, reply_of
from autotune.measure.run.worker import QUIET_NUMPY
from autotune.runtime.arrays.memory import memory_of
from autotune.runtime.device import device
from autotune.target import Target, device_class
from autotune.utils.children import ChildDied, ChildTimeout

_MODULE = "autotune.measure.run.worker"
# Kernels come ready-made; what makes them need not be imported.
_BARE = (
    "autotune.measure",
    "autotune.codegen",
    "autotune.runtime",
    "autotune.kernel",
    "autotune.emulator",
)
# A forked trial is killed by its worker; the worker is killed when it does not manage that.
_GRACE_S = 3.0


class DeviceProcess(Protocol):
    """The process that owns a device, of this host or another; see `LocalDeviceProcess`."""

    device: int

    @property
    def waited_s(self) -> float:
        """Seconds that jobs waited for others which used the device."""

    @property
    def queued_s(self) -> float:
        """Seconds that jobs waited for others of this program, which were sent before them."""

    @property
    def device_class(self) -> str:
        """See `autotune.target.device_class`; empty where it is not known."""

    def start(self) -> None:
        """Start the process if none is there."""

    def run(self, job: Job) -> Done | Failed | Died:
        """Do a job."""


class LocalDeviceProcess:
    """The process that owns one device, replaced whenever it dies. Used by one thread.

    Attributes:
        busy_s: seconds that the device was at work so far.
        waited_s: seconds that jobs waited for other programs which used it.
        queued_s: none: a job is given to it when it is free.
        device_class: see `autotune.target.device_class`; empty where it is not known.

    Args:
        setup: where the process runs its trials.
        gate: what is timed on this host is timed inside ``gate.quiet()``.
        folder: for the process's own temporary files: it may be killed over them.
    """

    queued_s = 0.0

    def __init__(self, setup: WorkerSetup, gate: HostGate | None, folder: str) -> None:
        self.device = setup.device
        self.busy_s = 0.0
        self._waits = LockWaits(setup.lock, device_title(Target(setup.target), setup.device))
        self._isolated = setup.isolated
        self._grace_s = (_GRACE_S if setup.isolated else 0.0) + (STOP_S if setup.stops else 0.0)
        self._gate = gate
        self._is_quiet = False
        self._target = Target(setup.target)
        self._memory = OutOfMemoryWatch()
        changed = {**dict.fromkeys(QUIET_NUMPY, "1"), "TMPDIR": folder}
        restored = tuple((name, os.environ.get(name)) for name in changed)
        setup = replace(setup, restored=restored)
        self.worker = Worker(_MODULE, setup, reply_of, environment=changed, bare=_BARE)

    @cached_property
    def device_class(self) -> str:  # noqa: D102 - among the attributes
        return device_class(self._target, self.device) or ""

    @property
    def waited_s(self) -> float:  # noqa: D102 - among the attributes
        return self._waits.waited_s()

    @staticmethod
    def require(setup: WorkerSetup) -> None:
        """Check that the device exists, before anything is built for it.

        Raises:
            DeviceError: there is no such device, or a library for it is missing.
        """
        memory_of(device(Target(setup.target), setup.device))

    @property
    def pid(self) -> int | None:
        """Process id of the process, if there is one now."""
        return self.worker.pid

    def start(self) -> None:
        """Start the process if none is there; see `Worker.start`."""
        self.worker.start()

    def end(self) -> None:
        """Kill the process for good. From any thread."""
        self.worker.end()

    def close(self) -> None:
        """Kill the process; the next job starts another."""
        self.worker.close()

    def run(self, job: Job) -> Done | Failed | Died:
        """Do a job; a death of the process is a reply as well.

        A job whose process may have been killed by another program is repeated, see
        `autotune.measure.process.blame`.

        Raises:
            StartFailed: no process could be started, or none could be forked for the job.
            WorkerEnded: `end` was called.
        """
        attempts = Attempts(self._memory)
        while True:
            started, waited_s = time.perf_counter(), self.waited_s
            try:
                reply, blameless = self._attempt(job)
            finally:
                self._end_quiet()
                self._waits.end()
            all_s = time.perf_counter() - started - (self.waited_s - waited_s)
            self.busy_s += _time_s(reply, all_s)
            if isinstance(reply, Unable):
                if attempts.record_shortage():
                    raise StartFailed(f"{reply.message} ({attempts.tries} attempts)")
            elif not (isinstance(reply, Died) and blameless):
                return reply
            elif attempts.record_kill():
                return replace(reply, message=attempts.verdict(reply.message))
            self.worker.rest(attempts.pause_s)

    def _attempt(self, job: Job) -> tuple[Reply, bool]:
        """Do a job once; return the reply, and whether another program may be to blame for it."""
        timeout_s = job.timeout_s + self._grace_s
        try:
            reply = self.worker.ask(job, timeout_s, self._on_event, self._waits.waited_s)
        except ChildTimeout:
            how = f"ran longer than {job.timeout_s:g} s and was killed"
            return Died(how, timed_out=True), False
        except ChildDied as error:
            how = f"the process that runs kernels died: {error}"
            return Died(how, exit_code=error.exit_code), self._blameless(error)
        outside = isinstance(reply, Died) and killed_from_outside(reply.exit_code)
        printed = self.worker.take_output()
        if isinstance(reply, (Failed, Died)) and printed:
            # The C library's own words, or the kernel's.
            reply = replace(reply, message=f"{reply.message}\nit printed: {printed}")
        if isinstance(reply, Failed) and reply.leaving:
            self.worker.close()
        return reply, outside

    def _blameless(self, death: ChildDied) -> bool:
        """Whether something else than the job may have ended the process.

        A process that forks its trials does not die of them; one that runs them itself may have
        been left ready to fall over by an earlier one. A fresh process decides.
        """
        return self._isolated or self.worker.answered > 0 or killed_from_outside(death.exit_code)

    def _on_event(self, event: str) -> None:
        if event == "quiet":
            if self._gate is not None:
                self._gate.begin_quiet()
                self._is_quiet = True
            self.worker.tell("go")
        elif event == "done":
            self._end_quiet()
        else:
            self._waits.take_note(event)

    def _end_quiet(self) -> None:
        """Let the host go on, if it is paused for this device."""
        if self._is_quiet and self._gate is not None:
            self._is_quiet = False
            self._gate.end_quiet()


def _time_s(reply: Reply, all_s: float) -> float:
    """Return how long a device was at work, of the seconds that a job took in all.

    What loads, compares and fails leaves a device cool; a race is timing throughout.
    """
    phases = reply.phases if isinstance(reply, (Ran, Failed)) else {}
    return phases.get("time", all_s)


class CoolDown:
    """Pauses between trials, cut short when the runner is closed."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._ended = threading.Event()

    def after(self, busy_s: float) -> None:
        """Let the device cool: for the interval, but never longer than it was busy."""
        if self._interval_s > 0:
            self._ended.wait(min(self._interval_s, busy_s))

    def end(self) -> None:
        """Pause no more."""
        self._ended.set()
