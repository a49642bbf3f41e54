"""Two products of a part of rows, of which the second runs while the next part is worked on.

A loop over parts of rows, as of attention, multiplies, computes factors of the sums, and
multiplies these. Its warpgroups wait for each product in turn, and tensor cores for the factors.
Where the second product is begun behind the first one of the next part, it is at work while the
factors of that part are computed (FlashAttention-3: Shah et al., 2024)::

    for part:                          first(0), wait, factors(0)
      first(part), wait                for part in 0 .. parts - 1:
      factors(part)             ->       first(part + 1), second(part), wait for the first
      second(part), wait                 factors(part + 1), wait for the second
                                       second(parts - 1), wait

What is stored in registers that the second product reads, or done to its sums, comes behind the
second wait.

Two warpgroups of a block take turns at beginning products (`Turns`), so that those of one run
while the other computes factors, and copy what is needed next only when they have begun.
Assemblers would compute all factors behind the second wait, too, where that ends a warp's work
sooner; so something is in the way then, a branch that depends on what is left of them
(``wgmma_hold``). With all this 16 heads of 2048 rows of 128 took 66.6 us on an H200, without the
branch 68.1, with copies ahead of products 74.4, and in a plain loop 71.4 to 73; with the branch 8
heads of 4096 rows of 64, of which a multiprocessor has several blocks, 84.2 us instead of 81.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from autotune.ir.expr import Add, Call, Expr, IntImm, Load
from autotune.ir.stmt import Buffer, Evaluate, Stmt, Store, seq
from autotune.ir.structure import walk
from autotune.lowering.extents import known
from autotune.lowering.passes.buffer_accesses import read_buffers, written_buffers
from autotune.lowering.passes.sums_in_flight import FENCE, SUMS, WAIT, effect, waited

HOLD, TURN = "wgmma_hold", "warpgroup_turn"


class Turns:
    """The statements by which two warpgroups take turns; none where there are not two.

    Args:
        count: of warpgroups.
    """

    def __init__(self, count: int) -> None:
        self.are_two = count == 2
        steps = [effect(TURN, step) if self.are_two else seq() for step in range(4)]
        self.begin, self.wait, self.next, self.end = steps


@dataclass(frozen=True)
class TwoProducts:
    """The statements of one part, in the order in which they are run.

    Attributes:
        first: begins the first product, without the wait for it.
        first_sums: says that its sums are there.
        factors: what is computed of these while the second product of the part before runs.
        held: keeps these before the wait that follows.
        second: begins the second product.
        second_sums: says that its sums are there.
        prepared: what is done to registers of the second product before it begins.
    """

    first: Stmt
    first_sums: Stmt
    factors: Stmt
    held: Stmt
    prepared: Stmt
    second: Stmt
    second_sums: Stmt

    @property
    def alone(self) -> Sequence[Stmt]:
        """All up to the second product, with none of the part before at work."""
        return self.first, waited(0), self.first_sums, self.factors, self.prepared

    @classmethod
    def of(cls, stmts: Sequence[Stmt]) -> TwoProducts | None:
        """Returns what statements do; None if they are not two products, one after another."""
        fences, waits, sums = (_places(stmts, name) for name in (FENCE, WAIT, SUMS))
        if not len(fences) == len(waits) == len(sums) == 2:
            return None
        second, end = seq(*stmts[fences[1] : waits[1]]), sums[1]
        used, in_flight = _accesses(second), read_buffers(stmts[end])
        between = stmts[sums[0] + 1 : fences[1]]
        apart = [
            bool(written_buffers(each) & used or read_buffers(each) & in_flight)
            for each in between
        ]
        first, last = seq(*stmts[: waits[0]]), stmts[end + 1 :]
        if _is_bound(between, apart) or any(_accesses(each) & used for each in (first, *last)):
            return None
        pairs = list(zip(between, apart, strict=True))
        factors = [each for each, moves in pairs if not moves]
        prepared = [each for each, moves in pairs if moves]
        held = _held(factors, [*prepared, *last])
        return cls(
            first,
            stmts[sums[0]],
            seq(*factors),
            held,
            seq(*prepared, *last),
            second,
            stmts[end],
        )


def _held(factors: Sequence[Stmt], later: Sequence[Stmt]) -> Stmt:
    """Return the branch on all floats that are computed with factors and read later."""
    read = {buffer for each in later for buffer in read_buffers(each)}
    stored = dict.fromkeys(
        node.buffer for each in factors for node in walk(each) if isinstance(node, Store)
    )
    left: list[Expr] = [
        Load(buffer, (IntImm(i),))
        for buffer in stored
        if buffer in read and buffer.dtype == "float32"
        for i in range(prod(known(buffer.shape, buffer.name)))
    ]
    return Evaluate(Call(HOLD, (reduce(Add, left),), "int32")) if left else seq()


def _places(stmts: Sequence[Stmt], name: str) -> list[int]:
    """Return which statements are calls of a function."""
    return [
        i
        for i, each in enumerate(stmts)
        if isinstance(each, Evaluate) and isinstance(each.value, Call) and each.value.name == name
    ]


def _accesses(stmt: Stmt) -> set[Buffer]:
    return read_buffers(stmt) | written_buffers(stmt)


def _is_bound(stmts: Sequence[Stmt], moved: Sequence[bool]) -> bool:
    """Return whether some that move behind all others do what one behind them depends on."""
    read, written = set[Buffer](), set[Buffer]()
    for each, moves in zip(stmts, moved, strict=True):
        if moves:
            read |= read_buffers(each)
            written |= written_buffers(each)
        elif _accesses(each) & written or written_buffers(each) & read:
            return True
    return False
