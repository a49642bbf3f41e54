"""The end of lowering: kernels with their launches, parameters and memory."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.ir.stmt import Allocate, Buffer, For, ForKind, If, LetStmt, Seq, Stmt, Store, seq
from autotune.ir.visitor import Visitor
from autotune.lower.function import Extents, LoweredKernel
from autotune.lower.plan import Thread


def finish_kernel(
    name: str,
    body: Stmt,
    threads: Sequence[Thread],
    args: Sequence[Buffer],
    gpu: bool,
    vthreads: int = 1,
) -> LoweredKernel:
    """Return the kernel of a body; ``args`` are all global buffers, in the order of parameters."""
    scan = _Scan()
    scan.visit(body)
    extent = {thread.tag: thread.extent for thread in threads}
    params = tuple(buffer for buffer in args if buffer in scan.used)
    return LoweredKernel(
        name=name,
        params=params,
        grid=_extents("blockIdx", extent),
        block=_extents("threadIdx", extent),
        body=_without_threads(body) if gpu else body,
        shared=tuple(b for b in scan.allocated if b.scope == "shared"),
        local=tuple(b for b in scan.allocated if b.scope == "local"),
        vthreads=vthreads,
    )


def _extents(kind: str, extent: dict[str, int]) -> Extents:
    x, y, z = (extent.get(f"{kind}.{d}", 1) for d in "xyz")
    return x, y, z


class _Scan(Visitor):
    """Collects the buffers that are used and allocated."""

    def __init__(self) -> None:
        self.used: set[Buffer] = set()
        self.allocated: list[Buffer] = []

    def visit_Load(self, node: object) -> None:
        """Note what is read."""
        self.used.add(node.buffer)  # type: ignore[attr-defined]
        self.visit(node.indices[0])  # type: ignore[attr-defined]

    def visit_Store(self, node: Store) -> None:
        """Note what is written."""
        self.used.add(node.buffer)
        self.visit(node.indices[0])
        self.visit(node.value)

    def visit_Allocate(self, node: Allocate) -> None:
        """Note what is allocated."""
        self.allocated.append(node.buffer)
        self.visit(node.body)

    def visit_AsyncCopy(self, node: object) -> None:
        """Note both ends of a copy."""
        self.used |= {node.src, node.dst}  # type: ignore[attr-defined]


def _without_threads(stmt: Stmt) -> Stmt:
    """Drop loops over threads: the launch runs them."""
    match stmt:
        case For():
            body = _without_threads(stmt.body)
            if stmt.kind is ForKind.THREAD:
                return body
            if body is stmt.body:
                return stmt
            return For(stmt.var, stmt.extent, stmt.kind, body, stmt.thread, stmt.annotations)
        case Seq(stmts):
            new = [_without_threads(each) for each in stmts]
            if all(a is b for a, b in zip(new, stmts, strict=True)):
                return stmt
            return seq(*new)
        case If(cond, then, other):
            rest = _without_threads(other) if other is not None else None
            return If(cond, _without_threads(then), rest)
        case Allocate(buffer, body):
            return Allocate(buffer, _without_threads(body))
        case LetStmt(var, value, body):
            return LetStmt(var, value, _without_threads(body))
        case _:
            return stmt

