"""AutoTVM's `tuner.model_based_tuner`."""

from collections.abc import Sequence

from autotune.tuner.model_based_tuner import (
    CostModel,
    FeatureCache,
    ModelBasedTuner,
    ModelOptimizer,
    submodular_pick,
)

__all__ = [
    "CostModel",
    "FeatureCache",
    "ModelBasedTuner",
    "ModelOptimizer",
    "knob2point",
    "point2knob",
    "submodular_pick",
]


def point2knob(p: int, dims: Sequence[int]) -> list[int]:
    """Return the position in each knob of an index; knobs have ``dims`` values, the first fastest.

    Args:
        p: the index.
        dims: number of values of each knob.
    """
    knob = []
    for dim in dims:
        p, position = divmod(int(p), int(dim))
        knob.append(position)
    return knob


def knob2point(knob: Sequence[int], dims: Sequence[int]) -> int:
    """Return the index of a position in each knob; the inverse of `point2knob`.

    Args:
        knob: the positions.
        dims: number of values of each knob.
    """
    p = 0
    for position, dim in zip(reversed(knob), reversed(dims), strict=True):
        p = p * int(dim) + int(position)
    return p
