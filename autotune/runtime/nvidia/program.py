"""Programs on a GPU: all kernels are one CUDA graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune.errors import DeviceError
from autotune.runtime.device import Device
from autotune.runtime.nvidia.driver import activated, driver
from autotune.runtime.nvidia.executable import CudaExecutable
from autotune.runtime.nvidia.graph import Graph
from autotune.runtime.nvidia.nvml import read_clocks
from autotune.runtime.program import Program, ProgramStep
from autotune.runtime.timing import Clocks


class CudaProgram(Program):
    """Kernels that were captured once, and are launched together.

    Raises:
        DeviceError: a kernel is of another device, or cannot be captured.
    """

    def __init__(self, steps: Sequence[ProgramStep], device: Device) -> None:
        super().__init__(steps)
        self.device = device
        executables: list[CudaExecutable] = []
        for step in self.steps:
            if not isinstance(step.executable, CudaExecutable):
                raise DeviceError(f"program: {step.executable.kernel.name!r} is not of {device}")
            executables.append(step.executable)
        pointers = [each.executable.arguments(each.arrays) for each in self.steps]
        with activated(device.index):
            self.stream: Any = driver.Stream()
            for executable, step in zip(executables, self.steps, strict=True):
                executable.fill_constants(step.arrays)
                executable.stream.synchronize()
                executable.stream = self.stream

            def queue() -> None:
                for executable, addresses in zip(executables, pointers, strict=True):
                    executable.queue(addresses)

            self._graph = Graph(self.stream, queue) if self.steps else None

    def queue(self) -> None:
        """Queue one run on the program's stream. A context is current."""
        if self._graph is not None:
            self._graph.launch()

    def run(self) -> None:
        """Run all steps once, and wait."""
        with activated(self.device.index):
            self.queue()
            self.stream.synchronize()

    def sampler(self) -> CudaProgramSampler:
        """Return what times whole runs."""
        return CudaProgramSampler(self)


class CudaProgramSampler:
    """Times runs of a program with CUDA events."""

    # One set of arrays: a program has its own.
    input_sets = 1

    def __init__(self, program: CudaProgram) -> None:
        self._program = program
        with activated(program.device.index):
            self._events = driver.Event(), driver.Event()
            self._bus = driver.Device(program.device.index).pci_bus_id()

    def sample(self, number: int) -> float:
        """Return the seconds of so many runs."""
        start, end = self._events
        with activated(self._program.device.index):
            start.record(self._program.stream)
            for _ in range(number):
                self._program.queue()
            end.record(self._program.stream)
            end.synchronize()
            return float(start.time_till(end)) * 1e-3

    def clocks(self) -> Clocks | None:
        """Ask NVML."""
        return read_clocks(self._bus)
