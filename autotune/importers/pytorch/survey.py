"""Which calls of a program can be translated, each judged by translating it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import getitem
from typing import Any

from autotune.errors import GraphError
from autotune.graph import Value
from autotune.importers.pytorch.complex_numbers import Complex, entering
from autotune.importers.pytorch.translate import Translation, is_assertion, is_check

logger = logging.getLogger("autotune")


@dataclass
class Survey(Translation):
    """A translation that goes on after a call that it cannot translate.

    The results of such a call become variables, so that each later call is judged for itself:
    by its operator, its arguments and its types.

    Attributes:
        refused: why, for each call that cannot be translated.
    """

    refused: dict[Any, str] = field(default_factory=dict)

    def run(self, nodes: Sequence[Any]) -> None:
        """Translate all calls that can be; raises nothing."""
        for node in nodes:
            if node.op == "call_function":
                self._judge(node)

    def _judge(self, node: Any) -> None:
        if is_assertion(node):
            self._refuse(node, "raises an error, which kernels cannot")
            return
        try:
            self._call(node)
        except GraphError as error:
            self._refuse(node, str(error))
        except Exception as error:  # a bug of a converter concerns no other call
            logger.debug("", exc_info=True)
            self._refuse(
                node, f"{type(error).__name__}: {error}; this is a bug of autotune, please report "
                "it (logging.getLogger('autotune').setLevel('DEBUG') shows where)"
            )  # fmt: skip
        if node in self.known or is_check(node) or self.values.get(node) is not None:
            return
        if node.target is not getitem:
            self._refuse(node, self._obstacle(node))
        elif node.users:
            whole, number = node.args
            self._refuse(whole, f"its result {number} is not computed")
            self.values[node] = _stand_in(node.meta.get("val"), node.name)

    def _obstacle(self, node: Any) -> str:
        """Return what is wrong with an input of a call."""
        before = [each for each in node.all_input_nodes if self.values.get(each, each) is None]
        for made in (each.meta.get("val") for each in before):
            if hasattr(made, "dtype"):
                dtype = str(made.dtype).removeprefix("torch.")
                known = all(isinstance(extent, int) for extent in made.shape)
                return f"reads a tensor of {dtype if known else 'a shape that depends on values'}"
        return "reads a number that depends on values"

    def goes_on_without(self, node: Any, reason: str) -> bool:
        """Leave what reads such a tensor to torch."""
        self._refuse(node, reason)
        return True

    def _miss(self, node: Any) -> None:
        self._refuse(node, "cannot be imported")

    def _refuse(self, node: Any, reason: str) -> None:
        """Leave a call to torch; the first reason stays."""
        if self.refused.setdefault(node, reason) is not reason:
            return
        made = node.meta.get("val")
        self.values[node] = (
            [_stand_in(each, f"{node.name}_{i}") for i, each in enumerate(made)]
            if isinstance(made, (list, tuple))
            else _stand_in(made, node.name)
        )


def _stand_in(made: Any, name: str) -> Value | Complex | None:
    """Return what reads a result; None where it is no tensor that kernels can take."""
    if not hasattr(made, "dtype"):
        return None
    try:
        return entering(made, name)[1]
    except GraphError:
        return None
