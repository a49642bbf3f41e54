"""One method for each class of nodes: how visitors, rewriters, printers and simplifiers work.

A subclass of `Dispatcher` defines ``visit_<Class>`` for the classes it cares about, a base class
such as ``visit_BinaryOp`` or ``visit_Conditional`` included; the nearest base wins. All else goes
to ``generic``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

Method = Callable[..., Any]


class Methods(dict[type, Method]):
    """The methods of a dispatcher by class of node: found once, then by one dictionary look-up."""

    def __init__(self, owner: type[Dispatcher]) -> None:
        super().__init__()
        self._owner = owner

    def __missing__(self, kind: type) -> Method:
        names = (f"visit_{base.__name__}" for base in kind.__mro__)
        known = (getattr(self._owner, name) for name in names if hasattr(self._owner, name))
        found: Method = next(known, self._owner.generic)
        self[kind] = found
        return found


class Dispatcher:
    """The base of what treats nodes by their classes: ``self.methods[type(node)](self, node)``.

    Each subclass has a table of its own.
    """

    methods: ClassVar[Methods]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.methods = Methods(cls)

    def generic(self, node: Any) -> object:
        """Handle a node that no method handles."""
        raise NotImplementedError
