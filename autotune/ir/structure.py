"""The structure of expression trees: structural equality, keys, children, free variables."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Any

from autotune.ir.base import Expr, Imm, Var
from autotune.ir.itervar import IterVar
from autotune.ir.node import Node, fields_of


def same(a: Any, b: Any) -> bool:
    """Return whether two trees have the same shape, constants, and the very same variables.

    Variables, buffers and tensors are the same only if they are the same object. 1 and 1.0, or
    constants of different dtypes, are different.
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Var | IterVar):
        return False
    if isinstance(a, Imm):
        return bool(a.value == b.value) and a.dtype == b.dtype and _sign(a.value) == _sign(b.value)
    if isinstance(a, Node):
        return all(map(same, fields_of(a), fields_of(b)))
    return bool(a == b)


def _sign(value: float) -> float:
    """Return the sign of a float constant, which distinguishes 0.0 from -0.0."""
    return value or math.copysign(1, value)


def structural_key(node: object) -> Hashable:
    """Return a hashable key, equal for two trees just when they are `same`."""
    if isinstance(node, tuple):
        return tuple(map(structural_key, node))
    if isinstance(node, Node) and not isinstance(node, Var):
        return (type(node), *map(structural_key, fields_of(node)))
    if isinstance(node, bool | int | float):
        # True == 1 == 1.0 in Python, but as constants they are different.
        return (type(node), node, _sign(node))
    key: Hashable = node
    return key


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below ``node``, from left to right."""
    return type(node).below(node)


def walk(*nodes: Node) -> Iterator[Node]:
    """Yield the nodes and all below them, each before what is below it, left to right."""
    stack = [*reversed(nodes)]
    while stack:
        top = stack.pop()
        yield top
        stack += type(top).below(top)[::-1]


def walk_once(*nodes: Node) -> Iterator[Node]:
    """Yield what `walk` does, but each node once: copies of a loop's body share most of theirs."""
    stack, seen = [*reversed(nodes)], set[Node]()
    while stack:
        top = stack.pop()
        if top not in seen:
            seen.add(top)
            yield top
            stack += type(top).below(top)[::-1]


def walk_statements(*nodes: Node) -> Iterator[Node]:
    """Yield what `walk` does but for expressions, most of a kernel, and what is in these."""
    stack = [*reversed(nodes)]
    while stack:
        top = stack.pop()
        yield top
        if not isinstance(top, Expr):
            below = type(top).below(top)
            stack += [each for each in below[::-1] if not isinstance(each, Expr)]


def variables(*nodes: Node) -> list[Var]:
    """Return the distinct variables that occur in the nodes, in the order of occurrence."""
    found: dict[Var, None] = {}
    for each in walk(*nodes):
        if isinstance(each, Var):
            found[each] = None
    return list(found)
