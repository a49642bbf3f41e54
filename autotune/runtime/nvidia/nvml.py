"""Clocks, temperature, throttling, energy and power of NVIDIA devices, where NVML tells.

Nothing here ever fails: without pynvml, without a library, or on a device that answers nothing,
there is simply no answer.
"""

from __future__ import annotations

import time
from functools import cache, lru_cache

from autotune.runtime.timing import Clocks

try:
    import pynvml
except ImportError:
    pynvml = None

# nvmlClocksEventReasons, nvml.h: why clocks are below what was asked for.
_REASONS = {
    0x04: "power cap", 0x08: "hardware slowdown", 0x20: "thermal (software)",
    0x40: "thermal (hardware)", 0x80: "power brake",
}  # fmt: skip
# Asking takes milliseconds, which is longer than most samples.
_FRESH_S = 0.05
# A power cap is how this device is; the others pass, and samples taken then mislead.
_THROTTLE = 0x08 | 0x20 | 0x40 | 0x80


@cache
def handle(pci_bus_id: str) -> object:
    """Return NVML's handle of the device at a PCI address, or None."""
    if pynvml is None:
        return None
    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
    except pynvml.NVMLError:
        return None


def read_clocks(pci_bus_id: str) -> Clocks | None:
    """Return the state of a device, at most `_FRESH_S` old, or None if it is unknown."""
    return _clocks_at(pci_bus_id, int(time.monotonic() / _FRESH_S))


@lru_cache(maxsize=16)
def _clocks_at(pci_bus_id: str, moment: int) -> Clocks | None:
    device = handle(pci_bus_id)
    if device is None:
        return None
    sm = _ask("nvmlDeviceGetClockInfo", device, 1)
    memory = _ask("nvmlDeviceGetClockInfo", device, 2)
    reasons = _ask("nvmlDeviceGetCurrentClocksThrottleReasons", device)
    return Clocks(
        sm_mhz=sm,
        memory_mhz=memory,
        temperature_c=_ask("nvmlDeviceGetTemperature", device, 0),
        slowed_by=tuple(text for bit, text in _REASONS.items() if reasons & bit),
        throttled=bool(reasons & _THROTTLE),
    )


def _ask(name: str, *args: object) -> int:
    try:
        return int(getattr(pynvml, name)(*args))
    except (pynvml.NVMLError, AttributeError):
        return 0


def is_working(pci_bus_id: str) -> bool:
    """Return whether kernels ran on a device in NVML's last sample; False if unknown."""
    device = handle(pci_bus_id)
    if device is None:
        return False
    try:
        return bool(pynvml.nvmlDeviceGetUtilizationRates(device).gpu)
    except pynvml.NVMLError:
        return False


def is_divided(device: object) -> bool:
    """Return whether a device is divided into instances (MIG); False if unknown."""
    try:
        return bool(pynvml.nvmlDeviceGetMigMode(device)[0])
    except pynvml.NVMLError:
        return False


def joules(device: object) -> float | None:
    """Return the energy that a device took since the driver was loaded, or None."""
    return _thousandths("nvmlDeviceGetTotalEnergyConsumption", device)


def watts(device: object) -> float | None:
    """Return the present power of a device, or None."""
    try:
        (field,) = pynvml.nvmlDeviceGetFieldValues(device, [pynvml.NVML_FI_DEV_POWER_INSTANT])
        if field.nvmlReturn == 0:
            return float(field.value.uiVal) * 1e-3
    except (pynvml.NVMLError, AttributeError):
        pass
    # Of newer devices the mean over the last second, of older ones, which lack the field, not.
    return _thousandths("nvmlDeviceGetPowerUsage", device)


def _thousandths(name: str, device: object) -> float | None:
    try:
        return float(getattr(pynvml, name)(device)) * 1e-3
    except (pynvml.NVMLError, AttributeError):
        return None
