"""How near a trial comes to what its device can do."""

from __future__ import annotations

import logging

from autotune.kernel.kernel import Kernel
from autotune.measure.jobs import CeilingJob
from autotune.measure.stations import Station
from autotune.runtime.roofline import Ceilings
from autotune.task import Task

logger = logging.getLogger("autotvm")

# Measuring the rates of a device compiles and times about ten kernels, once in its life.
_TIMEOUT_S = 300.0


class Roofline:
    """Compares trials of one task with the ceilings of their devices.

    Only for templates that declare both operations and bytes; the ceilings are measured in the
    process that owns the device, when the first trial asks, and found on disk ever after.
    """

    def __init__(self, task: Task) -> None:
        self._flop = float(task.flop or 0)
        self._bytes = float(task.bytes or 0)
        self._ceilings: dict[int, Ceilings | None] = {}

    def fraction(self, station: Station, kernel: Kernel, seconds: float) -> float | None:
        """Return which part of its device's ceiling a kernel reaches, or None if unknown.

        Called in the thread of the station.
        """
        if not (self._flop and self._bytes and seconds):
            return None
        if station.device not in self._ceilings:
            self._ceilings[station.device] = _measured(station)
        ceilings = self._ceilings[station.device]
        if ceilings is None:
            return None
        dtype = kernel.outputs[0].dtype
        flop = self._flop if dtype in ceilings.flops else 0.0
        return ceilings.floor_s(flop, self._bytes, dtype) / seconds


def _measured(station: Station) -> Ceilings | None:
    reply = station.run(CeilingJob(_TIMEOUT_S))
    if reply["error_no"]:
        logger.warning("records carry no part of the ceiling: %s", reply["message"])
        return None
    return Ceilings(**reply["ceilings"])
