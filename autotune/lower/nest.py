"""Making loop nests: every stage becomes loops around stores, stages attached to its loops inside.

Conditions stand as far out as possible: right inside the innermost loop they depend on. They
never go around an attached stage, which may have to run for threads that the condition turns away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine, constant
from autotune.ir.expr import Expr, IntImm, IterVar, Load, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Allocate, Buffer, For, ForKind, If, LetStmt, Stmt, Store, seq
from autotune.ir.structure import variables
from autotune.ir.visitor import substitute
from autotune.lower.buffers import Home, Homes, ReadsToLoads
from autotune.lower.cross_thread import CrossThread, combine, store_together
from autotune.lower.plan import Plan, StagePlan, Thread
from autotune.te.stage import Stage

Guards = dict[int, list[Expr]]
PIPELINE = "software_pipeline"


@dataclass(frozen=True)
class PipelinedBuffer:
    """A buffer whose stage asked to be computed ahead, in ``depth`` copies."""

    buffer: Buffer
    depth: int
    is_async: bool


@dataclass(frozen=True)
class _Level:
    """One loop of a nest."""

    leaf: IterVar
    extent: int
    thread: Thread | None
    kind: ForKind
    is_reduce: bool
    pragmas: Mapping[str, object]
    children: Sequence[Stage]


def make_nests(plan: Plan, simplifier: Simplifier, homes: Homes) -> list[tuple[Stage, Stmt]]:
    """Return the loop nest of every stage that is computed at the root, in order."""
    builder = _Builder(plan, simplifier, homes)
    roots = [each for each in plan.schedule.stages if each in plan.stages]
    return [
        (stage, builder.stage(plan.stages[stage], frozenset()))
        for stage in roots
        if plan.stages[stage].root is stage
    ]


class _Builder:
    """What the nests of one plan share."""

    def __init__(self, plan: Plan, simplifier: Simplifier, homes: Homes) -> None:
        self.plan = plan
        self.simplifier = simplifier
        self.homes = homes
        self.loads = ReadsToLoads(homes)
        self.attached: dict[tuple[Stage, IterVar], list[Stage]] = {}
        for stage in plan.schedule.stages:
            if stage in plan.stages and stage.attach_type == "at":
                place = (stage.attach_stage, stage.attach_iter)
                self.attached.setdefault(place, []).append(stage)

    def stage(self, plan: StagePlan, opened: frozenset[Var]) -> Stmt:
        """Return the loops of a stage; ``opened`` are the thread axes that are around it."""
        return _StageNest(self, plan, opened).build()


class _StageNest:
    """Builds the loops of one stage."""

    def __init__(self, builder: _Builder, plan: StagePlan, opened: frozenset[Var]) -> None:
        self.builder = builder
        self.simplifier = builder.simplifier
        self.plan = plan
        self.opened = opened
        self.levels = [self._level(leaf) for leaf in plan.stage.leaf_iter_vars]
        self.position = {
            var: i for i, level in enumerate(self.levels) for var in plan.loops[level.leaf].vars
        }
        self.deepest = max((i for i, level in enumerate(self.levels) if level.children), default=-1)
        self.pipelined: list[PipelinedBuffer] = []

    def _level(self, leaf: IterVar) -> _Level:
        plan, stage = self.plan, self.plan.stage
        attr = stage.iter_attrs.get(leaf)
        thread = plan.threads.get(leaf)
        kind = attr.kind if attr is not None else ForKind.SERIAL
        is_reduce = leaf.kind == "reduce"
        if is_reduce and kind in (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.VTHREAD):
            raise LoweringError(
                f"{kind.value}: {leaf.var.name!r} of {stage.op.name} is a reduction axis, whose "
                "iterations depend on each other; use rfactor, or choose a data axis"
            )
        pragmas = dict(attr.pragmas) if attr is not None else {}
        children = self.builder.attached.get((stage, leaf), ())
        return _Level(leaf, plan.extents[leaf], thread, kind, is_reduce, pragmas, children)

    def build(self) -> Stmt:
        """Return the statement of the whole stage."""
        if self.plan.body.reduction is None:
            guards = self._guards(self._conditions())
            return self._loops(0, len(self.levels), guards, self._store_values)
        crossing = [lv for lv in self.levels if lv.is_reduce and lv.thread is not None]
        if crossing:
            return self._cross_thread(crossing)
        return self._reduction()

    # Loops, conditions and what is attached.

    def _loops(self, start: int, stop: int, guards: Guards, tail: Callable[[], Stmt]) -> Stmt:
        inner = tail() if start == stop else None
        if inner is None:
            inner = self._wrap(start, self._loops(start + 1, stop, guards, tail))
        return self._guarded(guards.get(start, ()), inner)

    def _guarded(self, conditions: Sequence[Expr], body: Stmt) -> Stmt:
        if not conditions:
            return body
        if isinstance(body, If) and body.other is None:
            return If(self.simplifier.conjunction([*conditions, body.cond]), body.then)
        return If(self.simplifier.conjunction(list(conditions)), body)

    def _wrap(self, i: int, body: Stmt) -> Stmt:
        """Put loop ``i`` around a body, and before the body the stages attached there."""
        level = self.levels[i]
        for child in reversed(level.children):
            body = self._attach(child, i, body)
        if level.thread is not None:
            if level.thread.var in self.opened:
                return body
            tag = None if level.thread.is_virtual else level.thread.tag
            return self._for(level, level.thread.var, body, tag)
        return self._for(level, level.leaf.var, body)

    def _for(self, level: _Level, var: Var, body: Stmt, tag: str | None = None) -> Stmt:
        if level.extent == 1 and not level.pragmas:
            return body
        annotations = dict(level.pragmas)
        if level.kind is ForKind.SERIAL and level.extent > 1 and self.pipelined:
            annotations[PIPELINE] = tuple(self.pipelined)
            self.pipelined.clear()
        kind = level.kind if level.extent > 1 else ForKind.SERIAL
        return For(var, level.extent, kind, body, tag, annotations)

    def _attach(self, child: Stage, i: int, body: Stmt) -> Stmt:
        around = [level.thread.var for level in self.levels[: i + 1] if level.thread is not None]
        plan = self.builder.plan.stages[child]
        nest = self.builder.stage(plan, self.opened.union(around))
        result = seq(nest, body)
        for tensor in reversed(child.op.outputs):
            buffer = self.builder.homes.of(tensor).buffer
            if plan.compact:
                result = Allocate(buffer, result)
                self._note_pipeline(child, buffer)
        return result

    def _note_pipeline(self, child: Stage, buffer: Buffer) -> None:
        if not self.builder.plan.gpu or buffer.scope != "shared":
            return
        if child.pipeline_stages:
            self.pipelined.append(PipelinedBuffer(buffer, child.pipeline_stages, True))
        elif child.double_buffered:
            self.pipelined.append(PipelinedBuffer(buffer, 2, False))

    def _guards(self, conditions: Sequence[Expr], positions: Mapping[Var, int] | None = None,
                least: int | None = None) -> Guards:
        """Say for each condition before which loop it stands."""
        known = self.position if positions is None else positions
        lowest = self.deepest + 1 if least is None else least
        guards: Guards = {}
        for condition in conditions:
            inside = [known[var] + 1 for var in variables(condition) if var in known]
            place = max([lowest, *inside])
            if positions is None:
                place = self._past_threads(place, condition)
            guards.setdefault(place, []).append(condition)
        return guards

    def _past_threads(self, place: int, condition: Expr) -> int:
        """Move a condition inside the thread axes it would stand before: they are no loops.

        One that tells virtual threads apart goes all the way in, or it would keep the loops below
        it from being interleaved.
        """
        if any(self.builder.plan.is_virtual(var) for var in variables(condition)):
            return len(self.levels)
        threads = (ForKind.THREAD, ForKind.VTHREAD)
        while place < len(self.levels) and self.levels[place].kind in threads:
            place += 1
        return place

    def _conditions(self) -> list[Expr]:
        """Return all that must hold for an element to be computed."""
        found = list(self.plan.conditions) + self._ownership()
        predicate = self.plan.stage.store_predicate
        if predicate is not None:
            found.append(self._read_predicate(predicate))
        return [c for c in found if not (isinstance(c, IntImm) and c.value)]

    def _read_predicate(self, predicate: Expr) -> Expr:
        plan = self.plan
        env = {axis.var: value for axis, value in plan.values.items()}
        for var in variables(predicate):
            if var.axis == "thread":
                thread = self.builder.plan.threads.get((plan.root, var.name))
                env[var] = self.simplifier.var(thread.var) if thread else constant(0)
        return self.simplifier.simplify(predicate, env)

    def _ownership(self) -> list[Expr]:
        """Leave a store to one thread where the stage does not say which threads make it."""
        plan = self.plan
        attached_output = plan.root is not plan.stage and not plan.compact
        if plan.scope == "local" or attached_output:
            return []
        own = {thread.tag for thread in plan.threads.values()}
        found = []
        for (root, tag), thread in self.builder.plan.threads.items():
            other_blocks = tag.startswith("blockIdx") and plan.scope == "shared"
            if root is plan.root and tag not in own and not other_blocks:
                found.append(self.simplifier.condition("==", self.simplifier.var(thread.var)))
        return found

    # Values and stores.

    def _homes(self) -> list[Home]:
        return [self.builder.homes.of(tensor) for tensor in self.plan.stage.op.outputs]

    def _at(self, home: Home) -> Affine:
        """Return the flat index of the element that one iteration computes."""
        indices = [self.plan.values[axis] for axis in self.plan.stage.op.axis]
        if home.lows is not None:
            parts = list(zip(indices, home.strides, strict=True))
            return self.simplifier.combine(parts)
        lows = [region.low for region in self.plan.regions]
        return self.simplifier.combine(
            [(form, k) for pair, k in zip(zip(lows, indices, strict=True), home.strides, strict=True)
             for form in pair]
        )

    def _flat(self, value: Expr) -> Expr:
        return self.builder.loads.rewrite(value)

    def _store_values(self) -> Stmt:
        stores = [
            Store(home.buffer, (self.simplifier.expr(self._at(home)),), self._flat(value))
            for home, value in zip(self._homes(), self.plan.body.values, strict=True)
        ]
        return seq(*stores)

    # Reductions.

    def _reduction(self) -> Stmt:
        begin = next(
            (i for i, level in enumerate(self.levels) if level.is_reduce), len(self.levels)
        )
        conditions = self._conditions()
        guards = self._guards(conditions)
        common = {i: found for i, found in guards.items() if i <= begin}
        inner = {i: found for i, found in guards.items() if i > begin}
        for i, found in self._update_guards(begin).items():
            inner.setdefault(i, []).extend(found)
        outer = {c for found in common.values() for c in found}
        spatial = [c for c in conditions if c not in outer and not self._reduces(c)]

        def tail() -> Stmt:
            init = self._init(begin, spatial)
            update = self._loops(begin, len(self.levels), inner, self._update)
            return seq(init, update)

        return self._loops(0, begin, common, tail)

    def _update_guards(self, begin: int) -> Guards:
        condition = self.plan.body.condition
        if condition is None:
            return {}
        return self._guards([self._flat(condition)], least=max(begin, self.deepest + 1))

    def _reduces(self, condition: Expr) -> bool:
        reduce_vars = {level.leaf.var for level in self.levels if level.is_reduce}
        return not reduce_vars.isdisjoint(variables(condition))

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
            env[level.leaf.var] = self.simplifier.bind(fresh, 0, level.extent - 1)
            loop_vars.append(fresh)
        positions = {var: i for i, var in enumerate(loop_vars)}
        again = [self.simplifier.simplify(c, env) for c in conditions]
        guards = self._guards(again, positions, least=0)
        stmt = self._init_store(env)
        for i in reversed(range(len(kept))):
            stmt = self._guarded(guards.get(i + 1, ()), stmt)
            level = kept[i]
            if level.thread is None or level.thread.var not in self.opened:
                tag = level.thread.tag if level.kind is ForKind.THREAD and level.thread else None
                stmt = self._for(level, loop_vars[i], stmt, tag)
        return self._guarded(guards.get(0, ()), stmt)

    def _init_store(self, env: Mapping[Var, Affine]) -> Stmt:
        reduction = self.plan.body.reduction
        assert reduction is not None
        firsts = self.plan.body.init or reduction.combiner.identity
        stores = []
        for home, value in zip(self._homes(), firsts, strict=True):
            index = self.simplifier.expr(self.simplifier.substitute(self._at(home), env))
            stores.append(Store(home.buffer, (index,), self.simplifier.simplify(self._flat(value), env)))
        return seq(*stores)

    def _update(self) -> Stmt:
        homes = self._homes()
        places = [(home.buffer, self.simplifier.expr(self._at(home))) for home in homes]
        return self._accumulate(places, [self._flat(v) for v in self.plan.body.values])

    def _accumulate(
        self, places: Sequence[tuple[Buffer, Expr]], values: Sequence[Expr]
    ) -> Stmt:
        """Return ``place = combine(place, value)`` for all outputs of the reduction at once."""
        reduction = self.plan.body.reduction
        assert reduction is not None
        before = [Load(buffer, (index,)) for buffer, index in places]
        after = combine(reduction.combiner, before, values)
        return store_together(self.plan.stage.op.name, places, after)

    def _cross_thread(self, crossing: Sequence[_Level]) -> Stmt:
        """Reduce over threads: each sums up its share, then they put their sums together."""
        serial = [i for i, lv in enumerate(self.levels) if lv.is_reduce and lv.thread is None]
        first = serial[0] if serial else len(self.levels)
        late = [lv for lv in self.levels[first:] if not lv.is_reduce and lv.extent > 1]
        if late:
            raise LoweringError(
                f"bind: {self.plan.stage.op.name} reduces over {crossing[0].thread and crossing[0].thread.tag}, so its data axis "
                f"{late[0].leaf.var.name!r} must stand outside its serial reduction axes; reorder them"
            )
        plan, builder = self.plan, self.builder
        reduction = plan.body.reduction
        assert reduction is not None
        threads = [lv.thread for lv in crossing if lv.thread is not None]
        block = [t for (root, tag), t in builder.plan.threads.items()
                 if root is plan.root and tag.startswith("threadIdx")]
        crosser = CrossThread(self.simplifier, plan.stage.op.name, reduction.combiner, threads, block)
        computed = list(plan.conditions)
        if plan.body.condition is not None:
            computed.append(self._flat(plan.body.condition))
        values = [self._flat(value) for value in plan.body.values]
        guards = self._guards(computed, least=max(first, self.deepest + 1))

        def share() -> Stmt:
            return self._accumulate(crosser.places, values)

        def tail() -> Stmt:
            total = self._loops(first, len(self.levels), guards, share)
            return crosser.around(seq(crosser.start(), total), self._store_total(crosser))

        return self._loops(0, first, {}, tail)

    def _store_total(self, crosser: CrossThread) -> Stmt:
        conditions = [c for c in self.plan.conditions if not self._reduces(c) and not crosser.involves(c)]
        conditions += [c for c in self._conditions() if c not in self.plan.conditions]
        if self.plan.scope != "local" and self.plan.stage.store_predicate is None:
            conditions += crosser.first_thread()
        places = [(home.buffer, self.simplifier.expr(self._at(home))) for home in self._homes()]
        stores = [Store(buffer, (index,), total)
                  for (buffer, index), total in zip(places, crosser.totals(), strict=True)]
        return self._guarded(conditions, seq(*stores))

