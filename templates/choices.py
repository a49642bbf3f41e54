"""The choices of knobs of small spaces: all that are valid, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .common import Array


def best_of_all(
    options: Mapping[str, Sequence[int]],
    rules: Callable[[Any], Sequence[tuple[Any, str]]],
    estimate: Callable[[Any], Any],
) -> dict[str, int]:
    """Return the best choice that breaks no rule, or the first of all where none can run.

    Args:
        options: values of each knob; of choices that are as good the first counts.
        rules: of a family, as for `all_valid`.
        estimate: of arrays too, the least is best.
    """
    good = all_valid(options, rules)
    if not len(next(iter(good.values()))):
        return {name: values[0] for name, values in options.items()}
    best = int(np.argmin(estimate(good)))
    return {name: int(values[best]) for name, values in good.items()}


def all_valid(
    options: Mapping[str, Sequence[int]], rules: Callable[[Any], Sequence[tuple[Any, str]]]
) -> dict[str, Array]:
    """Return the choices that break no rule, an array of values for each knob.

    Args:
        options: values of each knob.
        rules: of a family; it gets the values of each knob as arrays that broadcast, with an axis
            for each, so that what depends on a few knobs is computed once for all others.
    """
    grid = np.meshgrid(*(np.array(v) for v in options.values()), indexing="ij", sparse=True)
    broken = np.zeros([len(values) for values in options.values()], bool)
    for each, _ in rules(dict(zip(options, grid, strict=True))):
        broken |= each
    places = np.nonzero(~broken)
    return {
        name: np.array(values)[place]
        for (name, values), place in zip(options.items(), places, strict=True)
    }
