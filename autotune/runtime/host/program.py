"""Programs on the CPU: one call of the C helper runs every kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from autotune.errors import DeviceError
from autotune.runtime.device import Device
from autotune.runtime.host.executable import CpuExecutable
from autotune.runtime.host.host_helper import RunStruct
from autotune.runtime.host.plain_calls import calling_helper
from autotune.runtime.host.stopwatch import Stopwatch
from autotune.runtime.program import Program, ProgramStep
from autotune.runtime.timing import Clocks


class HostProgram(Program):
    """Kernels on the CPU, emulated ones too.

    Attributes:
        watch: what timed its last runs.

    Raises:
        DeviceError: a kernel is of another device.
    """

    def __init__(
        self, steps: Sequence[ProgramStep], device: Device, branches: bool = False
    ) -> None:
        super().__init__(steps)
        del branches  # every kernel has all cores
        self.device = device
        self._helper = calling_helper()
        self.watch = Stopwatch()
        self._executables: list[CpuExecutable] = []
        for step in self.steps:
            if not isinstance(step.executable, CpuExecutable):
                raise DeviceError(f"program: {step.executable.kernel.name!r} is not of {device}")
            self._executables.append(step.executable)
        # Each keeps the addresses alive that the structures point to.
        self._parts = [
            executable.prepared([step.arrays], step.workspaces)
            for executable, step in zip(self._executables, self.steps, strict=True)
        ]
        self._runs = (RunStruct * len(self._parts))(*[part[0] for part in self._parts])
        for executable, step in zip(self._executables, self.steps, strict=True):
            executable.fill_constants(step.arrays)

    def start(self, stream: object = None) -> None:
        """Run all steps once."""
        if stream is not None:
            raise DeviceError(f"run: {self.device} has no streams; leave `stream` out")
        count = len(self.steps)
        self._helper.autotune_repeat(self._runs, count, count)
        self._check_faults()

    def rebind(self, steps: Mapping[int, ProgramStep]) -> None:
        """Put other addresses into the structures of steps."""
        every = list(self.steps)
        for number, step in steps.items():
            executable = self._executables[number]
            part = executable.prepared([step.arrays], step.workspaces)
            self._parts[number], self._runs[number], every[number] = part, part[0], step
            executable.fill_constants(step.arrays)
        self.steps = tuple(every)

    def wait(self) -> None:
        """Return: what was started has ended."""

    def seconds(self, number: int) -> float:
        """Run all steps a number of times in one call; return the seconds."""
        if not self.steps:
            return 0.0
        count = len(self.steps)
        self.watch.restart()
        self.watch.run(self._runs, count, count * number)
        self._check_faults()
        return self.watch.seconds

    def step_seconds(self) -> list[float]:
        """Run all steps once, one by one; return the seconds of each."""
        taken = []
        for one in self._runs:
            self.watch.restart()
            self.watch.run(ctypes.byref(one), 1, 1)
            taken.append(self.watch.seconds)
        self._check_faults()
        return taken

    def _check_faults(self) -> None:
        for executable in self._executables:
            executable.check_fault()

    def sampler(self) -> HostProgramSampler:
        """Return a sampler of whole runs."""
        return HostProgramSampler(self)


class HostProgramSampler:
    """Times runs of a program, as `stopwatch` says."""

    # One set of arrays: a program has its own.
    input_sets = 1
    alone = False

    def __init__(self, program: HostProgram) -> None:
        self._program = program

    def sample(self, number: int) -> float:
        """Return the seconds of a number of runs."""
        return self._program.seconds(number)

    def clocks(self) -> Clocks | None:
        """Return whether the last sample lost a core; clock rates are unknown."""
        return self._program.watch.clocks
