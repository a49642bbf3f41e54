"""Functions on the CPU, as calls need them: from several threads, without Python between."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from autotune.errors import DeviceError
from autotune.kernel.kernel import Kernel
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.call.callee import new_entry, slot_values
from autotune.runtime.call.native import launcher
from autotune.runtime.device import Device
from autotune.runtime.executable import Executable
from autotune.runtime.host.executable import CpuExecutable


class HostCallee:
    """A shared object in this process.

    Args:
        executable: what was loaded; it is closed with this.
        open_kernel: its kernel before sizes were put in.
        direct: whether the C launcher may call it; it cannot ask what the emulator saw,
            or what a function raised that the kernel called.
    """

    def __init__(self, executable: CpuExecutable, open_kernel: Kernel, direct: bool) -> None:
        self._executable = executable
        self._lock = threading.Lock()
        self._spaces: list[dict[str, NDArray]] = []
        weakref.finalize(self, executable.close)
        self.entry: Any = None
        if direct:
            filler = executable.filler
            self.entry = new_entry(
                launcher(),
                executable.kernel,
                open_kernel,
                self._prepare,
                _failed,
                functions=executable.entries,
                filler=ctypes.cast(filler, ctypes.c_void_p).value or 0 if filler else 0,
            )

    def _prepare(self, *_: int) -> tuple[int, ...]:
        """Return workspaces for one more run at the same time."""
        self._spaces.append(self._executable.new_workspaces())
        return tuple(one.pointer for one in self._spaces[-1].values())

    def start(self, arrays: Sequence[NDArray], stream: int) -> None:
        """Run once."""
        if self.entry is not None:
            self.entry.run(slot_values(self._executable.kernel, arrays), 0)
            return
        calls_out = self._executable.calls_out
        if calls_out is not None and calls_out.is_inside:
            # A function that the kernel calls has called it: the lock is taken.
            self._executable.call_apart(arrays)
            return
        with self._lock:
            self._executable.call(arrays)

    def wait(self, stream: int) -> None:
        """Return: what was started has ended."""

    def is_capturing(self, stream: int) -> bool:
        """Return False: there are no graphs."""
        return False


def _failed(what: str, status: int) -> None:
    raise DeviceError(f"{what} failed: {status}")


def host_callee(
    kernel: Kernel,
    open_kernel: Kernel,
    artifact: bytes,
    device: Device,
    load: Callable[[], Executable],
) -> HostCallee:
    """Load a shared object for calls."""
    executable = _on_cpu(load())
    return HostCallee(executable, open_kernel, direct=executable.calls_out is None)


def emulated_callee(
    kernel: Kernel,
    open_kernel: Kernel,
    artifact: bytes,
    device: Device,
    load: Callable[[], Executable],
) -> HostCallee:
    """Load an emulated kernel for calls."""
    return HostCallee(_on_cpu(load()), open_kernel, direct=False)


def _on_cpu(executable: Executable) -> CpuExecutable:
    if not isinstance(executable, CpuExecutable):
        raise DeviceError(f"{executable.kernel.name!r} is not of the CPU")
    return executable
