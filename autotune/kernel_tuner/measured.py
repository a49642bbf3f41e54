"""How configurations are measured, and what of that is in their results."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from autotune.kernel_tuner.objective import Wanted
from autotune.kernel_tuner.observers.nvml import NVMLObserver
from autotune.kernel_tuner.results import Result, result_of
from autotune.measure import LocalRunner, TimingPolicy
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.target import Target, device_class

# Seconds a run may take.
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Measured:
    """How configurations are measured.

    Attributes:
        device: index of the device.
        iterations: timed runs of a configuration.
        observers: what is added to results.
        wanted: what is best.
    """

    device: int
    iterations: int
    observers: Sequence[NVMLObserver]
    wanted: Wanted

    def result(self, inp: MeasureInput, result: MeasureResult) -> Result:
        """Return the result of a trial, with what observers add."""
        found = result_of(inp, result)
        for each in self.observers if result.ok else ():
            found |= each.items(result)
        return found

    def runner(self, values: Sequence[npt.NDArray[Any]]) -> LocalRunner:
        """Return the runner that measures, on these values of the arguments."""
        energy = [each.continuous_duration for each in self.observers if each.energy]
        # Scripts expect the energy of all configurations, also of slow ones.
        timing = (
            TimingPolicy(energy_s=max(energy), energy_near_s=max(energy), hopeless=0)
            if energy
            else None
        )
        return LocalRunner(
            timeout=_TIMEOUT_S,
            number=1,
            repeat=self.iterations,
            device=self.device,
            verify=False,
            ref_input=values,
            timing=timing,
            energy=bool(energy),
        )


def device_name(target: Target, index: int) -> str:
    """Return the name of a device; of a CPU that of its kind."""
    return device_class(target, index) or platform.machine()
