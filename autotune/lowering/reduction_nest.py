"""The loops of reductions: initialisation, updates, and reductions over threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine
from autotune.ir.expr import Expr, Load, Reduce, Var
from autotune.ir.stmt import Buffer, For, ForKind, Stmt, Store, seq
from autotune.ir.structure import variables
from autotune.ir.visitor import reads_in
from autotune.lowering.cross_thread import CrossThread, combine, store_together
from autotune.lowering.needed import over_needed
from autotune.lowering.plan import StagePlan
from autotune.lowering.stage_nest import Guards, Level, Nests, StageNest, place_of
from autotune.te.joined_parts import JOINS_PARTS


class ReductionNest(StageNest):
    """Builds the loops of a reduction in one thread.

    Loops outside the first reduction axis are common to both parts; inside them come the data
    loops that give every element its first value, then all loops that update it.
    """

    def __init__(
        self, nests: Nests, plan: StagePlan, opened: frozenset[Var], reduction: Reduce
    ) -> None:
        super().__init__(nests, plan, opened)
        self.reduction = reduction

    def build(self) -> Stmt:
        """Return the statement of the whole stage."""
        reduces = [i for i, level in enumerate(self.levels) if level.is_reduce]
        begin = reduces[0] if reduces else len(self.levels)
        self._check_init(begin)
        conditions = self.conditions()
        guards = self.guards(conditions)
        common = {i: found for i, found in guards.items() if i <= begin}
        inner = {i: found for i, found in guards.items() if i > begin}
        for i, found in self._counting(begin).items():
            inner.setdefault(i, []).extend(found)
        outer = {c for found in common.values() for c in found}
        spatial = [c for c in conditions if c not in outer and not self.reduces(c)]

        def tail() -> Stmt:
            init = self._init(begin, spatial)
            return seq(init, self.loops(begin, len(self.levels), inner, self._update))

        return self.loops(0, begin, common, tail)

    def _check_init(self, begin: int) -> None:
        """Raise if a stage of first values is computed inside loops that come after these."""
        ops = {load.tensor.op for load in reads_in(*self.plan.body.init)}
        for level in self.levels[begin:]:
            for child in level.children:
                if child.op in ops:
                    name = self.plan.stage.op.name
                    raise LoweringError(
                        f"compute_at: {child.op.name} is where {name} begins (init=...), but is "
                        f"computed at {level.leaf.var.name!r}, which is inside the reduction of "
                        f"{name}; compute it at a loop outside that, or at the root"
                    )

    def _counting(self, least: int) -> Guards:
        """Return the guards for the condition under which a value counts."""
        condition = self.plan.body.condition
        return {} if condition is None else self.guards([self.nests.flat(condition)], least)

    def reduces(self, condition: Expr) -> bool:
        """Return whether a condition depends on reduction axes."""
        axes = [self.plan.loops[level.leaf].vars for level in self.levels if level.is_reduce]
        return not frozenset[Var]().union(*axes).isdisjoint(variables(condition))

    def around(self, level: Level, var: Var, body: Stmt) -> Stmt:
        """Put the loop of a level around a body; the outermost reduction is of what is needed."""
        loop = super().around(level, var, body)
        outermost = next((each for each in self.levels if each.is_reduce), None)
        if level is not outermost or not isinstance(loop, For) or level.kind is not ForKind.SERIAL:
            return loop
        if JOINS_PARTS in self.plan.stage.op.attrs:
            loop = loop.with_annotation(JOINS_PARTS)
        needed = self.plan.body.needed
        if needed is None:
            return loop
        condition = self.nests.flat(needed)
        return over_needed(self.simplifier, loop, condition, self._inside(level, condition))

    def _inside(self, level: Level, condition: Expr) -> set[Var]:
        """Return the variables of a condition that a loop must not depend on."""
        kept = {level.leaf.var}
        for each in self.levels[: self.levels.index(level)]:
            if each.thread is None and each.kind in (ForKind.SERIAL, ForKind.PARALLEL):
                kept.add(each.leaf.var)
        for (root, tag), thread in self.nests.plan.threads.items():
            if root is self.plan.root and tag.startswith("blockIdx"):
                kept.add(thread.var)
        return set(variables(condition)) - kept

    def _init(self, begin: int, conditions: Sequence[Expr]) -> Stmt:
        """Return the loops that give every element its first value."""
        kept = [level for level in self.levels[begin:] if not level.is_reduce]
        env: dict[Var, Affine] = {}
        loop_vars: list[Var] = []
        for level in kept:
            if level.thread is not None:
                loop_vars.append(level.thread.var)
                continue
            fresh = Var(f"{level.leaf.var.name}.init", "int32", "data")
            env[level.leaf.var] = self.simplifier.bind_loop(fresh, level.extent)
            loop_vars.append(fresh)
        position = {var: i for i, var in enumerate(loop_vars)}
        guards: Guards = {}
        for condition in conditions:
            again = self.simplifier.simplify(condition, env)
            guards.setdefault(place_of(again, position, 0), []).append(again)
        stmt = self._first_values(env)
        for i in reversed(range(len(kept))):
            stmt = self.guarded(guards.get(i + 1, ()), stmt)
            stmt = self.around(kept[i], loop_vars[i], stmt)
        return self.guarded(guards.get(0, ()), stmt)

    def _first_values(self, env: Mapping[Var, Affine]) -> Stmt:
        firsts = self.plan.body.init or self.reduction.combiner.identity
        stores = []
        for (buffer, index), first in zip(self.places(), firsts, strict=True):
            at = self.simplifier.simplify(index, env)
            value = self.simplifier.simplify(self.nests.flat(first), env)
            stores.append(Store(buffer, (at,), value))
        return seq(*stores)

    def _update(self) -> Stmt:
        return self.accumulate(self.places())

    def accumulate(self, places: Sequence[tuple[Buffer, Expr]]) -> Stmt:
        """Return ``place = combine(place, value)`` for all outputs of the reduction at once."""
        values = [self.nests.flat(value) for value in self.plan.body.values]
        before = [Load(buffer, (index,)) for buffer, index in places]
        after = combine(self.reduction.combiner, before, values)
        return store_together(self.plan.stage.op.name, places, after)


class CrossThreadNest(ReductionNest):
    """Builds the loops of a reduction over threads: each has a share, then all get the total."""

    def __init__(
        self,
        nests: Nests,
        plan: StagePlan,
        opened: frozenset[Var],
        reduction: Reduce,
    ) -> None:
        super().__init__(nests, plan, opened, reduction)
        block = [
            thread
            for (root, tag), thread in nests.plan.threads.items()
            if root is plan.root and tag.startswith("threadIdx")
        ]
        crossing = [level.thread for level in self.levels if level.is_reduce and level.thread]
        self.crosser = CrossThread(
            self.simplifier, plan.stage.op.name, reduction.combiner, crossing, block
        )

    def build(self) -> Stmt:
        """Return the statement of the whole stage."""
        serial = [i for i, level in enumerate(self.levels) if _is_serial_reduction(level)]
        first = serial[0] if serial else len(self.levels)
        self._check_order(first)
        self._check_init(first)
        computed = list(self.plan.conditions)
        if self.plan.body.condition is not None:
            computed.append(self.nests.flat(self.plan.body.condition))
        guards = self.guards(computed, first)

        def share() -> Stmt:
            return self.accumulate(self.crosser.places)

        def tail() -> Stmt:
            shares = self.loops(first, len(self.levels), guards, share)
            return self.crosser.around(seq(self.crosser.start(), shares), self._store_total())

        return self.loops(0, first, {}, tail)

    def _check_order(self, first: int) -> None:
        """Raise if a data loop is inside of a serial reduction loop: it needs many sums."""
        for level in self.levels[first:]:
            if level.is_reduce or level.extent == 1:
                continue
            raise LoweringError(
                f"bind: {self.plan.stage.op.name} reduces over threads, so its data axis "
                f"{level.leaf.var.name!r} must stand outside its serial reduction axes; reorder "
                "them"
            )

    def _store_total(self) -> Stmt:
        conditions = [c for c in self.plan.conditions if not self.reduces(c)]
        conditions += self.store_conditions()
        # In memory of a warp all have the total, as in registers.
        of_warp = self.plan.scope == "shared" and self.plan.stage.scope == "warp"
        alone = self.plan.scope == "local" or of_warp
        if not alone and self.plan.stage.store_predicate is None:
            conditions += self.crosser.first_thread()
        totals = self.crosser.totals()
        if self.plan.body.init:
            # Threads begin with nothing, so that a first value counts once.
            firsts = [self.nests.flat(first) for first in self.plan.body.init]
            totals = combine(self.reduction.combiner, firsts, totals)
        pairs = zip(self.places(), totals, strict=True)
        stores = [Store(buffer, (index,), total) for (buffer, index), total in pairs]
        return self.guarded(conditions, seq(*stores))


def _is_serial_reduction(level: Level) -> bool:
    return level.is_reduce and level.thread is None
