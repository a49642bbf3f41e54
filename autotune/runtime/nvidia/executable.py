"""Kernels on CUDA devices: loaded from a cubin, launched and timed on a stream of their own."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from autotune.errors import DeviceError
from autotune.kernel.kernel import Kernel, Scalar
from autotune.runtime.arrays.array import NDArray, empty
from autotune.runtime.arrays.buffers import Buffers, sets_beyond
from autotune.runtime.compile.cubin import instance_symbols
from autotune.runtime.device import Device
from autotune.runtime.executable import Executable, timed_alone
from autotune.runtime.nvidia.driver import activated, driver, given_back_after, leave
from autotune.runtime.nvidia.event import Event
from autotune.runtime.nvidia.graph import CudaGraph
from autotune.runtime.nvidia.launches import as_launched, launch
from autotune.runtime.nvidia.modules import Loaded, load_cubin
from autotune.runtime.nvidia.nvml import read_clocks
from autotune.runtime.timing import Clocks, TimeOptions
from autotune.target import cuda_device

# Below this a graph is used: Python launches slowly, the more so while compilers run beside it.
_SHORT_S = 100e-6
_LONG_S = 1e-3
_TRIED_RUNS = 4
# Runs that Python queues while the device clears the flush buffer once.
_RUNS_QUEUED_PER_FLUSH = 4
_MOST_SETS = 256
_MOST_GRAPH_RUNS = 512


def nothing() -> None:
    """Do nothing."""


@dataclass(eq=False)
class _Owned:
    """The driver's resources of one executable: its module, and a stream of PyCUDA's."""

    module: Loaded | None
    stream: object

    def unload(self) -> None:
        """Give the module back."""
        if self.module is not None:
            self.module.unload()
        self.module = None

    def drop(self) -> None:
        """Drop everything."""
        self.unload()
        self.stream = None


class CudaExecutable(Executable):
    """A cubin loaded on a device.

    Args:
        artifact: path of the cubin.
        kernel: the kernel from which it was compiled.
        device: a CUDA device.

    Raises:
        DeviceError: there is no device, the cubin is for another architecture, an entry point is
            missing, or a block needs more registers or shared memory than there are.
    """

    def __init__(self, artifact: str, kernel: Kernel, device: Device) -> None:
        super().__init__(kernel, device)
        with activated(device.index):
            cubin = Path(artifact).read_bytes()
            try:
                module = load_cubin(cubin, kernel, instance_symbols(kernel, cubin))
            except DeviceError as error:
                raise DeviceError(f"{device}: {error}") from error
            self._owned = _Owned(module, driver.Stream())
            given_back_after(self, device.index, self._owned.drop)
            calls = as_launched(kernel, device.index).calls
        self._constants = module.constants
        self._launches = [
            (function, one.launch) for function, one in zip(module.functions, calls, strict=True)
        ]
        self._zeroed = [w.name for w in kernel.workspace if w.zero]

    @property
    def stream(self) -> Any:
        """The stream of PyCUDA's on which it runs; a program gives it its own."""
        return self._owned.stream

    @stream.setter
    def stream(self, stream: object) -> None:
        self._owned.stream = stream

    def fill_constants(self, arrays: Sequence[NDArray]) -> None:
        """Queue copies to constant memory on the stream."""
        if not self._constants:
            return
        with activated(self.device.index):
            for address, one in zip(self._constants, self.constants(arrays), strict=True):
                driver.memcpy_dtod_async(address, one.pointer, one.nbytes, self.stream)

    def arguments(
        self, arrays: Sequence[NDArray], workspaces: Mapping[str, NDArray] | None = None
    ) -> list[list[int]]:
        """Return, for each call, the addresses it takes and the bits of its scalars."""
        bits = {
            a.name: int.from_bytes(one.numpy().tobytes(), sys.byteorder)
            for a, one in zip(self.kernel.args, arrays, strict=True)
            if isinstance(a, Scalar)
        }
        calls = zip(self.kernel.calls, super().arguments(arrays, workspaces), strict=True)
        return [
            [bits.get(name, address) for name, address in zip(call.args, addresses, strict=True)]
            for call, addresses in calls
        ]

    def call(self, arrays: Sequence[NDArray]) -> None:
        """Run once and wait."""
        self.fill_constants(arrays)
        pointers = self.arguments(arrays)
        with activated(self.device.index):
            self.queue(pointers)
            self.stream.synchronize()

    def queue_call(self, arrays: Sequence[NDArray]) -> None:
        """Queue one run on the stream, for which copies to the host wait."""
        pointers = self.arguments(arrays)
        with activated(self.device.index):
            self.queue(pointers)

    def queue(
        self,
        pointers: Sequence[Sequence[int]],
        workspaces: Mapping[str, NDArray] | None = None,
        launched: Callable[[], object] = nothing,
    ) -> None:
        """Queue one run. A context is current.

        Args:
            pointers: the arguments of each call.
            workspaces: between the calls; by default its own.
            launched: called after each kernel.
        """
        own = self.workspaces if workspaces is None else workspaces
        for one in [own[name] for name in self._zeroed]:
            driver.memset_d8_async(one.pointer, 0, one.nbytes, self.stream)
        stream = self.stream.handle
        for (function, how), args in zip(self._launches, pointers, strict=True):
            launch(function, how, args, stream)
            launched()

    def sampler(self, buffers: Buffers, options: TimeOptions) -> CudaSampler:
        """Return a sampler, which takes single samples."""
        return CudaSampler(self, buffers, options)

    def close(self) -> None:
        """Unload the module and free the workspaces."""
        super().close()
        self._zeroed = []
        leave(self.device.index, self._owned.unload)


