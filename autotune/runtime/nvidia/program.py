"""Programs on a GPU: all kernels are one CUDA graph."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from autotune.errors import DeviceError
from autotune.runtime.branches import Placed, Touched, place
from autotune.runtime.call.streams import stream_handle
from autotune.runtime.device import Device
from autotune.runtime.nvidia.driver import activated, driver, given_back_after
from autotune.runtime.nvidia.event import Event
from autotune.runtime.nvidia.executable import CudaExecutable, nothing
from autotune.runtime.nvidia.graph import CudaGraph
from autotune.runtime.nvidia.libcuda import (
    current_context,
    last_node,
    primary_context,
    synchronize,
)
from autotune.runtime.nvidia.nvml import read_clocks
from autotune.runtime.nvidia.stream_resources import hold_until_destroyed
from autotune.runtime.program import Program, ProgramStep
from autotune.runtime.timing import Clocks

# Runs by which what events take is found; the part of a step's time that is left at least.
_COMPARED_RUNS, _LEAST_PART = 9, 0.1


class CudaProgram(Program):
    """Kernels that were captured once, and are launched together.

    Args:
        steps: what runs.
        device: where.
        branches: whether steps run side by side that touch no memory of one another.

    Raises:
        DeviceError: a kernel is of another device, or cannot be captured.
    """

    def __init__(
        self, steps: Sequence[ProgramStep], device: Device, branches: bool = False
    ) -> None:
        super().__init__(steps)
        self.device = device
        self._context = primary_context(device.index)
        executables: list[CudaExecutable] = []
        for step in self.steps:
            if not isinstance(step.executable, CudaExecutable):
                raise DeviceError(f"program: {step.executable.kernel.name!r} is not of {device}")
            executables.append(step.executable)
        pointers = [s.executable.arguments(s.arrays, s.workspaces) for s in self.steps]
        self._queued = list(zip(executables, pointers, self.steps, strict=True))
        with activated(device.index):
            # Its own and those beside it. Nobody else keeps them, but executables for their time.
            self._streams: list[object] = [driver.Stream()]
            given_back_after(self, device.index, self._streams.clear)
            for executable, step in zip(executables, self.steps, strict=True):
                executable.fill_constants(step.arrays)
                executable.stream.synchronize()
                executable.stream = self.stream

            self._placed = place([_touched(step) for step in self.steps]) if branches else []
            for _ in range(max((p.branch for p in self._placed), default=0)):
                self._streams.append(driver.Stream())
            # The nodes of each step's kernels in the graph.
            self._nodes: list[list[int]] = []
            self._graph = self._captured() if self.steps else None
        # On which the last run was queued.
        self._last: int | None = None
        self._timed: tuple[CudaGraph, list[Event]] | None = None
        self._event_s = 0.0

    @property
    def stream(self) -> Any:
        """The stream of PyCUDA's on which it is captured, and runs by default."""
        return self._streams[0]

    @property
    def _has_branches(self) -> bool:
        return len(self._streams) > 1

    def _captured(self) -> CudaGraph:
        """Return the graph of all steps, and note the nodes of their kernels."""
        self._nodes = [[] for _ in self._queued]
        branched = partial(self._queue_branches, self._placed)
        plain = partial(self._queue_all, note=True)
        return CudaGraph(self.stream, branched if self._has_branches else plain)

    def _note_node(self, number: int) -> None:
        """Note the kernel of a step that was queued last, where the driver can tell."""
        with suppress(DeviceError):
            self._nodes[number].append(last_node(self._queued[number][0].stream.handle))

    def _queue_all(self, note: bool = False) -> None:
        """Queue the steps one after another."""
        for number, (executable, addresses, step) in enumerate(self._queued):
            executable.stream = self.stream
            launched = partial(self._note_node, number) if note else nothing
            executable.queue(addresses, step.workspaces, launched)

    def _queue_branches(self, placed: Sequence[Placed]) -> None:
        """Queue the steps on streams that fork from the program's own and join it at the end."""
        waited_for = {number for each in placed for number in each.after}
        ended: dict[int, Event] = {}
        begun = _event_on(self.stream)
        try:
            for each in self._streams[1:]:
                begun.hold(each)
            for number, (where, queued) in enumerate(zip(placed, self._queued, strict=True)):
                executable, addresses, step = queued
                executable.stream = self._streams[where.branch]
                for other in where.after:
                    ended[other].hold(executable.stream)
                executable.queue(addresses, step.workspaces, partial(self._note_node, number))
                if number in waited_for:
                    ended[number] = _event_on(executable.stream)
            joined = [_event_on(each) for each in self._streams[1:]]
            for event in joined:
                event.hold(self.stream)
        finally:
            for executable, _, _ in self._queued:
                executable.stream = self.stream

    def queue(self, stream: int | None = None) -> None:
        """Queue one run on a stream, by default the program's own. A context is current."""
        if self._graph is not None:
            self._graph.launch(stream)

    def start(self, stream: object = None) -> None:
        """Queue one run on a stream, by default the program's own, and return."""
        where = None if stream is None else stream_handle(stream, self.device.index)
        self._last = where
        if current_context() == self._context:
            self.queue(where)
            return
        with activated(self.device.index):
            self.queue(where)

    def add_to_capture(self, stream: int) -> None:
        """Add a run to the graph of a capture, as a child graph."""
        if self._graph is None:
            return
        with activated(self.device.index):
            hold_until_destroyed(self._graph.add_to_capture(stream), self.steps)

    def wait(self) -> None:
        """Wait until what was queued has ended."""
        with activated(self.device.index):
            if self._last is not None:
                synchronize(self._last)
            self.stream.synchronize()

    def rebind(self, steps: Mapping[int, ProgramStep]) -> None:
        """Give the nodes of steps other arguments; runs that were queued keep theirs."""
        every = list(self.steps)
        with activated(self.device.index):
            for number, step in steps.items():
                executable, every[number] = self._queued[number][0], step
                executable.stream = self.stream
                addresses = executable.arguments(step.arrays, step.workspaces)
                self._queued[number] = executable, addresses, step
                executable.fill_constants(step.arrays)
            self.steps, self._timed = tuple(every), None
            if steps and not self._change([*steps]):
                self._graph = self._captured()

    def _change(self, numbers: Sequence[int]) -> bool:
        """Give the kernels of steps their arguments in the graph; return whether that is done."""
        assert self._graph is not None
        pairs = [(self._nodes[number], self._queued[number][1]) for number in numbers]
        known = all(len(nodes) == len(values) for nodes, values in pairs)
        if not known or not CudaGraph.can_change():
            return False
        try:
            for nodes, values in pairs:
                for node, each in zip(nodes, values, strict=True):
                    self._graph.set_arguments(node, each)
        except DeviceError:
            return False
        return True

    def step_seconds(self) -> list[float]:
        """Run all steps once; return the seconds of each, from the end of the previous one.

        They are timed within a graph, one after another, so that no launch by the host is between
        them. Since events take time, the difference from a run without events is subtracted from
        all steps in equal parts.
        """
        if not self.steps:
            return []
        with activated(self.device.index):
            if self._timed is None:
                self._timed = self._timed_graph()
                self._event_s = self._seconds_of_an_event()
            return [max(each - self._event_s, _LEAST_PART * each) for each in self._timed_run()]

    def _timed_run(self) -> list[float]:
        """Run once with events; return the seconds between them."""
        assert self._timed is not None
        return self._seconds_between(*self._timed)

    def _seconds_between(self, graph: CudaGraph, events: Sequence[Event]) -> list[float]:
        graph.launch()
        self.stream.synchronize()
        return [a.seconds_till(b) for a, b in itertools.pairwise(events)]

    def _seconds_of_an_event(self) -> float:
        """Compare with a graph that has events at its two ends only, so that no launch counts."""
        between = len(self.steps) - 1
        if not between:
            return 0.0
        ends = Event(), Event()

        def queue() -> None:
            ends[0].record_in_graph(self.stream)
            self._queue_all()
            ends[1].record_in_graph(self.stream)

        graph = CudaGraph(self.stream, queue)
        plain, timed = (
            statistics.median(sum(run()) for _ in range(_COMPARED_RUNS))
            for run in (partial(self._seconds_between, graph, ends), self._timed_run)
        )
        return max(timed - plain, 0.0) / between

    def _timed_graph(self) -> tuple[CudaGraph, list[Event]]:
        """Return the graph with an event before the first step and after each."""
        events = [Event() for _ in range(len(self._queued) + 1)]

        def queue() -> None:
            events[0].record_in_graph(self.stream)
            for (executable, addresses, step), end in zip(self._queued, events[1:], strict=True):
                executable.stream = self.stream
                executable.queue(addresses, step.workspaces)
                end.record_in_graph(self.stream)

        graph = CudaGraph(self.stream, queue)
        graph.launch()  # the first launch uploads it
        return graph, events

    def sampler(self) -> CudaProgramSampler:
        """Return a sampler of whole runs."""
        return CudaProgramSampler(self)


