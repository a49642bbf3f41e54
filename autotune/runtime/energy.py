"""Meters of the energy that a device takes; each back end names its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from autotune.errors import DeviceError
from autotune.runtime.device import Device, device
from autotune.target import Target
from autotune.target.backends import part

# Counters move every millisecond (RAPL) to every tenth of a second (NVML), also when nothing runs.
STILL_S = 1.0

Clock = Callable[[], float]


class EnergyMeter(Protocol):
    """Counts energy.

    Attributes:
        name: what counts, as records have it.
        poll_s: seconds between two looks at it while a kernel runs.
        shared: whether the energy of what else this host does is counted as well, at any time.
    """

    name: str
    poll_s: float
    shared: bool

    def joules(self) -> float:
        """Return the energy that was taken since some moment in the past; it never falls.

        Raises:
            DeviceError: it cannot be read any more.
        """
        ...


class IntegratedPower:
    """A meter of a device that reports only its power, which is polled and integrated.

    Args:
        name: as of `EnergyMeter`.
        watts: returns the present power.
        clock: the time in seconds.
    """

    shared = False

    def __init__(
        self,
        name: str,
        watts: Callable[[], float],
        poll_s: float,
        clock: Clock = time.perf_counter,
    ) -> None:
        self.name, self.poll_s = name, poll_s
        self._watts, self._clock = watts, clock
        self._joules, self._last = 0.0, (clock(), watts())

    def joules(self) -> float:
        """Return the energy since it was made, by the trapezoidal rule."""
        now, watts = self._clock(), self._watts()
        then, before = self._last
        self._joules += (now - then) * (watts + before) / 2
        self._last = now, watts
        return self._joules


def meter_of(target: Target, index: int) -> EnergyMeter:
    """Return the meter of a device on which kernels for a target run.

    Raises:
        DeviceError: its energy cannot be measured; the message says why, and what to do.
    """
    meter: EnergyMeter = part(target.backend.energy)(device(target, index))
    return meter


def idle_watts(
    meter: EnergyMeter,
    least_s: float,
    clock: Clock = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Return the mean power while nothing is done, over at least so many seconds.

    It is between two moves of the counter.

    Raises:
        DeviceError: the counter does not move.
    """
    moved, last = clock(), meter.joules()
    first: tuple[float, float] | None = None
    while True:
        sleep(meter.poll_s)
        now, joules = clock(), meter.joules()
        if joules == last:
            if now - moved > STILL_S:
                raise DeviceError(f"{meter.name}: its counter of energy does not move")
            continue
        moved, last = now, joules
        if first is None:
            first = now, joules
        elif now - first[0] >= least_s:
            return (joules - first[1]) / (now - first[0])


def no_emulated_meter(where: Device) -> EnergyMeter:
    """Refuse to measure the energy of emulated kernels.

    Raises:
        DeviceError: always.
    """
    raise DeviceError(
        f"the energy of emulated kernels on {where} says nothing of a GPU: measure without "
        "energy=True, or for a target without -emulate"
    )
