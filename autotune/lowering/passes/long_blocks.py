"""Order of blocks: those with more iterations begin first, so that none of them is the last."""

from __future__ import annotations

from autotune.ir.analysis_affine import AtomKind
from autotune.ir.expr import Sub, Var, const
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import For, LetStmt, Stmt
from autotune.ir.structure import walk
from autotune.ir.visitor import substitute
from autotune.lowering.passes.draft import Draft

_TAG = "blockIdx.x"


def begin_with_long_blocks(stmt: Stmt, draft: Draft) -> Stmt:
    """Numbers blocks backwards where the last ones have the longest loops.

    for blockIdx.x in 32:        ->  for blockIdx.x in 32:
      for part in block % 8 + 1:       let block_x = 31 - blockIdx.x
                                         for part in block_x % 8 + 1:
    """
    count = draft.grid.get(_TAG)
    if not draft.gpu or not isinstance(count, int):
        return stmt
    loops = [node for node in walk(stmt) if isinstance(node, For) and node.iterations is None]
    if not any(_grows(draft.simplifier, loop) for loop in loops):
        return stmt
    number = Var("block_x", "int32")
    block = next(node for node in walk(stmt) if isinstance(node, Var) and node.name == _TAG)
    last = Sub(const(count - 1), block)
    return LetStmt(number, last, substitute(stmt, {block: number}))


def _grows(simplifier: Simplifier, loop: For) -> bool:
    """Return whether later blocks have more iterations of a loop, within some of them or all."""
    for atom, k in simplifier.form_of(loop.extent).terms.items():
        named = {var.name for var in atom.vars}
        if named == {_TAG} and atom.kind is not AtomKind.OPAQUE and k > 0:
            return True
    return False
