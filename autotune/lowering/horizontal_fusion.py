"""Copies of operands that run beside one another, as blocks of one kernel.

Copies in another order of dimensions (`Schedule.permute`) are short, and none reads what another
writes. Each as a kernel of its own would wait for the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.ir import Expr, Var, const, substitute
from autotune.ir.stmt import If, LetStmt, Stmt
from autotune.ir.structure import walk
from autotune.lowering.function import LoweredKernel
from autotune.te.rewrite import PERMUTED

_BLOCK = "blockIdx.x"
# Bytes of shared memory that a kernel has without asking for more.
_SHARED_BYTES = 48 * 1024


def fuse_copies(kernels: Sequence[LoweredKernel]) -> list[LoweredKernel]:
    """Returns kernels with neighbouring ones that copy as one, if they can be."""
    done: list[LoweredKernel] = []
    for kernel in kernels:
        if done and _fit(done[-1], kernel):
            done[-1] = _together(done[-1], kernel)
        else:
            done.append(kernel)
    return done


def _fit(first: LoweredKernel, second: LoweredKernel) -> bool:
    """Return whether two kernels are copies that have nothing in common but the threads."""
    both = (first, second)
    if any(each.unfinished or not each.stage.endswith(f".{PERMUTED}") for each in both):
        return False
    grids = (*first.grid, *second.grid)
    in_rows = all(isinstance(n, int) for n in grids) and grids[1:3] == grids[4:] == (1, 1)
    apart = not set(first.params) & set(second.params)
    small = first.shared_bytes + second.shared_bytes <= _SHARED_BYTES
    return in_rows and apart and small and first.block == second.block


def _together(first: LoweredKernel, second: LoweredKernel) -> LoweredKernel:
    """Return a kernel whose first blocks are those of one, and the others those of another."""
    count, others = first.grid[0], second.grid[0]
    assert isinstance(count, int)
    assert isinstance(others, int)
    block, own = Var(_BLOCK, "int32", "thread"), Var("block", "int32")
    renamed: dict[Var, Expr] = dict.fromkeys(_blocks(second.body), own)
    body = LetStmt(own, block - const(count), substitute(second.body, renamed))
    return replace(
        first,
        params=(*first.params, *second.params),
        grid=(count + others, 1, 1),
        body=If(block < const(count), first.body, body),
        shared=(*first.shared, *second.shared),
        local=(*first.local, *second.local),
        vthreads=max(first.vthreads, second.vthreads),
        min_blocks=max(first.min_blocks, second.min_blocks),
    )


def _blocks(body: Stmt) -> list[Var]:
    """Return the variables that are the number of a block."""
    return [node for node in walk(body) if isinstance(node, Var) and node.name == _BLOCK]
