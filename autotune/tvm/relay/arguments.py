"""Arguments of relay's operators, as TVM takes them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Value
from autotune.utils.check import Check, is_whole

# One whole number, or one for each of several axes.
Numbers = int | Sequence[int]


def whole_numbers(op: str, name: str, given: object) -> tuple[int, ...]:
    """Return one whole number or a list of them as a tuple.

    Raises:
        GraphError: it is something else.
    """
    found = list(given) if isinstance(given, Sequence | np.ndarray) else [given]
    # TVM's shapes may hold its own constants.
    plain = [getattr(each, "value", each) for each in found]
    if isinstance(given, str | bytes) or not all(map(is_whole, plain)):
        Check(GraphError, op).refuse(name, "a whole number, or a list of them", given)
    return tuple([int(each) for each in plain if isinstance(each, Integral)])


def check_values(op: str, **given: object) -> None:
    """Refuse what is no tensor of a network."""
    for name, value in given.items():
        Check(GraphError, op).kind(name, value, Value, "an expression of relay")
