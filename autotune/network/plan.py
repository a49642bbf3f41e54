"""From a graph to what runs: functions, the kernels they need, and where values lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from autotune.graph import Constant, Graph, TensorType, Value
from autotune.graph.fuse import Function, partition
from autotune.network.memory import MemoryPlan, origin, plan_memory


class Home(Enum):
    """What kind of memory a value lies in."""

    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"
    ARENA = "arena"


@dataclass(frozen=True)
class Place:
    """Where a value lies, and as what it is seen.

    Attributes:
        home: the kind of memory.
        at: number of the input, output or constant; in the arena the offset in bytes.
        shape, dtype: of the value.
    """

    home: Home
    at: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return TensorType(self.shape, self.dtype).bytes

    def same_memory(self, other: Place) -> bool:
        """Returns whether two places are one piece of memory."""
        return (self.home, self.at) == (other.home, other.at)


@dataclass(frozen=True)
class Step:
    """One kernel of the plan and the places that it runs on, inputs first.

    Attributes:
        kernel: its number.
        places: of all arguments.
        function: what it computes; None where the plan comes from a file.
    """

    kernel: int
    places: tuple[Place, ...]
    function: Function | None = None


@dataclass(frozen=True)
class ExecutionPlan:
    """What a network needs to run, apart from the kernels themselves.

    Attributes:
        kernels: one function of each structure that is met; none where the plan comes from a file.
        steps: calls of these, in order.
        inputs, outputs: places of the network's inputs and outputs.
        input_names: names of the inputs.
        copies: (from, to) of outputs that no kernel writes, such as an input that is returned.
        constants: what weights are read.
        memory: the block between functions.
    """

    kernels: tuple[Function, ...]
    steps: tuple[Step, ...]
    inputs: tuple[Place, ...]
    input_names: tuple[str, ...]
    outputs: tuple[Place, ...]
    copies: tuple[tuple[Place, Place], ...]
    constants: tuple[Constant, ...]
    memory: MemoryPlan


def plan_network(graph: Graph, opt_level: int = 3) -> ExecutionPlan:
    """Fuse a graph that has been through its passes, and lay it out in memory."""
    functions = partition(graph, opt_level)
    constants = _constants(graph, functions)
    aliases = {f.outputs[0]: f.inputs[0] for f in functions if f.is_free}
    homes: dict[Value, tuple[Home, int]] = {v: (Home.INPUT, i) for i, v in enumerate(graph.inputs)}
    homes |= {v: (Home.CONSTANT, i) for i, v in enumerate(constants)}
    outputs, copies = [], []
    for i, value in enumerate(graph.outputs):
        root = origin(value, aliases)
        place = Place(Home.OUTPUT, i, value.shape, value.dtype)
        outputs.append(place)
        if root in homes:
            copies.append((Place(*homes[root], value.shape, value.dtype), place))
        else:
            homes[root] = (Home.OUTPUT, i)
    memory = plan_memory(functions, tuple(homes))
    homes |= {value: (Home.ARENA, offset) for value, offset in memory.offsets.items()}
    kernels, steps = _steps(functions, homes, aliases)
    names = tuple(each.name for each in graph.inputs)
    inputs = tuple(Place(Home.INPUT, i, v.shape, v.dtype) for i, v in enumerate(graph.inputs))
    return ExecutionPlan(
        kernels, steps, inputs, names, tuple(outputs), tuple(copies), constants, memory
    )


def _constants(graph: Graph, functions: Sequence[Function]) -> tuple[Constant, ...]:
    """Return the constants that kernels read, and those that are returned as they are."""
    read = [value for function in functions for value in function.inputs]
    return tuple(dict.fromkeys(v for v in (*read, *graph.outputs) if isinstance(v, Constant)))


def _steps(
    functions: Sequence[Function],
    homes: Mapping[Value, tuple[Home, int]],
    aliases: Mapping[Value, Value],
) -> tuple[tuple[Function, ...], tuple[Step, ...]]:
    numbers: dict[str, int] = {}
    kernels: list[Function] = []
    steps = []
    for function in functions:
        if function.is_free:
            continue
        number = numbers.setdefault(function.signature, len(kernels))
        if number == len(kernels):
            kernels.append(function)
        places = tuple(
            Place(*homes[origin(value, aliases)], value.shape, value.dtype)
            for value in (*function.inputs, *function.outputs)
        )
        steps.append(Step(number, places, function))
    return tuple(kernels), tuple(steps)
