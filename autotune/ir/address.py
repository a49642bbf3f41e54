"""Addresses of elements, which are passed to functions that a script brings itself."""

from __future__ import annotations

from typing import Any

from autotune.ir.base import Expr
from autotune.ir.node import Node
from autotune.ir.structure import walk

# A call of a function that is no function of ours has this in front of its name.
EXTERN = "extern."
# The extent of all that a declared buffer has.
WHOLE = 0


class Address(Expr):
    """The address of an element of a buffer.

    ``access`` says what is done with the ``extent`` elements from there on: ``"r"``, ``"w"`` or
    ``"rw"``. Like a `Load` it has one index after flattening. Of a declared buffer the extent may
    be `WHOLE`, until it is known how far that reaches.
    """

    __slots__ = ("access", "buffer", "extent", "index")
    __match_args__ = ("buffer", "index", "access", "extent")

    def __init__(self, buffer: Any, index: Expr, access: str = "rw", extent: int = 1) -> None:
        self.buffer = buffer
        self.index = index
        self.access = access
        self.extent = extent
        self.dtype = "handle"

    def at(self, buffer: Any, index: Expr, whole: int = WHOLE) -> Address:
        """Returns the address of an element of another buffer, of the same use."""
        if buffer is self.buffer and index is self.index:
            return self
        return Address(buffer, index, self.access, self.extent or whole)


def addresses_in(*nodes: Node) -> list[Address]:
    """Return the addresses in the nodes, left to right."""
    return [node for node in walk(*nodes) if isinstance(node, Address)]
