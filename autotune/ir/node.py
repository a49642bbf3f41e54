"""The base of expressions and statements, the fields of a node, and the nodes below it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar

Below = Callable[[Any], tuple["Node", ...]]


def among_fields(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below one, whichever of its fields they are in."""
    found: list[Node] = []
    for value in fields_of(node):
        if isinstance(value, Node):
            found.append(value)
        elif isinstance(value, tuple):
            found += [item for item in value if isinstance(item, Node)]
    return tuple(found)


def nothing(_: Node) -> tuple[Node, ...]:
    """Return that nothing is below a node."""
    return ()


def only(name: str) -> Below:
    """Return that one field is all that is below a node."""
    field = attrgetter(name)
    return lambda node: (field(node),)


class Node:
    """Base of expressions and statements; ``__match_args__`` names a node's fields in order.

    ``type(node).below(node)`` are the nodes directly below one, from left to right: trees are
    walked tens of thousands of times in a lowering, so most classes say where these are. Of a
    class with fields of its own that does not, they are looked for in all its fields.
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()
    below: ClassVar[Below] = among_fields

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__match_args__" in vars(cls) and "below" not in vars(cls):
            cls.below = among_fields


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
