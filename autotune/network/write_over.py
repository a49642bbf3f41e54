"""Writes into the memory of an input that the network writes anyway, such as a row of a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from autotune.graph import Graph, Node, Value, Variable, ops
from autotune.graph.fuse import FusedFunction
from autotune.network.memory import memory_root

# Values that have the numbers of another one in another shape, and that one.
Free = Mapping[Value, tuple[Value, int]]
Turns = Mapping[FusedFunction, Sequence[FusedFunction]]


@dataclass(frozen=True)
class WritesOver:
    """Functions of a network, and what of them lies in the memory of inputs.

    Attributes:
        functions: in the order in which they run; some store their updates only.
        placed: results that are in the memory of an input, with its number.
        outputs: outputs of the network that are, with the number of the input.
    """

    functions: list[FusedFunction]
    placed: Mapping[Value, int]
    outputs: Mapping[int, int]


def write_over(
    graph: Graph, functions: Sequence[FusedFunction], over: Mapping[int, int]
) -> WritesOver:
    """Let writes to inputs store nothing but their updates, where nobody needs the input any more.

    All functions that read the numbers before a write run before it, and none of these numbers is
    a result.

    Args:
        graph: the network.
        functions: its functions, in the order in which they run.
        over: outputs that may be in the memory of an input which nothing else is in, with the
            number of the input.
    """
    free = {f.outputs[0]: (f.inputs[0], 0) for f in functions if f.is_free}
    results = [memory_root(each, free) for each in graph.outputs]
    order = list(functions)
    turns: Turns = {}
    storing: set[FusedFunction] = set()
    placed: dict[Value, int] = {}
    outputs: dict[int, int] = {}
    for output, given in over.items():
        chain = _chain(graph.inputs[given], functions, free)
        versions = [each.outputs[0] for each in chain]
        earlier = {graph.inputs[given], *versions[:-1]}
        if not chain or results[output] is not versions[-1] or not earlier.isdisjoint(results):
            continue
        more = {**turns, **_turns(chain, graph.inputs[given], functions, free)}
        changed = _ordered(order, more)
        if results.count(versions[-1]) > 1 or changed is None:
            continue
        order, turns = changed, more
        storing |= set(chain)
        placed |= dict.fromkeys(versions, given)
        outputs[output] = given
    made = [_storing(each) if each in storing else each for each in order]
    return WritesOver(made, placed, outputs)


def _chain(value: Value, functions: Sequence[FusedFunction], free: Free) -> list[FusedFunction]:
    """Return the functions that write to a value, and each to what the one before made."""
    found: list[FusedFunction] = []
    while True:
        writing = [each for each in functions if _writes(each, value, free)]
        if len(writing) != 1:
            return found
        found += writing
        value = writing[0].outputs[0]


def _turns(
    chain: Sequence[FusedFunction], value: Value, functions: Sequence[FusedFunction], free: Free
) -> Turns:
    """Return which functions are before each of a chain: all that read what it writes over."""
    turns: dict[FusedFunction, list[FusedFunction]] = {}
    for writer in chain:
        turns[writer] = [
            each for each in functions
            if each is not writer and any(memory_root(v, free) is value for v in each.inputs)
        ]  # fmt: skip
        value = writer.outputs[0]
    return turns


def _ordered(functions: Sequence[FusedFunction], turns: Turns) -> list[FusedFunction] | None:
    """Return functions with some before others, each as early as it was; None if there is no way.

    ``turns`` lists what is before a function.
    """
    place = {each: i for i, each in enumerate(functions)}
    if all(place[a] < place[each] for each, before in turns.items() for a in before):
        return list(functions)
    made = {value: each for each in functions for value in each.outputs}
    sorter: TopologicalSorter[FusedFunction] = TopologicalSorter()
    for each in functions:
        read = [made[value] for value in each.inputs if value in made]
        sorter.add(each, *read, *turns.get(each, ()))
    try:
        sorter.prepare()
    except CycleError:
        return None
    found: list[FusedFunction] = []
    ready: list[int] = []
    while sorter.is_active():
        for each in sorter.get_ready():
            heappush(ready, place[each])
        each = functions[heappop(ready)]
        found.append(each)
        sorter.done(each)
    return found


def _writes(function: FusedFunction, value: Value, free: Free) -> bool:
    """Return whether a function ends with a write to a value that it reads nowhere else."""
    node = _last(function)
    if node is None:
        return False
    data = node.inputs[0]
    inside = [own for own, each in zip(function.graph.inputs, function.inputs, strict=True)
              if memory_root(each, free) is value]  # fmt: skip
    reads = [each for reader in function.graph.nodes for each in reader.inputs]
    return inside == [data] and reads.count(data) == 1


def _last(function: FusedFunction) -> Node | None:
    """Return the write with which a function ends; None if it does not."""
    (*_, last) = function.graph.nodes
    whole = len(function.outputs) == 1 and function.graph.outputs == last.outputs
    return last if whole and isinstance(last.op, ops.Writing) else None


def _storing(function: FusedFunction) -> FusedFunction:
    """Return a function that ends with a write as one that stores the updates only."""
    node = _last(function)
    assert node is not None
    assert isinstance(node.op, ops.Writing)
    data, *rest = node.inputs
    op = node.op.stored(data.shape)
    kept = [each for each in function.graph.inputs if each is not data]
    named: dict[Variable, Value] = {own: Variable(own.type, f"p{i}") for i, own in enumerate(kept)}
    whole = Graph(tuple(kept), Node(op, tuple(rest), node.origin).outputs)
    inputs = tuple(
        each for own, each in zip(function.graph.inputs, function.inputs, strict=True)
        if own is not data
    )  # fmt: skip
    return replace(function, graph=whole.substitute(named), inputs=inputs)
