"""AutoTVM's loop features: for each loop its place and work, and how it touches each tensor.

A loop has the blocks

- ``_attr_``: its length, its depth, the iterations down to it (``topdown``), the most accesses
  that one tensor gets inside it (``bottomup``), and how it is carried out as a one-hot code;
- ``_arith_``: floating-point additions, multiplications and divisions right inside it;
- one for each access, such as ``A_0``: the stride with which the loop moves it; a modulus, which
  is always -1; how many elements it touches (``count``) and how often each of them (``reuse``);
  and, of loops over blocks and threads, how many times the count and the reuse of a single block
  or thread these are.

With ``take_log`` the sizes become ``sign(x) * log2(|x| + 1)``; depth and codes stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.features.loops import LOOP_KINDS, Access, LoopNest, loop_nest
from autotune.te import Schedule
from autotune.te.tensor import Tensor

# For each loop its groups: a name, and the values of its features.
Rows = Sequence[Sequence[Sequence[Any]]]
FloatTable = npt.NDArray[np.float64]
FloatRow = npt.NDArray[np.float32]
Touch = tuple[int, int, int, int, int, int]

ATTRIBUTE_NAMES = ("length", "nest_level", "topdown", "bottomup", *(
    f"ann_{i}" for i in range(len(LOOP_KINDS))
))  # fmt: skip
ARITHMETIC_NAMES = ("add", "mul", "div")
TOUCH_NAMES = ("stride", "mod", "count", "reuse", "T_count", "T_reuse")
# Columns of `ATTRIBUTE_NAMES` and `ARITHMETIC_NAMES` that are sizes.
_SIZES = np.array([0, 2, 3, *range(len(ATTRIBUTE_NAMES), len(ATTRIBUTE_NAMES) + 3)])
_KIND = {kind: i for i, kind in enumerate(LOOP_KINDS)}
# Loops over blocks stand one level above those over threads, and these above all others.
_LEVEL = {"parallel": 1} | {kind: 2 if "block" in kind else 1 for kind in LOOP_KINDS[:6]}


class ItervarTable:
    """The features of all loops of a nest.

    Attributes:
        nest: the loops.
        touches: for each loop the accesses inside it by name, in alphabetical order.
    """

    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        found: list[dict[str, Touch]] = [{} for _ in nest.loops]
        extents = [loop.extent for loop in nest.loops]
        levels = [_LEVEL.get(loop.kind, 0) for loop in nest.loops]
        for access in nest.accesses:
            _touch(access, extents, levels, found)
        self.touches = [dict(sorted(each.items())) for each in found]

    def attributes(self, take_log: bool) -> FloatTable:
        """Return ``_attr_`` and ``_arith_`` of each loop, one row a loop."""
        table = np.zeros((len(self.nest.loops), len(ATTRIBUTE_NAMES) + len(ARITHMETIC_NAMES)))
        downs: list[int] = []
        for row, loop, touches in zip(table, self.nest.loops, self.touches, strict=True):
            downs[loop.depth - 1 :] = [
                loop.extent * (downs[loop.depth - 2] if loop.depth > 1 else 1)
            ]
            inside = max((touch[2] * touch[3] for touch in touches.values()), default=-1)
            row[:4] = loop.extent, loop.depth, downs[-1], inside
            row[4 + _KIND[loop.kind]] = 1
            count = loop.count
            row[-3:] = count.additions, count.multiplications, count.divisions
        if take_log:
            table[:, _SIZES] = signed_log(table[:, _SIZES])
        return table

    def touch_table(self, take_log: bool) -> FloatTable:
        """Return one row for each access of each loop, loop by loop."""
        rows = [touch for touches in self.touches for touch in touches.values()]
        table = np.array(rows, dtype=np.float64).reshape(-1, len(TOUCH_NAMES))
        return signed_log(table) if take_log else table


def _touch(
    access: Access, extents: Sequence[int], levels: Sequence[int], found: list[dict[str, Touch]]
) -> None:
    """Enter an access into each loop around it, from the inside out."""
    count = reuse = 1
    inner_level = -1
    # By level: what a single block or thread does.
    single: dict[int, tuple[int, int]] = {}
    for loop, stride in zip(reversed(access.loops), reversed(access.strides), strict=True):
        level = levels[loop]
        if level == inner_level + 1 and level:
            single[level] = count, reuse
        inner_level = level
        if stride:
            count *= extents[loop]
        else:
            reuse *= extents[loop]
        base = single.get(level)
        threads = (count // base[0], reuse // base[1]) if base is not None else (0, 0)
        found[loop][access.name] = (stride, -1, count, reuse, *threads)


def signed_log(values: FloatTable) -> FloatTable:
    """Return ``sign(x) * log2(|x| + 1)``."""
    return np.asarray(np.copysign(np.log2(np.abs(values) + 1), values))


def ana_lower(
    sch: Schedule, args: Sequence[Tensor], binds: None = None, simple_mode: bool = True
) -> LoopNest:
    """Return the loops that features are computed from; printing the result shows them.

    Args:
        sch: the schedule; it is not changed.
        args: the tensors that the function takes.
        binds: kept for AutoTVM's signature, as is ``simple_mode``.
        simple_mode: the text is always the simple one.
    """
    del binds, simple_mode
    return loop_nest(sch, args)


def get_itervar_feature(sch: Schedule, args: Sequence[Tensor], take_log: bool = False) -> Rows:
    """Return the features of each loop, in the order in which loops first occur.

    Args:
        sch: the schedule; it is not changed.
        args: the tensors that the function takes.
        take_log: whether sizes are given by their logarithms.

    Returns:
        For each loop its blocks, each a list of a name and numbers; the first block of a loop is
        ``["_itervar_", var]``.

    Raises:
        LoweringError: the schedule cannot be lowered.
    """
    table = ItervarTable(loop_nest(sch, args))
    rows = iter(table.touch_table(take_log).tolist())
    cut = len(ATTRIBUTE_NAMES)
    return [
        [
            ["_itervar_", loop.var],
            ["_attr_", *own[:cut]],
            ["_arith_", *own[cut:]],
            *([name, *next(rows)] for name in touches),
        ]
        for loop, own, touches in zip(
            table.nest.loops, table.attributes(take_log).tolist(), table.touches, strict=True
        )
    ]


def flatten_itervar_feature(fea: Rows) -> FloatTable:
    """Return all numbers of `get_itervar_feature` in one row."""
    return np.array([x for loop in fea for block in loop[1:] for x in block[1:]], dtype=np.float64)


def get_itervar_feature_flatten(
    sch: Schedule, args: Sequence[Tensor], take_log: bool = True
) -> FloatRow:
    """Return the features of all loops in one row; its length depends on the schedule.

    `autotune.features.loop_features` gives rows of one length for all configurations of a task.
    """
    return flatten_itervar_feature(get_itervar_feature(sch, args, take_log)).astype(np.float32)


def get_flatten_name(fea: Rows) -> list[str]:
    """Return names for the numbers of `flatten_itervar_feature`: ``f0.y._attr_.length``, ..."""
    own = {"_attr_": ATTRIBUTE_NAMES, "_arith_": ARITHMETIC_NAMES}
    names = [
        f"{loop[0][1]}.{block[0]}.{field}"
        for loop in fea
        for block in loop[1:]
        for field in own.get(block[0], TOUCH_NAMES)
    ]
    return [f"f{i}.{name}" for i, name in enumerate(names)]
