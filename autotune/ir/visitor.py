"""Walking and rewriting trees: a method for each class of nodes that matters.

All other nodes go to ``generic``, which visits what is below the node; see `autotune.ir.dispatch`.
"""

from __future__ import annotations

from operator import is_
from typing import TypeVar

from autotune.ir.base import BinaryOp, Imm, Not, Var
from autotune.ir.dispatch import Dispatcher
from autotune.ir.expr import Call, Cast, Conditional, Expr, IntImm, Load, ProducerLoad
from autotune.ir.node import Node, fields_of
from autotune.ir.stmt import (
    Allocate,
    AsyncCopy,
    Evaluate,
    For,
    If,
    LetStmt,
    Seq,
    Stmt,
    Store,
    While,
    seq,
)
from autotune.ir.structure import walk


class Visitor(Dispatcher):
    """Visits every node of a tree for what it finds there; call `visit`."""

    def visit(self, node: Node) -> None:
        """Visit ``node`` by the method of its class."""
        self.methods[type(node)](self, node)

    def generic(self, node: Node) -> None:
        """Visit all nodes directly below ``node``, from left to right."""
        for each in type(node).below(node):
            self.visit(each)

    def visit_Var(self, node: Var) -> None:
        """Visit a variable: nothing is below it."""

    def visit_Imm(self, node: Imm) -> None:
        """Visit a constant: nothing is below it."""

    def visit_BinaryOp(self, node: BinaryOp) -> None:
        """Visit both operands."""
        self.visit(node.a)
        self.visit(node.b)


class StmtVisitor(Visitor):
    """A visitor of statements that does not visit expressions."""

    def visit_Expr(self, node: Expr) -> None:
        """Pass over an expression."""

    visit_Var = visit_Imm = visit_BinaryOp = visit_Expr

    def visit_Store(self, node: Store) -> None:
        """Pass over a store, which holds nothing else."""

    def visit_AsyncCopy(self, node: AsyncCopy) -> None:
        """Pass over a copy."""

    def visit_Evaluate(self, node: Evaluate) -> None:
        """Pass over an expression evaluated for its effect."""


AnyNode = TypeVar("AnyNode", Expr, Stmt)


def reads_in(*nodes: Node) -> list[ProducerLoad]:
    """Return the reads of tensors in the nodes, each before those in its indices."""
    return [node for node in walk(*nodes) if isinstance(node, ProducerLoad)]


