"""A compiled network, and an instance of it that holds memory of a device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from autotune.errors import GraphError
from autotune.network.plan import ExecutionPlan, Home, Place
from autotune.runtime.arrays.array import NDArray, array, empty
from autotune.runtime.device import Device, device
from autotune.runtime.module import BenchmarkResult, Module
from autotune.runtime.program import Program, ProgramStep, program_of, view
from autotune.runtime.timing import Clocks, TimeOptions, take_timing
from autotune.target import Target
from autotune.utils.check import Check


@dataclass(frozen=True, eq=False)
class CompiledNetwork:
    """Kernels and plan of a network; it needs no device.

    Attributes:
        plan: what runs where.
        modules: the kernel of each of the plan's functions.
        target: what they are compiled for.
    """

    plan: ExecutionPlan
    modules: tuple[Module, ...]
    target: Target
    # Instances share the kernels, and with them the memory of values within a kernel.
    _turn: AbstractContextManager[object] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shared = any(module.kernel.workspace for module in self.modules)
        object.__setattr__(self, "_turn", threading.Lock() if shared else nullcontext())

    @property
    def turn(self) -> AbstractContextManager[object]:
        """What an instance holds while it runs: a lock where kernels have memory of their own."""
        return self._turn

    def instance(self, where: Device | None = None) -> NetworkInstance:
        """Return the network with memory of its own on a device.

        Raises:
            GraphError: the target is of another kind of device.
        """
        own = device(self.target)
        chosen = own if where is None else where
        if not isinstance(chosen, Device) or chosen.kind != own.kind:
            emulated = "emulated " if self.target.emulate else ""
            expected = f"a {own.kind} device, as it was compiled for {emulated}"
            hint = f"; autotune.runtime.device({str(self.target)!r}) is one"
            Check(GraphError, "network").refuse(
                "device", f"{expected}{self.target.kind.name!r}", where, hint
            )
        return NetworkInstance(self, chosen)


class CallSampler:
    """Times calls of a function with the clock of this process."""

    # One set of arrays: the function has its own.
    input_sets = 1

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def sample(self, number: int) -> float:
        """Return the seconds of so many calls."""
        start = time.perf_counter()
        for _ in range(number):
            self._function()
        return time.perf_counter() - start

    def clocks(self) -> Clocks | None:
        """Return None: the clocks of a device are not looked at."""
        return None


class NetworkInstance:
    """A network that can be run: its arrays lie at fixed places.

    Threads need an instance each, since inputs and outputs are its own; they may run together.

    Attributes:
        inputs, outputs: arrays on the device, written and read by each run.
        program: all kernels.
    """

    def __init__(self, network: CompiledNetwork, where: Device) -> None:
        plan = network.plan
        self.network = network
        self.device = where
        self.inputs = [empty(each.shape, each.dtype, where) for each in plan.inputs]
        self.outputs = [empty(each.shape, each.dtype, where) for each in plan.outputs]
        self.constants = [array(each.array, where) for each in plan.constants]
        self.arena = empty((max(plan.memory.bytes, 1),), "uint8", where)
        self._copies = [tuple(map(self._array, pair)) for pair in plan.copies]
        executables = [module.executable for module in network.modules]
        steps = [
            ProgramStep(executables[step.kernel], tuple(map(self._array, step.places)))
            for step in plan.steps
        ]
        self.program: Program = program_of(steps, where)

    def _array(self, place: Place) -> NDArray:
        """Return a value in the shape in which it is read."""
        if place.home is Home.ARENA:
            return view(self.arena, place.at, place.shape, place.dtype)
        homes = {
            Home.INPUT: self.inputs, Home.OUTPUT: self.outputs, Home.CONSTANT: self.constants,
        }  # fmt: skip
        whole = homes[place.home][place.at]
        return whole if whole.shape == place.shape else view(whole, 0, place.shape, place.dtype)

    def run(self) -> None:
        """Run once on what is in the inputs, and wait for the outputs."""
        with self.network.turn:
            self.program.run()
        for source, target in self._copies:
            target.copyfrom(source)

    def __call__(self, *arrays: object) -> list[NDArray]:
        """Copy the inputs, run, and return the outputs, which the next run overwrites.

        Raises:
            GraphError: another number of inputs is needed.
        """
        if len(arrays) != len(self.inputs):
            names = ", ".join(self.network.plan.input_names)
            raise GraphError(f"network: expected an array for each of {names}, got {len(arrays)}")
        for own, given in zip(self.inputs, arrays, strict=True):
            own.copyfrom(given)
        self.run()
        return self.outputs

    def time_end_to_end(self, options: TimeOptions | None = None) -> BenchmarkResult:
        """Time whole runs with copies of all inputs from the host and all outputs to it."""
        _check_options("time_end_to_end", options)
        host = [each.numpy() for each in self.inputs]

        def once() -> None:
            for own, given in zip(self.inputs, host, strict=True):
                own.copyfrom(given)
            self.run()
            for each in self.outputs:
                each.numpy()

        once()
        timing = take_timing(CallSampler(once), options or TimeOptions())
        return BenchmarkResult(timing.samples_s, timing)

    def time(self, options: TimeOptions | None = None) -> BenchmarkResult:
        """Time whole runs on what is in the inputs."""
        _check_options("time", options)
        self.run()
        with self.network.turn:
            timing = take_timing(self.program.sampler(), options or TimeOptions())
        return BenchmarkResult(timing.samples_s, timing)


def _check_options(owner: str, options: object) -> None:
    if options is not None:
        Check(GraphError, f"network: {owner}").kind(
            "options", options, TimeOptions, "a TimeOptions or None"
        )
