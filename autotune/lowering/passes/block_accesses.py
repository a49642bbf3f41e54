"""The accesses that statements make of memory which the threads of a block share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace

from autotune.ir.address import Address
from autotune.ir.expr import EQ, LT, And, Expr, IntImm, Load, Node, Var
from autotune.ir.stmt import AsyncCommit, AsyncCopy, AsyncWait, Buffer, Evaluate, Store
from autotune.ir.structure import children
from autotune.lowering.passes.accesses import Access, elements, index_bounds
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.ownership import owner_of
from autotune.lowering.plan import Thread
from autotune.utils.assert_never import assert_never

# Statements that hold no others and may access memory.
Leaf = Store | AsyncCopy | Evaluate | AsyncCommit | AsyncWait


class BlockAccesses:
    """Finds the accesses of one kernel, under the conditions that are around them.

    Args:
        draft: of the kernel.
        block: the thread axes within a block.
        common: the buffers that count.
    """

    def __init__(self, draft: Draft, block: Sequence[Thread], common: Set[Buffer]) -> None:
        self.simplifier = draft.simplifier
        self.slots = draft.slots
        self.block = block
        self.common = common
        # The greatest values of variables that conditions limit.
        self.below: dict[Var, int] = {}
        self._reading: dict[Node, Sequence[Load | Address]] = {}

    @contextmanager
    def limited_by(self, cond: Expr) -> Iterator[None]:
        """Let accesses be under a condition, besides those around it."""
        outer = self.below
        self.below = outer | _limits(cond)
        yield
        self.below = outer

    def of(self, stmt: Leaf) -> list[Access]:
        """Return the accesses of a statement."""
        match stmt:
            case Store(buffer, indices, value):
                (index,) = indices
                found = self._reads(value, buffer, index) + self.reads(index)
                if buffer in self.common:
                    found.append(self._access(buffer, index, True))
                return found
            case AsyncCopy(dst, dst_index, src, src_index):
                found = self.reads(src_index)
                if src in self.common:
                    found.append(self._access(src, src_index, False))
                return [*found, self._access(dst, dst_index, True)]
            case Evaluate(value):
                return self.reads(value)
            case AsyncCommit() | AsyncWait():
                return []
            case _:
                assert_never(stmt)

    def reads(self, expr: Expr) -> list[Access]:
        """Return the accesses that an expression makes; an address in it may be written to."""
        return self._reads(expr, None, None)

    def _reads(self, expr: Expr, own: Buffer | None, place: Expr | None) -> list[Access]:
        """Return the accesses of what a store puts in a place of its own buffer.

        A store that updates the very element it reads is one access, not two.
        """
        found = []
        for node in self._nodes(expr):
            if isinstance(node, Address):
                found += [self._passed(node, kind == "w") for kind in node.access]
            elif node.buffer is not own or node.indices[0] is not place:
                found.append(self._access(node.buffer, node.indices[0], False))
        return found

    def _nodes(self, expr: Node) -> Sequence[Load | Address]:
        """Return what in an expression accesses memory, each after what is in its index."""
        known = self._reading.get(expr)
        if known is None:
            found = [node for each in children(expr) for node in self._nodes(each)]
            if isinstance(expr, Load | Address) and expr.buffer in self.common:
                found.append(expr)
            known = self._reading[expr] = found
        return known

    def _passed(self, node: Address, is_write: bool) -> Access:
        """Return the access of what is behind an address, which any thread of a warp may make."""
        known = self._access(node.buffer, node.index, is_write)
        high = known.high + node.extent - 1
        return replace(known, high=high, owner=None, alone=False)

    def _access(self, buffer: Buffer, index: Expr, is_write: bool) -> Access:
        base, distance = elements(index)
        form = self.simplifier.form_of(base)
        owner = owner_of(form, distance, self.block, self.below)
        below = {var: most for var, most in self.below.items() if var in form.vars}
        low, high = index_bounds(form, below)
        slot = self.slots.get((buffer, base))
        ends = (low + min(distance, 0), high + max(distance, 0))
        alone = all(self.below.get(thread.var, thread.count - 1) == 0 for thread in self.block)
        return Access(buffer, is_write, form, *ends, owner, slot, alone, below)


def _limits(cond: Expr) -> dict[Var, int]:
    """Return the greatest values that variables have where a condition holds."""
    match cond:
        case And(a, b):
            first, second = _limits(a), _limits(b)
            return {**first, **{var: min(n, first.get(var, n)) for var, n in second.items()}}
        case LT(Var() as var, IntImm(value)):
            return {var: value - 1}
        case EQ(Var() as var, IntImm(value)):
            return {var: value}
        case _:
            return {}
