"""Calls whose arrays have no elements: nothing is computed where nothing is written.

As in numpy and PyTorch, an empty batch of images has an empty result, and that is not an error. No
template makes a kernel for it, so the arguments that would be written are found by making a kernel
for longer arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.errors import AutotuneError, TunerError
from autotune.just_in_time.offers import Source
from autotune.target import Target

# What stands in for an extent of 0: templates may take only multiples of a tile.
_EXTENTS = (1, 128)


def is_without_elements(value: object) -> bool:
    """Return whether an argument is an array of which an extent is 0."""
    return 0 in (getattr(value, "shape", None) or ())


def check_nothing_is_written(
    owner: str,
    source: Source,
    given: Callable[[Sequence[object]], object],
    args: Sequence[object],
    target: Target,
) -> None:
    """Raise unless a call, one of whose arrays has no elements, writes to none that has some.

    Args:
        owner: whose call it is.
        source: what makes kernels.
        given: what the user's function makes of arguments.
        args: of the call.
        target: of the call.

    Raises:
        TunerError: it would write something, or it is not known what it writes.
    """
    number = next(i for i, value in enumerate(args) if is_without_elements(value))
    found = f"{owner}: argument {number} has no elements (its shape is {_shape(args[number])})"
    for i in _written(found, source, given, args, target):
        if not is_without_elements(args[i]):
            raise TunerError(
                f"{found}, but argument {i}, which the call writes, has some ({_shape(args[i])}): "
                "there is no kernel for that; fill it without one, as with 0, the sum of nothing"
            )


def _written(
    found: str,
    source: Source,
    given: Callable[[Sequence[object]], object],
    args: Sequence[object],
    target: Target,
) -> tuple[int, ...]:
    """Return the numbers of the arguments that a call writes."""
    why: AutotuneError | None = None
    for extent in _EXTENTS:
        longer = [_longer(value, extent) for value in args]
        try:
            return source.written(given(longer), longer, target)
        except AutotuneError as error:
            why = why or error
    raise TunerError(
        f"{found}, and whether the call writes anything is not known, as it is refused for an "
        f"extent of {_EXTENTS[0]} in its place: {why}"
    ) from why


def _longer(value: Any, extent: int) -> object:
    """Return an argument with another extent in place of 0, all of whose elements are one."""
    if not is_without_elements(value):
        return value
    shape = tuple(extent if each == 0 else int(each) for each in value.shape)
    if hasattr(value, "new_empty"):  # a tensor of torch
        return value.new_empty(()).expand(shape)
    return np.broadcast_to(np.zeros((), str(value.dtype)), shape)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape)
