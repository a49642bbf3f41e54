"""The devices of one kind, each owned by a process, whatever workloads are measured on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from autotune.measure.process.scratch import Scratch
from autotune.measure.run.device_process import CoolDown, LocalDeviceProcess
from autotune.measure.run.dispatch import Dispatch, Work
from autotune.measure.run.jobs import WorkerSetup

# Makes what owns a device; given where that is and a folder for temporary files.
OpenDeviceProcess = Callable[[WorkerSetup, str], LocalDeviceProcess]


class Queue(Protocol):
    """Takes work for devices; see `Dispatch`."""

    def put(self, work: Work, device: int | None = None) -> Future[Any]:
        """Queue work for one device, or for whichever is free first."""


class AnyDevices(Protocol):
    """Devices on which workloads are measured, of this host (`Devices`) or others."""

    @property
    def queue(self) -> Queue:
        """Takes work."""

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes of this host that own a device now."""

    @property
    def at_work(self) -> tuple[int, ...]:
        """Indices of the devices that can be used."""

    def close(self) -> None:
        """Drop what waits, and end what runs."""


class Devices:
    """Starts one process for each device, and hands work to those that are free.

    Args:
        setups: one for each device.
        open_process: makes the owner of one of them.
        cooldown_s: the longest pause after each piece of work, see `CoolDown`.

    Attributes:
        queue: takes work.
    """

    queue: Queue

    def __init__(
        self, setups: Sequence[WorkerSetup], open_process: OpenDeviceProcess, cooldown_s: float
    ) -> None:
        self._scratch = Scratch("run")
        folder = str(self._scratch.path)
        processes = [open_process(setup, folder) for setup in setups]
        # A thread may outlast `close`, and so may what it writes.
        self.queue = self._dispatch = Dispatch(processes, CoolDown(cooldown_s), self._scratch.end)

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes that own a device now."""
        return self._dispatch.pids

    @property
    def at_work(self) -> tuple[int, ...]:
        """Indices of the devices that could be started whenever that was tried."""
        return self._dispatch.devices

    def close(self) -> None:
        """Kill the processes for good, and drop what waits."""
        self._dispatch.close()
        self._scratch.end()