class Rewriter(Dispatcher):
    """Rebuilds a tree; call `rewrite`. What nothing changed below is the same object as before.

    Operators and choices are rebuilt by their ``fold``, so constants that come in fold away.
    """

    def rewrite(self, node: AnyNode) -> AnyNode:
        """Return the node that replaces ``node``, by the method of its class."""
        found: AnyNode = self.methods[type(node)](self, node)
        return found

    def rewrite_all(self, nodes: tuple[AnyNode, ...]) -> tuple[AnyNode, ...]:
        """Rewrite each of some nodes; the same tuple if nothing changed."""
        new = tuple([self.rewrite(node) for node in nodes])
        return nodes if all(map(is_, nodes, new)) else new

    def generic(self, node: Node) -> object:
        """Rebuild ``node`` from its rewritten fields."""
        old = fields_of(node)
        new = [self._field(value) for value in old]
        if all(map(is_, old, new)):
            return node
        return type(node)(*new)

    def _field(self, value: object) -> object:
        if isinstance(value, Node):
            return self.rewrite(value)  # type: ignore[type-var]
        if isinstance(value, tuple) and any(isinstance(item, Node) for item in value):
            new = tuple(self._field(item) for item in value)
            return value if all(map(is_, value, new)) else new
        return value

    def visit_Var(self, node: Var) -> Expr:
        """Keep a variable."""
        return node

    def visit_Imm(self, node: Imm) -> Expr:
        """Keep a constant."""
        return node

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        """Rewrite both operands."""
        a, b = node.a, node.b
        new_a, new_b = self.rewrite(a), self.rewrite(b)
        if new_a is a and new_b is b:
            return node
        return type(node).fold(new_a, new_b)

    def visit_Not(self, node: Not) -> Expr:
        """Rewrite the operand."""
        a = self.rewrite(node.a)
        return node if a is node.a else Not.fold(a)

    def visit_Conditional(self, node: Conditional) -> Expr:
        """Rewrite the condition and both values, or the one that it is now known to choose.

        The other may be what the condition was to keep from being computed, as a division by zero.
        """
        cond = self.rewrite(node.cond)
        if cond is not node.cond and isinstance(cond, IntImm):
            return self.rewrite(node.then if cond.value else node.other)
        then, other = self.rewrite(node.then), self.rewrite(node.other)
        if cond is node.cond and then is node.then and other is node.other:
            return node
        return type(node).fold(cond, then, other)

    def visit_Cast(self, node: Cast) -> Expr:
        """Rewrite the value."""
        value = self.rewrite(node.value)
        return node if value is node.value else Cast(value, node.dtype)

    def visit_Call(self, node: Call) -> Expr:
        """Rewrite the arguments."""
        args = self.rewrite_all(node.args)
        return node if args is node.args else Call(node.name, args, node.dtype)

    def visit_Load(self, node: Load) -> Expr:
        """Rewrite the indices."""
        indices = self.rewrite_all(node.indices)
        return node if indices is node.indices else Load(node.buffer, indices)

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Rewrite the indices."""
        indices = self.rewrite_all(node.indices)
        return node if indices is node.indices else ProducerLoad(node.tensor, indices)

    def visit_Seq(self, node: Seq) -> Stmt:
        """Rewrite each statement."""
        stmts = self.rewrite_all(node.stmts)
        return node if stmts is node.stmts else Seq(stmts)

    def visit_For(self, node: For) -> Stmt:
        """Rewrite the extent and the body."""
        extent, body = self.rewrite(node.extent), self.rewrite(node.body)
        if extent is node.extent and body is node.body:
            return node
        return For(node.var, extent, node.kind, body, node.thread, node.annotations)

    def visit_Store(self, node: Store) -> Stmt:
        """Rewrite the indices and the value."""
        indices, value = self.rewrite_all(node.indices), self.rewrite(node.value)
        if indices is node.indices and value is node.value:
            return node
        return Store(node.buffer, indices, value)


class StmtRewriter(Rewriter):
    """A rewriter of statements that does not visit expressions.

    Sequences stay flat: what becomes a sequence itself, or nothing, joins the one around it.
    """

    def visit_Stmt(self, node: Stmt) -> Stmt:
        """Keep a statement that holds no other."""
        return node

    visit_Store = visit_Stmt

    def visit_Seq(self, node: Seq) -> Stmt:
        """Rewrite each statement."""
        stmts = self.rewrite_all(node.stmts)
        return node if stmts is node.stmts else seq(*stmts)

    def visit_For(self, node: For) -> Stmt:
        """Rewrite the body."""
        return node.with_body(self.rewrite(node.body))

    def visit_While(self, node: While) -> Stmt:
        """Rewrite the body."""
        body = self.rewrite(node.body)
        return node if body is node.body else While(node.cond, body)

    def visit_If(self, node: If) -> Stmt:
        """Rewrite both branches."""
        then = self.rewrite(node.then)
        other = self.rewrite(node.other) if node.other is not None else None
        if then is node.then and other is node.other:
            return node
        return If(node.cond, then, other)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Rewrite the body."""
        body = self.rewrite(node.body)
        return node if body is node.body else Allocate(node.buffer, body)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        """Rewrite the body."""
        body = self.rewrite(node.body)
        return node if body is node.body else LetStmt(node.var, node.value, body)


class _Substitute(Rewriter):
    def __init__(self, mapping: dict[Var, Expr]) -> None:
        self.mapping = mapping

    def visit_Var(self, node: Var) -> Expr:
        return self.mapping.get(node, node)


def substitute(node: AnyNode, mapping: dict[Var, Expr]) -> AnyNode:
    """Replace variables by expressions everywhere below ``node``.

    A variable that a loop or a let binds is not replaced at the binding itself.
    """
    return _Substitute(mapping).rewrite(node) if mapping else node
