"""The share of the device's roofline that a trial reaches."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from autotune.kernel.kernel import Scalar
from autotune.measure.evidence import NOTHING, Evidence
from autotune.measure.run.device_process import DeviceProcess
from autotune.measure.run.jobs import CeilingJob, RunJob
from autotune.measure.run.replies import Rated, why_not
from autotune.runtime.roofline import Ceilings
from autotune.runtime.timing import Timing
from autotune.workload import Workload

logger = logging.getLogger("autotvm")

# Measuring the rates of a device compiles and times some fifty kernels, once in its life. What a
# measurement that takes longer has compiled is there for the next one.
_TIMEOUT_S = 120.0
# Longer than it takes on an idle host.
_NOTABLE_S = 20.0
# A ceiling that is passed by more than its own error is none.
_DISPROVED = 1.25
# Instructions of matrix units, as texts of kernels have them.
_MATRIX_UNITS = "mma.sync", "wgmma.mma_async", "mma_sync"
# Types whose rates were measured without matrix units.
_WIDE = "float32", "float64"


class Roofline:
    """Compares trials of one workload with the ceilings of their devices.

    Only for workloads whose operations and bytes are both known; the ceilings are measured in the
    process that owns the device, when the first trial asks, and found on disk ever after. A trial
    that passes them has them measured once more.

    Args:
        workload: whose trials.
        notable_s: seconds of a measurement of ceilings after which it is reported.
    """

    def __init__(self, workload: Workload, notable_s: float = _NOTABLE_S) -> None:
        self._notable_s = notable_s
        self._name = workload.name
        self._flop = float(workload.flop or 0)
        self._bytes = float(workload.bytes or 0)
        self._ceilings: dict[int, Ceilings | None] = {}
        self._measured_again: set[int] = set()

    def compare(self, process: DeviceProcess, job: RunJob, timing: Timing) -> Evidence:
        """Return the fraction of the device's ceiling that a trial reaches, and its components.

        Empty if unknown. Called in the thread of the device.
        """
        fraction = self._fraction(process, job, timing)
        if fraction is None:
            return NOTHING
        ceilings = self._ceilings[process.device]
        assert ceilings is not None
        dtype, working_set = self._bounds(ceilings, job, timing)
        rate = ceilings.flops.get(dtype, 0.0)
        roof = self._flop, self._bytes, rate, ceilings.bandwidth(working_set)
        return Evidence(roofline=fraction, roof=tuple(float(f"{one:.4g}") for one in roof))

    def _fraction(self, process: DeviceProcess, job: RunJob, timing: Timing) -> float | None:
        if not (self._flop and self._bytes and timing.median):
            return None
        if process.device not in self._ceilings:
            self._ceilings[process.device] = self._measured(process)
        part = self._part(process, job, timing)
        if part is not None and part > _DISPROVED and process.device not in self._measured_again:
            # It may have been measured while the device was busy with something else.
            self._measured_again.add(process.device)
            self._ceilings[process.device] = self._measured(process, again=True)
            part = self._part(process, job, timing)
        if part is None or part <= _DISPROVED:
            return part
        # Nor was it any for the trials before; later ones must not be compared with it.
        self._ceilings[process.device] = None
        logger.warning(
            "%s: a trial reached %.0f%% of the device's ceiling, which is none for it then; "
            "records carry no part of it from here on. Check add_flop and add_bytes: they count "
            "what every kernel of the task must do. Or the kernel uses units of the device that "
            "were not measured",
            self._name, 100 * part,
        )  # fmt: skip
        return None

    def _measured(self, process: DeviceProcess, again: bool = False) -> Ceilings | None:
        with _reported(process.device, self._notable_s):
            reply = process.run(CeilingJob(_TIMEOUT_S, again))
        if isinstance(reply, Rated):
            return reply.ceilings
        logger.warning("records carry no part of the ceiling: %s", why_not(reply))
        return None

    def _part(self, process: DeviceProcess, job: RunJob, timing: Timing) -> float | None:
        ceilings = self._ceilings[process.device]
        if ceilings is None:
            return None
        dtype, working_set = self._bounds(ceilings, job, timing)
        flop = self._flop if dtype else 0.0
        return ceilings.floor_s(flop, self._bytes, dtype, working_set) / timing.median

    def _bounds(self, ceilings: Ceilings, job: RunJob, timing: Timing) -> tuple[str, float]:
        """Return the element type whose rate counts, and the bytes that are touched in turn."""
        # Matrix units multiply narrow numbers and add them to wide ones: the fastest type counts.
        arrays = [a for a in job.kernel.args if not isinstance(a, Scalar)]
        rated = [a.dtype for a in arrays if a.dtype in ceilings.flops]
        # Floats in pieces of 16 bits, or as TF32, have rates of their own, which nothing measured:
        # traffic alone counts then.
        if all(one in _WIDE for one in rated) and _on_matrix_units(job):
            rated = []
        dtype = max(rated, key=lambda name: ceilings.flops[name], default="")
        # What is declared may be less than the arguments, where a kernel reads parts of them.
        touched = min(self._bytes, sum(a.bytes for a in arrays))
        working_set = math.inf if job.flush else touched * timing.input_sets
        return dtype, working_set


def _on_matrix_units(job: RunJob) -> bool:
    return any(word in job.kernel.source for word in _MATRIX_UNITS)


@contextmanager
def _reported(device: int, notable_s: float) -> Iterator[None]:
    """Report what the device does inside ``with``, if it takes longer than ``notable_s``."""
    timer = threading.Timer(notable_s, _report, [device])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _report(device: int) -> None:
    logger.warning(
        "trials wait while the rates of device %d are measured, once in its life, which takes "
        "some seconds on an idle host. It ends after %.0f s at the latest, and records carry no "
        "part of the ceiling then",
        device, _TIMEOUT_S,
    )  # fmt: skip
