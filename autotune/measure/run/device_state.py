"""The state of a device between trials: arguments in its memory by workload, meters, its lock."""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from autotune.emulator.stop import LIMIT_S, StopFlag
from autotune.errors import DeviceError
from autotune.kernel.kernel import Argument, Kernel
from autotune.kernel.layout import laid_out
from autotune.measure.check.inspection import Inspection
from autotune.measure.exclusive.folder import NoLocks
from autotune.measure.exclusive.lock import DeviceLock
from autotune.measure.run.energy import KernelEnergyMeter
from autotune.measure.run.host_load import HostWatch
from autotune.measure.run.jobs import RunJob
from autotune.measure.run.lock_waits import OPEN, TURN, WAIT
from autotune.measure.run.value_files import read_values
from autotune.runtime.arrays.buffers import Buffers
from autotune.runtime.arrays.inspector import Inspector
from autotune.runtime.device import Device
from autotune.runtime.energy import meter_of
from autotune.runtime.executable import Executable
from autotune.runtime.load import load
from autotune.runtime.timing import Sampler, TimeOptions
from autotune.target import cuda_device

# Part of the memory of a device that arguments of workloads which have no trial now may take.
_HOST_PART, _DEVICE_PART = 8, 4

Speak = Callable[[str], None]
_Key = tuple[tuple[Argument, ...], tuple[str, ...]]


@dataclass
class _Kept:
    """The arguments of one workload, and what tells right from wrong for them.

    Attributes:
        fresh: whether no kernel has run in this process since they were made.
    """

    buffers: Buffers
    inspection: Inspection | None = None
    fresh: bool = True

    @property
    def bytes(self) -> int:
        """About what is allocated for them."""
        checks = 0 if self.inspection is None else self.inspection.bytes
        return self.buffers.bytes * (len(self.buffers.sets) + 1) + checks


class DeviceState:
    """What trials on one device share: a cache of arguments by workload, meters, and the lock.

    Trials of many workloads may follow each other. The arguments of a workload are loaded once,
    and evicted, least recently used first, when others need the memory.

    Args:
        device: where trials run.
        lock: of the device, see `alone`.
        stop: set when a job runs longer than it may; None where no kernel heeds it.
    """

    def __init__(
        self,
        device: Device,
        lock: DeviceLock | None = None,
        stop: StopFlag | None = None,
    ) -> None:
        self.device = device
        self._lock = lock
        self._stop = stop
        self._most_bytes = _share(device)
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._inspector: Inspector | None = None
        self._energy_meter: KernelEnergyMeter | None = None

    @contextmanager
    def alone(self, speak: Speak) -> Iterator[None]:
        """Use the device exclusively inside ``with``: no other program times on it meanwhile.

        Args:
            speak: called with ``"wait"`` when another program has the device, with ``"turn"`` when
                the wait is over, and with ``"open: "`` and a reason if there can be no lock.
        """
        with ExitStack() as held:
            if self._lock is not None:
                lock = self._lock.held(lambda: speak(WAIT), lambda: speak(TURN))
                try:
                    held.enter_context(lock)
                except NoLocks as error:
                    speak(f"{OPEN}{error}")
            yield

    def holds(self, args: tuple[Argument, ...], inputs: tuple[str, ...]) -> bool:
        """Return whether the values in these files are on the device already."""
        return (args, inputs) in self._kept

    def inspection(self, job: RunJob) -> Inspection:
        """Return what tells right from wrong for trials with these inputs and checks."""
        kept = self._at_hand(job.kernel.args, job.inputs)
        if kept.inspection is None or not kept.inspection.fits(kept.buffers, job.checks):
            kept.inspection = None
            if not kept.fresh:
                # It digests the inputs, which some kernel may have changed.
                self._kept.pop((job.kernel.args, job.inputs))
                kept = self._at_hand(job.kernel.args, job.inputs)
            kept.inspection = Inspection(kept.buffers, job.checks, self.inspector())
            self._make_room()
        return kept.inspection

    def inspector(self) -> Inspector:
        """Return the inspector, which compares arrays on this device."""
        self._inspector = self._inspector or Inspector(self.device)
        return self._inspector

    def energy_meter(self) -> KernelEnergyMeter:
        """Return the meter of kernels on this device.

        Raises:
            DeviceError: it cannot be measured.
        """
        self._energy_meter = self._energy_meter or KernelEnergyMeter(
            meter_of(self.device.target, self.device.index)
        )
        return self._energy_meter

    def buffers(self, args: tuple[Argument, ...], inputs: tuple[str, ...]) -> Buffers:
        """Return buffers that hold the values in these files."""
        return self._at_hand(args, inputs).buffers

    def fresh(self, job: RunJob) -> bool:
        """Return whether no kernel has run in this process since its arguments were made.

        In a process that forks for each trial they stay fresh, whatever the forks do.
        """
        return self._at_hand(job.kernel.args, job.inputs).fresh

    def _at_hand(self, args: tuple[Argument, ...], inputs: tuple[str, ...]) -> _Kept:
        key = (args, inputs)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        read = [a for a in args if a.role != "out"]
        files = zip(inputs, read, strict=True)
        values = laid_out(read, [read_values(path, one.dtype) for path, one in files])
        try:
            buffers = Buffers(args, self.device, values)
        except Exception as error:
            if not (self._kept and _is_want_of_memory(error)):
                raise
            self.forget()
            buffers = Buffers(args, self.device, values)
        self._kept[key] = kept = _Kept(buffers)
        self._make_room()
        return kept

    def _make_room(self) -> None:
        """Free the least recently used data, except those in use."""
        while len(self._kept) > 1 and sum(k.bytes for k in self._kept.values()) > self._most_bytes:
            self._kept.popitem(last=False)

    def load(self, artifact: str, kernel: Kernel, timeout_s: float) -> Executable:
        """Return an artifact loaded, for a job that may take ``timeout_s``.

        The emulator's own limit is for jobs without one: a kernel that is slow may be so until
        its time is over.
        """
        executable = load(artifact, kernel, self.device)
        if self._stop is not None:
            executable.obey(self._stop, LIMIT_S if math.isinf(timeout_s) else 0.0)
        return executable

    def sampler(self, executable: Executable, buffers: Buffers, options: TimeOptions) -> Sampler:
        """Return what times ``executable``.

        Its threads run where the system puts them, or where the user's environment binds them
        (``OMP_PROC_BIND``): as they do when the kernel is called from a program.
        """
        for kept in self._kept.values():
            kept.fresh = False
        return executable.sampler(buffers, options)

    def watch(self) -> HostWatch:
        """Return the watch on the host's load while a kernel is timed; nothing of a GPU."""
        return HostWatch(self.device.kind == "cpu")

    def forget(self) -> None:
        """Drop all arguments: a wild store may have hit any of them."""
        self._kept.clear()


def _share(device: Device) -> int:
    """Return the memory that arguments may take; those of one trial take what they must."""
    found = None if device.kind == "cpu" else cuda_device(device.index)
    if found is not None:
        return found.total_bytes // _DEVICE_PART
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _HOST_PART


def _is_want_of_memory(error: Exception) -> bool:
    if isinstance(error, (DeviceError, MemoryError)):
        return True
    return type(error).__module__.startswith("pycuda") and "memory" in str(error).lower()
