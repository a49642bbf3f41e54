"""TVM's name for the place of the pass context, and of sequences of passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autotune.errors import GraphError
from autotune.lowering.pass_context import PassContext
from autotune.utils.check import Check

__all__ = ["PassContext", "Sequential"]


class Sequential:
    """Passes in order: ``Sequential([relay.transform.InferType()])(mod)``.

    Args:
        passes: functions of a module that return a module.
        opt_level, name, required, traceable: accepted for TVM's scripts.
    """

    def __init__(
        self,
        passes: Sequence[Callable[[Any], Any]] = (),
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        del opt_level, required, traceable
        check = Check(GraphError, "Sequential")
        self.passes = list(check.sequence("passes", passes, "a list of passes"))
        for each in self.passes:
            check.function("passes", each, "a module")
        self.name = name

    def __call__(self, mod: Any) -> Any:
        """Return what the passes make of a module."""
        for each in self.passes:
            mod = each(mod)
        return mod
