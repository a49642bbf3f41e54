"""Grids that a device has: blocks along x are two thousand million, along y and z 65,535."""

from __future__ import annotations

from math import prod

from autotune.ir import Var, const, substitute
from autotune.ir.expr import TruncDiv, TruncMod
from autotune.ir.stmt import LetStmt, Stmt
from autotune.ir.structure import walk
from autotune.lowering.function import Blocks
from autotune.lowering.passes.draft import Draft

_TAGS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


def grid_of(draft: Draft) -> Blocks:
    """Returns the launch's blocks: all along x where the device has too few of y or z.

    Numbers that the caller passes are left as they are bound.
    """
    x, y, z = _asked(draft)
    if draft.limits is None or not (
        isinstance(x, int) and isinstance(y, int) and isinstance(z, int)
    ):
        return x, y, z
    _, most_y, most_z = draft.limits.grid_dim
    return (x, y, z) if y <= most_y and z <= most_z else (prod((x, y, z)), 1, 1)


def _asked(draft: Draft) -> Blocks:
    """Return the blocks along x, y and z, as the schedule binds them."""
    x, y, z = (draft.grid.get(tag, 1) for tag in _TAGS)
    return x, y, z


def number_blocks(stmt: Stmt, draft: Draft) -> Stmt:
    """Tells which block of the schedule each is, where all are launched along x.

    for blockIdx.y in 70000:     ->  for blockIdx.x in 210000:
      for blockIdx.x in 3:             let block_y = blockIdx.x / 3
                                         let block_x = blockIdx.x % 3
    """
    if not draft.gpu or grid_of(draft) == _asked(draft):
        return stmt
    numbers = {
        node: Var(f"block_{node.name[-1]}", "int32")
        for node in walk(stmt)
        if isinstance(node, Var) and node.name in _TAGS
    }
    stmt = substitute(stmt, dict(numbers))
    block = Var(_TAGS[0], "int32", "thread")
    extents = [extent for extent in _asked(draft) if isinstance(extent, int)]
    for var, number in numbers.items():
        at = _TAGS.index(var.name)
        before, after = prod(extents[:at]), prod(extents[at + 1 :])
        place = block if before == 1 else TruncDiv(block, const(before))
        stmt = LetStmt(number, place if after == 1 else TruncMod(place, const(extents[at])), stmt)
    return stmt