class CudaSampler:
    """Times with CUDA events on the executable's stream.

    A plain sample is two events around all its runs. Where each run needs something done before
    it - cold caches, in-place arguments restored - every run has two events of its own, and no
    graph is used.
    """

    def __init__(self, executable: CudaExecutable, buffers: Buffers, options: TimeOptions) -> None:
        self.input_sets = options.input_sets or rotation(buffers)
        buffers.grow(self.input_sets)
        self._executable = executable
        # The pointers below do not keep the arrays alive.
        self._buffers = buffers
        self._index = executable.device.index
        self.alone = timed_alone(buffers, options)
        self._cold = options.flush_cache
        self._flush = _flush_buffer(executable.device) if self.alone else None
        self._use_graph = options.use_graph
        self._long_runs = 0
        sets = buffers.sets[: self.input_sets]
        executable.fill_constants(sets[0])
        self._restores = [buffers.restorations(i) for i in range(len(sets))]
        self._pointers = [executable.arguments(arrays) for arrays in sets]
        # Goes on from sample to sample, or a sample of few runs would always find warm sets.
        self._turn = itertools.cycle(range(self.input_sets))
        self._last_graph: tuple[tuple[int, ...], CudaGraph] | None = None
        self._pairs: list[tuple[Event, Event]] = []
        with activated(self._index):
            self._events = Event(), Event()
            self._bus = driver.Device(self._index).pci_bus_id()

    def sample(self, number: int) -> float:
        """Run ``number`` times; return the seconds they took on the device."""
        with activated(self._index):
            if self.alone:
                return self._each(number)
            if self._use_graph is None:
                return self._undecided_sample(number)
            return self._graph_sample(number) if self._use_graph else self._together(number)

    def _undecided_sample(self, number: int) -> float:
        """Take a sample while it is open whether runs are so short that it takes a graph.

        A long run is not repeated to find out; but one alone may have been long only because the
        code was loaded.
        """
        first = self._together(1)
        if first < _LONG_S:
            self._use_graph = self._together(_TRIED_RUNS) / _TRIED_RUNS < _SHORT_S
            return self.sample(number)
        self._long_runs += 1
        self._use_graph = False if self._long_runs > 1 else None
        return first if number == 1 else self._together(number)

    def _together(self, number: int) -> float:
        start, end = self._events
        start.record(self._executable.stream)
        for _ in range(number):
            self._executable.queue(self._pointers[next(self._turn)])
        end.record(self._executable.stream)
        end.synchronize()
        return start.seconds_till(end)

    def _graph_sample(self, number: int) -> float:
        runs = max(min(number, _MOST_GRAPH_RUNS), self.input_sets)
        launches = ceil(number / runs)
        graph = self._graph(tuple(i % self.input_sets for i in range(runs)))
        start, end = self._events
        start.record(self._executable.stream)
        for _ in range(launches):
            graph.launch()
        end.record(self._executable.stream)
        end.synchronize()
        return start.seconds_till(end) * number / (launches * runs)

    def _graph(self, order: tuple[int, ...]) -> CudaGraph:
        if self._last_graph is None or self._last_graph[0] != order:
            graph = CudaGraph(self._executable.stream, partial(self._queue_all, order))
            # Launched once untimed: the first launch uploads it.
            graph.launch()
            self._executable.stream.synchronize()
            self._last_graph = order, graph
        return self._last_graph[1]

    def _queue_all(self, order: tuple[int, ...]) -> None:
        for index in order:
            self._executable.queue(self._pointers[index])

    def _each(self, number: int) -> float:
        # One more, not counted: where the caches stay warm, the head start has cooled the first.
        pairs = self._event_pairs(number + (not self._cold))
        # A device that is busy meanwhile lets Python queue ahead; else it would wait for Python
        # between the first event and the kernel.
        for _ in range(0 if self._cold else len(pairs) // _RUNS_QUEUED_PER_FLUSH + 1):
            self._clear()
        for start, end in pairs:
            index = next(self._turn)
            for target, source, size in self._restores[index]:
                driver.memcpy_dtod_async(target, source, size, self._executable.stream)
            if self._cold:
                self._clear()
            start.record(self._executable.stream)
            self._executable.queue(self._pointers[index])
            end.record(self._executable.stream)
        self._executable.stream.synchronize()
        return sum(start.seconds_till(end) for start, end in pairs[-number:])

    def _event_pairs(self, count: int) -> list[tuple[Event, Event]]:
        while len(self._pairs) < count:
            self._pairs.append((Event(), Event()))
        return self._pairs[:count]

    def _clear(self) -> None:
        if self._flush is not None:
            driver.memset_d8_async(
                self._flush.pointer, 0, self._flush.nbytes, self._executable.stream
            )

    def clocks(self) -> Clocks | None:
        """Ask NVML."""
        return read_clocks(self._bus)


def rotation(buffers: Buffers) -> int:
    """Return how many sets of arguments it takes for a run to find its own evicted from L2."""
    facts = cuda_device(buffers.device.index)
    return sets_beyond(buffers.bytes, facts.l2_bytes if facts else 0, _MOST_SETS)


_flush_buffers: dict[int, NDArray] = {}


def _flush_buffer(device: Device) -> NDArray:
    """Return memory twice the size of the L2 cache; writing it pushes everything else out."""
    if device.index not in _flush_buffers:
        facts = cuda_device(device.index)
        size = 2 * max(facts.l2_bytes if facts else 0, 1 << 25)
        _flush_buffers[device.index] = empty((size,), "uint8", device)
    return _flush_buffers[device.index]
