"""From a graph to what runs: functions, the kernels they need, and the memory of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from autotune.errors import GraphError
from autotune.graph import Constant, Graph, TensorType, Value
from autotune.graph.fuse import FusedFunction, joint_functions, partition
from autotune.kernel import Kernel
from autotune.network.choice import Chooser, by_rule
from autotune.network.memory import (
    Aliases,
    MemoryPlan,
    is_done,
    memory_root,
    plan_memory,
    root_and_offset,
)
from autotune.network.units import Unit, units_of
from autotune.network.write_over import WritesOver, write_over
from autotune.target import Target

# Where functions run side by side: of so many in a row none takes memory that another reads.
_BESIDE = 16


class MemoryKind(Enum):
    """The kind of memory that a value is in."""

    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"
    ARENA = "arena"


@dataclass(frozen=True)
class Placement:
    """The memory of a value, and its shape and type there.

    Attributes:
        memory: the kind of memory.
        at: number of the input, output or constant; in the arena the offset in bytes.
        shape, dtype: of the value.
    """

    memory: MemoryKind
    at: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return TensorType(self.shape, self.dtype).bytes


@dataclass(frozen=True)
class PlanStep:
    """One kernel of the plan and the places that it runs on, in the order of its arguments.

    Attributes:
        kernel: its number.
        places: of all arguments.
        unit: what it computes; None where the plan comes from a file.
    """

    kernel: int
    places: tuple[Placement, ...]
    unit: Unit | None = None

    @property
    def function(self) -> FusedFunction | None:
        """The operators that it computes; None where the plan comes from a file."""
        return self.unit.function if self.unit is not None else None


@dataclass(frozen=True)
class ExecutionPlan:
    """All that a network needs to run, apart from the kernels themselves.

    Attributes:
        kernels: one unit for each kernel that is needed; none where the plan comes from a file.
        steps: calls of these, in order.
        inputs, outputs: places of the network's inputs and outputs; an output may be in the memory
            of an input.
        input_names: names of the inputs.
        copies: (from, to) of outputs that no kernel writes, such as an input that is returned.
        constants: what weights are read.
        memory: the block between functions.
    """

    kernels: tuple[Unit, ...]
    steps: tuple[PlanStep, ...]
    inputs: tuple[Placement, ...]
    input_names: tuple[str, ...]
    outputs: tuple[Placement, ...]
    copies: tuple[tuple[Placement, Placement], ...]
    constants: tuple[Constant, ...]
    memory: MemoryPlan

    @cached_property
    def uses(self) -> Mapping[tuple[MemoryKind, int], tuple[int, ...]]:
        """The steps that read or write an input, an output or a constant, by its kind and number.

        What is in the arena is listed by its offset.
        """
        found: dict[tuple[MemoryKind, int], dict[int, None]] = {}
        for number, step in enumerate(self.steps):
            for place in step.places:
                found.setdefault((place.memory, place.at), {})[number] = None
        return {key: tuple(numbers) for key, numbers in found.items()}

    def may_write_over(self, given: int, output: int, same: bool = True) -> bool:
        """Returns whether an output may be in the memory of an input that no other input shares.

        Steps run one after another; none reads the input once the output is written.

        Args:
            given, output: their numbers.
            same: whether both begin at the same place.
        """
        place = self.outputs[output]
        ends = (MemoryKind.INPUT, given), (place.memory, place.at)
        if ends[0] == ends[1]:
            return True
        if any((place.memory, place.at) in ends for pair in self.copies for place in pair):
            return False
        reads, writes = (self.uses.get(end, ()) for end in ends)
        last, first = max(reads, default=-1), min(writes, default=-1)
        if last != first or not same:
            return last < first
        unit, places = self.steps[first].unit, self.steps[first].places
        found = [i for i, place in enumerate(places) if (place.memory, place.at) == ends[0]]
        return unit is not None and len(found) == 1 and unit.writes_over(unit.arguments[found[0]])


def plan_network(
    graph: Graph,
    opt_level: int = 3,
    target: Target | str = "c",
    choose: Chooser = by_rule,
    branches: bool = False,
    over: Mapping[int, int] | None = None,
) -> ExecutionPlan:
    """Fuse a graph that has been through its passes, and lay it out in memory.

    Args:
        graph: the network.
        opt_level: 0 leaves each operator by itself.
        target: what for.
        choose: says how each function is computed.
        branches: whether functions are to run side by side.
        over: outputs that may be in the memory of an input, with its number. Where that saves a
            kernel from going through all of it, they are; not where functions run side by side.
    """
    functions = partition(graph, opt_level)
    written = write_over(graph, functions, {} if branches else over or {})
    joint = joint_functions(graph, written.functions) if opt_level > 0 else []
    units = units_of(written.functions, Target(target), choose, joint=joint)
    return plan_units(graph, units, branches, written)


def plan_units(
    graph: Graph,
    units: Sequence[Unit],
    branches: bool = False,
    written: WritesOver | None = None,
) -> ExecutionPlan:
    """Lay out in memory what computes a graph, in the order of running."""
    placed = written.placed if written is not None else {}
    over = written.outputs if written is not None else {}
    constants = _constants(graph, units)
    functions = [unit.function for unit in units]
    outside: dict[Value, tuple[MemoryKind, int]] = {
        v: (MemoryKind.INPUT, i) for i, v in enumerate(graph.inputs)
    }
    outside |= {v: (MemoryKind.CONSTANT, i) for i, v in enumerate(constants)}
    outside |= {v: (MemoryKind.INPUT, i) for v, i in placed.items()}
    free = {f.outputs[0]: (f.inputs[0], 0) for f in functions if f.is_free}
    outputs, copies = [], []
    for i, value in enumerate(graph.outputs):
        end = (MemoryKind.INPUT, over[i]) if i in over else (MemoryKind.OUTPUT, i)
        outputs.append(_placed(value, end))
        computed_at = end if i in over else outside.setdefault(memory_root(value, free), end)
        if computed_at != end:
            copies.append((_placed(value, computed_at), outputs[-1]))
    memory = plan_memory(
        functions,
        tuple(outside),
        [unit.in_place for unit in units],
        _BESIDE if branches else 0,
    )
    memories = outside | {
        value: (MemoryKind.ARENA, offset) for value, offset in memory.offsets.items()
    }
    kernels, steps = _steps(units, memories, memory.aliases)
    names = tuple(each.name for each in graph.inputs)
    inputs = tuple(_placed(v, (MemoryKind.INPUT, i)) for i, v in enumerate(graph.inputs))
    return ExecutionPlan(
        kernels, steps, inputs, names, tuple(outputs), tuple(copies), constants, memory
    )


def fit_plan(plan: ExecutionPlan, kernels: Sequence[Kernel]) -> ExecutionPlan:
    """Return a plan whose places have the shapes in which its kernels see them.

    Raises:
        GraphError: a kernel takes other arguments than the values it is to run on.
    """
    steps = []
    for step in plan.steps:
        kernel = kernels[step.kernel]
        places = tuple(
            replace(place, shape=argument.shape)
            for place, argument in zip(step.places, kernel.args, strict=False)
            if (place.bytes, place.dtype) == (argument.bytes, argument.dtype)
        )
        if len(places) != len(step.places) or len(places) != len(kernel.args):
            taken = ", ".join(f"{a.name} {a.shape} {a.dtype}" for a in kernel.args)
            given = ", ".join(f"{p.shape} {p.dtype}" for p in step.places)
            raise GraphError(f"{kernel.name}: its kernel takes {taken}, but is given {given}")
        steps.append(replace(step, places=places))
    return replace(plan, steps=tuple(steps))


def _constants(graph: Graph, units: Sequence[Unit]) -> tuple[Constant, ...]:
    """Return the constants that kernels read, and those that are outputs of the network."""
    read = [value for unit in units for value in unit.arguments]
    return tuple(dict.fromkeys(v for v in (*read, *graph.outputs) if isinstance(v, Constant)))


def _place(
    value: Value, memories: Mapping[Value, tuple[MemoryKind, int]], aliases: Aliases
) -> Placement:
    root, offset = root_and_offset(value, aliases)
    memory, at = memories[root]
    return _placed(value, (memory, at + offset))


def _placed(value: Value, end: tuple[MemoryKind, int]) -> Placement:
    return Placement(*end, value.shape, value.dtype)


def _steps(
    units: Sequence[Unit],
    memories: Mapping[Value, tuple[MemoryKind, int]],
    aliases: Aliases,
) -> tuple[tuple[Unit, ...], tuple[PlanStep, ...]]:
    numbers: dict[str, int] = {}
    kernels: list[Unit] = []
    steps = []
    for unit in units:
        if is_done(unit.function, aliases):
            continue
        number = numbers.setdefault(unit.key, len(kernels))
        if number == len(kernels):
            kernels.append(unit)
        places = tuple(_place(value, memories, aliases) for value in unit.arguments)
        steps.append(PlanStep(number, places, unit))
    return tuple(kernels), tuple(steps)
