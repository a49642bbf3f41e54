"""Whether tensors were written since they were read.

Torch counts writes in a tensor's version. Two kinds of writes are not counted: those of fused
optimisers, which a hook reports here, and those of batch norms in training mode to their running
statistics, which are known by the count of batches beside them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from operator import attrgetter, methodcaller
from typing import Any

import numpy

from autotune.runtime.arrays.versions import note_written
from autotune.runtime.call.native import launcher
from autotune.utils.lazy_torch import torch

_version = attrgetter("_version")
# What a batch norm has beside its statistics, and increments whenever it changes them.
_BATCHES = "num_batches_tracked"
# Takes tensors, addresses and their places, and returns whether a number of each is the same.
Asked = Callable[[Sequence[Any], Sequence[int], Sequence[int]], bool]


class Versions:
    """The state in which tensors were read: where they are, and how often they were written."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        _report_fused_steps()
        self._tensors = tuple(tensors)
        self._places = list(range(len(self._tensors)))
        self._pointers = [each.data_ptr() for each in self._tensors]
        base = torch()._C.TensorBase
        # Torch built for CUDA compares all addresses in one call, which takes lists.
        found = getattr(torch()._C, "_tensors_data_ptrs_at_indices_equal", None)
        self._asked_at = self._tensors if found is None else list(self._tensors)
        self._are_at = found or self._asked(base.data_ptr, "data_ptr", self._pointers)
        versions = list(map(_version, self._tensors))
        self._have_versions = self._asked(base._version, "_version", versions)

    @property
    def changed(self) -> bool:
        """Whether a tensor was written in place, or has other memory, since then."""
        # Each call of a network asks this of all parameters.
        if not self._have_versions(self._tensors, (), ()):
            return True
        return not self._are_at(self._asked_at, self._pointers, self._places)

    def _asked(self, descriptor: Any, name: str, numbers: Sequence[int]) -> Asked:
        """Return what asks all tensors for their numbers, and returns whether these are the same.

        The launcher in C does so without a lookup of each, unless a class of tensors has its own.
        """
        native = launcher()
        plain = all(getattr(type(each), name) is descriptor for each in self._tensors)
        if native is None or not plain:
            ask = _version if name == "_version" else methodcaller(name)
            expected = list(numbers)
            return lambda tensors, *_: list(map(ask, tensors)) == expected
        packed = numpy.array(numbers, "uint64").tobytes()
        have_numbers = native.have_numbers
        return lambda tensors, *_: have_numbers(descriptor, tensors, packed)


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
    without = _without_counts()
    asked = [each for each in tensors if not isinstance(each, parameter) and each not in without]
    if not asked:
        return []
    # This looks at every object of the process.
    beside = [
        each
        for each in gc.get_referrers(*asked)
        if type(each) is dict and isinstance(each.get(_BATCHES), torch().Tensor)
    ]
    counted = {id(value) for each in beside for value in each.values()}
    without.update({each: True for each in asked if id(each) not in counted})
    return [each[_BATCHES] for each in beside]


@cache
def _without_counts() -> Any:
    """Return a set of the buffers that were found to be beside no count, as a dict of its keys."""
    return import_module("torch.utils.weak").WeakIdKeyDictionary()


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
