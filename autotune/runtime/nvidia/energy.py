"""The energy of an NVIDIA device, as NVML tells it: of the whole board, its memory included."""

from __future__ import annotations

from collections.abc import Callable

from autotune.errors import DeviceError
from autotune.runtime.device import Device
from autotune.runtime.energy import EnergyMeter, IntegratedPower
from autotune.runtime.nvidia import nvml
from autotune.runtime.nvidia.driver import pci_bus_id

# Reading takes some tens of microseconds.
_POLL_S = 2e-3


class NvmlCounter:
    """The counter that devices have from Volta on.

    Args:
        handle: NVML's, of a device that has it.
    """

    name, poll_s, shared = "NVML energy", _POLL_S, False

    def __init__(self, handle: object) -> None:
        self._handle = handle

    def joules(self) -> float:
        """Return the energy since the driver was loaded.

        Raises:
            DeviceError: NVML does not tell any more.
        """
        return _told(nvml.joules, self._handle)


def nvml_meter(where: Device) -> EnergyMeter:
    """Return the meter of a device: its counter or, where it has none, its power over time.

    Raises:
        DeviceError: NVML is missing or tells neither, or the device is divided.
    """
    why = f"the energy of {where} cannot be measured"
    handle = nvml.handle(pci_bus_id(where))
    if handle is None:
        raise DeviceError(
            f"{why}: NVML, which tells it, is missing or does not know the device; "
            "pip install nvidia-ml-py, and let a container see the driver's utilities "
            "(NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        )
    if nvml.is_divided(handle):
        raise DeviceError(
            f"{why}: it is divided (MIG), and energy is counted for all its parts together; "
            "measure on a device that is not, or without energy=True"
        )
    if nvml.joules(handle) is not None:
        return NvmlCounter(handle)
    if nvml.watts(handle) is not None:
        return IntegratedPower("NVML power", lambda: _told(nvml.watts, handle), _POLL_S)
    raise DeviceError(
        f"{why}: NVML tells neither its energy nor its power, as for some virtual devices; "
        "measure without energy=True"
    )


def _told(ask: Callable[[object], float | None], handle: object) -> float:
    value = ask(handle)
    if value is None:
        raise DeviceError("NVML does not tell the energy of the device any more")
    return value
