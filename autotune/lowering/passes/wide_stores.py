"""Stores of 16-bit results of ``wgmma``: threads exchange pairs, so that each stores 16 bytes.

A thread has two neighbours of each 8 columns, so that the four threads of a row store 16 bytes
together at once, half of what memory moves at least. After four such stores they have 64 bytes of
that row; where the four exchange what they have, each stores eight neighbours of it::

    for j in 0..4n:                             for g in 0..n:
      D[8 j + 2 x .. + 2] = ...           ->      lanes[2 q .. + 2] = ... of 4 g + q, for q in 0..4
                                                  exchange pairs q of thread x and x of thread q
                                                  D[32 g + 8 x .. + 8] = lanes

All threads of a warp exchange pairs, those of rows beyond the end of results too, which then store
nothing.
"""

from __future__ import annotations

from autotune.ir.analysis_affine import Affine, AtomKind, constant
from autotune.ir.dtype import bits_of, element_of
from autotune.ir.expr import Call, Expr, IntImm, Load, Ramp, Var
from autotune.ir.stmt import Allocate, Buffer, Evaluate, For, If, Seq, Stmt, Store, seq
from autotune.ir.structure import variables, walk
from autotune.ir.visitor import StmtRewriter
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.slots import Move
from autotune.lowering.passes.sums_in_flight import multiplies
from autotune.lowering.passes.tensor_cores import COLUMNS, ROWS
from autotune.lowering.passes.warpgroups import UNIT

# The functions with which four threads exchange pairs, by dtype.
EXCHANGES = {"float16": "exchange_pairs_f16", "bfloat16": "exchange_pairs_bf16"}
PAIR, WIDE = 2, 8


def widen_stores(stmt: Stmt, draft: Draft) -> Stmt:
    """Lets four threads exchange 16-bit results of ``wgmma``, so that each stores 16 bytes."""
    found = {t.tag: t for t in draft.threads}
    x, y = found.get("threadIdx.x"), found.get("threadIdx.y")
    if x is None or y is None or (x.count, y.count) != (COLUMNS, ROWS) or not multiplies(stmt):
        return stmt
    return _Widen(draft, x.var).rewrite(stmt)


class _Widen(StmtRewriter):
    """Replaces loops of such stores."""

    def __init__(self, draft: Draft, x: Var) -> None:
        self.simplifier = draft.simplifier
        self.lanes = {t.var for t in draft.threads if t.tag in ("threadIdx.x", "threadIdx.y")}
        self.x = x

    def visit_If(self, node: If) -> Stmt:
        """Visit the body if all threads of a warp execute it."""
        return node if self.lanes & set(variables(node.cond)) else super().visit_If(node)

    def visit_For(self, node: For) -> Stmt:
        """Replace a loop, or visit its body."""
        stmts = node.body.stmts if isinstance(node.body, Seq) else (node.body,)
        places = [self._place(each, node.var) for each in stmts]
        if node.iterations is None or node.iterations % COLUMNS:
            return super().visit_For(node)
        known = [place for place in places if place is not None]
        if len(known) < len(stmts):
            return super().visit_For(node)
        group, extent = Var(f"{node.var.name}.group", node.var.dtype), node.iterations // COLUMNS
        first = self.simplifier.var(group) if extent > 1 else constant(0)
        pairs = zip(stmts, known, strict=True)
        made = seq(*[self._stored(each, place, node.var, first) for each, place in pairs])
        if extent == 1:
            return made
        return For(group, IntImm(extent), node.kind, made, None, node.annotations)

    def _place(self, stmt: Stmt, var: Var) -> Affine | None:
        """Return where a thread's pair goes, None if it is no pair of 16 bits, or not there."""
        match stmt:
            case Store(buffer, (Ramp(base, 1, 2),), _):
                pass
            case If(cond, Store(_, _, value) as store, None):
                # Threads of a row store, or do not, and what they do not is there to exchange.
                known = not {var, self.x} & set(variables(cond)) and _in_registers(value)
                return self._place(store, var) if known else None
            case _:
                return None
        dtype = element_of(buffer.dtype)
        if buffer.scope != "global" or dtype not in EXCHANGES or bits_of(buffer.dtype) != 16:
            return None
        form = self.simplifier.form_of(base)
        wanted = {var: UNIT, self.x: PAIR}
        for atom, k in form.terms.items():
            one = next(iter(atom.vars)) if atom.kind is AtomKind.VAR else None
            if one in wanted:
                if k != wanted.pop(one):
                    return None
            elif k % WIDE or atom.vars & {var, self.x}:
                return None
        return None if wanted or form.const % WIDE else form

    def _stored(self, stmt: Stmt, place: Affine, var: Var, group: Affine) -> Stmt:
        """Return the stores of four iterations, a group of all, as one."""
        cond = None
        if isinstance(stmt, If):
            cond, stmt = stmt.cond, stmt.then
        assert isinstance(stmt, Store)
        simplifier, dtype = self.simplifier, element_of(stmt.buffer.dtype)
        lanes = Buffer(f"{stmt.buffer.name}.lanes", (WIDE,), dtype, "local")
        stmts: list[Stmt] = []
        for q in range(COLUMNS):
            at = simplifier.combine([(group, COLUMNS), (constant(q), 1)])
            value = Move(simplifier, {var: at}, {}, constant(0)).rewrite(stmt.value)
            stmts.append(Store(lanes, (Ramp(IntImm(PAIR * q), 1, PAIR),), value))
        first = Load(lanes, (IntImm(0),))
        stmts.append(Evaluate(Call(EXCHANGES[dtype], (first, self.x), "int32")))
        moved = simplifier.form(
            simplifier.expr(place), {var: simplifier.combine([(group, COLUMNS)])}
        )
        wide = simplifier.combine([(moved, 1), (simplifier.var(self.x), WIDE - PAIR)])
        index = Ramp(simplifier.expr(wide), 1, WIDE)
        store: Stmt = Store(stmt.buffer, (index,), Load(lanes, (Ramp(IntImm(0), 1, WIDE),)))
        stmts.append(store if cond is None else If(cond, store))
        return Allocate(lanes, seq(*stmts))


def _in_registers(value: Expr) -> bool:
    """Return whether all that a value reads is a thread's own."""
    return all(node.buffer.scope == "local" for node in walk(value) if isinstance(node, Load))
