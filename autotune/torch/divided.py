"""A program of torch of which some parts are networks, and torch runs the rest."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter, getitem
from typing import Any

from autotune.importers import (
    Division,
    Part,
    has_turn,
    memory_of,
    nodes_that_count,
    reasons,
    written_inputs,
)
from autotune.network import SharedKernels
from autotune.runtime.device import Device
from autotune.torch.compiling import Compiling
from autotune.torch.tensor_network import TensorNetwork, seen, write_back
from autotune.utils.lazy_torch import flop_counter, torch


class DividedNetwork:
    """The networks of a program's parts, called between the calls that torch runs.

    What passes between them is not copied: parts read torch's tensors in place, and torch reads
    the memory of networks, except what the program returns. One thread at a time runs it.

    Args:
        division: the program and its parts.
        how: parts are compiled; the seconds of tuning are shared by their numbers of calls.
        where: the device.
        shared: kernels of the model's networks.
    """

    def __init__(
        self, division: Division, how: Compiling, where: Device, shared: SharedKernels
    ) -> None:
        count = sum(len(each.calls) for each in division.parts)
        self._networks: list[TensorNetwork] = []
        for part in division.parts:
            share = replace(how, tune=how.tune * len(part.calls) / count)
            compiled = partial(share.compile, where=where, shared=shared)
            self._networks.append(TensorNetwork(part.program, compiled, where))
        self._lock = threading.Lock()
        self._run = _joined(torch(), division, self._networks)
        self._tensors = _given(division)
        self._below_autocast = torch()._C._DisableAutocast
        self._written = written_inputs(division.writes)
        # What parts do not write themselves: the numbers of the results, and the inputs.
        self._late = [
            (i, each.input) for i, each in enumerate(division.writes)
            if each.input is not None and i not in division.stored
        ]  # fmt: skip
        self._views = division.views

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...] | None:
        """Run on the program's inputs; None if parameters were written, as a `TensorNetwork`."""
        # No call of torch is to run twice, so this is asked before the first one.
        if any(each.is_outdated for each in self._networks):
            return None
        left = iter(inputs)
        # Casts are calls of the program already.
        with self._lock, self._below_autocast():
            try:
                results: tuple[Any, ...] = self._run(
                    *(next(left) if each is _INPUT else each for each in self._tensors)
                )
            except _WrittenError:
                return None
            late = self._apart(inputs, [results[i] for i, _ in self._late])
            write_back(inputs, [place for _, place in self._late], late)
            found = list(results[len(self._written) :])
            for place, (number, view) in self._views.items():
                found[place] = seen(inputs[number], view)
            return tuple(found)

    def _apart(self, inputs: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Return new numbers of inputs, copied if they are those of another that is written."""
        memory = {memory_of(inputs[i]) for i in self._written}
        return [each.clone() if memory_of(each) in memory else each for each in numbers]


class _WrittenError(Exception):
    """Parameters were written since they became constants."""


_INPUT = object()


def _given(division: Division) -> list[Any]:
    """Return what a program takes: its parameters, and a mark for each input."""
    return [
        _INPUT if spec.kind.name == "USER_INPUT" else division.tensors[spec.target]
        for spec in division.program.graph_signature.input_specs
    ]


def _joined(pytorch: Any, division: Division, networks: Sequence[TensorNetwork]) -> Any:
    """Return a module of torch that runs a program, with networks in place of its parts."""

    class Network(pytorch.nn.Module):  # type: ignore[misc]
        """A part."""

        def __init__(self, network: TensorNetwork) -> None:
            super().__init__()
            self.network = network

        def forward(self, *inputs: Any) -> list[Any]:
            results = self.network(inputs)
            if results is None:
                raise _WrittenError
            return results

    made = pytorch.fx.Graph()
    held: dict[str, Any] = {}
    copies: dict[Any, Any] = {}
    modules = dict(zip(division.parts, map(Network, networks), strict=True))
    for unit in _in_order(division):
        if isinstance(unit, Part):
            name = f"part_{len(held)}"
            held[name] = modules[unit]
            call = made.call_module(name, tuple(copies[each] for each in unit.inputs))
            for place, node in enumerate(unit.outputs):
                copies[node] = made.call_function(getitem, (call, place))
            continue
        copies[unit] = made.node_copy(unit, copies.__getitem__)
        if unit.op == "get_attr":
            held[unit.target] = attrgetter(unit.target)(division.program.graph_module)
    return pytorch.fx.GraphModule(held, made)


def _in_order(division: Division) -> list[Any]:
    """Return parts, and the nodes that torch runs, each behind what it reads.

    Nodes keep their order as far as possible, and always where their turn matters.
    """
    nodes = nodes_that_count(division.program.graph.nodes)
    unit_of = {node: part for part in division.parts for node in part.outputs}
    place: dict[Any, int] = {node: i for i, node in enumerate(nodes)}
    place |= {part: min(place[each] for each in part.calls) for part in division.parts}
    ends = [
        node for node in nodes if node.op in ("placeholder", "output") or node in division.left
    ]
    sorter: TopologicalSorter[Any] = TopologicalSorter()
    turns = [node for node in nodes if node in division.left and has_turn(node)]
    for earlier, later in pairwise(turns):
        sorter.add(later, earlier)
    ahead, seen = [*ends], {*ends}
    while ahead:
        unit = ahead.pop()
        read = unit.inputs if isinstance(unit, Part) else unit.all_input_nodes
        before = {unit_of.get(each, each) for each in read}
        sorter.add(unit, *before)
        ahead += before - seen
        seen |= before
    sorter.prepare()
    found: list[Any] = []
    ready: list[tuple[int, Any]] = []
    while sorter.is_active():
        for unit in sorter.get_ready():
            heappush(ready, (place[unit], unit))
        _, unit = heappop(ready)
        found.append(unit)
        sorter.done(unit)
    return found


def told(division: Division) -> str:
    """Return what is compiled of a program, what torch runs, and why; "" if it runs nothing."""
    if not division.left:
        return ""
    calls = [each for part in division.parts for each in part.calls]
    total = len(calls) + len(division.left)
    ours, theirs = map(_flops, (calls, division.left))
    share = f" with {ours / (ours + theirs):.1%} of its FLOPs" if ours + theirs else ""
    parts = "1 part" if len(division.parts) == 1 else f"{len(division.parts)} parts"
    return (
        f"{parts} of a graph, {len(calls)} of {total} operators{share}, are compiled; torch runs "
        f"the others: {reasons(division.left)}"
    )


def _flops(calls: Iterable[Any]) -> int:
    """Return the operations of products, convolutions and attention, as torch counts them."""
    pytorch = torch()
    counter = flop_counter()
    has_kernel = pytorch._C._dispatch_has_kernel_for_dispatch_key
    with counter.FlopCounterMode(display=False) as found:
        for node in calls:
            packet = getattr(node.target, "overloadpacket", None)
            # Products are in some that torch takes apart.
            if packet in counter.flop_registry or (
                packet is not None and has_kernel(node.target.name(), "CompositeImplicitAutograd")
            ):
                args, kwargs = pytorch.fx.node.map_arg(
                    (node.args, node.kwargs), lambda each: each.meta["val"]
                )
                node.target(*args, **kwargs)
    return int(found.get_total_flops())
