"""A compiled network, and an instance of it that holds memory of a device."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from autotune.errors import GraphError
from autotune.graph import Constant, TensorType
from autotune.network.inputs import check_apart, lent, set_input
from autotune.network.plan import ExecutionPlan, MemoryKind, Placement, PlanStep
from autotune.runtime.arrays.array import NDArray, array, empty
from autotune.runtime.arrays.memory import Block
from autotune.runtime.device import Device, device
from autotune.runtime.evaluator import BenchmarkResult, evaluator_options
from autotune.runtime.module import Module
from autotune.runtime.program import Program, ProgramStep, program_of, view
from autotune.runtime.timing import Clocks, TimeOptions, take_timing
from autotune.target import Target
from autotune.utils.check import Check

# Bytes; kernels read vectors.
_ALIGNMENT = 64
_weights: weakref.WeakKeyDictionary[Constant, dict[Device, weakref.ref[Block]]] = (
    weakref.WeakKeyDictionary()
)


@dataclass(frozen=True, eq=False)
class InstanceMemory:
    """Where the memory of an instance comes from, if it is not made for it.

    Attributes:
        inputs, outputs: its arrays, which fit the plan.
        allocate: returns uninitialised memory of a shape and a dtype.
    """

    inputs: Sequence[NDArray] | None = None
    outputs: Sequence[NDArray] | None = None
    allocate: Callable[[Sequence[int], str], NDArray] | None = None


@dataclass(frozen=True, eq=False)
class CompiledNetwork:
    """Kernels and plan of a network; it needs no device.

    Attributes:
        plan: what runs where.
        modules: the kernel of each of the plan's functions.
        target: what they are compiled for.
        branches: whether on a GPU kernels run side by side that do not depend on one another.
    """

    plan: ExecutionPlan
    modules: tuple[Module, ...]
    target: Target
    branches: bool = False

    def __repr__(self) -> str:
        """Return what it takes and gives; the plan of a large network would fill the screen."""
        plan = self.plan
        named = zip(plan.input_names, plan.inputs, strict=True)
        given = ", ".join(f"{name}: {TensorType(at.shape, at.dtype)}" for name, at in named)
        made = ", ".join(str(TensorType(each.shape, each.dtype)) for each in plan.outputs)
        return f"CompiledNetwork({given} -> {made}; {len(plan.steps)} kernels for {self.target})"

    def instance(
        self, where: Device | None = None, memory: InstanceMemory | None = None
    ) -> NetworkInstance:
        """Return the network with memory of its own on a device.

        Args:
            where: the device; by default that of the target.
            memory: what it reads and writes instead.

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
        return NetworkInstance(self, chosen, memory or InstanceMemory())


class CallSampler:
    """Times calls of a function with the clock of this process."""

    # One set of arrays: the function has its own.
    input_sets = 1
    alone = False

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def sample(self, number: int) -> float:
        """Return the seconds of a number of calls."""
        start = time.perf_counter()
        for _ in range(number):
            self._function()
        return time.perf_counter() - start

    def clocks(self) -> Clocks | None:
        """Return None: the clocks of the device are not read."""
        return None


