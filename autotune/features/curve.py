"""AutoTVM's curve features: how reuse grows with the data that is held, from loop to loop.

Going through the loops around an access, the data touched inside a loop, the times it is touched
and the iterations down to the loop grow or shrink together. Read as step functions of each other
at the powers of two, on logarithmic scales, they describe tiles of any depth in numbers of a
fixed count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.features.itervar import FloatRow, FloatTable, ItervarTable
from autotune.features.loops import LoopNest, loop_nest
from autotune.te import Schedule
from autotune.te.tensor import Tensor

# Absorbs the rounding of logarithms of powers of two.
_SLACK = 1e-6
# (what is read, as a function of what) of the four curves.
CURVES = (("reuse", "count"), ("count", "reuse"), ("topdown", "count"), ("count", "topdown"))


def curves_of(nest: LoopNest, sample_n: int) -> dict[str, FloatTable]:
    """Return the sampled curves of each tensor that the innermost loops touch, by its name.

    Copies of a tensor in other memory (``A.shared``) count as the tensor; of several accesses
    the last one in the text stands for it. Each sample is the value of the curve at a power of
    two, and how far it was last known below that.
    """
    table = ItervarTable(nest)
    downs = table.attributes(take_log=False)[:, 2]
    chosen = _innermost(table)
    points = np.arange(sample_n, dtype=np.float64)
    return {raw: _sample(table, downs, name, points) for raw, name in sorted(chosen.items())}


def _innermost(table: ItervarTable) -> dict[str, str]:
    """Return for each tensor the name of the access whose curve represents it."""
    deepest = max((loop.depth for loop in table.nest.loops), default=0)
    places = {access.name: i for i, access in enumerate(table.nest.accesses)}
    chosen: dict[str, str] = {}
    for loop, touches in zip(table.nest.loops, table.touches, strict=True):
        if loop.depth == deepest:
            for name in sorted(touches, key=places.__getitem__):
                chosen[_raw(name)] = name
    return chosen


def _raw(access: str) -> str:
    """Return the tensor of an access: ``A`` for ``A.shared_1``."""
    return access.rpartition("_")[0].partition(".")[0]


def _sample(table: ItervarTable, downs: FloatTable, name: str, points: FloatTable) -> FloatTable:
    seen = [(t[name], d) for t, d in zip(table.touches, downs, strict=True) if name in t]
    numbers = {
        "count": [touch[2] for touch, _ in seen],
        "reuse": [touch[3] for touch, _ in seen],
        "topdown": [down for _, down in seen],
    }
    curves = {key: np.sort(np.log2([1, *values])) for key, values in numbers.items()}
    return np.concatenate([_read(curves[x], curves[y], points) for y, x in CURVES])


def _read(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], points: npt.NDArray[np.float64]
) -> FloatTable:
    """Return for each point the value at the last known place up to it, and the distance to it."""
    last = np.searchsorted(x, points + _SLACK, side="left") - 1
    return np.stack([y[last], points - x[last]], axis=1).reshape(-1)


def get_buffer_curve_sample_flatten(
    sch: Schedule, args: Sequence[Tensor], sample_n: int = 30
) -> FloatRow:
    """Return the sampled curves of all innermost tensors in one row.

    Args:
        sch: the schedule; it is not changed.
        args: the tensors that the function takes.
        sample_n: samples a curve; each is two numbers, and a tensor has four curves.

    Raises:
        LoweringError: the schedule cannot be lowered.
    """
    curves = curves_of(loop_nest(sch, args), sample_n)
    return np.concatenate([np.empty(0), *curves.values()]).astype(np.float32)
