"""The structure of expression trees: structural equality, keys, children, free variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from operator import attrgetter
from typing import Any

from autotune.ir.base import BinaryOp, Expr, Imm, Node, Var
from autotune.ir.itervar import IterVar

_FIELDS: dict[type[Node], Callable[[Node], tuple[object, ...]]] = {}


def fields_of(node: Node) -> tuple[object, ...]:
    """Return the values of a node's fields in the order of its constructor."""
    cls = type(node)
    getter = _FIELDS.get(cls)
    if getter is None:
        names = cls.__match_args__
        getter = attrgetter(*names) if len(names) > 1 else _few(*names)
        _FIELDS[cls] = getter
    return getter(node)


def _few(*names: str) -> Callable[[Node], tuple[object, ...]]:
    return lambda node: tuple(getattr(node, name) for name in names)


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


def children(node: Node) -> Iterator[Node]:
    """Yield the nodes directly below ``node``, from left to right."""
    for value in fields_of(node):
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, Node))


_LEAVES = (Var, Imm)


def walk(*nodes: Node) -> Iterator[Node]:
    """Yield the nodes and all below them, each before what is below it, left to right."""
    stack = [*reversed(nodes)]
    while stack:
        top = stack.pop()
        yield top
        if isinstance(top, BinaryOp):  # most nodes are these, or have nothing below them
            stack.append(top.b)
            stack.append(top.a)
        elif not isinstance(top, _LEAVES):
            for value in reversed(fields_of(top)):  # `children`, the last first, in this loop
                if isinstance(value, Node):
                    stack.append(value)
                elif isinstance(value, tuple):
                    stack.extend([item for item in reversed(value) if isinstance(item, Node)])


def walk_once(*nodes: Node) -> Iterator[Node]:
    """Yield what `walk` does, but each node once: copies of a loop's body share most of theirs."""
    stack, seen = [*reversed(nodes)], set[Node]()
    while stack:
        top = stack.pop()
        if top in seen:
            continue
        seen.add(top)
        yield top
        if isinstance(top, BinaryOp):
            stack.append(top.b)
            stack.append(top.a)
        elif not isinstance(top, _LEAVES):
            stack += reversed([*children(top)])


def walk_statements(*nodes: Node) -> Iterator[Node]:
    """Yield what `walk` does but for expressions, most of a kernel, and what is in these."""
    stack = [*reversed(nodes)]
    while stack:
        top = stack.pop()
        yield top
        stack += [each for each in reversed([*children(top)]) if not isinstance(each, Expr)]


def variables(*nodes: Node) -> list[Var]:
    """Return the distinct variables that occur in the nodes, in the order of occurrence."""
    found: dict[Var, None] = {}
    for each in walk(*nodes):
        if isinstance(each, Var):
            found[each] = None
    return list(found)
