"""Increments the versions of torch's tensors that kernels write.

Autograd compares versions to notice that a saved tensor was changed. Torch does not see a kernel's
writes, so they are reported here. A backward pass that needs the old values then fails, as after
``tensor.add_()``, instead of computing wrong gradients.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

Raise = Callable[[Sequence[object]], object]


@cache
def raise_versions() -> Raise:
    """Return what takes several tensors and raises their versions; torch must have been imported.

    Tensors that have none, those of ``torch.inference_mode()``, are passed over.
    """
    torch = sys.modules["torch"]
    # What stands behind the public function takes a third of its time, where it takes several.
    found: Raise = getattr(torch._C, "_increment_version", _each)
    try:
        found(())
    except (TypeError, RuntimeError):
        return _each
    return found


def _each(tensors: Sequence[Any]) -> None:
    torch = sys.modules["torch"]
    for tensor in tensors:
        if not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)


def note_written(values: Iterable[object]) -> None:
    """Tell torch that those of these values that are tensors of it are written."""
    kind = getattr(sys.modules.get("torch"), "Tensor", ())
    tensors = tuple(value for value in values if isinstance(value, kind))
    if tensors:
        raise_versions()(tensors)
