"""The dataflow graph that fusion works on, with its dominator tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Pattern
from autotune.graph.value import Constant, Node, Value


@dataclass(eq=False)
class Vertex:
    """A node, a tuple that a node reads, an output of several, or what comes from outside.

    Attributes:
        pattern: of the operator.
        node: the node that it is, or None.
        index: its place in post-order.
        readers: vertices that read it, with the pattern of the edge.
        escapes: whether it is an output of the graph.
        dominator: the first vertex that every path from it to an output passes.
        path: the greatest pattern of the edges on the way there.
        depth: in the tree of dominators.
        jump: a dominator further on, such that some way to any of them has few jumps; None where
            there is no dominator.
        jump_path: the greatest pattern of the edges on the way to that.
    """

    pattern: Pattern
    node: Node | None = None
    index: int = 0
    readers: list[tuple[Vertex, Pattern]] = field(default_factory=list)
    escapes: bool = False
    dominator: Vertex | None = None
    path: Pattern = Pattern.OPAQUE
    depth: int = 1
    jump: Vertex | None = None
    jump_path: Pattern = Pattern.OPAQUE


def vertices_of(graph: Graph) -> list[Vertex]:
    """Return the vertices in post-order, with their dominators."""
    made = _Flow(graph)
    _dominate(made.vertices)
    return made.vertices


class _Flow:
    """Builds vertices and edges."""

    def __init__(self, graph: Graph) -> None:
        self.vertices: list[Vertex] = []
        self.known: dict[Value, Vertex] = {}
        for node in graph.nodes:
            self._add_node(node)
        for value in graph.outputs:
            self._of(value).escapes = True

    def _add(self, vertex: Vertex) -> Vertex:
        vertex.index = len(self.vertices)
        self.vertices.append(vertex)
        return vertex

    def _of(self, value: Value) -> Vertex:
        if value not in self.known:
            scalar = isinstance(value, Constant) and value.is_scalar
            kind = Pattern.ELEMWISE if scalar else Pattern.OPAQUE
            self.known[value] = self._add(Vertex(kind))
        return self.known[value]

    def _add_node(self, node: Node) -> None:
        sources = [self._of(value) for value in node.inputs]
        joins = isinstance(node.op, ops.Concatenate | ops.Stack)
        if joins:
            tuple_vertex = self._add(Vertex(Pattern.TUPLE))
            for source in sources:
                source.readers.append((tuple_vertex, Pattern.INJECTIVE))
        vertex = self._add(Vertex(node.op.pattern, node))
        if joins:
            tuple_vertex.readers.append((vertex, node.op.pattern))
        else:
            for value, source in zip(node.inputs, sources, strict=True):
                source.readers.append((vertex, _edge(node, value)))
        if isinstance(node.op, ops.Writing) and _writes(sources[0]):
            sources[0].escapes = True  # each may be in the place of what it writes to
        if len(node.outputs) == 1:
            self.known[node.outputs[0]] = vertex
            return
        for value in node.outputs:
            field_vertex = self._add(Vertex(Pattern.INJECTIVE))
            vertex.readers.append((field_vertex, Pattern.INJECTIVE))
            self.known[value] = field_vertex


def _writes(vertex: Vertex) -> bool:
    return vertex.node is not None and isinstance(vertex.node.op, ops.Writing)


def _edge(node: Node, value: Value) -> Pattern:
    """Return the pattern of an edge: that of the reader, unless nothing is repeated."""
    pattern = node.op.pattern
    if pattern == Pattern.BROADCAST and value.shape == node.outputs[0].shape:
        return Pattern.ELEMWISE
    return pattern


def _dominate(vertices: list[Vertex]) -> None:
    for vertex in reversed(vertices):
        if vertex.escapes or not vertex.readers:
            continue
        dominator: Vertex | None = None
        path = Pattern.ELEMWISE
        for number, (reader, edge) in enumerate(vertex.readers):
            if number == 0:
                dominator, path = reader, edge
            else:
                dominator, path = _common(dominator, reader, max(path, edge))
        vertex.dominator, vertex.path = dominator, path
        if dominator is not None:
            vertex.depth = dominator.depth + 1
            _set_jump(vertex, dominator)


def _set_jump(vertex: Vertex, dominator: Vertex) -> None:
    """Let a vertex jump as far as its dominator does twice, if both are equally far.

    So a way has a number of jumps that grows as the logarithm of the depth (Myers, "An
    Applicative Random-Access Stack", 1983).
    """
    vertex.jump, vertex.jump_path = dominator, vertex.path
    middle = dominator.jump
    if middle is None or middle.jump is None:
        return
    if dominator.depth - middle.depth == middle.depth - middle.jump.depth:
        vertex.jump = middle.jump
        vertex.jump_path = max(vertex.path, dominator.jump_path, middle.jump_path)


def _common(a: Vertex | None, b: Vertex | None, path: Pattern) -> tuple[Vertex | None, Pattern]:
    """Return the least common ancestor in the tree of dominators, and the pattern of the way."""
    if a is None or b is None:
        return None, path
    if a.depth < b.depth:
        a, b = b, a
    while a is not None and a.depth > b.depth:
        far = a.jump is not None and a.jump.depth >= b.depth
        a, path = (a.jump, max(path, a.jump_path)) if far else (a.dominator, max(path, a.path))
    while a is not b and a is not None and b is not None:
        # Of one depth, from which jumps are equally far: to one vertex, they may be too far.
        far = a.jump is not b.jump
        path = max(path, a.jump_path, b.jump_path) if far else max(path, a.path, b.path)
        a, b = (a.jump, b.jump) if far else (a.dominator, b.dominator)
    return (a if a is b else None), path
