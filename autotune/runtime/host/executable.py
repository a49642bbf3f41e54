"""Kernels on the CPU: loaded into this process, called and timed through the C helper."""

from __future__ import annotations

import _ctypes
import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from autotune.codegen.packed import filler_name, packed_name
from autotune.emulator.build import emulated
from autotune.emulator.stop import StopFlag
from autotune.errors import DeviceError
from autotune.kernel.kernel import Kernel
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.arrays.buffers import Buffers, sets_beyond
from autotune.runtime.device import Device
from autotune.runtime.executable import Executable, timed_alone
from autotune.runtime.host.host_helper import (
    CallStruct,
    RangeStruct,
    RunStruct,
    host_helper,
)
from autotune.runtime.host.plain_calls import calling_helper
from autotune.runtime.host.registered import RegisteredCalls
from autotune.runtime.host.stopwatch import Stopwatch
from autotune.runtime.timing import Clocks, TimeOptions
from autotune.utils.libraries import load_library

_MOST_SETS = 16


class CpuExecutable(Executable):
    """A shared object in this process.

    Args:
        artifact: path of the shared object.
        kernel: what it was compiled from.
        device: a CPU.

    Raises:
        DeviceError: it cannot be loaded, or an entry point is missing.
    """

    def __init__(self, artifact: str, kernel: Kernel, device: Device) -> None:
        super().__init__(kernel, device)
        self._helper = calling_helper()
        self._library = load_library(artifact, f"kernel {kernel.name!r}")
        self.calls_out = RegisteredCalls.of(kernel.name, self._library)
        self.entries = [self._entry(one.entry) for one in kernel.calls]
        self.filler = self._library[filler_name(kernel)] if kernel.constants else None
        # A caller that keeps its arrays need not have them prepared anew for each call.
        self._last: tuple[tuple[int, ...] | None, object] = (None, None)
        # The emulator says here what it saw go wrong: a race, a barrier not all threads reach.
        self._fault: Any = getattr(self._library, "autotune_fault", None)
        if self._fault is not None:
            self._fault.restype = ctypes.c_char_p
        self._stop: StopFlag | None = None

    def _entry(self, name: str) -> int:
        try:
            function = getattr(self._library, packed_name(name))
        except AttributeError:
            raise DeviceError(
                f"kernel {self.kernel.name!r}: the library has no entry {name!r}; define "
                f"`void {name}(...)`, not static"
            ) from None
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def call(self, arrays: Sequence[NDArray]) -> None:
        """Run once."""
        self.fill_constants(arrays)
        where = tuple(one.pointer for one in arrays)
        if where != self._last[0]:
            self._last = where, self.prepared([arrays])
        self._helper.autotune_run(self._last[1])
        self.check_fault()

    def call_apart(self, arrays: Sequence[NDArray]) -> None:
        """Run once, with workspaces of its own, while another run has not ended."""
        spaces = self.new_workspaces()
        self._helper.autotune_run(self.prepared([arrays], spaces))
        self.check_fault()

    def fill_constants(self, arrays: Sequence[NDArray]) -> None:
        """Copy to the variables of the library."""
        if self.filler is not None:
            addresses = [one.pointer for one in self.constants(arrays)]
            self.filler((ctypes.c_void_p * len(addresses))(*addresses))

    def check_fault(self) -> None:
        """Raise what an emulated kernel, or a function that it called, did wrong since the last.

        Raises:
            DeviceError: with the emulator's report, or the text of the exception.
        """
        if self.calls_out is not None:
            self.calls_out.check()
        message = self._fault() if self._fault is not None else None
        if message:
            raise DeviceError(f"kernel {self.kernel.name!r}: {message.decode('utf-8', 'replace')}")

    def obey(self, stop: StopFlag, limit_s: float) -> None:
        """Let the emulator end a launch, with a report; other kernels cannot be stopped."""
        if self._fault is not None:
            self._stop = stop  # the library has the address of its byte
            self._library.autotune_emulation_stop(ctypes.c_void_p(stop.address))
            self._library.autotune_emulation_limit(ctypes.c_double(limit_s))

    def prepared(
        self,
        sets: Sequence[Sequence[NDArray]],
        workspaces: Mapping[str, NDArray] | None = None,
    ) -> ctypes.Array[RunStruct]:
        """Return what the helper needs to run on each of ``sets``; it keeps nothing alive."""
        own = self.workspaces if workspaces is None else workspaces
        return (RunStruct * len(sets))(*(self._prepared(arrays, own) for arrays in sets))

    def _prepared(self, arrays: Sequence[NDArray], workspaces: Mapping[str, NDArray]) -> RunStruct:
        calls = (CallStruct * len(self.entries))()
        addresses = self.arguments(arrays, workspaces)
        for one, entry, pointers in zip(calls, self.entries, addresses, strict=True):
            one.entry = entry
            one.args = (ctypes.c_void_p * len(pointers))(*pointers)
        zeroed = [workspaces[w.name] for w in self.kernel.workspace if w.zero]
        return RunStruct(
            n_calls=len(calls),
            n_zero=len(zeroed),
            n_args=len(arrays),
            calls=calls,
            zero=_ranges(zeroed),
            args=_ranges(arrays),
        )

    def sampler(self, buffers: Buffers, options: TimeOptions) -> CpuSampler:
        """Return a sampler, which takes single samples."""
        return CpuSampler(self, buffers, options)

    def close(self) -> None:
        """Unload the library; the executable cannot be used any more."""
        super().close()
        if self.entries:
            self.entries = []
            self.filler = None
            self._fault = None
            _ctypes.dlclose(self._library._handle)