def _event_on(stream: Any) -> Event:
    """Return an event that happens when the stream is here."""
    event = Event(timing=False)
    event.record(stream)
    return event


def _touched(step: ProgramStep) -> Touched:
    """Return the memory that a step reads and writes; workspaces are written."""
    spans = [(one.pointer, one.pointer + one.nbytes) for one in step.arrays]
    pairs = list(zip(step.executable.kernel.args, spans, strict=True))
    own = [(one.pointer, one.pointer + one.nbytes) for one in step.workspaces.values()]
    # Constant memory is filled once, before any run.
    read = [span for argument, span in pairs if argument.role != "out"]
    written = [span for argument, span in pairs if argument.role != "in"]
    return Touched(tuple(read), (*written, *own))


class CudaProgramSampler:
    """Times runs of a program with CUDA events."""

    # One set of arrays: a program has its own.
    input_sets = 1
    alone = False

    def __init__(self, program: CudaProgram) -> None:
        self._program = program
        with activated(program.device.index):
            self._events = Event(), Event()
            self._bus = driver.Device(program.device.index).pci_bus_id()

    def sample(self, number: int) -> float:
        """Return the seconds of a number of runs."""
        start, end = self._events
        with activated(self._program.device.index):
            start.record(self._program.stream)
            for _ in range(number):
                self._program.queue()
            end.record(self._program.stream)
            end.synchronize()
            return start.seconds_till(end)

    def clocks(self) -> Clocks | None:
        """Ask NVML."""
        return read_clocks(self._bus)
