"""Whether tensors that are written share memory with others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from autotune.utils.lazy_torch import torch


class NoAliasing:
    """Whether the tensors that a graph writes share no memory with its other arguments.

    The graph was traced as if they do not, and as if each of their elements has a place of its
    own; dynamo asks the first of tensors only, not of views. The extents of all tensors are known
    to be those of the example.

    Args:
        args: of a call.
        written: places of those that are written.
        constants: tensors that the graph reads as well, which stay where they are.
    """

    def __init__(
        self, args: Sequence[Any], written: Sequence[int], constants: Iterable[Any] = ()
    ) -> None:
        tensor = torch().Tensor
        self._constants = [_span(each) for each in constants if each.numel()]
        self._tensors = [i for i, each in enumerate(args) if isinstance(each, tensor)]
        self._written = list(written)
        self._overlapping = any(_overlaps_itself(args[i]) for i in written)
        self._pointers: list[int] = []

    def __call__(self, args: Sequence[Any]) -> bool:
        """Return whether the written ones of these share no memory with the others."""
        if not self._written:
            return True
        if self._overlapping:
            return False
        pointers = [args[i].data_ptr() for i in self._tensors]
        if pointers == self._pointers:
            return True
        found = [(*_span(args[i]), i) for i in self._tensors if args[i].numel()]
        found = sorted([*found, *((*span, -1) for span in self._constants)])
        for place, (_, end, number) in enumerate(found):
            for other, _, another in found[place + 1 :]:
                if other >= end:
                    break
                if number in self._written or another in self._written:
                    return False
        self._pointers = pointers
        return True


def _span(tensor: Any) -> tuple[int, int]:
    """Return where the memory of a tensor begins and ends."""
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    begin = tensor.data_ptr()
    return begin, begin + (last + 1) * tensor.element_size()


def _overlaps_itself(tensor: Any) -> bool:
    """Return whether several elements of a tensor may be in one place, as after `expand`."""
    reach = 0
    for step, extent in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if extent > 1 and step <= reach:
            return True
        reach += (extent - 1) * step
    return False
