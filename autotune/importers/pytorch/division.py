"""A program of torch divided into parts that are translated and calls that are left to torch.

A program is a sequence of levels. Those calls of a level that can be translated are a part, which
reads what torch computed at lower levels; behind it torch runs the level's other calls. So no part
can wait for itself, and there are as many parts as there are turns between torch and parts on the
longest way through the program. Random numbers and effects keep their order: no such call is at a
lower level than the one before it.

What costs nothing belongs to no side: views, what follows from the shapes, and what follows from
parameters alone; nor do complex tensors, which cannot leave a part. Each side that needs one has
its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

from autotune.errors import GraphError
from autotune.graph import Constant, Graph, Variable
from autotune.importers.pytorch.complex_numbers import entering, has_complex
from autotune.importers.pytorch.importer import IdleError, Output, Reader, TorchProgram
from autotune.importers.pytorch.nodes import has_turn
from autotune.importers.pytorch.survey import Survey
from autotune.importers.pytorch.tensors import is_empty
from autotune.importers.pytorch.translate import Translation, is_check
from autotune.importers.pytorch.writes import (
    View,
    Write,
    inputs_of,
    memory_of,
    views_of_inputs,
    writes_of,
    written_inputs,
)

# A part of fewer calls that compute costs more than it saves: its own call takes the host as long
# as several of torch's, and what lies between parts goes through memory.
LEAST_CALLS = 4
_SMALL = f"in a part of fewer than {LEAST_CALLS} calls"
# What an input of an exported program may be.
_KINDS = ("USER_INPUT", "PARAMETER", "BUFFER", "CONSTANT_TENSOR")


@dataclass(frozen=True, eq=False)
class Part:
    """Calls that are one network.

    Attributes:
        program: what is computed, of no tensors but those that it takes and parameters.
        calls: those that compute.
        inputs: nodes of the whole program whose tensors it takes.
        outputs: nodes whose tensors it returns.
    """

    program: TorchProgram
    calls: tuple[Any, ...]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


@dataclass(frozen=True)
class Division:
    """A program with parts.

    Attributes:
        program: the exported program.
        parts: of it.
        left: calls that torch runs, and why.
        tensors: parameters and buffers, by their names.
        writes: what the program writes, in the order of its first outputs.
        stored: numbers of those writes that a part does.
        views: by their places, of its other outputs those that are in memory that it writes, with
            the numbers of the inputs there.
    """

    program: Any
    parts: tuple[Part, ...]
    left: Mapping[Any, str]
    tensors: Mapping[str, Any]
    writes: tuple[Write, ...]
    stored: frozenset[int]
    views: Mapping[int, tuple[int, View]]


def read_or_divide(
    program: Any, device: object, constants: MutableMapping[int, Constant] | None = None
) -> TorchProgram | Division:
    """Translate an exported program; divide it where calls cannot be translated.

    Args:
        program: the exported program.
        device: where its tensors are; calls elsewhere are left to torch.
        constants: those of tensors that other programs read too, by the identities of these.

    Raises:
        GraphError: no part is worth a call; or it has inputs of a kind that is not supported.
    """
    survey = Survey()
    reader = Reader(program, survey, constants=constants)
    reader.translate()
    nodes = list(program.graph.nodes)
    elsewhere = [node for node in nodes if _is_elsewhere(node, survey, str(device))]
    output = next(node for node in nodes if node.op == "output")
    made = [each.meta.get("val") for each in output.all_input_nodes]
    torchs = any(is_empty(each) or has_complex(each) for each in made)
    if not survey.refused and not elsewhere and not torchs:
        return reader.finished()
    survey.refused.update((node, f"on another device than {device}") for node in elsewhere)
    signature = program.graph_signature
    other = [each.kind.name for each in signature.input_specs if each.kind.name not in _KINDS]
    if other:
        raise GraphError(f"it has inputs that are no tensors ({', '.join(sorted(set(other)))})")
    return _Divider(reader, survey, nodes).divided()


def _tensors_of(node: Any) -> list[Any]:
    made = node.meta.get("val")
    several = made if isinstance(made, (list, tuple)) else (made,)
    return [each for each in several if hasattr(each, "dtype")]


def _is_elsewhere(node: Any, survey: Survey, device: str) -> bool:
    if node.op != "call_function" or node in survey.known or node.target is getitem:
        return False
    around = [node, *(each for each in node.all_input_nodes if each not in survey.known)]
    return any(str(made.device) != device for each in around for made in _tensors_of(each))


class _Divider:
    """The dividing of one program.

    Attributes:
        left: calls that torch runs, and why.
        params: nodes of parameters, and calls that follow from them alone.
        free: calls that belong to no side.
        level: for each node, from which on parts have it, and from which on torch has it.
        members: the calls of each level's part.
    """

    def __init__(self, reader: Reader, survey: Survey, nodes: Sequence[Any]) -> None:
        self.program = reader.program
        self.tensors = reader.tensors
        self.survey = survey
        self.nodes = nodes
        self.left = dict(survey.refused)
        self.params = {
            node for node, value in survey.values.items()
            if node.op == "placeholder" and isinstance(value, Constant)
        }  # fmt: skip
        self.free: set[Any] = set()
        self.level: dict[Any, tuple[int, int]] = {}
        self.members: dict[int, list[Any]] = {}
        self._turn = 0  # the level of the last call whose turn matters

    def divided(self) -> Division:
        """Return the division.

        Raises:
            GraphError: there is no part.
        """
        for node in nodes_that_count(self.nodes):
            self._place(node)
        drafts = []
        for _, members in sorted(self.members.items()):
            draft = _Draft(self, members)
            if draft.is_worth_a_call:
                drafts.append(draft)
            else:
                self.left.update(dict.fromkeys(draft.calls, _SMALL))
        wanted = self._wanted(drafts)
        escaped = self._escaped()
        writes = tuple(writes_of(self.program))
        stores = self._stores(drafts, writes)
        parts = tuple(each.finished(wanted, escaped, stores) for each in drafts)
        if not parts:
            if not any(made.numel() for each in self.left for made in _tensors_of(each)):
                raise IdleError("PyTorch: the program computes nothing")
            raise GraphError(f"no part of it is compiled: {reasons(self.left)}")
        stored = frozenset(i for i, each in enumerate(writes) if each.node in stores)
        return Division(
            self.program, parts, self.left, self.tensors, writes, stored, self._views(writes)
        )

    def _stores(self, drafts: Sequence[_Draft], writes: Sequence[Write]) -> dict[Any, Any]:
        """Return the new numbers that a part itself can write, and the inputs that they are of.

        It can where nobody else reads the old numbers; the new ones are read where they are.
        """
        names = inputs_of(self.program)
        nodes = {node.name: node for node in self.nodes}
        _, others = self.sources([each for each in self.nodes if self._is_torchs(each)], ())
        made = [each.node for each in writes]
        found = {}
        for each in writes:
            if each.input is None or made.count(each.node) > 1:
                continue
            old = nodes[names[each.input]]
            readers = [draft for draft in drafts if old in draft.reads]
            alone = len(readers) == 1 and each.node in readers[0].members and old not in others
            if alone and old.meta["val"].stride() == each.node.meta["val"].stride():
                found[each.node] = old
        return found

    def _views(self, writes: Sequence[Write]) -> dict[int, tuple[int, View]]:
        """Return the outputs that are in memory that is written; of others torch makes views."""
        views = views_of_inputs(self.program)
        results = self.program.graph.output_node().args[0][len(writes) :]
        return {
            place: (number, views[node])
            for place, node in enumerate(results)
            for number in written_inputs(writes)
            if node in views and views[node].source == number
        }

    def _place(self, node: Any) -> None:
        """Find the level of a node, and its side."""
        before = [self.level[each] for each in node.all_input_nodes]
        ours = max((each for each, _ in before), default=0)
        torchs = max((each for _, each in before), default=0)
        self.level[node] = ours, torchs
        if node.op != "call_function":
            return
        whole = node.args[0] if node.target is getitem else None
        if node in self.left:
            if has_turn(node):
                self._turn = torchs = max(torchs, self._turn)
            self.level[node] = torchs + 1, torchs
        elif whole in self.free or (whole is None and self._is_free(node)):
            self.free.add(node)
        elif whole is None or whole in self.members.get(ours, ()):
            self.members.setdefault(ours, []).append(node)
            self.level[node] = ours, ours

    def _is_free(self, node: Any) -> bool:
        inputs, known = node.all_input_nodes, self.survey.known
        if node not in known and all(each in self.params or each in known for each in inputs):
            self.params.add(node)
        made = node.meta.get("val")
        return node in known or node in self.params or _is_view(node) or has_complex(made)

    def sources(self, nodes: Iterable[Any], ends: Container[Any]) -> tuple[set[Any], set[Any]]:
        """Return the free calls that nodes need, and the others that all of these read.

        Args:
            nodes: whose inputs are asked for.
            ends: nodes that are there.
        """
        free: set[Any] = set()
        others: set[Any] = set()
        ahead = [each for node in nodes for each in node.all_input_nodes]
        while ahead:
            node = ahead.pop()
            if node in ends or node in free:
                continue
            if node in self.free:
                free.add(node)
                ahead += node.all_input_nodes
            else:
                others.add(node)
        return free, others

    def _wanted(self, drafts: Sequence[_Draft]) -> set[Any]:
        """Return the nodes that torch or another part reads."""
        _, read = self.sources([each for each in self.nodes if self._is_torchs(each)], ())
        return read.union(*(each.reads for each in drafts))

    def _is_torchs(self, node: Any) -> bool:
        return node.op == "output" or node in self.left

    def _escaped(self) -> set[int]:
        """Return the memory of what the program returns."""
        results = self.program.graph.output_node().args[0][len(writes_of(self.program)) :]
        return {where for each in results if hasattr(each, "meta") for where in _memory(each)}


class _Draft:
    """A part before it is known what others read of it."""

    def __init__(self, divider: _Divider, members: Sequence[Any]) -> None:
        survey = divider.survey
        self.members = members
        self.calls = tuple(each for each in members if each.target is not getitem)
        inside = {*members}
        free, others = divider.sources(members, _Either(inside, survey.known))
        place = {node: i for i, node in enumerate(divider.nodes)}
        params = [each for each in others if each in divider.params]
        self.reads = sorted(others.difference(params), key=place.__getitem__)
        entered = {each: entering(each.meta["val"], each.name) for each in self.reads}
        self._variables = {each: variable for each, (variable, _) in entered.items()}
        self._translation = Translation(
            known=survey.known,
            values={each: value for each, (_, value) in entered.items()}
            | {each: survey.values[each] for each in params},
        )
        self._translation.run(sorted(inside | free, key=place.__getitem__))
        # What is known may follow from any of the tensors whose numbers are known.
        of_node = {
            spec.arg.name: spec.target
            for spec in divider.program.graph_signature.input_specs if spec.target is not None
        }  # fmt: skip
        known = [each for each in survey.known if each.op == "placeholder"]
        self._tensors = {
            of_node[each.name]: divider.tensors[of_node[each.name]]
            for each in (*params, *known) if each.name in of_node
        }  # fmt: skip

    @property
    def is_worth_a_call(self) -> bool:
        """Whether it has calls enough, of which one at least computes."""
        several = (self._translation.values[each] for each in self.calls)
        made = [each for some in several for each in (some if isinstance(some, list) else [some])]
        idle = all(each is None or isinstance(each, Constant | Variable) for each in made)
        return len(self.calls) >= LEAST_CALLS and not idle

    def finished(
        self, wanted: Container[Any], escaped: Container[int], stores: Mapping[Any, Any]
    ) -> Part:
        """Return the part.

        Args:
            wanted: nodes that others read.
            escaped: memory of what the whole program returns.
            stores: new numbers that a part writes to inputs, and these.
        """
        outputs = [each for each in self.members if each in wanted]
        written = [each for each in outputs if each in stores]
        writes = [
            Write(stores[each].name, self.reads.index(stores[each]), each) for each in written
        ]
        values = [self._translation.value(each) for each in (*written, *outputs)]
        results = []
        for number, node in enumerate(outputs, len(writes)):
            made = node.meta["val"]
            if node in stores:
                place = self.reads.index(stores[node])
                own = tuple(map(int, made.stride()))
                view = View(place, tuple(map(int, made.shape)), own, 0, own)
                results.append(Output(number, alias=view))
                continue
            # What is contiguous comes so of a kernel, but an input may lie otherwise.
            is_plain = made.is_contiguous() and not isinstance(values[number], Variable)
            stride = None if is_plain else tuple(map(int, made.stride()))
            lent = not any(each in escaped for each in _memory(node))
            results.append(Output(number, lent=lent, stride=stride))
        variables = tuple(self._variables.values())
        graph = Graph(variables, tuple(values))
        program = TorchProgram(
            graph, variables, self._tensors, tuple(results), tuple(writes),
            bounds=tuple(self._translation.bounds),
        )  # fmt: skip
        return Part(program, self.calls, tuple(self.reads), tuple(outputs))


@dataclass(frozen=True)
class _Either:
    """What is in one of two containers."""

    first: Container[Any]
    second: Container[Any]

    def __contains__(self, each: object) -> bool:
        return each in self.first or each in self.second


def nodes_that_count(nodes: Iterable[Any]) -> list[Any]:
    """Return nodes without checks, whose results nobody reads."""
    return [each for each in nodes if each.op != "call_function" or not is_check(each)]


def _memory(node: Any) -> set[int]:
    """Return what tells the memory of a node's tensors from others."""
    return {memory_of(made) for made in _tensors_of(node)}


def _is_view(node: Any) -> bool:
    """Return whether all results of a call lie in the memory of its inputs."""
    before = {where for each in node.all_input_nodes for where in _memory(each)}
    made = _memory(node)
    return bool(made) and made <= before


def reasons(left: Mapping[Any, str]) -> str:
    """Return what torch runs, and why, as one text."""
    counts = Counter((str(node.target), reason) for node, reason in left.items())
    by_reason: dict[str, list[str]] = {}
    for (name, reason), count in sorted(counts.items()):
        by_reason.setdefault(reason, []).append(f"{name} ({count})")
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())
