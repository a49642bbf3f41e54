"""Contexts, memory, modules and events by PyCUDA, whose driver API is imported here only.

PyCUDA is optional, and cannot be imported without a driver; this module can be, and reports what
is missing when a device is requested. Work is done in the primary context of the device, which
torch, cupy and jax use as well, so that arrays are shared without copying. The context is made
current for each piece of work, and the previous one restored, so any thread may call.

Every failure of the driver is raised as a `DeviceError` with the driver's message.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from autotune.errors import DeviceError
from autotune.runtime.arrays.memory import Block
from autotune.runtime.device import Device
from autotune.runtime.nvidia import libcuda, nvml, releases
from autotune.target import cuda_device_count

_missing = ""
try:
    from pycuda import driver as driver
except ImportError as error:
    driver: object = None  # type: ignore[no-redef]
    _missing = str(error)

# Reentrant: a collection that comes inside gives memory back.
_context_lock = threading.RLock()


def has_pycuda() -> bool:
    """Return whether PyCUDA can be used, which also takes a driver."""
    return driver is not None


# ---- contexts ----------------------------------------------------------------------------------


@contextlib.contextmanager
def activated(index: int) -> Iterator[None]:
    """Make the primary context of device ``index`` current, and turn driver errors into ours.

    Raises:
        DeviceError: there is no such device or no PyCUDA, or the driver failed inside the block.
    """
    context = _context(index)
    try:
        context.push()
    except driver.Error as error:
        raise DeviceError(f"cuda:{index}: {error}{libcuda.advice(str(error))}") from error
    try:
        yield
    except driver.Error as error:
        raise DeviceError(f"cuda:{index}: {error}{libcuda.advice(str(error))}") from error
    finally:
        driver.Context.pop()


def _context(index: int) -> Any:
    with _context_lock:
        return _retained(index)


@cache
def _retained(index: int) -> object:
    if index >= cuda_device_count():
        raise DeviceError(
            f"cuda:{index}: there is no such device; {cuda_device_count()} are visible"
        )
    if driver is None:
        raise DeviceError(
            f"cuda:{index}: PyCUDA cannot be used ({_missing}); install it with "
            "`pip install 'autotune[cuda]'`"
        )
    try:
        driver.init()
        return driver.Device(index).retain_primary_context()
    except driver.Error as error:
        raise DeviceError(f"cuda:{index}: no context could be made: {error}") from error


def driver_version() -> str:
    """Return the version of CUDA that the driver speaks, such as ``"13000"``."""
    _context(0)
    return str(driver.get_driver_version())


# ---- memory ------------------------------------------------------------------------------------


class _Allocation:
    """Owns device memory; its end frees it, in whatever thread that comes."""

    __slots__ = ("__weakref__", "raw")

    def __init__(self, raw: Any, index: int) -> None:
        self.raw = raw
        given_back_after(self, index, raw.free)


def given_back_after(owner: object, index: int, give_back: Callable[[], object]) -> None:
    """Release something of device ``index`` when its owner is collected, after any capture.

    ``give_back`` drops the last references to objects of PyCUDA, which are destroyed in it; so the
    owner has them only in what ``give_back`` empties.
    """
    weakref.finalize(owner, leave, index, give_back)


def leave(index: int, give_back: Callable[[], object]) -> None:
    """Release something of device ``index`` as soon as no capture is active."""
    with contextlib.suppress(DeviceError):
        releases.leave(libcuda.primary_context(index), partial(_activated, index, give_back))


def _activated(index: int, give_back: Callable[[], object]) -> None:
    with activated(index):
        give_back()


class CudaMemory:
    """The memory of CUDA devices.

    Kernels may be under way on any stream, which the default stream of copies need not wait for.
    """

    def allocate(self, device: Device, size: int) -> Block:
        """Return uninitialised bytes; the driver aligns them to at least 256."""
        releases.give_back_waiting()
        with activated(device.index):
            raw = driver.mem_alloc(max(1, size))
        return Block(int(raw), size, _Allocation(raw, device.index))

    def to_host(self, device: Device, host: int, pointer: int, size: int) -> None:
        """Copy to the host, after all queued work."""
        with activated(device.index):
            driver.Context.synchronize()
            driver.memcpy_dtoh(host_view(host, size), pointer)

    def from_host(self, device: Device, pointer: int, host: int, size: int) -> None:
        """Copy from the host, and wait until all of it is on the device.

        The driver returns when it has read pageable memory; a kernel on a stream that does not
        wait for the default one could read the array before the values have arrived.
        """
        with activated(device.index):
            driver.Context.synchronize()
            driver.memcpy_htod(pointer, host_view(host, size))
            driver.Context.synchronize()

    def copy(self, device: Device, target: int, source: int, size: int) -> None:
        """Copy within a device."""
        with activated(device.index):
            driver.Context.synchronize()
            driver.memcpy_dtod(target, source, size)
            driver.Context.synchronize()

    def fill(self, device: Device, pointer: int, byte: int, size: int) -> None:
        """Set every byte."""
        with activated(device.index):
            driver.Context.synchronize()
            driver.memset_d8(pointer, byte, size)
            driver.Context.synchronize()

    def synchronize(self, device: Device) -> None:
        """Wait for all streams."""
        with activated(device.index):
            driver.Context.synchronize()

    def open(self, device: Device) -> None:
        """Make the primary context; other threads of Python run meanwhile."""
        libcuda.primary_context(device.index)

    def is_working(self, device: Device) -> bool:
        """Return whether NVML has seen kernels in its last sample, of any process."""
        return nvml.is_working(pci_bus_id(device))


def pci_bus_id(device: Device) -> str:
    """Return the address by which other libraries know a device."""
    return str(driver.Device(device.index).pci_bus_id())


def host_view(address: int, size: int) -> memoryview:
    """Return host memory as something PyCUDA can copy from and to."""
    return memoryview((ctypes.c_ubyte * size).from_address(address))


_MEMORY = CudaMemory()


def cuda_memory() -> CudaMemory | None:
    """Returns the memory of CUDA devices; None where PyCUDA is missing."""
    return None if driver is None else _MEMORY
