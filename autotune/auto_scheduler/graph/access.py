"""Dependences between the operations of a graph, and the transformations that they allow.

They decide which sketch rules apply: whether a stage may be inlined, and whether it is worth
tiling (Ansor, Zheng et al., OSDI 2020, section 4.1). The definitions are those of TVM's access
analyzer.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

from autotune.auto_scheduler.graph.reads import (
    CONSTANT_INDICES,
    has_branch,
    has_expensive_call,
    index_pattern,
    reads_of,
    shifted_equal,
)
from autotune.ir import Expr, IntImm
from autotune.ir.structure import variables
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation

Indices = tuple[Expr, ...]
NOTHING: frozenset[Operation] = frozenset()


@dataclass(frozen=True)
class AccessFacts:
    """Properties of the body of one operation.

    Attributes:
        strictly_inlineable: it is cheap, and reads elementwise or broadcasts.
        needs_tiling: it reads elements several times, so that tiles of it are worth keeping.
        read_again: how many operations it reads of which several of its elements need the same.
    """

    strictly_inlineable: bool
    needs_tiling: bool
    read_again: int


class AccessAnalyzer:
    """The facts about a graph; an operation stands for all tensors that it produces.

    Args:
        ops: the operations, each after those that it reads.

    Attributes:
        sources: operation -> those that it reads, in order of first use.
        readers: operation -> those that read it.
    """

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.ops = tuple(ops)
        self.sources: dict[Operation, list[Operation]] = {}
        self.readers: dict[Operation, list[Operation]] = {op: [] for op in ops}
        for op in ops:
            self.sources[op] = list(dict.fromkeys(tensor.op for tensor in op.input_tensors))
            for source in self.sources[op]:
                self.readers[source].append(op)

    def is_output(self, op: Operation) -> bool:
        """Whether no other operation reads it."""
        return not self.readers[op]

    def is_strictly_inlineable(self, op: Operation) -> bool:
        """Whether it costs next to nothing to compute it anew at each read."""
        return facts_of(op).strictly_inlineable

    def needs_multi_level_tiling(self, op: Operation) -> bool:
        """Whether it reads elements several times."""
        return facts_of(op).needs_tiling

    def inputs_read_again(self, op: Operation) -> int:
        """Return how many operations it reads of which results at several places need the same."""
        return facts_of(op).read_again

    def consumers(self, op: Operation, inlined: Container[Operation] = NOTHING) -> list[Operation]:
        """Return who reads an operation, looking through those that are inlined."""
        return _reached(op, self.readers, inlined)

    def producers(self, op: Operation, inlined: Container[Operation] = NOTHING) -> list[Operation]:
        """Return the operations that an operation reads, looking through inlined ones."""
        return _reached(op, self.sources, inlined)

    def direct_producers(self, op: Operation) -> list[Operation]:
        """Return the operations that the body of an operation reads."""
        return self.sources[op][:]

    def elementwise_match(self, op: Operation, target: Operation) -> bool:
        """Whether ``target`` reads ``op`` elementwise, by a chain of single readers."""
        while op is not target:
            readers = self.readers[op]
            if len(readers) != 1 or not self._is_elementwise(readers[0], op):
                return False
            op = readers[0]
        return True

    def num_common_outer_iterators(self, op: Operation, target: Operation) -> int:
        """Return how many leading axes two operations share, over all paths between them."""
        found = [*self._paths(op, target), *self._paths(target, op)]
        return min(found, default=0)

    def _paths(self, op: Operation, target: Operation) -> Iterable[int]:
        todo = [(op, len(op.outputs[0].shape))]
        while todo:
            reached, common = todo.pop()
            if reached is target:
                yield common
                continue
            for reader in self.readers[reached]:
                todo.append((reader, min(common, self._common[reader, reached])))

    @cached_property
    def _common(self) -> dict[tuple[Operation, Operation], int]:
        """Of a reader and what it reads: the number of leading axes that they share."""
        return {
            (op, source): _common_axes(op, source, indices)
            for op in self.ops
            for source, indices in reads_of(op).items()
        }

    def _is_elementwise(self, reader: Operation, op: Operation) -> bool:
        if not isinstance(op, ComputeOp) or not isinstance(reader, ComputeOp):
            return False
        shapes = {tensor.shape for each in (op, reader) for tensor in each.outputs}
        if len(shapes) > 1:
            return False
        patterns = [index_pattern(reader, each) for each in reads_of(reader)[op]]
        return all(each is not None and each.is_identity for each in patterns)


# What rules ask of each operation again and again, in whatever graph it stands.
_FACTS: WeakKeyDictionary[Operation, AccessFacts] = WeakKeyDictionary()


def facts_of(op: Operation) -> AccessFacts:
    """Return the facts of an operation that follow from its body."""
    known = _FACTS.get(op)
    if known is None:
        known = _FACTS[op] = _found_facts(op)
    return known


def _found_facts(op: Operation) -> AccessFacts:
    if not isinstance(op, ComputeOp):
        return AccessFacts(False, False, 0)
    reads = reads_of(op)
    patterns = [index_pattern(op, each) for some in reads.values() for each in some]
    known = [each for each in patterns if each is not None]
    simple = len(known) == len(patterns)
    in_order = simple and all(each.same_order and not each.repeats for each in known)
    cheap = not has_branch(op) and not has_expensive_call(op)
    again = _read_again(op)
    tiled = again >= 2 or (again >= 1 and bool(op.reduce_axis))
    inlineable = not reads or (in_order and cheap)
    return AccessFacts(inlineable, tiled and CONSTANT_INDICES not in op.attrs, again)


def _read_again(op: ComputeOp) -> int:
    wide = {axis.var for axis in op.axis if extent_of(axis) != 1}
    missing = 0
    for accesses in reads_of(op).values():
        used = {var for indices in accesses for var in variables(*indices)}
        missing += bool(wide - used)
    return missing


def _reached(
    op: Operation,
    edges: dict[Operation, list[Operation]],
    inlined: Container[Operation],
) -> list[Operation]:
    found: dict[Operation, None] = {}
    todo = list(reversed(edges[op]))
    while todo:
        each = todo.pop()
        if each in inlined:
            todo.extend(reversed(edges[each]))
        else:
            found[each] = None
    return list(found)


def _common_axes(op: Operation, source: Operation, accesses: Iterable[Indices]) -> int:
    """Return how many leading axes of an operation index the same ones of what it reads."""
    common = min(len(op.axis), len(source.outputs[0].shape))
    for indices in accesses:
        for i in range(common):
            same_extent = _extent(op, i) == _extent(source, i)
            if not same_extent or not shifted_equal(op.axis[i].var, indices[i]):
                common = i
                break
    return common


def _extent(op: Operation, i: int) -> object:
    extent = op.outputs[0].shape[i]
    return extent.value if isinstance(extent, IntImm) else extent
