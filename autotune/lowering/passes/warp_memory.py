"""Memory of a warp: registers of its threads, where each reads only what it has stored itself.

An index of such a buffer has the threads' numbers as digits. Without them it counts the elements
of one thread: of ``64*y + 8*j + 2*x + e``, where ``x`` and ``y`` are threads and ``e`` is below 2,
that is ``2*j + e``. A thread whose number is no digit stores what others store too. All other
buffers stay in shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import isinf, prod

from autotune.ir.address import Address
from autotune.ir.analysis_affine import Affine, AtomKind
from autotune.ir.expr import Expr, Load, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Allocate, AsyncCopy, Buffer, If, Stmt, Store
from autotune.ir.structure import variables
from autotune.ir.visitor import Rewriter, Visitor
from autotune.lowering.extents import known
from autotune.lowering.passes.draft import Draft
from autotune.utils.math import ceil_div


def place_in_registers(stmt: Stmt, draft: Draft) -> Stmt:
    """Puts memory of a warp in registers if each thread reads only what it has stored itself."""
    if not draft.of_warps:
        return stmt
    threads = _threads(draft)
    used, owned = _shares(stmt, draft)
    draft.of_warps = frozenset()
    shared = used - owned.keys()
    if shared:
        stmt = _Once(draft.simplifier, shared, threads).rewrite(stmt)
    return _Place(draft.simplifier, owned).rewrite(stmt) if owned else stmt


def in_registers(stmt: Stmt, draft: Draft) -> Set[Buffer]:
    """Returns memory of a warp of which each thread reads only what it has stored itself."""
    _, owned = _shares(stmt, draft)
    return owned.keys()


def _threads(draft: Draft) -> dict[Var, int]:
    return {t.var: t.count for t in draft.threads if t.tag.startswith("threadIdx")}


def _shares(stmt: Stmt, draft: Draft) -> tuple[Set[Buffer], dict[Buffer, _Share]]:
    """Return the memory of warps that is used, and of what each thread has a share."""
    threads = _threads(draft)
    scan = _Scan(draft.of_warps, draft.simplifier, threads.keys())
    scan.visit(stmt)
    owned = {}
    for buffer, indices in scan.indices.items():
        share = _Share.of(buffer, indices, threads)
        if share is not None and buffer not in scan.partly:
            owned[buffer] = share
    return scan.indices.keys(), owned


class _Scan(Visitor):
    """Notes the indices of buffers, and which of them not all threads store that are there."""

    def __init__(self, buffers: Set[Buffer], simplifier: Simplifier, threads: Set[Var]) -> None:
        self.buffers, self.simplifier, self.threads = buffers, simplifier, threads
        self.indices: dict[Buffer, list[Affine]] = {}
        self.partly: set[Buffer] = set()
        self._conditions = 0

    def visit_Load(self, node: Load) -> None:
        """Note a load."""
        self._note(node.buffer, node.indices[0])

    def visit_Address(self, node: Address) -> None:
        """Note what is passed on, which are no registers."""
        self._note(node.buffer, node.index)
        self.partly.add(node.buffer)

    def visit_Store(self, node: Store) -> None:
        """Note a store, and what it loads."""
        self._note(node.buffer, node.indices[0])
        if self._conditions and node.buffer in self.buffers:
            self.partly.add(node.buffer)
        self.visit(node.value)

    def visit_If(self, node: If) -> None:
        """Visit what some threads may not do, if the condition depends on threads."""
        apart = not self.threads.isdisjoint(variables(node.cond))
        self._conditions += apart
        self.generic(node)
        self._conditions -= apart

    def visit_AsyncCopy(self, node: AsyncCopy) -> None:
        """Note what a copy fills, which are no registers."""
        self.partly.add(node.dst)
        self.generic(node)

    def _note(self, buffer: Buffer, index: Expr) -> None:
        if buffer in self.buffers:
            self.indices.setdefault(buffer, []).append(self.simplifier.form_of(index))
        self.visit(index)


@dataclass(frozen=True)
class _Run:
    """Elements of one thread, ``unit`` apart in memory of the warp; None for the count of all."""

    unit: int
    count: int | None

    def holds(self, weight: int) -> bool:
        """Return whether steps of such a weight stay in the run, if they are few enough."""
        return weight % self.unit == 0 and (self.count is None or weight < self.unit * self.count)


@dataclass(frozen=True)
class _Share:
    """What each thread has of a buffer: runs of elements, between digits of the threads."""

    buffer: Buffer
    digits: Mapping[Var, int]
    runs: Sequence[_Run]

    @classmethod
    def of(
        cls, old: Buffer, indices: Sequence[Affine], extents: Mapping[Var, int]
    ) -> _Share | None:
        """Return the share of each thread; None if one touches elements of another."""
        digits = _digits(indices[0], extents)
        if digits is None or not digits:
            return None
        runs, unit = [], 1
        for var, weight in sorted(digits.items(), key=lambda digit: digit[1]):
            if weight % unit:
                return None
            runs.append(_Run(unit, weight // unit))
            unit = weight * extents[var]
        last = ceil_div(prod(known(old.shape, old.name)), unit)
        size = prod([run.count or 1 for run in runs]) * last
        new = Buffer(old.name, (size,), old.dtype, "local")
        share = cls(new, digits, [*runs, _Run(unit, None)])
        same = all(_digits(each, extents) == digits for each in indices)
        return share if same and all(share.parts(each) is not None for each in indices) else None

    def parts(self, index: Affine) -> list[Affine] | None:
        """Return the place in each run of an index; None if it is not a sum of these."""
        found, rest = [], index.const
        terms = {a: k for a, k in index.terms.items() if a.vars.isdisjoint(self.digits)}
        for run, after in zip(self.runs, [*self.runs[1:], None], strict=True):
            own = {a: k for a, k in terms.items() if run.holds(k)}
            terms = {a: k for a, k in terms.items() if a not in own}
            within = rest if run.count is None else rest % (run.unit * run.count)
            form = Affine({a: k // run.unit for a, k in own.items()}, within // run.unit)
            low, high = form.bounds
            if low < 0 or isinf(high) or (run.count is not None and high >= run.count):
                return None
            if after is not None:
                rest -= within
                if rest % after.unit:
                    return None  # a constant digit of a thread: an element of another one
            found.append(form)
        return None if terms else found

    def place(self, simplifier: Simplifier, index: Affine) -> Expr:
        """Return where a thread has an element."""
        parts = self.parts(index)
        assert parts is not None
        pairs, stride = [], 1
        for part, run in zip(parts, self.runs, strict=True):
            pairs.append((part, stride))
            stride *= run.count or 1
        return simplifier.expr(simplifier.combine(pairs))


def _digits(index: Affine, extents: Mapping[Var, int]) -> dict[Var, int] | None:
    """Return the weights of threads in an index; None where one is not a digit."""
    found = {}
    for atom, weight in index.terms.items():
        if atom.vars.isdisjoint(extents):
            continue
        if atom.kind is not AtomKind.VAR or weight <= 0:
            return None
        (var,) = atom.vars
        found[var] = weight
    return found


class _Place(Rewriter):
    """Moves accesses to the registers."""

    def __init__(self, simplifier: Simplifier, owned: Mapping[Buffer, _Share]) -> None:
        self.simplifier, self.owned = simplifier, owned

    def visit_Load(self, node: Load) -> Expr:
        """Move a load."""
        share = self.owned.get(node.buffer)
        if share is None:
            return super().visit_Load(node)
        return Load(share.buffer, (self._index(share, node.indices[0]),))

    def visit_Store(self, node: Store) -> Stmt:
        """Move a store."""
        share, value = self.owned.get(node.buffer), self.rewrite(node.value)
        if share is not None:
            return Store(share.buffer, (self._index(share, node.indices[0]),), value)
        return Store(node.buffer, self.rewrite_all(node.indices), value)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Allocate registers."""
        share, body = self.owned.get(node.buffer), self.rewrite(node.body)
        return Allocate(node.buffer if share is None else share.buffer, body)

    def _index(self, share: _Share, index: Expr) -> Expr:
        return share.place(self.simplifier, self.simplifier.form_of(index))


class _Once(Rewriter):
    """Lets one thread store what all of them have, in buffers that stay in shared memory."""

    def __init__(
        self, simplifier: Simplifier, buffers: Set[Buffer], threads: Mapping[Var, int]
    ) -> None:
        self.simplifier, self.buffers, self.threads = simplifier, buffers, threads
        self._asked: list[Expr] = []

    def visit_If(self, node: If) -> Stmt:
        """Note what is asked already."""
        self._asked.append(node.cond)
        then = self.rewrite(node.then)
        other = None if node.other is None else self.rewrite(node.other)
        self._asked.pop()
        return If(node.cond, then, other)

    def visit_Store(self, node: Store) -> Stmt:
        """Ask for the first of the threads that the index does not depend on."""
        if node.buffer not in self.buffers:
            return node
        known = {*variables(*self._asked), *variables(*node.indices)}
        alone = [var for var, count in self.threads.items() if count > 1 and var not in known]
        if not alone:
            return node
        first = [self.simplifier.condition("==", self.simplifier.var(var)) for var in alone]
        return If(self.simplifier.conjunction(first), node)
