"""TVM's `auto_scheduler.compute_dag`."""

import re
from collections.abc import Sequence
from math import prod

from autotune.auto_scheduler.layouts.layout_graph import LayoutRewriteOption
from autotune.auto_scheduler.problem.compute_dag import ComputeDAG

__all__ = ["ComputeDAG", "LayoutRewriteOption", "get_shape_from_rewritten_layout"]

_PART = re.compile(r"(\d+)([A-Za-z_.]+)")


def get_shape_from_rewritten_layout(
    rewritten_layout: str, axis_names: Sequence[str]
) -> tuple[int, ...]:
    """Return the shape of an array before it was laid out anew.

    Args:
        rewritten_layout: such as ``"4j8j4j4j512k"``.
        axis_names: of its dimensions, such as ``["k", "j"]``.
    """
    parts = [(name, int(extent)) for extent, name in _PART.findall(rewritten_layout)]
    return tuple([prod(n for name, n in parts if name == axis) for axis in axis_names])
