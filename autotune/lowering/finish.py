"""The end of lowering: kernels with their launches, parameters and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotune.ir.expr import Load
from autotune.ir.stmt import Allocate, AsyncCopy, Buffer, For, If, LetStmt, Seq, Stmt, Store
from autotune.ir.visitor import Visitor
from autotune.lowering.function import Extents, LoweredKernel
from autotune.lowering.plan import Thread


def describe_kernel(
    name: str, body: Stmt, threads: Sequence[Thread], args: Sequence[Buffer], vthreads: int
) -> LoweredKernel:
    """Return the kernel of a body, which may still be a draft.

    Args:
        name: of the entry.
        body: what it does.
        threads: its thread axes.
        args: all global buffers, in the order of parameters; it takes those that it uses.
        vthreads: how many virtual threads there were.
    """
    extent = {thread.tag: thread.extent for thread in threads}
    allocated = list(_allocated(body))
    used = _Used()
    if args:
        used.visit(body)
    return LoweredKernel(
        name=name,
        params=tuple(buffer for buffer in args if buffer in used.buffers),
        grid=_extents("blockIdx", extent),
        block=_extents("threadIdx", extent),
        body=body,
        shared=tuple(b for b in allocated if b.scope == "shared"),
        local=tuple(b for b in allocated if b.scope == "local"),
        vthreads=vthreads,
    )


def _extents(kind: str, extent: dict[str, int]) -> Extents:
    x, y, z = (extent.get(f"{kind}.{d}", 1) for d in "xyz")
    return x, y, z


def _allocated(stmt: Stmt) -> Iterator[Buffer]:
    match stmt:
        case Allocate(buffer, body):
            yield buffer
            yield from _allocated(body)
        case For() | LetStmt():
            yield from _allocated(stmt.body)
        case Seq(stmts):
            for each in stmts:
                yield from _allocated(each)
        case If(_, then, other):
            yield from _allocated(then)
            if other is not None:
                yield from _allocated(other)
        case _:
            pass


class _Used(Visitor):
    """Collects the buffers that are read or written."""

    def __init__(self) -> None:
        self.buffers: set[Buffer] = set()

    def visit_Load(self, node: Load) -> None:
        """Note what is read."""
        self.buffers.add(node.buffer)
        self.visit(node.indices[0])

    def visit_Store(self, node: Store) -> None:
        """Note what is written."""
        self.buffers.add(node.buffer)
        self.visit(node.indices[0])
        self.visit(node.value)

    def visit_AsyncCopy(self, node: AsyncCopy) -> None:
        """Note both ends of a copy."""
        self.buffers |= {node.src, node.dst}