def rotation(buffers: Buffers) -> int:
    """Return how many sets of arguments it takes for a run to find its own evicted from L2."""
    return sets_beyond(buffers.bytes, l2_bytes(), _MOST_SETS)


@cache
def l2_bytes() -> int:
    """Return the size of the second cache of a core, 0 where the system does not tell."""
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text("ascii")
        return int(text.strip().removesuffix("K")) << 10
    except (OSError, ValueError):
        return 0


class CpuSampler:
    """Times runs, which the helper makes without Python, as `stopwatch` says.

    Runs go round several sets of arguments where one would stay in the caches of a core: in a
    program, others compute between two runs.
    """

    def __init__(self, executable: CpuExecutable, buffers: Buffers, options: TimeOptions) -> None:
        self.input_sets = options.input_sets or rotation(buffers)
        buffers.grow(self.input_sets)
        if self.input_sets > 1:
            buffers.poison()  # the first store to a page is slow, even more so in a fork
        executable.fill_constants(buffers.sets[0])
        self._executable = executable
        self._buffers = buffers
        self._helper = host_helper()
        self._watch = Stopwatch()
        self._flush = options.flush_cache
        self.alone = timed_alone(buffers, options)
        # Twice, so that a sample can begin with any set and find the following ones behind it.
        self._once = executable.prepared(buffers.sets[: self.input_sets])
        self._runs = (RunStruct * (2 * self.input_sets))(*self._once, *self._once)
        # Goes on from sample to sample, or a sample of few runs would always find warm sets.
        self._turn = 0

    def sample(self, number: int) -> float:
        """Run ``number`` times: in one go, or one by one where each needs a fresh start."""
        self._watch.restart()
        if self.alone:
            for _ in range(number):
                self._single(self._take(1))
        else:
            runs = ctypes.byref(self._runs[self._take(number)])
            self._watch.run(runs, self.input_sets, number)
        self._executable.check_fault()
        return self._watch.seconds

    def single(self) -> float:
        """Run once on the first set of arguments; return the seconds."""
        self._watch.restart()
        self._single(0)
        self._executable.check_fault()
        return self._watch.seconds

    def rewind(self) -> None:
        """Let the next run be on the first set of arguments again."""
        self._turn = 0

    def _take(self, number: int) -> int:
        """Return whose turn it is, and let so many sets have theirs."""
        first = self._turn
        self._turn = (first + number) % self.input_sets
        return first

    def _single(self, index: int) -> None:
        self._buffers.restore(index)
        one = ctypes.byref(self._runs[index])
        if self._flush:
            self._helper.autotune_flush(one)
        self._watch.run(one, 1, 1)

    def clocks(self) -> Clocks | None:
        """Return whether the last sample lost a core; clock rates are unknown."""
        return self._watch.clocks


def _ranges(arrays: Sequence[NDArray]) -> ctypes.Array[RangeStruct]:
    return (RangeStruct * len(arrays))(*(RangeStruct(a.pointer, a.nbytes) for a in arrays))


def emulated_executable(artifact: str, kernel: Kernel, where: Device) -> CpuExecutable:
    """Loads what was compiled of a CUDA kernel for the CPU.

    The library has the entry points that the emulator gave it.
    """
    return CpuExecutable(artifact, emulated(kernel), where)
