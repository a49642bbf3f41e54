"""The end of lowering: kernels with their launches, parameters and memory."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.errors import LoweringError
from autotune.ir.address import Address
from autotune.ir.expr import Expr, Load, Node, Var
from autotune.ir.stmt import Allocate, AsyncCopy, Buffer, For, LetStmt, Stmt, Store
from autotune.ir.structure import walk_once, walk_statements
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
    found: set[Buffer | Var] = set()
    if draft.params:
        used = _Used(body)
        _check_closed(draft.name, used, draft.threads, draft.params)
        found = used.found
    return LoweredKernel(
        name=draft.name,
        params=tuple(one for one in draft.params if one in found),
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
        min_blocks=draft.min_blocks,
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


def allocated_buffers(stmt: Stmt) -> list[Buffer]:
    """Returns the buffers that a statement allocates, outermost first."""
    return [each.buffer for each in walk_statements(stmt) if isinstance(each, Allocate)]


class _Used:
    """The buffers that a kernel reads or writes, its variables, and those that it defines."""

    def __init__(self, body: Stmt) -> None:
        self.found: set[Buffer | Var] = set()
        self.defined: set[Buffer | Var] = set()
        self._collect(body)

    def _collect(self, *nodes: Node) -> None:
        for node in walk_once(*nodes):
            match node:
                case Var():
                    self.found.add(node)
                case Load() | Store() | Address():
                    self.found.add(node.buffer)
                case AsyncCopy():
                    self.found |= {node.src, node.dst}
                case For() | LetStmt():
                    self.defined.add(node.var)
                case Allocate():  # the size of a buffer is no part of a statement
                    self._collect(*[n for n in node.buffer.shape if isinstance(n, Expr)])
                case _:
                    pass
