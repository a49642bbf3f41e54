"""TVM's FuseOps: which operators become one kernel.

The rules are those of ``src/relay/transforms/fuse_ops.cc`` of TVM 0.18: three phases over all
nodes, each of which may join a node with all nodes between it and its dominator. There is one
more: a function of the results of a reduction that is left alone, such as the root of a sum, is
joined with it. And one is less: functions end where their expressions would be too deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain

from autotune.graph.fuse.flow import Vertex, vertices_of
from autotune.graph.graph import Graph
from autotune.graph.operator import Pattern
from autotune.graph.value import Node

# Given a group's pattern and whether it is the last one: may all be one function?
Allowed = Callable[[Pattern, bool], bool]
# ``relay.FuseOps.max_depth``.
MAX_DEPTH = 256
# Most vertices of a group of which each reads the one before. Together they are one expression,
# which lowering goes through by recursion: Python's stack holds those of some 150.
_MOST_IN_A_ROW = 64


@dataclass(eq=False)
class _Group:
    """A set of vertices that become one function; `parent` leads to the one it was joined with."""

    root: Vertex
    pattern: Pattern
    parent: _Group | None = None
    anchor: Vertex | None = None
    members: list[Vertex] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of vertices."""
        return len(self.members)

    def find(self) -> _Group:
        group = self
        while group.parent is not None:
            group = group.parent
        at = self
        while at.parent is not None:
            at.parent, at = group, at.parent
        return group


def fused_groups(graph: Graph, opt_level: int = 3, max_depth: int = MAX_DEPTH) -> list[list[Node]]:
    """Return the nodes of each function, in the order in which the functions can run.

    Args:
        graph: after all passes.
        opt_level: with 0 nothing is fused.
        max_depth: most vertices of a group.
    """
    vertices = vertices_of(graph)
    partition = _Partition(vertices, max_depth)
    if opt_level > 0:
        for phase in range(3):
            partition.run(phase)
        partition.join_functions_of_reductions()
    groups: dict[_Group, list[Node]] = {}
    for vertex in vertices:
        if vertex.node is not None:
            groups.setdefault(partition.group(vertex), []).append(vertex.node)
    # A function runs once its last node could: its root.
    place = {vertex.node: i for i, vertex in enumerate(vertices) if vertex.node is not None}
    return sorted(groups.values(), key=lambda nodes: place[nodes[-1]])


