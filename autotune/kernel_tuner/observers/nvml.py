"""Kernel Tuner's observer of energy, power, clocks and temperature of NVIDIA's devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from autotune.errors import TunerError
from autotune.kernel_tuner.observers.observer import BenchmarkObserver
from autotune.measure.types import MeasureResult
from autotune.target import Target
from autotune.target.backends import CUDA
from autotune.utils.check import Check, shown

__all__ = [
    "NVMLObserver",
    "get_idle_power",
    "get_nvml_gr_clocks",
    "get_nvml_mem_clocks",
    "get_nvml_pwr_limits",
]

_ENERGY = ("nvml_energy", "nvml_power")
# Names that version 0.4 had for them.
_OLDER = {"energy": "nvml_energy", "power": "nvml_power"}
# Name of an observable -> name among the clocks of a record.
_CLOCKS = {"core_freq": "sm_mhz", "mem_freq": "memory_mhz", "temperature": "temperature_c"}
_CLOCK_WORDS = (
    "setting them needs root, and changes the device for all who use it; set them with "
    "nvidia-smi before, and tune once for each setting"
)
# Parameters that Kernel Tuner sets on the device instead of giving them to the kernel.
SETTINGS = ("nvml_gr_clock", "nvml_mem_clock", "nvml_pwr_limit")


class NVMLObserver:
    """Adds items to results: see `autotune.measure.run.energy` for how energy is measured.

    Args:
        observables: ``"nvml_energy"`` of a run in joules, ``"nvml_power"`` in watts,
            ``"core_freq"`` and ``"mem_freq"`` in MHz, ``"temperature"`` in degrees Celsius.
        device, save_all, nvidia_smi_fallback, use_locked_clocks: accepted for scripts.
        continuous_duration: seconds that a kernel runs for its energy and power.

    Raises:
        TunerError: an observable is not here.
    """

    def __init__(
        self,
        observables: Sequence[str],
        device: int | None = 0,
        save_all: bool = False,
        nvidia_smi_fallback: str | None = None,
        use_locked_clocks: bool = False,
        continuous_duration: float = 1,
    ) -> None:
        del device, save_all, nvidia_smi_fallback, use_locked_clocks
        check = Check(TunerError, "NVMLObserver")
        for each in check.sequence("observables", observables, "a list of names"):
            check.one_of("observables", each, (*_ENERGY, *_CLOCKS, *_OLDER))
        self.observables = tuple(observables)
        self.continuous_duration = check.seconds("continuous_duration", continuous_duration)

    @property
    def energy(self) -> bool:
        """Whether energy or power are among the observables."""
        return not {*_ENERGY, *_OLDER}.isdisjoint(self.observables)

    def items(self, result: MeasureResult) -> dict[str, object]:
        """Return what it adds to the result of a trial that succeeded."""
        clocks = result.evidence.clocks or {}
        found: dict[str, object] = {"nvml_energy": result.joules, "nvml_power": result.watts}
        found |= {name: found[now] for name, now in _OLDER.items()}
        found |= {name: clocks.get(key) for name, key in _CLOCKS.items()}
        return {name: found[name] for name in self.observables if found[name] is not None}


def observers_of(
    given: object, target: Target
) -> tuple[list[NVMLObserver], list[BenchmarkObserver]]:
    """Return the observers of a script: those of NVML, and its own.

    Raises:
        TunerError: one is not here, or kernels do not run on a device of NVIDIA.
    """
    listed = [] if given is None else list(Check(TunerError).sequence(
        "observers", given, "a list of observers"
    ))  # fmt: skip
    for each in listed:
        if not isinstance(each, NVMLObserver | BenchmarkObserver):
            raise TunerError(
                "observers: expected NVMLObserver of autotune.kernel_tuner.observers.nvml, or a "
                f"BenchmarkObserver, got {shown(each)}; registers and shared memory are in each "
                "result without one"
            )
    observers = [each for each in listed if isinstance(each, NVMLObserver)]
    own = [each for each in listed if isinstance(each, BenchmarkObserver)]
    if observers and target.backend.device != CUDA.device:
        raise TunerError(
            f"observers: NVMLObserver observes devices of NVIDIA, and kernels for {target} run on "
            "the CPU: leave it out"
        )
    return observers, own


def check_parameters(names: Sequence[str]) -> None:
    """Refuse parameters that are settings of the device.

    Raises:
        TunerError: one is.
    """
    for name in SETTINGS:
        if name in names:
            raise TunerError(f"tune_params: {name!r} is not supported: {_CLOCK_WORDS}")


def get_nvml_gr_clocks(*args: object, **more: object) -> NoReturn:
    """Refuse to list clocks to tune.

    Raises:
        TunerError: always.
    """
    raise TunerError(f"clocks and power limits are not tuned: {_CLOCK_WORDS}")


def get_idle_power(*args: object, **more: object) -> NoReturn:
    """Refuse to measure the power of a device without work.

    Raises:
        TunerError: always.
    """
    raise TunerError(
        "get_idle_power is not here: nvidia-smi --query-gpu=power.draw --format=csv shows it"
    )


get_nvml_mem_clocks = get_nvml_pwr_limits = get_nvml_gr_clocks
