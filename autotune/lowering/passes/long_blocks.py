"""Order of blocks: those with more iterations begin first, so that none of them is the last."""

from __future__ import annotations

from autotune.ir.affine_form import Atom, AtomKind
from autotune.ir.expr import EQ, Expr, FloorDiv, FloorMod, IfThenElse, Min, Sub, Var, const
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import For, LetStmt, Stmt
from autotune.ir.structure import walk, walk_statements
from autotune.ir.visitor import substitute
from autotune.lowering.passes.draft import Draft

_TAG = "blockIdx.x"


def begin_with_long_blocks(stmt: Stmt, draft: Draft) -> Stmt:
    """Numbers blocks so that those with the longest loops come first.

    for blockIdx.x in 32:        ->  for blockIdx.x in 32:
      for part in block % 8 + 1:       let block_x = blockIdx.x % 4 * 8 + (7 - blockIdx.x / 4)
                                         for part in block_x % 8 + 1:

    Of more blocks than multiprocessors those of every second turn are in the reverse order, as a
    multiprocessor has a short one with a long one then.
    """
    count = draft.grid.get(_TAG)
    if not draft.gpu or not isinstance(count, int):
        return stmt
    loops = [
        node for node in walk_statements(stmt) if isinstance(node, For) and node.iterations is None
    ]
    growing = [atom for loop in loops if (atom := _growing(draft.simplifier, loop)) is not None]
    if not growing:
        return stmt
    block = next(node for node in walk(stmt) if isinstance(node, Var) and node.name == _TAG)
    turn = draft.limits.sm_count if draft.limits is not None else 1
    place = _back_and_forth(block, count, turn)
    rank = block if place is block else Var("rank", "int32")
    number = Var("block_x", "int32")
    order = _in_order(rank, count, _period(growing[0], block, count))
    stmt = LetStmt(number, order, substitute(stmt, {block: number}))
    return stmt if rank is block else LetStmt(rank, place, stmt)


def _back_and_forth(block: Var, count: int, turn: int) -> Expr:
    """Return the place of a block in turns of so many, of which every second is reversed."""
    if not 1 < turn < count:
        return block
    passed = FloorDiv(block, const(turn))
    end = Min.fold(passed * turn + turn, const(count))
    reverse = end - 1 - (block - passed * turn)
    return IfThenElse(EQ(FloorMod(passed, const(2)), const(1)), reverse, block)


def _growing(simplifier: Simplifier, loop: For) -> Atom | None:
    """Return what a loop has more iterations with, of later blocks, within some of them or all."""
    for atom, k in simplifier.form_of(loop.extent).terms.items():
        named = {var.name for var in atom.vars}
        if named == {_TAG} and atom.kind is not AtomKind.OPAQUE and k > 0:
            return atom
    return None


def _period(atom: Atom, block: Var, count: int) -> int:
    """Return after how many blocks loops are short again."""
    form = atom.form if atom.kind is AtomKind.MOD else None
    plain = form is not None and form.const == 0 and [*form.terms.values()] == [1]
    of_block = form is not None and plain and next(iter(form.terms)).expr is block
    return atom.divisor if of_block and count % atom.divisor == 0 else count


def _in_order(block: Var, count: int, period: int) -> Expr:
    """Return the number of a block: the last one of each period first, then those before."""
    periods = count // period
    if periods == 1:
        return Sub(const(count - 1), block)
    last = Sub(const(period - 1), FloorDiv(block, const(periods)))
    return FloorMod(block, const(periods)) * period + last