class _Partition:
    """Groups, and the rules by which they are joined."""

    def __init__(self, vertices: list[Vertex], max_depth: int) -> None:
        self.vertices = vertices
        self.max_depth = max_depth
        self.groups = [self._new(vertex) for vertex in vertices]

    @staticmethod
    def _new(vertex: Vertex) -> _Group:
        anchor = vertex if vertex.pattern == Pattern.OUT_ELEMWISE_FUSABLE else None
        return _Group(vertex, vertex.pattern, anchor=anchor, members=[vertex])

    def group(self, vertex: Vertex) -> _Group:
        """Return the group that a vertex is in now."""
        return self.groups[vertex.index].find()

    def run(self, phase: int) -> None:
        """Visit every vertex once."""
        for vertex in self.vertices:
            own, dominator = self.groups[vertex.index], vertex.dominator
            if own.pattern == Pattern.OPAQUE or dominator is None:
                continue
            if not self._is_near(vertex, dominator):
                continue
            if phase == 2:
                self._into_tuple(vertex, own, dominator)
            elif self.groups[dominator.index].pattern != Pattern.TUPLE:
                self._join(vertex, own, dominator, phase)

    def join_functions_of_reductions(self) -> None:
        """Join an operator on each result of a reduction that is in no other function."""
        for vertex in self.vertices:
            own, reader = self.group(vertex), vertex.dominator
            reduces = own.pattern == Pattern.COMM_REDUCE and own.root is vertex
            if not reduces or reader is None or reader.node is None or len(vertex.readers) > 1:
                continue
            alone = self.group(reader).size == 1 and len(reader.node.inputs) == 1
            if alone and reader.pattern == Pattern.ELEMWISE and not _converts(reader.node):
                self._commit(vertex, reader)

    def _into_tuple(self, vertex: Vertex, own: _Group, dominator: Vertex) -> None:
        """Fuse what makes the parts of a tuple that is itself fused into an injective root."""
        if own.pattern > Pattern.INJECTIVE or dominator.pattern != Pattern.TUPLE:
            return
        outer = self.group(dominator)
        if outer.pattern <= Pattern.INJECTIVE and self._path(vertex, dominator, _injective):
            self._commit(vertex, dominator)

    def _join(self, vertex: Vertex, own: _Group, dominator: Vertex, phase: int) -> None:
        """Fuse a vertex with its dominator if its pattern allows it in this phase."""
        if self.group(vertex) is self.group(dominator):
            return
        if own.pattern == Pattern.OUT_ELEMWISE_FUSABLE:
            if phase == 0 and vertex.path == Pattern.ELEMWISE:
                self._try(vertex, dominator, lambda kind, sink: kind <= Pattern.BROADCAST)
        elif own.pattern <= Pattern.BROADCAST:
            if vertex.path <= Pattern.INJECTIVE or vertex.path == Pattern.COMM_REDUCE:
                self._try(vertex, dominator, _into_reduction)
        elif own.pattern in (Pattern.INJECTIVE, Pattern.TUPLE) and phase == 1:
            self._try(vertex, dominator, _injective)

    def _try(self, source: Vertex, sink: Vertex, allowed: Allowed) -> None:
        if self._path(source, sink, allowed):
            self._commit(source, sink)

    def _path(self, source: Vertex, sink: Vertex, allowed: Allowed) -> bool:
        """Returns whether all groups on all ways to the sink are allowed, the sink's included."""
        seen: set[Vertex] = {source}
        stack = [reader for reader, _ in source.readers]
        while stack:
            vertex = stack.pop()
            if vertex in seen:
                continue
            seen.add(vertex)
            if not allowed(self.group(vertex).pattern, vertex is sink):
                return False
            if vertex is not sink:
                stack.extend(reader for reader, _ in vertex.readers)
        return True

    def _is_near(self, source: Vertex, sink: Vertex) -> bool:
        """Returns whether the group would be small enough."""
        found = {self.group(sink)}
        stack, seen = [source], {source}
        while stack:
            vertex = stack.pop()
            found.add(self.group(vertex))
            for reader, _ in vertex.readers:
                if reader not in seen and reader is not sink:
                    seen.add(reader)
                    stack.append(reader)
            if len(seen) > self.max_depth:  # each is in a group
                return False
        size = sum(group.size for group in found)
        return size <= self.max_depth and (size <= _MOST_IN_A_ROW or not _is_deep(found))

    def _commit(self, source: Vertex, sink: Vertex) -> None:
        """Join all groups on the way with the sink's."""
        target = self.group(sink)
        stack, seen = [source], {source}
        while stack:
            vertex = stack.pop()
            self._merge(self.group(vertex), target)
            for reader, _ in vertex.readers:
                if reader not in seen and reader is not sink:
                    seen.add(reader)
                    stack.append(reader)

    @staticmethod
    def _merge(child: _Group, parent: _Group) -> None:
        if child is parent:
            return
        parent.members += child.members
        child.parent = parent
        if child.anchor is not None:
            assert parent.anchor is None, "a function has one anchor"
            parent.anchor = child.anchor
            parent.pattern = max(child.pattern, parent.pattern)


def _is_deep(groups: Iterable[_Group]) -> bool:
    """Returns whether in some groups too many vertices are in a row."""
    rows: dict[Vertex, int] = {}
    members = chain.from_iterable(group.members for group in groups)
    for vertex in sorted(members, key=lambda each: -each.index):
        rows[vertex] = 1 + max((rows.get(reader, 0) for reader, _ in vertex.readers), default=0)
    return max(rows.values()) > _MOST_IN_A_ROW


def _converts(node: Node) -> bool:
    return node.output.dtype != node.inputs[0].dtype


def _injective(kind: Pattern, sink: bool) -> bool:
    return kind <= Pattern.INJECTIVE


def _into_reduction(kind: Pattern, sink: bool) -> bool:
    """Elementwise work fuses into anything but a tuple, with only injective nodes between."""
    return kind <= (Pattern.OUT_ELEMWISE_FUSABLE if sink else Pattern.INJECTIVE)
