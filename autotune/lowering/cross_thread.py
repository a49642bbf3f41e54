"""Reductions over threads: each thread reduces a part, and all of them get the result.

Threads of one warp exchange values by butterfly shuffles. Where a total spans whole warps, each
warp stores its partial result in shared memory, and every warp combines them. Any other number of
threads is reduced by a tree in shared memory. A later pass inserts the barriers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autotune.ir.analysis_affine import Affine, constant
from autotune.ir.expr import Call, Combiner, Expr, IntImm, Load, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Allocate, Buffer, If, LetStmt, Stmt, Store, seq
from autotune.ir.visitor import substitute
from autotune.lowering.plan import Thread

WARP = 32
SHUFFLED = ("float32", "float64", "int32", "int64", "uint32", "uint64")
Place = tuple[Buffer, Expr]
FIRST = IntImm(0)


def combine(combiner: Combiner, lhs: Sequence[Expr], rhs: Sequence[Expr]) -> list[Expr]:
    """Return the combination of two tuples of values."""
    values = dict(zip((*combiner.lhs, *combiner.rhs), (*lhs, *rhs), strict=True))
    return [substitute(result, values) for result in combiner.result]


def store_together(name: str, places: Sequence[Place], values: Sequence[Expr]) -> Stmt:
    """Store several values as if at once: none of them sees another's new value."""
    if len(places) == 1:
        return Store(places[0][0], (places[0][1],), values[0])
    lets = [Var(f"{name}.new{i}", value.dtype) for i, value in enumerate(values)]
    stores = [Store(b, (i,), let) for (b, i), let in zip(places, lets, strict=True)]
    return _let(lets, values, seq(*stores))


def _let(names: Sequence[Var], values: Sequence[Expr], body: Stmt) -> Stmt:
    for name, value in reversed(list(zip(names, values, strict=True))):
        body = LetStmt(name, value, body)
    return body