class NetworkInstance:
    """A network that can be run: its arrays have fixed addresses.

    Threads need an instance each, since inputs and outputs are its own; they may run together.

    Attributes:
        inputs, outputs: arrays on the device, written and read by each run; zeros at first.
        program: all kernels.
    """

    def __init__(self, network: CompiledNetwork, where: Device, memory: InstanceMemory) -> None:
        plan = network.plan
        self.network = network
        self.device = where
        allocate = memory.allocate or partial(empty, device=where)
        self._own_inputs = list(memory.inputs or [_zeros(each, where) for each in plan.inputs])
        self.inputs = list(self._own_inputs)
        self.outputs = list(memory.outputs or [self._output(each) for each in plan.outputs])
        self.constants = [_weight(each, where) for each in plan.constants]
        self.arena = allocate((max(plan.memory.bytes, 1),), "uint8")
        self._converted: set[int] = set()
        # Of a run that was begun: whether outputs that no kernel writes are still to be copied,
        # and whether it is on a stream that copies to inputs do not wait for.
        self._uncopied = self._elsewhere = False
        self._copies = [tuple(map(self._array, pair)) for pair in plan.copies]
        executables = [module.executable for module in network.modules]
        self._workspaces = [each.new_workspaces(memory.allocate) for each in executables]
        steps = [self._step(each) for each in plan.steps]
        self.program: Program = program_of(steps, where, network.branches)

    def _output(self, place: Placement) -> NDArray:
        """Return the array of an output: one of its own, or that of the input in which it is."""
        if place.memory is MemoryKind.OUTPUT:
            return _zeros(place, self.device)
        return view(self.inputs[place.at], 0, place.shape, place.dtype)

    def _step(self, step: PlanStep) -> ProgramStep:
        """Return a step on the arrays that are bound now."""
        return ProgramStep(
            self.network.modules[step.kernel].executable,
            tuple(map(self._array, step.places)),
            self._workspaces[step.kernel],
        )

    def _array(self, place: Placement) -> NDArray:
        """Return a value in the shape in which it is read."""
        if place.memory is MemoryKind.ARENA:
            return view(self.arena, place.at, place.shape, place.dtype)
        arrays = {
            MemoryKind.INPUT: self.inputs,
            MemoryKind.OUTPUT: self.outputs,
            MemoryKind.CONSTANT: self.constants,
        }
        whole = arrays[place.memory][place.at]
        return whole if whole.shape == place.shape else view(whole, 0, place.shape, place.dtype)

    def bind_input(self, index: int, given: object) -> None:
        """Let runs read an array in place, without a copy, until another one is bound.

        Only the kernels that read the input are updated: on a GPU no graph is captured again.

        Args:
            index: number of the input.
            given: an array on the instance's device with the input's shape and dtype: an
                `NDArray`, or a tensor of any library with DLPack, such as torch.

        Raises:
            GraphError: the argument is not such an array, or it overlaps an output that is written
                before the input is read.
        """
        check = Check(GraphError, "bind_input")
        check.whole("index", index, least=0, most=len(self.inputs) - 1)
        own = self.inputs[index]
        expected = f"an array {own.shape} {own.dtype} on {self.device}"
        if hasattr(given, "__dlpack__") and not isinstance(given, NDArray):
            given = lent(given, expected)
        check.kind("given", given, NDArray, expected)
        assert isinstance(given, NDArray)
        if (given.shape, given.dtype, given.device) != (own.shape, own.dtype, self.device):
            got = f"{given.shape} {given.dtype} on {given.device}"
            raise GraphError(f"bind_input: expected {expected}, got {got}")
        if given.pointer % _ALIGNMENT:
            raise GraphError(
                f"bind_input: expected memory aligned to {_ALIGNMENT} bytes, got the address "
                f"{given.pointer:#x}; copy it into an array of autotune.runtime"
            )
        inputs = [*self.inputs[:index], given, *self.inputs[index + 1 :]]
        check_apart(self.network.plan, inputs, self.outputs, index, self.network.branches)
        self.read(index, given)

    def read(self, index: int, given: NDArray) -> None:
        """Let runs read an input from an array, of which is known that `bind_input` accepts it."""
        self._move(MemoryKind.INPUT, self.inputs, index, given)

    def write(self, index: int, given: NDArray) -> None:
        """Let runs write an output to an array, of which is known that it fits.

        It may be in the memory of an input: see `ExecutionPlan.may_write_over`.
        """
        self._move(MemoryKind.OUTPUT, self.outputs, index, given)

    def _move(self, memory: MemoryKind, arrays: list[NDArray], index: int, given: NDArray) -> None:
        """Put another array in the place of an input or output; update what uses it."""
        if self._uncopied:
            self.wait()
        plan = self.network.plan
        arrays[index] = given
        for number, place in enumerate(plan.outputs):
            if MemoryKind.INPUT is memory is place.memory and place.at == index:
                self.outputs[number] = self._output(place)
        self._copies = [tuple(map(self._array, pair)) for pair in plan.copies]
        users = plan.uses.get((memory, index), ())
        self.program.rebind({number: self._moved(number, memory, index) for number in users})

    def _moved(self, number: int, memory: MemoryKind, index: int) -> ProgramStep:
        """Return a step of the program with an input or output where it is now."""
        step, places = self.program.steps[number], self.network.plan.steps[number].places
        arrays = tuple(
            self._array(place) if (place.memory, place.at) == (memory, index) else one
            for place, one in zip(places, step.arrays, strict=True)
        )
        return ProgramStep(step.executable, arrays, step.workspaces)

    def set_input(self, index: int, values: object) -> None:
        """Copy values to an input; those of another dtype are converted, which is logged once.

        An array that was bound to the input keeps its values, and is no longer read.

        Raises:
            GraphError: there is no such input, or its dtype cannot hold the values.
            KernelError: the shape differs.
        """
        Check(GraphError, "set_input").whole("index", index, least=0, most=len(self.inputs) - 1)
        name = self.network.plan.input_names[index]
        said, own = index in self._converted, self._own_inputs[index]
        if self._uncopied or self._elsewhere:
            self.wait()
        if set_input(name, own, values, said):
            self._converted.add(index)
        if self.inputs[index] is not own:
            self.read(index, own)

    def run(self, stream: object = None) -> None:
        """Run once on what is in the inputs, and wait for the outputs."""
        self.start(stream)
        self.wait()

    def start(self, stream: object = None) -> None:
        """Begin to run; on a GPU this returns at once. `wait` before outputs are read.

        Args:
            stream: on which to queue it, of torch, CuPy or PyCUDA, or its handle; by default the
                instance's own. What is queued there before has ended when the network begins.
        """
        self.program.start(stream)
        self._uncopied, self._elsewhere = bool(self._copies), stream is not None
        if self.device.kind == "cpu":  # it has ended
            self._copy()

    def add_to_capture(self, stream: int) -> None:
        """Add a run to the CUDA graph into which a stream is captured: its handle.

        Graphs may be replayed at any time, so the instance needs memory that nothing else uses.

        Raises:
            DeviceError: the stream is not captured.
        """
        self.program.add_to_capture(stream)

    def wait(self) -> None:
        """Wait for the outputs of what was begun."""
        self.program.wait()
        self._elsewhere = False
        self._copy()

    def _copy(self) -> None:
        """Copy the outputs that no kernel writes, once a run."""
        if not self._uncopied:
            return
        self._uncopied = False
        for source, target in self._copies:
            target.copyfrom(source)

    def step_seconds(self) -> list[float]:
        """Run once, kernel by kernel; return the seconds of each step of the plan."""
        return self.program.step_seconds()

    def __call__(self, *arrays: object) -> list[NDArray]:
        """Copy the inputs, run, and return the outputs, which the next run overwrites.

        Raises:
            GraphError: another number of inputs is needed.
        """
        if len(arrays) != len(self.inputs):
            names = ", ".join(self.network.plan.input_names)
            raise GraphError(f"network: expected an array for each of {names}, got {len(arrays)}")
        for index, given in enumerate(arrays):
            self.set_input(index, given)
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
        timing = take_timing(self.program.sampler(), options or TimeOptions())
        return BenchmarkResult(timing.samples_s, timing)

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        *numbers: Any,
        ctx: Device | None = None,
        **named: Any,
    ) -> Callable[[], BenchmarkResult]:
        """Return a function that times whole runs: `time`, as TVM's scripts ask for it.

        Args:
            func_name: ``"run"``.
            dev: the device of the network; ``ctx`` is the same by TVM's old name.
            numbers, named: as of `autotune.runtime.Module.time_evaluator`, from ``number`` on.

        Raises:
            GraphError: the function or the device is another.
            KernelError: a number is out of range.
        """
        check = Check(GraphError, "time_evaluator")
        if func_name != "run":
            check.refuse("func_name", "'run'", func_name)
        where = ctx if dev is None else dev
        if where is not None and where != self.device:
            check.refuse("dev", f"{self.device}, where the network runs", where)
        return partial(self.time, evaluator_options(*numbers, **named))


def _zeros(place: Placement, where: Device) -> NDArray:
    """Return an array of zeros, so that memory never shows data of another program."""
    made = empty(place.shape, place.dtype, where)
    made.fill_bytes(0)
    return made


def _weight(constant: Constant, where: Device) -> NDArray:
    """Return the numbers of a constant on a device; instances share them as long as one lives."""
    known = _weights.setdefault(constant, {})
    held = known.get(where)
    block = held() if held is not None else None
    if block is not None:
        return NDArray(where, constant.shape, constant.dtype, block)
    made = array(constant.array, where)
    known[where] = weakref.ref(made.block)
    return made


def _check_options(owner: str, options: object) -> None:
    if options is not None:
        Check(GraphError, f"network: {owner}").kind(
            "options", options, TimeOptions, "a TimeOptions or None"
        )
