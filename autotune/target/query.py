"""Queries the CUDA driver about a device without making a context on it.

Uses the driver library directly (CUDA driver API, device management), because a question about
limits must neither need PyCUDA nor leave a context behind in the process of a tuner.
"""

from __future__ import annotations

import ctypes
import uuid
from dataclasses import dataclass
from functools import cache

from autotune.target.limits import Limits

# CUdevice_attribute values, cuda.h.
_ATTRIBUTES = {
    "threads_per_block": 1, "block_x": 2, "block_y": 3, "block_z": 4, "grid_x": 5, "grid_y": 6,
    "grid_z": 7, "shared_bytes": 8, "warp_size": 10, "registers": 12, "clock_khz": 13,
    "sm_count": 16, "memory_khz": 36, "bus_bits": 37, "l2_bytes": 38,
    "major": 75, "minor": 76, "shared_bytes_optin": 97,
}  # fmt: skip


@dataclass(frozen=True)
class CudaDevice:
    """The properties of one device, as the driver reports them.

    Attributes:
        uuid: as ``nvidia-smi -L`` prints it, of a part of a device (MIG) its own; empty where the
            driver does not tell.
        clock_khz, memory_khz: the most that its processors and its memory reach; 0 unknown.
        bus_bits: width of the path to its memory.
    """

    name: str
    arch: str
    limits: Limits
    l2_bytes: int
    total_bytes: int
    uuid: str = ""
    clock_khz: int = 0
    memory_khz: int = 0
    bus_bits: int = 0


@cache
def cuda_device(index: int = 0) -> CudaDevice | None:
    """Return device ``index``, or None if there is no driver or no such device."""
    driver = _driver()
    if driver is None:
        return None
    device = ctypes.c_int()
    if driver.cuDeviceGet(ctypes.byref(device), index):
        return None
    values = {key: _attribute(driver, device, code) for key, code in _ATTRIBUTES.items()}
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(name, 256, device)
    total = ctypes.c_size_t()
    driver.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    limits = Limits(
        threads_per_block=values["threads_per_block"],
        shared_bytes=values["shared_bytes"],
        shared_bytes_optin=values["shared_bytes_optin"],
        registers=values["registers"],
        block_dim=(values["block_x"], values["block_y"], values["block_z"]),
        grid_dim=(values["grid_x"], values["grid_y"], values["grid_z"]),
        warp_size=values["warp_size"],
        sm_count=values["sm_count"],
    )
    arch = f"sm_{values['major']}{values['minor']}"
    return CudaDevice(
        name=name.value.decode(),
        arch=arch,
        limits=limits,
        l2_bytes=values["l2_bytes"],
        total_bytes=total.value,
        uuid=_uuid(driver, device),
        clock_khz=values["clock_khz"],
        memory_khz=values["memory_khz"],
        bus_bits=values["bus_bits"],
    )


@cache
def cuda_device_count() -> int:
    """Return how many CUDA devices this process may use; 0 without a driver."""
    driver = _driver()
    count = ctypes.c_int()
    if driver is None or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


@cache
def cuda_driver_release() -> str:
    """Return the release of CUDA that the driver is for, such as ``"13.0"``; empty without one."""
    driver = _driver()
    version = ctypes.c_int()
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(version)):
        return ""
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


@cache
def _driver() -> ctypes.CDLL | None:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return None if driver.cuInit(0) else driver


def _uuid(driver: ctypes.CDLL, device: ctypes.c_int) -> str:
    value = (ctypes.c_ubyte * 16)()
    # The second version, of driver 11.4 and later, tells parts of a device apart.
    ask = getattr(driver, "cuDeviceGetUuid_v2", None) or getattr(driver, "cuDeviceGetUuid", None)
    if ask is None or ask(value, device):
        return ""
    return f"GPU-{uuid.UUID(bytes=bytes(value))}"


def _attribute(driver: ctypes.CDLL, device: ctypes.c_int, code: int) -> int:
    value = ctypes.c_int()
    driver.cuDeviceGetAttribute(ctypes.byref(value), code, device)
    return value.value
