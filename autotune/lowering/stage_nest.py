"""The loops of one stage: levels, conditions, what is attached inside, and plain stores.

Conditions are hoisted as far out as possible: right inside the innermost loop they depend on. They
are never around an attached stage, which may have to run for threads that the condition excludes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine, constant
from autotune.ir.expr import Expr, IntImm, IterVar, Var
from autotune.ir.stmt import Allocate, Buffer, For, ForKind, If, Stmt, Store, seq
from autotune.ir.structure import variables
from autotune.lowering.bodies import BodySimplifier
from autotune.lowering.buffers import TensorStorage, TensorStorages
from autotune.lowering.extents import Extent, expr_of, repeats, times
from autotune.lowering.plan import Plan, StagePlan, Thread
from autotune.lowering.prefetch import prefetches
from autotune.te.stage import Stage
from autotune.te.stage_state import IMPORTS, IterAttr
from autotune.te.stores import as_store

# For each place before a loop, the conditions that stand there.
Guards = dict[int, list[Expr]]
PIPELINE = "software_pipeline"


@dataclass(frozen=True)
class PipelinedBuffer:
    """A buffer whose stage is computed ahead, in ``depth`` copies."""

    buffer: Buffer
    depth: int
    is_async: bool


@dataclass(frozen=True)
class Level:
    """One loop of a nest, and the stages attached to it."""

    leaf: IterVar
    extent: Extent
    thread: Thread | None
    kind: ForKind
    is_reduce: bool
    pragmas: Mapping[str, object]
    children: Sequence[Stage]


class Nests(Protocol):
    """The interface of the nests around a stage to the stage's own."""

    plan: Plan
    simplifier: BodySimplifier
    storages: TensorStorages

    def attached(self, stage: Stage, leaf: IterVar) -> Sequence[Stage]:
        """Return the stages attached to a loop of a stage."""

    def stage(self, plan: StagePlan, opened: frozenset[Var]) -> Stmt:
        """Return the loops of a stage; ``opened`` are the thread axes that are around it."""

    def flat(self, value: Expr) -> Expr:
        """Return a value with loads of buffers for reads of tensors."""


