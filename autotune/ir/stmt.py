"""Statements: loops, stores, allocations, barriers, asynchronous copies, functions.

As expressions, statements are immutable by convention and hash by identity.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import Any, ClassVar, cast

from autotune.ir.base import Expr, IntImm, Var, as_expr
from autotune.ir.node import Below, Node, nothing, only


class ForKind(Enum):
    """The execution of a loop's iterations."""

    SERIAL = "serial"
    UNROLLED = "unrolled"
    VECTORIZED = "vectorized"
    PARALLEL = "parallel"
    THREAD = "thread"
    VTHREAD = "vthread"

    # Enum hashes by its name through Python code; identity is the same and much faster.
    __hash__ = object.__hash__


class Buffer:
    """Memory that a function reads or writes; every buffer is a different one.

    ``scope`` is ``"global"``, ``"shared"``, ``"local"``, ``"warp"``, or that of a fragment of a
    warp, such as ``"wmma.matrix_a"``. ``strides`` counts elements
    and is row-major unless given. Extents are ints where they are known.
    """

    __slots__ = ("dtype", "name", "scope", "shape", "strides")

    def __init__(
        self,
        name: str,
        shape: tuple[int | Expr, ...],
        dtype: str,
        scope: str = "global",
        strides: tuple[int | Expr, ...] | None = None,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.scope = scope
        self.strides = row_major(shape) if strides is None else strides

    def __repr__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        return f"{self.name}: {self.dtype}[{dims}] @{self.scope}"


def row_major(shape: tuple[int | Expr, ...]) -> tuple[int | Expr, ...]:
    """Return the strides of a dense array whose last dimension is contiguous."""
    strides: list[int | Expr] = []
    step: int | Expr = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


class Stmt(Node):
    """Base of all statements."""

    __slots__ = ()

    def __str__(self) -> str:
        return STMT_PRINTER[0](self)

    __repr__ = __str__


# How a statement prints itself; `autotune.ir.printer` puts its function here.
STMT_PRINTER: list[Callable[[Stmt], str]] = [object.__repr__]


class For(Stmt):
    """A loop from 0 to ``extent - 1``; ``thread`` names the thread axis of a bound loop.

    ``extent`` is an expression always, as sizes may be known only when the function is called;
    ``iterations`` is its number where that is a constant.
    """

    __slots__ = ("annotations", "body", "extent", "kind", "thread", "var")
    __match_args__ = ("var", "extent", "kind", "body", "thread", "annotations")
    below: ClassVar[Below] = attrgetter("var", "extent", "body")

    def __init__(
        self,
        var: Var,
        extent: int | Expr,
        kind: ForKind,
        body: Stmt,
        thread: str | None = None,
        annotations: dict[str, Any] | None = None,
    ) -> None:
        self.var = var
        self.extent: Expr = as_expr(extent)
        self.kind = kind
        self.body = body
        self.thread = thread
        self.annotations = annotations or {}

    @property
    def iterations(self) -> int | None:
        """The number of iterations; None where it depends on sizes that come with the call."""
        return self.extent.value if isinstance(self.extent, IntImm) else None

    def with_body(self, body: Stmt) -> For:
        """Returns the same loop around another body; itself around its own."""
        if body is self.body:
            return self
        return For(self.var, self.extent, self.kind, body, self.thread, self.annotations)

    def with_annotation(self, name: str, value: Any = True) -> For:
        """Returns the same loop with one more annotation, or another value of it."""
        return self._annotated({**self.annotations, name: value})

    def without_annotations(self, *names: str) -> For:
        """Returns the same loop without some annotations; itself if it has none of them."""
        kept = {name: value for name, value in self.annotations.items() if name not in names}
        return self if len(kept) == len(self.annotations) else self._annotated(kept)

    def _annotated(self, annotations: dict[str, Any]) -> For:
        return For(self.var, self.extent, self.kind, self.body, self.thread, annotations)


class Store(Stmt):
    """A write of ``value`` to an element of a buffer."""

    __slots__ = ("buffer", "indices", "value")
    __match_args__ = ("buffer", "indices", "value")
    below: ClassVar[Below] = lambda store: (*store.indices, store.value)

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> None:
        self.buffer = buffer
        self.indices = indices
        self.value = value


class If(Stmt):
    """``then`` if ``cond`` holds, or else ``other``, if there is one."""

    __slots__ = ("cond", "other", "then")
    __match_args__ = ("cond", "then", "other")

    def __init__(self, cond: Expr, then: Stmt, other: Stmt | None = None) -> None:
        self.cond = cond
        self.then = then
        self.other = other


class While(Stmt):
    """``body`` again and again, as long as ``cond`` holds before it."""

    __slots__ = ("body", "cond")
    __match_args__ = ("cond", "body")

    def __init__(self, cond: Expr, body: Stmt) -> None:
        self.cond = cond
        self.body = body


class Seq(Stmt):
    """Statements one after another."""

    __slots__ = ("stmts",)
    __match_args__ = ("stmts",)
    below: ClassVar[Below] = attrgetter("stmts")

    def __init__(self, stmts: tuple[Stmt, ...]) -> None:
        self.stmts = stmts


def seq(*stmts: Stmt | None) -> Stmt:
    """Make a flat sequence of statements, leaving out None; one statement stays alone."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Seq):
            flat.extend(stmt.stmts)
        elif stmt is not None:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


class Allocate(Stmt):
    """An allocation of a buffer whose scope is ``body``."""

    __slots__ = ("body", "buffer")
    __match_args__ = ("buffer", "body")
    below: ClassVar[Below] = only("body")

    def __init__(self, buffer: Buffer, body: Stmt) -> None:
        self.buffer = buffer
        self.body = body


class LetStmt(Stmt):
    """A value under a name while ``body`` runs."""

    __slots__ = ("body", "value", "var")
    __match_args__ = ("var", "value", "body")
    below: ClassVar[Below] = attrgetter("var", "value", "body")

    def __init__(self, var: Var, value: Expr, body: Stmt) -> None:
        self.var = var
        self.value = value
        self.body = body


class Evaluate(Stmt):
    """An expression evaluated for its effect."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    below: ClassVar[Below] = only("value")

    def __init__(self, value: Expr) -> None:
        self.value = value


class Barrier(Stmt):
    """All threads of a block (``"shared"``) or of a warp (``"warp"``) wait for each other."""

    __slots__ = ("scope",)
    __match_args__ = ("scope",)
    below: ClassVar[Below] = nothing

    def __init__(self, scope: str = "shared") -> None:
        self.scope = scope


class AsyncCopy(Stmt):
    """Begin to copy so many bytes between buffers without waiting for them."""

    __slots__ = ("bytes", "dst", "dst_index", "src", "src_index")
    __match_args__ = ("dst", "dst_index", "src", "src_index", "bytes")
    below: ClassVar[Below] = attrgetter("dst_index", "src_index")

    def __init__(
        self, dst: Buffer, dst_index: Expr, src: Buffer, src_index: Expr, bytes: int
    ) -> None:
        self.dst = dst
        self.dst_index = dst_index
        self.src = src
        self.src_index = src_index
        self.bytes = bytes


class AsyncCommit(Stmt):
    """Close the group of asynchronous copies begun since the last commit."""

    __slots__ = ()
    below: ClassVar[Below] = nothing


class AsyncWait(Stmt):
    """Wait until at most ``pending`` groups of asynchronous copies are unfinished."""

    __slots__ = ("pending",)
    __match_args__ = ("pending",)
    below: ClassVar[Below] = nothing

    def __init__(self, pending: int) -> None:
        self.pending = pending


# All kinds that the body of a function is made of.
AnyStmt = (
    For | While | Store | If | Seq | Allocate | LetStmt | Evaluate | Barrier | AsyncCopy
    | AsyncCommit | AsyncWait
)  # fmt: skip


def one_of_all(stmt: Stmt) -> AnyStmt:
    """Returns the statement for a `match` that has a case for every kind."""
    return cast(AnyStmt, stmt)


class Function(Stmt):
    """A whole function: its arguments, which are global buffers, and its body.

    ``roles`` says of each argument ``"in"``, ``"out"`` or ``"inout"``.
    """

    __slots__ = ("args", "body", "name", "roles")
    __match_args__ = ("name", "args", "body", "roles")

    def __init__(
        self, name: str, args: tuple[Buffer, ...], body: Stmt, roles: tuple[str, ...]
    ) -> None:
        self.name = name
        self.args = args
        self.body = body
        self.roles = roles
