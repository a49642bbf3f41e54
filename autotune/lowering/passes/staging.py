"""Copies through registers: loads are issued early, their stores late.

A double buffer is filled while its other half is in use. If each value were stored as soon as it
is loaded, every thread would wait for memory before it computes; so the loads come first, then the
use of the other half, then the stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autotune.ir.dtype import element_of, lanes_of
from autotune.ir.expr import Expr, Load, Ramp
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer, For, ForKind, If, Seq, Stmt, Store, seq
from autotune.lowering.extents import constant_iterations

# More values than this would not stay in registers next to those of the computation.
MOST_VALUES = 64


@dataclass(frozen=True)
class Staged:
    """The two halves of a copy, and the private buffers that connect them."""

    load: Stmt
    store: Stmt
    buffers: tuple[Buffer, ...]


def stage_through_registers(copy: Stmt, simplifier: Simplifier) -> Staged | None:
    """Split a copy in its loads and its stores; None where it is no plain copy, or too large."""
    splitter = _Splitter(simplifier)
    halves = splitter.split(copy, ())
    if halves is None or sum(prod(b.shape) for b in splitter.buffers) > MOST_VALUES:
        return None
    return Staged(*halves, tuple(splitter.buffers))


class _Splitter:
    """Splits statements, one private buffer for each store."""

    def __init__(self, simplifier: Simplifier) -> None:
        self.simplifier = simplifier
        self.buffers: list[Buffer] = []

    def split(self, stmt: Stmt, loops: Sequence[For]) -> tuple[Stmt, Stmt] | None:
        """Return the loading and the storing half of a statement inside some loops."""
        match stmt:
            case Seq(stmts):
                halves = [self.split(each, loops) for each in stmts]
                done = [each for each in halves if each is not None]
                if len(done) < len(halves):
                    return None
                return seq(*[load for load, _ in done]), seq(*[store for _, store in done])
            case For():
                inner = loops if stmt.kind is ForKind.THREAD else (*loops, stmt)
                return self._both(self.split(stmt.body, inner), stmt)
            case If(_, then, None):
                return self._both(self.split(then, loops), stmt)
            case Store():
                return self._store(stmt, loops)
            case _:
                return None

    def _both(self, halves: tuple[Stmt, Stmt] | None, outer: For | If) -> tuple[Stmt, Stmt] | None:
        if halves is None:
            return None
        load, store = halves
        if isinstance(outer, If):
            return If(outer.cond, load), If(outer.cond, store)
        head = (outer.var, outer.extent, outer.kind)
        return For(*head, load, outer.thread), For(*head, store, outer.thread)

    def _store(self, stmt: Store, loops: Sequence[For]) -> tuple[Stmt, Stmt]:
        """Return ``register = value`` and ``element = register``."""
        lanes = lanes_of(stmt.value.dtype)
        step = lanes
        parts = []
        for loop in reversed(loops):
            parts.append((self.simplifier.var(loop.var), step))
            step *= constant_iterations(loop, "double_buffer")
        dtype = element_of(stmt.value.dtype)
        register = Buffer(f"{stmt.buffer.name}.next", (step,), dtype, "local")
        self.buffers.append(register)
        place: Expr = self.simplifier.expr(self.simplifier.combine(parts))
        if lanes > 1:
            place = Ramp(place, 1, lanes)
        load = Store(register, (place,), stmt.value)
        return load, Store(stmt.buffer, stmt.indices, Load(register, (place,)))
