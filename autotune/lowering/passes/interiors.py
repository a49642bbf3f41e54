"""Parts of rows that a mask leaves whole: there its condition is not asked element by element.

Of a causal mask it holds for all parts of a block but the last::

    for part in block + 1:
      for j in 64: x[j] = y[j] if part * 64 + j <= row else -inf     # row = block * 64 + thread
    ->  if part < block: for j in 64: x[j] = y[j]
        else: for j in 64: x[j] = y[j] if part * 64 + j <= row else -inf
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.ir.analysis_ranges import ranges, relaxed, without_not
from autotune.ir.expr import And, Conditional, Expr, IntImm, Not, Var
from autotune.ir.stmt import Allocate, For, If, Seq, Stmt, seq
from autotune.ir.structure import variables, walk
from autotune.ir.visitor import Rewriter, StmtRewriter
from autotune.lowering.passes.draft import Draft
from autotune.te.joined_parts import JOINS_PARTS


def ask_once(stmt: Stmt, draft: Draft) -> Stmt:
    """Asks once for all elements of a part of rows whether a mask hides any, on a GPU."""
    return _Parts(draft).rewrite(stmt) if draft.gpu else stmt


class _Parts(StmtRewriter):
    """Rewrites the statements of loops over parts of rows."""

    def __init__(self, draft: Draft) -> None:
        self.simplifier = draft.simplifier
        threads = [t.var for t in draft.threads]
        self.blocks = {var for var in threads if var.name.startswith("blockIdx")}

    def visit_For(self, node: For) -> Stmt:
        """Rewrite the body of such a loop."""
        if JOINS_PARTS not in node.annotations:
            return super().visit_For(node)
        return node.with_body(self._asked(node.body, node.var))

    def _asked(self, stmt: Stmt, part: Var) -> Stmt:
        """Return a statement that asks first, in a loop over parts."""
        match stmt:
            case Allocate(buffer, body):
                return Allocate(buffer, self._asked(body, part))
            case Seq(stmts):
                return seq(*[self._asked(each, part) for each in stmts])
        found: dict[Expr, Expr] = {}
        for node in walk(stmt):
            if isinstance(node, Conditional) and node.cond not in found:
                known = self._always(node.cond, part)
                if known is not None:
                    found[node.cond] = known
        if not found or self._is_empty(_all(list(found.values())), part):
            return stmt
        plain = _Then(found).rewrite(stmt)
        return If(self.simplifier.simplify(_all(list(found.values()))), plain, stmt)

    def _always(self, condition: Expr, part: Var) -> Expr | None:
        """Return for which parts a condition holds for all elements; None if it is not known."""
        kept = {part, *self.blocks}
        gone = set(variables(condition)) - kept
        fails = relaxed(self.simplifier, without_not(Not(condition)), gone)
        if isinstance(fails, IntImm) or set(variables(fails)) - kept:
            return None
        return without_not(Not(fails))

    def _is_empty(self, condition: Expr, part: Var) -> bool:
        """Return whether a condition certainly holds for no part."""
        return all(
            any(
                self.simplifier.sub(high, low).bounds[1] <= 0
                for low in each.lows
                for high in each.highs
            )
            for each in ranges(self.simplifier, condition, part)
        )


def _all(conditions: list[Expr]) -> Expr:
    found: dict[str, Expr] = {str(each): each for each in conditions}
    first, *rest = found.values()
    for each in rest:
        first = And.fold(first, each)
    return first


class _Then(Rewriter):
    """Takes the first sides of choices by conditions that hold."""

    def __init__(self, held: Mapping[Expr, Expr]) -> None:
        self.held = held

    def visit_Conditional(self, node: Conditional) -> Expr:
        """Take the first side."""
        then = self.rewrite(node.then)
        if node.cond in self.held:
            return then
        return type(node)(self.rewrite(node.cond), then, self.rewrite(node.other))
