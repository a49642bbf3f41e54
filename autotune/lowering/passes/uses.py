"""The variables and buffers that a node uses, cached by node for the passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from autotune.ir.address import Address
from autotune.ir.base import Imm
from autotune.ir.expr import Expr, Load, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import AsyncCopy, Buffer, For, Stmt, While
from autotune.ir.structure import children


class Used(NamedTuple):
    """The variables that occur, the buffers that are read, and whether there are loops."""

    vars: frozenset[Var]
    buffers: frozenset[Buffer]
    has_loops: bool = False


NOTHING = Used(frozenset(), frozenset())


class Uses:
    """Answers what nodes use."""

    def __init__(self, simplifier: Simplifier) -> None:
        self.simplifier = simplifier
        self._known: dict[Expr | Stmt, Used] = {}

    def of(self, node: Expr | Stmt) -> Used:
        """Return the variables and buffers that a node and its descendants use."""
        used = self._known.get(node)
        if used is None:
            used = self._known[node] = self._find(node)
        return used

    def _find(self, node: Expr | Stmt) -> Used:
        if isinstance(node, Imm):
            return NOTHING
        if isinstance(node, Var):
            return Used(frozenset((node,)), frozenset())
        if isinstance(node, Expr):
            form = self.simplifier.known_form(node)
            if form is not None and form.is_plain:
                return Used(form.vars, frozenset())
        parts = [self.of(each) for each in children(node)]  # type: ignore[arg-type]
        loops = isinstance(node, For | While)
        if isinstance(node, Load | Address):
            parts.append(Used(frozenset(), frozenset((node.buffer,))))
        elif isinstance(node, AsyncCopy):
            parts.append(Used(frozenset(), frozenset((node.src,))))
        if len(parts) == 1 and not loops:
            return parts[0]
        return _join(parts, loops)


def _join(parts: Iterable[Used], loops: bool) -> Used:
    parts = list(parts)
    return Used(
        frozenset[Var]().union(*[part.vars for part in parts]),
        frozenset[Buffer]().union(*[part.buffers for part in parts]),
        loops or any(part.has_loops for part in parts),
    )
