"""Raw memory of a device: allocate, copy, fill. Arrays and executables are built on it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from autotune.errors import AutotuneError, DeviceError
from autotune.runtime.device import Device, DeviceKind
from autotune.target.backends import of_device, part

# A cache line; also the widest vector of any CPU we meet.
ALIGNMENT = 64

# What numpy raises for an array that there is no memory for, or that no memory could hold.
NO_MEMORY = (MemoryError, OverflowError, ValueError)


@dataclass(frozen=True, eq=False)
class Block:
    """Allocated bytes: their address, and the object whose end frees them."""

    pointer: int
    bytes: int
    owner: object


class Memory(Protocol):
    """The memory operations of a kind of device.

    Every call waits for what was queued on the device, and ends when its work is done.
    """

    def allocate(self, device: Device, size: int) -> Block:
        """Return ``size`` uninitialised bytes, aligned for vector access."""
        ...

    def to_host(self, device: Device, host: int, pointer: int, size: int) -> None:
        """Copy from the device to host address ``host``."""
        ...

    def from_host(self, device: Device, pointer: int, host: int, size: int) -> None:
        """Copy from host address ``host`` to the device."""
        ...

    def copy(self, device: Device, target: int, source: int, size: int) -> None:
        """Copy within the device."""
        ...

    def fill(self, device: Device, pointer: int, byte: int, size: int) -> None:
        """Set every byte."""
        ...

    def synchronize(self, device: Device) -> None:
        """Wait for what was queued on the device."""
        ...

    def open(self, device: Device) -> None:
        """Do what the first use of the device in this process would wait for."""
        ...

    def is_working(self, device: Device) -> bool:
        """Return whether the device has been running kernels just now, as far as it tells."""
        ...


class HostMemory:
    """The memory of this process."""

    def allocate(self, device: Device, size: int) -> Block:
        """Return aligned bytes owned by a numpy array."""
        try:
            owner = np.empty(size + ALIGNMENT, np.uint8)
        except NO_MEMORY as error:
            raise DeviceError(f"{device}: no memory for {size} bytes") from error
        address = owner.ctypes.data
        return Block(address + -address % ALIGNMENT, size, owner)

    def to_host(self, device: Device, host: int, pointer: int, size: int) -> None:
        """Copy bytes."""
        ctypes.memmove(host, pointer, size)

    def from_host(self, device: Device, pointer: int, host: int, size: int) -> None:
        """Copy bytes."""
        ctypes.memmove(pointer, host, size)

    def copy(self, device: Device, target: int, source: int, size: int) -> None:
        """Copy bytes."""
        ctypes.memmove(target, source, size)

    def fill(self, device: Device, pointer: int, byte: int, size: int) -> None:
        """Set bytes."""
        ctypes.memset(pointer, byte, size)

    def synchronize(self, device: Device) -> None:
        """Return: nothing is queued on the host."""

    def open(self, device: Device) -> None:
        """Return: the host is in use."""

    def is_working(self, device: Device) -> bool:
        """Return False: what the host does is told by its clocks."""
        return False


_HOST = HostMemory()


def host_memory() -> Memory:
    """Returns the memory of this process."""
    return _HOST


def memory_of(device: Device) -> Memory:
    """Return how to reach the memory of ``device``.

    Raises:
        DeviceError: there is no such device here.
    """
    device.require()
    found = _memory(device.kind)
    if found is None:
        raise DeviceError(
            f"{device}: PyCUDA is needed to use it; install it with `pip install 'autotune[cuda]'`"
        )
    return found


def get_ready(device: Device) -> None:
    """Let a device be opened in a thread of its own, and wait for nothing.

    On some hosts the first use of a GPU takes a process seconds. Where there is no such device
    nothing is said: its first use will.
    """

    def opened() -> None:
        with suppress(AutotuneError):
            memory_of(device).open(device)

    if device.kind != "cpu":
        threading.Thread(target=opened, name="autotune-open", daemon=True).start()


@cache
def _memory(kind: DeviceKind) -> Memory | None:
    backend = of_device(kind)
    if backend is None:
        return None
    give: Callable[[], Memory | None] = part(backend.memory)
    return give()
