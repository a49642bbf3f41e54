"""A model as frozen data: what is kept of its protobuf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.graph import Array


@dataclass(frozen=True)
class OnnxInput:
    """An input of a model.

    Attributes:
        name: its name.
        dtype: of its elements.
        shape: extents; a text names one that is known only at run time, empty where it has no
            name. None where not even their number is known.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True)
class AttributeReference:
    """An attribute that has the value of one of the function around."""

    name: str


@dataclass(frozen=True)
class OnnxNode:
    """One application of an operator; inputs that are left out have an empty name."""

    kind: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    proto: Any

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"{self.kind} {self.name!r}" if self.name else f"{self.kind} of {self.outputs[0]!r}"


@dataclass(frozen=True)
class OnnxGraph:
    """Nodes in order, with the values that are known from the beginning."""

    inputs: tuple[OnnxInput, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    initialisers: Mapping[str, Array]

    def needed(self, names: Sequence[str]) -> tuple[tuple[OnnxNode, ...], frozenset[str]]:
        """Return the nodes that compute some values, in order, and all names that these read."""
        read, found = set(names), []
        for node in reversed(self.nodes):
            if not read.isdisjoint(node.outputs):
                found.append(node)
                read.update(_read_by(node))
        return tuple(reversed(found)), frozenset(read)


def _read_by(node: OnnxNode) -> Iterator[str]:
    """Yield the names that a node reads, those of graphs inside too."""
    yield from filter(None, node.inputs)
    for each in node.attributes.values():
        if isinstance(each, OnnxGraph):
            yield from each.outputs
            for inner in each.nodes:
                yield from _read_by(inner)


@dataclass(frozen=True)
class OnnxFunction:
    """An operator that is defined by nodes.

    Attributes:
        opsets: versions of the operators of its nodes, by domain.
        defaults: attributes that have a value if none is given.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    opsets: Mapping[str, int]
    defaults: Mapping[str, Any]


@dataclass(frozen=True)
class OnnxModel:
    """A model.

    Attributes:
        name: what messages call it.
        opsets: versions of operators, by domain.
        functions: its own operators, by domain and name.
    """

    name: str
    graph: OnnxGraph
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], OnnxFunction]
