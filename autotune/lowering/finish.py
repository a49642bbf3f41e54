"""The end of lowering: kernels with their launches, parameters and memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autotune.errors import LoweringError
from autotune.ir.expr import Expr, Load, Var
from autotune.ir.stmt import Allocate, AsyncCopy, Buffer, For, If, LetStmt, Seq, Stmt, Store
from autotune.ir.visitor import Visitor
from autotune.lowering.function import LoweredKernel
from autotune.lowering.plan import Thread


def describe_kernel(
    name: str,
    body: Stmt,
    threads: Sequence[Thread],
    args: Sequence[Buffer | Var],
    vthreads: int,
    grid: Mapping[str, int | Expr],
) -> LoweredKernel:
    """Return the kernel of a body, which may still be a draft.

    Args:
        name: of the entry.
        body: what it does.
        threads: its thread axes.
        args: all global buffers and numbers, in the order of parameters; it takes those that it
            uses.
        vthreads: how many virtual threads there were.
        grid: the extents of the axes of blocks, by tag.
    """
    block = {t.tag: t.count for t in threads if t.tag.startswith("threadIdx")}
    allocated = list(_allocated(body))
    used = _Used()
    if args:
        used.visit(body)
        _check_closed(name, used, threads, args)
    return LoweredKernel(
        name=name,
        params=tuple(one for one in args if one in used.found),
        grid=(grid.get("blockIdx.x", 1), grid.get("blockIdx.y", 1), grid.get("blockIdx.z", 1)),
        block=(
            block.get("threadIdx.x", 1),
            block.get("threadIdx.y", 1),
            block.get("threadIdx.z", 1),
        ),
        body=body,
        shared=tuple(b for b in allocated if b.scope == "shared"),
        local=tuple(b for b in allocated if b.scope == "local"),
        vthreads=vthreads,
    )


def _check_closed(
    name: str, used: _Used, threads: Sequence[Thread], args: Sequence[Buffer | Var]
) -> None:
    """Raise if a kernel uses a number that it does not get."""
    given = used.defined.union([thread.var for thread in threads], args)
    for one in used.found - given:
        if isinstance(one, Var):
            raise LoweringError(
                f"{name}: variable {one.name!r} is used, but no argument says what it is; add it "
                "to the argument list"
            )


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
    """Collects the buffers that are read or written, and the variables."""

    def __init__(self) -> None:
        self.found: set[Buffer | Var] = set()
        self.defined: set[Buffer | Var] = set()

    def visit_Var(self, node: Var) -> None:
        """Note a number."""
        self.found.add(node)

    def visit_For(self, node: For) -> None:
        """Note what a loop defines; its end may be a number."""
        self.defined.add(node.var)
        self.visit(node.extent)
        self.visit(node.body)

    def visit_LetStmt(self, node: LetStmt) -> None:
        """Note what is defined."""
        self.defined.add(node.var)
        self.visit(node.value)
        self.visit(node.body)

    def visit_Allocate(self, node: Allocate) -> None:
        """Look into the size of a buffer, too."""
        for extent in node.buffer.shape:
            if isinstance(extent, Expr):
                self.visit(extent)
        self.visit(node.body)

    def visit_Load(self, node: Load) -> None:
        """Note what is read."""
        self.found.add(node.buffer)
        self.visit(node.indices[0])

    def visit_Store(self, node: Store) -> None:
        """Note what is written."""
        self.found.add(node.buffer)
        self.visit(node.indices[0])
        self.visit(node.value)

    def visit_AsyncCopy(self, node: AsyncCopy) -> None:
        """Note both ends of a copy."""
        self.found |= {node.src, node.dst}
        self.visit(node.src_index)
        self.visit(node.dst_index)
