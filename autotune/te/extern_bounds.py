"""A check of hand-written statements: elements that they certainly read or write are there."""

from __future__ import annotations

from autotune.errors import ExpressionError
from autotune.ir import Expr, For, If, IntImm, Load, LogicalOp, Stmt, Store, Var, While
from autotune.ir.affine_form import AtomKind
from autotune.ir.expr import Conditional
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer, row_major
from autotune.ir.visitor import Visitor


def check_indices(where: str, stmt: Stmt) -> None:
    """Raise if statements reach beyond the ends of a buffer wherever they run.

    Indices are looked at whose ends follow from loops alone, where no condition leaves them out.

    Args:
        where: names the statements.
        stmt: the statements.

    Raises:
        ExpressionError: with the buffer, the element, and how many it has.
    """
    _Indices(where).visit(stmt)


class _Indices(Visitor):
    def __init__(self, where: str) -> None:
        self.where = where
        self.simplifier = Simplifier({})
        # Loops that run at least once, and whose variables are independent of each other.
        self.loops: set[Var] = set()

    def visit_For(self, node: For) -> None:
        """Visit a body that runs; one whose loop may have no turns is passed over."""
        self.visit(node.extent)
        if isinstance(node.extent, IntImm) and node.extent.value > 0:
            self.simplifier.bind(node.var, 0, node.extent.value - 1)
            self.loops.add(node.var)
            self.visit(node.body)

    def visit_If(self, node: If) -> None:
        """Visit the condition alone."""
        self.visit(node.cond)

    def visit_While(self, node: While) -> None:
        """Visit the condition alone."""
        self.visit(node.cond)

    def visit_Conditional(self, node: Conditional) -> None:
        """Visit the condition alone."""
        self.visit(node.cond)

    def visit_LogicalOp(self, node: LogicalOp) -> None:
        """Visit what is asked first alone."""
        self.visit(node.a)

    def visit_Load(self, node: Load) -> None:
        """Check a read."""
        self._check(node.buffer, node.indices[0], "reads")
        self.generic(node)

    def visit_Store(self, node: Store) -> None:
        """Check a write."""
        self._check(node.buffer, node.indices[0], "writes")
        self.generic(node)

    def _check(self, buffer: Buffer, index: Expr, verb: str) -> None:
        if buffer.strides != row_major(buffer.shape):
            return
        size = 1
        for extent in buffer.shape:
            if not isinstance(extent, int):
                return
            size *= extent
        form = self.simplifier.form(index)
        # Only of sums of loop variables are both ends of the interval reached.
        if any(atom.kind is not AtomKind.VAR for atom in form.terms) or form.vars - self.loops:
            return
        least, most = form.bounds
        if least < 0 or most >= size:
            raise ExpressionError(
                f"{self.where} {verb} element {int(least if least < 0 else most)} of "
                f"{buffer.name}, which has {size} (index {index}); put what may be beyond the "
                "ends under ib.if_scope"
            )