class StageNest:
    """Builds the loops of a stage that computes each element on its own."""

    def __init__(self, nests: Nests, plan: StagePlan, opened: frozenset[Var]) -> None:
        self.nests = nests
        self.simplifier = nests.simplifier
        self.plan = plan
        self.opened = opened
        self.levels = [self._level(leaf) for leaf in plan.stage.leaf_iter_vars]
        self.position = {
            var: i for i, level in enumerate(self.levels) for var in plan.loops[level.leaf].vars
        }
        self.deepest = max((i for i, lv in enumerate(self.levels) if lv.children), default=-1)
        self.pipelined: list[PipelinedBuffer] = []

    def _level(self, leaf: IterVar) -> Level:
        plan, stage = self.plan, self.plan.stage
        attr = stage.attr(leaf)
        is_reduce = leaf.kind == "reduce"
        self._check_target(leaf, attr)
        if is_reduce and attr.kind in (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.VTHREAD):
            raise LoweringError(
                f"{attr.kind.value}: {leaf.var.name!r} of {stage.op.name} is a reduction axis, "
                "whose iterations depend on each other; use rfactor, or choose a data axis"
            )
        return Level(
            leaf=leaf,
            extent=plan.extents[leaf],
            thread=plan.threads.get(leaf),
            kind=attr.kind,
            is_reduce=is_reduce,
            pragmas={key: value for key, value in attr.pragmas if key not in IMPORTS},
            children=self.nests.attached(stage, leaf),
        )

    def _check_target(self, leaf: IterVar, attr: IterAttr) -> None:
        """Raise if a loop is carried out in a way that the target does not have."""
        name = f"{leaf.var.name!r} of {self.plan.stage.op.name}"
        if attr.kind is ForKind.THREAD and attr.thread is not None and not self.nests.plan.gpu:
            raise LoweringError(
                f"bind: {name} is bound to {attr.thread.thread_tag}, but the target is a CPU; use "
                "parallel, or build for a GPU"
            )
        if attr.kind is ForKind.PARALLEL and self.nests.plan.gpu:
            raise LoweringError(
                f"parallel: {name} is a parallel loop, but the target is a GPU; bind it to a "
                "thread axis"
            )

    def build(self) -> Stmt:
        """Return the statement of the whole stage."""
        guards = self.guards(self.conditions())
        return self.loops(0, len(self.levels), guards, self._store_values)

    def _store_values(self) -> Stmt:
        values = [self.nests.flat(value) for value in self.plan.body.values]
        pairs = zip(self.places(), values, strict=True)
        return seq(*[_stored(buffer, index, value) for (buffer, index), value in pairs])

    # Loops and what is attached to them.

    def loops(self, start: int, stop: int, guards: Guards, tail: Callable[[], Stmt]) -> Stmt:
        """Return the loops from ``start`` up to ``stop`` around what ``tail`` gives."""
        if start == stop:
            inner = tail()
        else:
            inner = self.wrap(start, self.loops(start + 1, stop, guards, tail))
        return self.guarded(guards.get(start, ()), inner)

    def guarded(self, conditions: Sequence[Expr], body: Stmt) -> Stmt:
        """Return ``body`` under conditions, if there are any."""
        if not conditions:
            return body
        if isinstance(body, If) and body.other is None:
            return If(self.simplifier.conjunction([*conditions, body.cond]), body.then)
        return If(self.simplifier.conjunction(list(conditions)), body)

    def wrap(self, i: int, body: Stmt) -> Stmt:
        """Put loop ``i`` around a body, and before the body the stages attached there."""
        level = self.levels[i]
        for child in reversed(level.children):
            body = self.attach(child, i, body)
        if self.plan.stage.prefetched and not self.nests.plan.gpu:
            parts = self.plan, self.simplifier, self.nests.storages
            body = seq(*prefetches(*parts, level.leaf), body)
        return self.around(level, level.leaf.var, body)

    def around(self, level: Level, var: Var, body: Stmt) -> Stmt:
        """Put the loop of a level around a body; one iteration is no loop but for its pragmas."""
        thread = level.thread
        if thread is not None:
            if thread.var in self.opened:
                return body
            var = thread.var
        if level.extent == 1 and not level.pragmas:
            return body
        annotations = dict(level.pragmas)
        if level.kind is ForKind.SERIAL and repeats(level.extent) and self.pipelined:
            annotations[PIPELINE] = tuple(self.pipelined)
            self.pipelined.clear()
        kind = level.kind if repeats(level.extent) else ForKind.SERIAL
        tag = thread.tag if thread is not None and not thread.is_virtual else None
        extent = expr_of(self.simplifier, level.extent)
        return For(var, extent, kind, body, tag, annotations)

    def attach(self, child: Stage, i: int, body: Stmt) -> Stmt:
        """Put a stage that is computed in loop ``i`` before a body."""
        threads = [level.thread.var for level in self.levels[: i + 1] if level.thread is not None]
        plan = self.nests.plan.stages[child]
        result = seq(self.nests.stage(plan, self.opened.union(threads)), body)
        for tensor in reversed(child.op.outputs):
            buffer = self.nests.storages.of(tensor).buffer
            if plan.compact:
                result = Allocate(buffer, result)
                self._note_pipeline(child, buffer)
        return result

    def _note_pipeline(self, child: Stage, buffer: Buffer) -> None:
        if not self.nests.plan.gpu or buffer.scope != "shared":
            return
        if child.pipeline_stages:
            self.pipelined.append(PipelinedBuffer(buffer, child.pipeline_stages, True))
        elif child.double_buffered:
            self.pipelined.append(PipelinedBuffer(buffer, 2, False))

    # Conditions.

    def guards(self, conditions: Sequence[Expr], least: int = 0) -> Guards:
        """Return the conditions by the number of the loop that they precede, from ``least`` on."""
        lowest = max(self.deepest + 1, least)
        guards: Guards = {}
        for condition in conditions:
            place = self._past_threads(place_of(condition, self.position, lowest), condition)
            guards.setdefault(place, []).append(condition)
        return guards

    def _past_threads(self, place: int, condition: Expr) -> int:
        """Move a condition inside the thread axes that follow it: they are no loops.

        One that tells virtual threads apart goes all the way in, or it would keep the loops below
        it from being interleaved.
        """
        if any(self.nests.plan.is_virtual(var) for var in variables(condition)):
            return len(self.levels)
        threads = (ForKind.THREAD, ForKind.VTHREAD)
        while place < len(self.levels) and self.levels[place].kind in threads:
            place += 1
        return place

    def conditions(self) -> list[Expr]:
        """Return all that must hold for an element to be computed."""
        return list(self.plan.conditions) + self.store_conditions()

    def store_conditions(self) -> list[Expr]:
        """Return the conditions under which an element within its range is stored."""
        found = self._ownership()
        predicate = self.plan.stage.store_predicate
        if predicate is not None:
            found.append(self._read_predicate(predicate))
        return [c for c in found if not (isinstance(c, IntImm) and c.value)]

    def _read_predicate(self, predicate: Expr) -> Expr:
        plan = self.plan
        env = {axis.var: value for axis, value in plan.values.items()}
        for var in variables(predicate):
            if var.axis == "thread":
                thread = self.nests.plan.threads.get((plan.root, var.name))
                env[var] = self.simplifier.var(thread.var) if thread else constant(0)
        return self.simplifier.simplify(predicate, env)

    def _ownership(self) -> list[Expr]:
        """Return conditions that restrict a store to one thread of each axis it does not use."""
        plan = self.plan
        attached_output = plan.root is not plan.stage and not plan.compact
        attached_output = attached_output and not plan.stage.holds_state
        if plan.scope == "local" or attached_output:
            return []
        own = {thread.tag for thread in plan.threads.values()}
        found = []
        for (root, tag), thread in self.nests.plan.threads.items():
            other_blocks = tag.startswith("blockIdx") and plan.scope == "shared"
            if root is plan.root and tag not in own and not other_blocks:
                found.append(self.simplifier.condition("==", self.simplifier.var(thread.var)))
        return found

    # Elements.

    def at(self, storage: TensorStorage) -> Affine:
        """Return the flat index of the element that one iteration computes."""
        values = [self.plan.values[axis] for axis in self.plan.stage.op.axis]
        strides = [k for k in storage.strides if isinstance(k, int)]
        if len(strides) < len(storage.strides):
            return self._at_of_sizes(storage, values)
        parts = list(zip(values, strides, strict=True))
        if storage.lows is None:
            regions = zip(self.plan.regions, strides, strict=True)
            parts += [(region.low, k) for region, k in regions]
        return self.simplifier.combine(parts)

    def _at_of_sizes(self, storage: TensorStorage, values: Sequence[Affine]) -> Affine:
        simplifier = self.simplifier
        if storage.lows is None:
            pairs = zip(values, self.plan.regions, strict=True)
            values = [simplifier.add(value, region.low) for value, region in pairs]
        parts = zip(values, storage.strides, strict=True)
        return simplifier.combine([(times(simplifier, value, k), 1) for value, k in parts])

    def places(self) -> list[tuple[Buffer, Expr]]:
        """Return where one iteration stores each of its values."""
        storages = [self.nests.storages.of(tensor) for tensor in self.plan.stage.op.outputs]
        return [(storage.buffer, self.simplifier.expr(self.at(storage))) for storage in storages]


def _stored(buffer: Buffer, index: Expr, value: Expr) -> Stmt:
    """Return the store of a value: at its place, or at the one that it says itself."""
    own = as_store(value)
    if own is None:
        return Store(buffer, (index,), value)
    element, place, condition = own
    return If(condition, Store(buffer, (place,), element))


def place_of(condition: Expr, position: Mapping[Var, int], lowest: int) -> int:
    """Return the place right inside the innermost loop that a condition depends on."""
    inside = [position[var] + 1 for var in variables(condition) if var in position]
    return max([lowest, *inside])
