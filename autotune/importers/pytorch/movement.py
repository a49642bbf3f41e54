"""Operators that only move elements, to places that do not depend on the data.

torch itself says where each element comes from: the operator is applied to the numbers of the
elements, and the graph takes the elements by what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.errors import GraphError
from autotune.graph import Value
from autotune.importers.pytorch.call import Call
from autotune.importers.pytorch.nodes import mapped, origin_of, types_of
from autotune.importers.pytorch.tensors import numbers_of
from autotune.utils.lazy_torch import torch

# Operators of ATen, and which of their arguments are data; all other tensors must be known.
_MOVES: dict[str, tuple[int, ...]] = {
    "as_strided": (0,),
    "as_strided_copy": (0,),
    "as_strided_scatter": (0, 1),
    "diagonal": (0,),
    "diagonal_copy": (0,),
    "diagonal_scatter": (0, 1),
    "index_put": (0, 2),
    "_unsafe_index_put": (0, 2),
    "reflection_pad1d": (0,),
    "reflection_pad2d": (0,),
    "reflection_pad3d": (0,),
    "replication_pad1d": (0,),
    "replication_pad2d": (0,),
    "replication_pad3d": (0,),
    "repeat_interleave": (0,),
    "rot90": (0,),
    "scatter": (0, 3),
    "take": (0,),
    "take_along_dim": (0,),
    "unfold": (0,),
    "unfold_copy": (0,),
}


def only_moves(target: Any) -> bool:
    """Return whether an operator may be one that only moves elements."""
    return _name(target) in _MOVES


def moved(
    node: Any, value_of: Callable[[Any], Value], known_as: Callable[[Any], Any]
) -> Value | None:
    """Return what a call makes of elements, if it only moves them to places that are known.

    Args:
        node: the call.
        value_of: returns the value of a node.
        known_as: returns the tensor that a node is known to be, or None.
    """
    places = _MOVES[_name(node.target)]
    # A sum at each place is no move.
    if any(each is True for each in node.args[3:4]) and "index_put" in str(node.target):
        return None
    if len(node.args) <= max(places) or "reduce" in str(node.target):
        return None
    call = Call(str(node.target), types_of(node), origin_of(node))
    data, args, start = [], list(node.args), 0
    for number in places:
        if not hasattr(args[number], "all_input_nodes"):
            return None
        value = value_of(args[number])
        count = value.type.size
        numbers = torch("importers", GraphError).arange(start, start + count).reshape(value.shape)
        if _name(node.target).startswith("as_strided"):  # it reads the memory of its input
            like = args[number].meta["val"]
            if like.untyped_storage().nbytes() != count * like.element_size():
                return None
            memory = numbers.new_empty_strided(value.shape, tuple(map(int, like.stride())))
            numbers = memory.copy_(numbers)
        args[number] = numbers
        data.append(call.reshape(call.cast(value, call.type.dtype), (count,)))
        start += count
    unknown: list[Any] = []

    def tensor(each: Any) -> Any:
        found = known_as(each)
        if found is None:
            unknown.append(each)
        return found

    args = mapped(args, tensor)
    if unknown:
        return None
    found = node.target(*args, **node.kwargs)
    return call.take(call.concatenate(data, 0), 0, numbers_of(found))


def _name(target: Any) -> str:
    return str(target).removeprefix("aten.").split(".")[0]
