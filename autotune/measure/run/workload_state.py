"""The state that all trials of one workload on a runner share."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from functools import partial

from autotune.errors import AutotuneError, MeasureError
from autotune.measure.check.verify import ArgumentFiles, Oracle
from autotune.measure.evidence import Energy
from autotune.measure.run.calibration import Calibration
from autotune.measure.run.ceiling import Roofline
from autotune.measure.run.host_load import HostMeter
from autotune.measure.run.sharing import Sharing
from autotune.measure.types import BuildResult, MeasureInput, MeasureResult
from autotune.workload import Workload

# A context in which nothing is timed on this host.
Work = Callable[[], AbstractContextManager[object]]
# Hands a trial to a device.
Run = Callable[["WorkloadState", MeasureInput, BuildResult], "Future[MeasureResult]"]


class WorkloadState:
    """The state that all trials of one workload share.

    Args:
        workload: the workload.
        oracle: its inputs and expected outputs, used by this object alone.
        devices: the number of devices that measure.
        run: passes a trial to a device.
        work: context manager in which the oracle computes.

    Attributes:
        sharing: measures equal machine code once.
        roofline, calibration, host: see their classes.
        under_way: the number of pending trials.
        ready: done when the reference was prepared ahead of time, or will not be.
    """

    def __init__(
        self, workload: Workload, oracle: Oracle, devices: int, run: Run, work: Work
    ) -> None:
        self.workload = workload
        self.roofline = Roofline(workload)
        self.host = HostMeter()
        self.calibration = Calibration(devices, self.host.tell)
        self.sharing = Sharing(partial(run, self))
        self.under_way = 0
        self.ready: Future[None] = Future()
        self._definition = _definition(workload)
        self._oracle = oracle
        self._work = work
        self._lock = threading.Lock()
        self._best_s = math.inf  # by the clock of the anchor, see `Calibration`
        self._best_joules = math.inf  # of all devices: how much one takes more is not known
        self._best_lock = threading.Lock()
        self._over = False

    def holds_for(self, workload: Workload) -> bool:
        """Whether this state is valid for an equal workload that may be another object.

        Another template may have been registered under the same name since, or a task may have a
        reference of its own.
        """
        return workload is self.workload or _definition(workload) == self._definition

    def look_ahead(self) -> None:
        """Compute the reference while the first trials are built, in a thread of its own."""
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        with suppress(Exception), self._lock, self._work():  # the first trial says what is wrong
            self._oracle.look_ahead(self.workload)
        if self._over:
            self._oracle.end()
        self.ready.set_result(None)

    def data(self, inp: MeasureInput, built: BuildResult, expected: bool) -> ArgumentFiles:
        """Return the files with the arguments of a kernel and, if asked, its expected results.

        Raises:
            MeasureError: the reference fails or gives other outputs than the kernel has.
        """
        kernel = built.kernel
        if kernel is None:
            raise MeasureError("a build result without a kernel cannot be run")
        with self._lock:
            known = self._oracle.known(kernel, expected, built.reference)
            if known is None:
                with self._work():
                    known = self._oracle.data(inp, kernel, expected, built.reference)
        if self._over:
            self._oracle.end()
        return known

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return self._oracle.bytes

    def best_on(self, device: int) -> float | None:
        """Return the best time so far, scaled to a device's clock; None if unknown."""
        factor = self.calibration.known(device)
        return None if factor is None or self._best_s == math.inf else self._best_s / factor

    def note(self, seconds: float) -> None:
        """Record a trial, by the clock of the anchor."""
        with self._best_lock:
            self._best_s = min(self._best_s, seconds)

    @property
    def best_joules(self) -> float | None:
        """The least energy so far; None if unknown."""
        return None if self._best_joules == math.inf else self._best_joules

    def note_energy(self, energy: Energy | None) -> None:
        """Record what a trial took."""
        if energy is not None and energy.joules is not None:
            with self._best_lock:
                self._best_joules = min(self._best_joules, energy.joules)

    def release(self) -> bool:
        """Remove the files unless a pending trial needs them; they are written again on demand.

        Returns:
            Whether they were removed.
        """
        if self.under_way or not self.ready.done() or not self._lock.acquire(blocking=False):
            return False
        try:
            self._oracle.close()
        finally:
            self._lock.release()
        return True

    def close(self) -> None:
        """Remove its files for good: also those that a thread writes which outlasts this."""
        self._over = True
        self._oracle.end()


def _definition(workload: Workload) -> tuple[object, ...]:
    """Return the user's functions that a workload is made by, and the inputs it is given."""
    found: list[object] = []
    for name in ("func", "reference", "given_inputs"):
        with suppress(AutotuneError):  # of a task whose template is not known here
            found.append(getattr(workload, name, None))
    return tuple(found)
