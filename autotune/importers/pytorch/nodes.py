"""Reading calls in a program of torch: arguments in the order of the schema, types, places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.errors import GraphError
from autotune.graph import TensorType
from autotune.importers.pytorch.tensors import type_of
from autotune.utils.lazy_torch import torch


def mapped(given: Any, of_node: Callable[[Any], Any]) -> Any:
    """Return arguments with something in place of each node, within lists too."""
    if isinstance(given, (list, tuple)):
        return [mapped(each, of_node) for each in given]
    if isinstance(given, dict):
        return {key: mapped(each, of_node) for key, each in given.items()}
    return of_node(given) if hasattr(given, "all_input_nodes") else given


def in_order(node: Any) -> list[Any]:
    """Return all arguments of a call in the order of the operator's schema, defaults included."""
    found = list(node.args)
    for argument in node.target._schema.arguments[len(found) :]:
        if argument.name in node.kwargs:
            found.append(node.kwargs[argument.name])
        else:
            found.append(argument.default_value if argument.has_default_value() else None)
    return found


def types_of(node: Any) -> tuple[TensorType, ...]:
    """Return the types of the results of a call, without those that have no elements.

    Raises:
        GraphError: autotune has no such tensors.
    """
    made = node.meta["val"]
    several = made if isinstance(made, (list, tuple)) else (made,)
    tensors = [each for each in several if hasattr(each, "dtype")]
    if len(tensors) > 1:  # such as statistics, which a norm does not return at inference
        tensors = [each for each in tensors if 0 not in each.shape]
    return tuple(type_of(each) for each in tensors)


def origin_of(node: Any) -> str:
    """Return the place of a call in the model: the name of its layer."""
    stack = node.meta.get("nn_module_stack") or {}
    places = [str(place) for place, _ in stack.values() if place]
    return places[-1].removeprefix("L['self'].") if places else str(node.name)


def has_turn(node: Any) -> bool:
    """Return whether it matters when, and how often, a call runs.

    It does for random numbers, and for operators of other libraries, which may have effects.
    """
    random = torch("importers", GraphError).Tag.nondeterministic_seeded
    library = getattr(node.target, "namespace", "aten")  # arithmetic of sizes has none
    return random in getattr(node.target, "tags", ()) or library not in ("aten", "prims")
