"""Moving what fills and uses a buffer to one slot of a ring, and making copies asynchronous."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from autotune.ir.address import Address
from autotune.ir.analysis_affine import Affine
from autotune.ir.dtype import bits_of, element_of, lanes_of
from autotune.ir.expr import Expr, IfThenElse, Load, Ramp, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import AsyncCopy, Buffer, If, Stmt, Store
from autotune.ir.visitor import Rewriter
from autotune.lowering.extents import known
from autotune.utils.math import round_up

COPIED_BYTES = (4, 8, 16)
ALIGNMENT_BYTES = 16


class Move(Rewriter):
    """Replaces variables, and moves accesses of ring buffers to one slot."""

    def __init__(
        self,
        simplifier: Simplifier,
        env: Mapping[Var, Affine],
        rings: Mapping[Buffer, Buffer],
        slot: Affine,
    ) -> None:
        self.simplifier = simplifier
        self.env = env
        self.rings = rings
        self.slot = slot
        self.places: set[tuple[Buffer, Expr]] = set()
        self._loads: dict[Load, Expr] = {}

    def visit_Load(self, node: Load) -> Expr:
        """Move a load."""
        new = self._loads.get(node)
        if new is None:
            index = self._index(node.buffer, node.indices[0])
            new = Load(self.rings.get(node.buffer, node.buffer), (index,))
            new = node if new.buffer is node.buffer and index is node.indices[0] else new
            self._loads[node] = new
        return new

    def visit_Address(self, node: Address) -> Expr:
        """Move an address."""
        ring = self.rings.get(node.buffer, node.buffer)
        return node.at(ring, self._index(node.buffer, node.index))

    def visit_Store(self, node: Store) -> Stmt:
        """Move a store."""
        index = self._index(node.buffer, node.indices[0])
        value = self.rewrite(node.value)
        return Store(self.rings.get(node.buffer, node.buffer), (index,), value)

    def visit_Var(self, node: Var) -> Expr:
        """Replace a variable outside of an index."""
        form = self.env.get(node)
        return node if form is None else self.simplifier.expr(form)

    def visit_If(self, node: If) -> Stmt:
        """Simplify the condition anew."""
        cond = self.simplifier.simplify(self.rewrite(node.cond))
        other = self.rewrite(node.other) if node.other is not None else None
        return If(cond, self.rewrite(node.then), other)

    def visit_IfThenElse(self, node: IfThenElse) -> Expr:
        """Simplify the condition anew."""
        cond = self.simplifier.simplify(self.rewrite(node.cond))
        return IfThenElse.fold(cond, self.rewrite(node.then), self.rewrite(node.other))

    def _index(self, buffer: Buffer, index: Expr) -> Expr:
        if isinstance(index, Ramp):
            return Ramp(self._index(buffer, index.base), index.stride, index.lanes)
        form = self._form(index)
        ring = self.rings.get(buffer)
        if ring is None:
            return self.simplifier.expr(form)
        form = self.simplifier.combine([(self.slot, padded_size(buffer)), (form, 1)])
        place = self.simplifier.expr(form)
        self.places.add((ring, place))
        return place

    def _form(self, index: Expr) -> Affine:
        """Return the form of an index with variables replaced, and loads inside it moved."""
        form = self.simplifier.known_form(index)
        if form is not None and form.is_plain:
            return self.simplifier.form(index, self.env)
        return self.simplifier.form(self.rewrite(index))


class ToCopies(Rewriter):
    """Makes stores of what is just loaded from global memory asynchronous."""

    def __init__(self, simplifier: Simplifier) -> None:
        self.simplifier = simplifier

    def visit_Store(self, node: Store) -> Stmt:
        """Make a copy; where a condition guards the load, a copy or a store of its other value."""
        value = node.value
        if isinstance(value, IfThenElse):
            copy = self._copy(node, value.then)
            if copy is None:
                return node
            return If(value.cond, copy, Store(node.buffer, node.indices, value.other))
        return self._copy(node, value) or node

    def _copy(self, node: Store, value: Expr) -> AsyncCopy | None:
        if not isinstance(value, Load) or value.buffer.scope != "global":
            return None
        if element_of(value.buffer.dtype) != element_of(node.buffer.dtype):
            return None
        size = lanes_of(value.dtype) * bits_of(value.dtype) // 8
        to, source = self._start(node.indices[0]), self._start(value.indices[0])
        if to is None or source is None or size not in COPIED_BYTES:
            return None
        return AsyncCopy(node.buffer, to, value.buffer, source, size)

    def _start(self, index: Expr) -> Expr | None:
        """Return the first element of an index, None if its elements are not aligned together."""
        if not isinstance(index, Ramp):
            return index
        form = self.simplifier.form_of(index.base)
        if index.stride != 1 or any(k % index.lanes for k in (form.const, *form.terms.values())):
            return None
        return index.base


def padded_size(buffer: Buffer) -> int:
    """Return the elements of one slot: as many as keep the next slot aligned."""
    step = max(ALIGNMENT_BYTES * 8 // max(bits_of(buffer.dtype), 8), 1)
    size = prod(known(buffer.shape, f"slots of {buffer.name}"))
    return round_up(size, step)