class CrossThread:
    """The statements that reduce over some of the threads of a block.

    Args:
        simplifier: of the lowering.
        name: of the stage, for the names of its buffers.
        combiner: what the reduction does.
        threads: the thread axes that are reduced over.
        block: all thread axes of the block, in the order x, y, z.
    """

    def __init__(
        self,
        simplifier: Simplifier,
        name: str,
        combiner: Combiner,
        threads: Sequence[Thread],
        block: Sequence[Thread],
    ) -> None:
        self.simplifier = simplifier
        self.name = name
        self.combiner = combiner
        self.dtypes = [value.dtype for value in combiner.identity]
        ordered = sorted(block, key=lambda thread: thread.tag)
        self.reduced = [thread for thread in ordered if thread in threads]
        self.others = [thread for thread in ordered if thread not in threads]
        self.count = prod(thread.count for thread in self.reduced)
        self.innermost = ordered[: len(self.reduced)] == self.reduced
        self.places: list[Place] = [
            (Buffer(self._named("share", i), (1,), dtype, "local"), FIRST)
            for i, dtype in enumerate(self.dtypes)
        ]
        self._scratch: list[Buffer] = []

    def _named(self, what: str, i: int) -> str:
        return f"{self.name}.{what}{i if len(self.dtypes) > 1 else ''}"

    def start(self) -> Stmt:
        """Return the statement that sets each thread's partial result to the identity."""
        pairs = zip(self.places, self.combiner.identity, strict=True)
        return seq(*[Store(buffer, (index,), value) for (buffer, index), value in pairs])

    def totals(self) -> list[Expr]:
        """Return the totals, which every thread has in the end."""
        return [Load(buffer, (index,)) for buffer, index in self.places]

    def first_thread(self) -> list[Expr]:
        """Return the conditions that hold for just one of the reduced threads."""
        simplifier = self.simplifier
        return [simplifier.condition("==", simplifier.var(t.var)) for t in self.reduced]

    def around(self, share: Stmt, store: Stmt) -> Stmt:
        """Return the whole: compute the share, exchange, store the total; buffers included."""
        body = seq(share, self._exchange(), store)
        for buffer in [*self._scratch, *[buffer for buffer, _ in self.places]]:
            body = Allocate(buffer, body)
        return body

    def _exchange(self) -> Stmt:
        n = self.count
        shuffles = self.innermost and all(dtype in SHUFFLED for dtype in self.dtypes)
        if shuffles and n <= WARP and n & (n - 1) == 0:
            return self._butterfly(n)
        if shuffles and n % WARP == 0:
            return self._across_warps()
        return self._halving()

    def _butterfly(self, width: int) -> Stmt:
        """Exchange within groups of ``width`` neighbouring lanes of a warp."""
        steps = []
        offset = width // 2
        while offset:
            steps.append(self._shuffle(offset, width))
            offset //= 2
        return seq(*steps)

    def _shuffle(self, offset: int, width: int) -> Stmt:
        mine = self.totals()
        names = [Var(self._named("other", i), dtype) for i, dtype in enumerate(self.dtypes)]
        theirs = [
            Call("shfl_xor", (value, IntImm(offset), IntImm(width)), value.dtype) for value in mine
        ]
        both = store_together(self.name, self.places, combine(self.combiner, mine, names))
        return _let(names, theirs, both)

    def _linear(self, threads: Sequence[Thread]) -> Affine:
        """Return the number of a thread among all combinations of some axes, x fastest."""
        parts, step = [], 1
        for thread in threads:
            parts.append((self.simplifier.var(thread.var), step))
            step *= thread.count
        return self.simplifier.combine(parts)

    def _make_scratch(self, size: int) -> list[Buffer]:
        self._scratch = [
            Buffer(self._named("scratch", i), (size,), dtype, "shared")
            for i, dtype in enumerate(self.dtypes)
        ]
        return self._scratch

    def _across_warps(self) -> Stmt:
        simplifier = self.simplifier
        warps = self.count // WARP
        within = self._butterfly(WARP)
        if warps == 1:
            return within
        rank, group = self._linear(self.reduced), self._linear(self.others)
        groups = prod(thread.count for thread in self.others)
        scratch = self._make_scratch(warps * groups)
        base = simplifier.combine([(group, warps)])
        lane = simplifier.floormod(rank, WARP)
        own = simplifier.expr(simplifier.add(base, simplifier.floordiv(rank, WARP)))
        leave = store_together(self.name, [(b, own) for b in scratch], self.totals())
        leader = simplifier.condition("==", lane)
        if warps & (warps - 1) == 0:
            part = simplifier.expr(simplifier.add(base, simplifier.floormod(rank, warps)))
            fetch = self._fetch(scratch, part)
            return seq(within, If(leader, leave), fetch, self._butterfly(warps))
        first = simplifier.expr(base)
        steps = [within, If(leader, leave), self._fetch(scratch, first)]
        for i in range(1, warps):
            at = simplifier.expr(simplifier.add(base, constant(i)))
            more = [Load(buffer, (at,)) for buffer in scratch]
            values = combine(self.combiner, self.totals(), more)
            steps.append(store_together(self.name, self.places, values))
        return seq(*steps)

    def _fetch(self, scratch: Sequence[Buffer], index: Expr) -> Stmt:
        stores = [
            Store(buffer, (at,), Load(source, (index,)))
            for (buffer, at), source in zip(self.places, scratch, strict=True)
        ]
        return seq(*stores)

    def _halving(self) -> Stmt:
        simplifier = self.simplifier
        rank, group = self._linear(self.reduced), self._linear(self.others)
        groups = prod(thread.count for thread in self.others)
        scratch = self._make_scratch(self.count * groups)
        base = simplifier.combine([(group, self.count)])
        slot = simplifier.add(base, rank)
        own = simplifier.expr(slot)
        places: list[Place] = [(buffer, own) for buffer in scratch]
        steps = [store_together(self.name, places, self.totals())]
        mine = [Load(buffer, (own,)) for buffer in scratch]
        left = self.count
        while left > 1:
            half = (left + 1) // 2
            partner = simplifier.expr(simplifier.add(slot, constant(half)))
            values = combine(self.combiner, mine, [Load(b, (partner,)) for b in scratch])
            takes_part = simplifier.compare("<", rank, constant(left - half))
            steps.append(If(takes_part, store_together(self.name, places, values)))
            left = half
        return seq(*steps, self._fetch(scratch, simplifier.expr(base)))
