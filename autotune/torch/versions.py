"""Whether tensors were written since they were read.

Torch counts writes in a tensor's version. Two kinds of writes are not counted: those of fused
optimisers, which a hook reports here, and those of batch norms in training mode to their running
statistics, which are known by the count of batches beside them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from autotune.runtime.arrays.versions import note_written
from autotune.utils.lazy_torch import torch

_version = attrgetter("_version")
# What a batch norm has beside its statistics, and increments whenever it changes them.
_BATCHES = "num_batches_tracked"


class Versions:
    """The state in which tensors were read: where they are, and how often they were written."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        _report_fused_steps()
        self._tensors = list(tensors)
        self._places = list(range(len(self._tensors)))
        # Torch built for CUDA compares all addresses in one call.
        self._are_at = getattr(torch()._C, "_tensors_data_ptrs_at_indices_equal", _are_at)
        self._versions = list(map(_version, self._tensors))
        self._pointers = [each.data_ptr() for each in self._tensors]

    @property
    def changed(self) -> bool:
        """Whether a tensor was written in place, or has other memory, since then."""
        # Each call of a network asks this of all parameters: a tenth of a microsecond each.
        tensors = self._tensors
        return list(map(_version, tensors)) != self._versions or not self._are_at(
            tensors, self._pointers, self._places
        )


def _are_at(tensors: Sequence[Any], pointers: Sequence[int], _: Sequence[int]) -> bool:
    return [each.data_ptr() for each in tensors] == pointers


def watched(tensors: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the tensors that tell when any of these is written.

    Those of inference mode do not.
    """
    known = {id(each): each for each in tensors.values()}
    for each in _counts_beside([each for each in known.values() if each.dim() == 1]):
        known.setdefault(id(each), each)
    return tuple(each for each in known.values() if not each.is_inference())


def _counts_beside(tensors: Sequence[Any]) -> list[Any]:
    """Return the counts of batches of the batch norms whose statistics are among some tensors.

    The modules are not known here, but their dicts of buffers refer to the tensors.
    """
    parameter = torch().nn.Parameter
    buffers = [each for each in tensors if not isinstance(each, parameter)]
    if not buffers:
        return []
    return [
        each[_BATCHES]
        for each in gc.get_referrers(*buffers)
        if type(each) is dict and isinstance(each.get(_BATCHES), torch().Tensor)
    ]


@cache
def _report_fused_steps() -> None:
    """Raise the versions of what fused optimisers write, from now on."""

    def note(optimiser: Any, *_: object) -> None:
        for group in optimiser.param_groups:
            if group.get("fused"):  # which leaves parameters without gradients alone
                note_written(each for each in group["params"] if each.grad is not None)

    # Torch's package of this name hides the module.
    module = sys.modules[torch().optim.Optimizer.__module__]
    module.register_optimizer_step_post_hook(note)
