"""The end of lowering: kernels with their launches, parameters and memory."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.errors import LoweringError
from autotune.ir.address import Address
from autotune.ir.expr import Expr, Load, Var
from autotune.ir.stmt import Allocate, AsyncCopy, Buffer, For, LetStmt, Stmt, Store
from autotune.ir.visitor import StmtVisitor, Visitor
from autotune.lowering.function import LoweredKernel
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.grid import grid_of
from autotune.lowering.plan import Thread


def describe(stmt: Stmt, draft: Draft) -> Stmt:
    """Notes launch, parameters and memory of the kernel as they are now, for its end."""
    draft.kernel = describe_kernel(stmt, draft)
    return stmt


def describe_kernel(body: Stmt, draft: Draft) -> LoweredKernel:
    """Returns the kernel of a body, which may have passes before it."""
    block = {t.tag: t.count for t in draft.threads if t.tag.startswith("threadIdx")}
    allocated = allocated_buffers(body)
    used = _Used()
    if draft.params:
        used.visit(body)
        _check_closed(draft.name, used, draft.threads, draft.params)
    return LoweredKernel(
        name=draft.name,
        params=tuple(one for one in draft.params if one in used.found),
        grid=grid_of(draft),
        block=(
            block.get("threadIdx.x", 1),
            block.get("threadIdx.y", 1),
            block.get("threadIdx.z", 1),
        ),
        body=body,
        shared=tuple(b for b in allocated if b.scope == "shared" and b not in draft.of_warps),
        local=tuple(b for b in allocated if b.scope == "local"),
        vthreads=draft.vthreads,
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


class _Allocated(StmtVisitor):
    """Collects allocations, outermost first."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []

    def visit_Allocate(self, node: Allocate) -> None:
        """Note a buffer."""
        self.buffers.append(node.buffer)
        self.visit(node.body)


def allocated_buffers(stmt: Stmt) -> list[Buffer]:
    """Returns the buffers that a statement allocates, outermost first."""
    found = _Allocated()
    found.visit(stmt)
    return found.buffers


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
        """Visit the size of a buffer too."""
        for extent in node.buffer.shape:
            if isinstance(extent, Expr):
                self.visit(extent)
        self.visit(node.body)

    def visit_Load(self, node: Load) -> None:
        """Note what is read."""
        self.found.add(node.buffer)
        self.visit(node.indices[0])

    def visit_Address(self, node: Address) -> None:
        """Note what is passed on."""
        self.found.add(node.buffer)
        self.visit(node.index)

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
