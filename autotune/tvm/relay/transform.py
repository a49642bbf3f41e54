"""TVM's `relay.transform`: the pass that scripts run themselves.

`relay.build` chooses the others.
"""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver
from autotune.tvm.relay.function import IRModule

__all__ = ["InferType"]


class InferType:
    """Types are known as soon as an expression is made: the pass returns its module."""

    def __call__(self, mod: object) -> IRModule:
        """Return the module of a function or an expression, a module itself."""
        return IRModule.from_expr(mod)


if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
