"""Statements written by hand, for the bodies of intrinsics and of `te.extern`.

`create` gives TVM's builder::

    ib = tir.ir_builder.create()
    with ib.for_range(0, n, name="i") as i:
        out[i] = data[i] * 2          # out = ib.buffer_ptr(buffer)
    body = ib.get()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir import (
    Allocate,
    Buffer,
    Evaluate,
    Expr,
    For,
    ForKind,
    If,
    IterVar,
    LetStmt,
    Load,
    Stmt,
    Var,
    While,
    as_expr,
    cast,
    seq,
)
from autotune.ir.address import Address
from autotune.ir.dtype import check_dtype
from autotune.ir.stmt import row_major
from autotune.te.declared_buffer import DeclaredBuffer, store_of
from autotune.te.intrinsics import as_condition

_KINDS = {
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "unroll": ForKind.UNROLLED,
    "vectorize": ForKind.VECTORIZED,
}
_SCOPES = {"": "local", "global": "local", "local": "local", "shared": "shared"}
THREAD_EXTENT = "thread_extent"
_PRAGMA = "pragma_"


class BufferVar:
    """Memory between brackets: reading builds a load, writing adds a store to the builder."""

    def __init__(self, builder: IRBuilder, buffer: Buffer, view: Buffer | None = None) -> None:
        self._builder = builder
        self.buffer = buffer
        # The same memory in the shape that indices are of.
        self.view = view or buffer

    @property
    def dtype(self) -> str:
        """The dtype of the elements."""
        return self.buffer.dtype

    @property
    def data(self) -> Address:
        """The address of the first element, for a call."""
        return Address(self.buffer, as_expr(0))

    def asobject(self) -> Address:
        """Return the address of the first element."""
        return self.data

    def _place(self, index: Any) -> Expr:
        if isinstance(self.view, DeclaredBuffer):
            return self.view.place(index)
        listed = index if isinstance(index, tuple | list) else (index,)
        if len(listed) == 1:
            return as_expr(listed[0])
        strides = self.view.strides
        if len(listed) != len(strides):
            raise ExpressionError(
                f"{self.buffer.name} has {len(strides)} dimensions, got {len(listed)} indices"
            )
        pairs = zip(listed, strides, strict=True)
        return sum((as_expr(each) * stride for each, stride in pairs), as_expr(0))

    def __getitem__(self, index: Any) -> Load:
        return Load(self.buffer, (self._place(index),))

    def __setitem__(self, index: Any, value: object) -> None:
        self._builder.emit(store_of(self.buffer, self._place(index), value))


class IRBuilder:
    """Collects statements; `get` returns them. Names and arguments are TVM's."""

    def __init__(self) -> None:
        self._open: list[list[Stmt]] = [[]]
        # What goes around all that follows in a scope, by depth: the number of statements before.
        self._around: list[list[tuple[int, Callable[[Stmt], Stmt]]]] = [[]]

    # Scopes.

    @contextmanager
    def _scope(self, close: Callable[[Stmt], Stmt]) -> Iterator[None]:
        self._open.append([])
        self._around.append([])
        try:
            yield
        finally:
            body = self._closed()
        self.emit(close(body))

    def _closed(self) -> Stmt:
        """Return the statements of the innermost scope, which ends."""
        stmts, around = self._open.pop(), self._around.pop()
        for start, wrap in reversed(around):
            stmts[start:] = [wrap(seq(*stmts[start:]))]
        return seq(*stmts)

    def _wrap_rest(self, wrap: Callable[[Stmt], Stmt]) -> None:
        self._around[-1].append((len(self._open[-1]), wrap))

    # Statements.

    def emit(self, stmt: object) -> None:
        """Add a statement, or an expression that is evaluated for its effect."""
        if isinstance(stmt, BufferVar) or not isinstance(stmt, Stmt | Expr):
            raise ExpressionError(f"emit: expected a statement or an expression, got {stmt!r}")
        self._open[-1].append(Evaluate(stmt) if isinstance(stmt, Expr) else stmt)

    @contextmanager
    def for_range(
        self,
        begin: Any,
        end: Any,
        name: str = "i",
        dtype: object = None,
        kind: str = "serial",
        for_type: str | None = None,
    ) -> Iterator[Any]:
        """Open a loop; give its variable.

        Args:
            begin: of the variable.
            end: which it does not reach.
            name: of the variable.
            dtype: accepted for TVM's scripts: variables are int32.
            kind: ``"serial"``, ``"parallel"``, ``"unroll"`` or ``"vectorize"``.
            for_type: the older name of ``kind``.

        Raises:
            ExpressionError: the kind is another.
        """
        del dtype
        how = _KINDS.get(for_type or kind)
        if how is None:
            raise ExpressionError(
                f"for_range: kind must be one of {', '.join(_KINDS)}, got {for_type or kind!r}"
            )
        var = Var(name, "int32", "data")
        extent = as_expr(end) - as_expr(begin)
        with self._scope(lambda body: For(var, extent, how, body)):
            yield var + begin

    @contextmanager
    def if_scope(self, cond: Any) -> Iterator[None]:
        """Open a branch that is taken where a condition holds."""
        test = as_expr(cond)
        with self._scope(lambda body: If(test, body)):
            yield

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """Open the other branch of the `if_scope` that has just ended.

        Raises:
            ExpressionError: none has just ended.
        """
        before = self._open[-1].pop() if self._open[-1] else None
        if not isinstance(before, If) or before.other is not None:
            raise ExpressionError("else_scope: expected an if_scope right before it")
        with self._scope(lambda body: If(before.cond, before.then, body)):
            yield

    def while_loop(self, condition: Any) -> Any:
        """Open a loop that runs as long as a condition holds, which is asked before each turn."""
        test = as_condition("while_loop", condition)
        return self._scope(lambda body: While(test, body))

    def new_scope(self) -> Any:
        """Open a scope, at whose end allocations in it end."""
        return self._scope(lambda body: body)

    def scope_attr(self, node: object, attr_key: str, value: Any) -> None:
        """Say something of all that follows: a thread axis, or a hint.

        Args:
            node: a thread axis, such as `te.thread_axis`, for ``"thread_extent"``.
            attr_key: ``"thread_extent"``, or ``"pragma_..."`` and others, which are hints.
            value: the extent, or the hint.

        Raises:
            ExpressionError: the thread axis is none.
        """
        if attr_key == THREAD_EXTENT:
            self._thread(node, value)
        elif attr_key.startswith(_PRAGMA):
            key = attr_key.removeprefix(_PRAGMA)
            one = Var("once", "int32", "data")
            self._wrap_rest(
                lambda body: For(
                    one, 1, ForKind.SERIAL, body, None, {key: getattr(value, "value", value)}
                )
            )

    def _thread(self, node: object, value: Any) -> None:
        if not isinstance(node, IterVar) or not node.thread_tag:
            raise ExpressionError(
                f"scope_attr: expected a thread axis such as te.thread_axis('threadIdx.x'), got "
                f"{node!r}"
            )
        var, tag, extent = node.var, node.thread_tag, as_expr(value)
        self._wrap_rest(lambda body: For(var, extent, ForKind.THREAD, body, tag))

    # Memory and values.

    def allocate(
        self, dtype: str, shape: Any, name: str = "buf", scope: str = "", **options: object
    ) -> BufferVar:
        """Allocate memory for what follows in the scope.

        Args:
            dtype: of the elements.
            shape: extents, which are constant.
            name: of it.
            scope: ``"local"``, the default, or ``"shared"``.
            options: accepted for TVM's scripts.

        Raises:
            ExpressionError: the scope is another.
        """
        del options
        if scope not in _SCOPES:
            raise ExpressionError(
                f"allocate({name!r}): expected a scope of local or shared, got {scope!r}"
            )
        listed = shape if isinstance(shape, tuple | list) else (shape,)
        extents = tuple(getattr(as_expr(each), "value", as_expr(each)) for each in listed)
        size: Any = 1
        for extent in extents:
            size = size * extent
        buffer = Buffer(name, (size,), check_dtype(dtype), _SCOPES[scope])
        self._wrap_rest(lambda body: Allocate(buffer, body))
        view = Buffer(name, extents, buffer.dtype, buffer.scope, row_major(extents))
        return BufferVar(self, buffer, view)

    def buffer_ptr(self, buffer: Buffer, shape: object = None) -> BufferVar:
        """Return the elements of a buffer, between brackets."""
        del shape
        if not isinstance(buffer, Buffer):
            raise ExpressionError(f"buffer_ptr: expected a buffer, got {buffer!r}")
        return BufferVar(self, buffer)

    def let(self, var_name: str, value: Any) -> Var:
        """Give a value a name for what follows in the scope."""
        given = as_expr(value)
        var = Var(var_name, given.dtype)
        self._wrap_rest(lambda body: LetStmt(var, given, body))
        return var

    def likely(self, expr: Any) -> Expr:
        """Return a condition unchanged."""
        return cast(expr, as_expr(expr).dtype)

    def get(self) -> Stmt:
        """Return all statements; the builder is empty then.

        Raises:
            ExpressionError: a scope is still open.
        """
        if len(self._open) != 1:
            raise ExpressionError("get: a scope is still open")
        body = self._closed()
        self._open, self._around = [[]], [[]]
        return body


def create() -> IRBuilder:
    """Return a new builder."""
    return IRBuilder()
