"""Whether the loops inside a tensorized axis compute what an intrinsic declares, and where.

Both bodies are written in variables of the intrinsic's own axes and compared node by node; tensors
that stand at the same place belong together. Where a read of one differs from that of the other by
what no axis of the intrinsic changes, the difference is where the region begins that the intrinsic
reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine, constant
from autotune.ir.expr import (
    Combiner,
    Expr,
    Imm,
    IntImm,
    IterVar,
    Node,
    ProducerLoad,
    Reduce,
    Var,
)
from autotune.ir.node import fields_of
from autotune.ir.printer import to_text
from autotune.ir.simplify import Simplifier, Value
from autotune.ir.structure import same, variables
from autotune.ir.visitor import substitute
from autotune.lowering.bodies import BodySimplifier
from autotune.lowering.extents import Extent, expr_of
from autotune.lowering.plan import StagePlan
from autotune.lowering.regions import Region, relax
from autotune.te.tensor import ComputeOp, Tensor
from autotune.te.tensor_intrin import TensorIntrin


@dataclass(frozen=True)
class Matched:
    """What the tensors of an intrinsic stand for: a tensor, and where in it a region begins."""

    regions: Mapping[Tensor, tuple[Tensor, tuple[Affine, ...]]]


class _Mismatch(Exception):
    """The two bodies differ."""


class _Plain(Simplifier):
    """Simplifies bodies of intrinsics, whose reads stay reads."""

    def visit_ProducerLoad(self, load: ProducerLoad) -> Value:
        """Evaluate the indices."""
        indices = tuple([self.expr(self._eval(index)) for index in load.indices])
        return ProducerLoad(load.tensor, indices)


def match(plan: StagePlan, simplifier: BodySimplifier, at: int, intrin: TensorIntrin) -> Matched:
    """Match the loops of a stage from position ``at`` on with an intrinsic.

    Raises:
        LoweringError: they compute something else; the message shows both.
    """
    return _Matcher(plan, simplifier, at, intrin).run()


class _Matcher:
    """One comparison."""

    def __init__(
        self, plan: StagePlan, simplifier: BodySimplifier, at: int, intrin: TensorIntrin
    ) -> None:
        op = plan.stage.op
        assert isinstance(op, ComputeOp)
        self.op, self.plan, self.simplifier, self.intrin = op, plan, simplifier, intrin
        self.leaves = plan.stage.leaf_iter_vars[at:]
        self.inner = {var for leaf in self.leaves for var in plan.loops[leaf].vars}
        self.found: dict[Tensor, tuple[Tensor, tuple[Affine, ...]]] = {}
        # Variables of the intrinsic's axes, which stand for those of the stage too.
        self.own: set[Var] = set()

    def run(self) -> Matched:
        """Compare, and return where the regions are."""
        data = self._regions(self.op.axis)
        reduced = self._regions(self.op.reduce_axis)
        self._check_cover([*data.values(), *reduced.values()])
        own = self.intrin.op
        shared = {
            **self._shared(data, own.axis, "dimensions"),
            **self._shared(reduced, own.reduce_axis, "reduction axes"),
        }
        theirs = {each.var: var for each, var in shared.items() if each in set(own.root_iter_vars)}
        env: dict[Var, Affine] = {}
        for axis, region in (data | reduced).items():
            step = self.simplifier.var(shared[axis]) if axis in shared else constant(0)
            env[axis.var] = self.simplifier.add(region.low, step)
        mine = self.simplifier.body(self.op, env)
        if mine.condition is not None or mine.needed is not None or mine.init:
            raise self._refusal("its reduction has a condition or a first value of its own")
        self._compare(mine.values, mine.reduction, theirs)
        for each, tensor in zip(own.outputs, self.op.outputs, strict=True):
            self.found[each] = tensor, tuple(data[axis].low for axis in self.op.axis)
        return Matched(self.found)

    def _compare(
        self, mine: Sequence[Expr], reduction: Reduce | None, theirs: Mapping[Var, Var]
    ) -> None:
        first = self.intrin.op.body[0]
        plain = _Plain()
        for var in self.own:
            low, high = self.simplifier.var(var).bounds
            plain.bind(var, int(low), int(high))
        values = first.sources if isinstance(first, Reduce) else self.intrin.op.body
        renamed: dict[Var, Expr] = dict(theirs)
        declared = [plain.simplify(substitute(value, renamed)) for value in values]
        try:
            if (reduction is None) != (not isinstance(first, Reduce)):
                raise _Mismatch
            if reduction is not None and isinstance(first, Reduce):
                _unify_combiners(reduction.combiner, first.combiner)
            if len(mine) != len(declared):
                raise _Mismatch
            for a, b in zip(mine, declared, strict=True):
                self._unify(a, b)
        except _Mismatch:
            raise self._different(mine, reduction, declared) from None

    def _different(
        self, mine: Sequence[Expr], reduction: Reduce | None, declared: Sequence[Expr]
    ) -> LoweringError:
        first = self.intrin.op.body[0]
        theirs = first.combiner.name if isinstance(first, Reduce) else "store"
        ours = "store" if reduction is None else reduction.combiner.name
        return self._refusal(
            "its loops compute something else than the intrinsic\n"
            f"  the loops:     {ours} of {', '.join(map(to_text, mine))}\n"
            f"  the intrinsic: {theirs} of {', '.join(map(to_text, declared))}"
        )

    def _refusal(self, why: str) -> LoweringError:
        return LoweringError(
            f"tensorize: {self.op.name} by {self.intrin.name}, at {self.leaves[0].name!r}: {why}"
        )

    # Axes.

    def _regions(self, axes: Sequence[IterVar]) -> dict[IterVar, Region]:
        """Return the part of each axis that the loops inside run over."""
        found = {}
        for place, axis in enumerate(axes):
            value = self.plan.values[axis]
            if axis.kind == "reduce":
                low = constant(0) if axis.dom is None else self.simplifier.form(axis.dom.min)
            else:
                low = self.plan.regions[place].low
            form = self.simplifier.add(low, value)
            region = relax(self.simplifier, self.simplifier.sizes, form, self.inner)
            if region is None:
                raise self._refusal(
                    f"what the loops inside it run over of {axis.name!r} is not known"
                )
            found[axis] = region
        return found

    def _check_cover(self, regions: Sequence[Region]) -> None:
        """Raise if the loops inside are cut off, or do not run over all of a box."""
        for condition in self.plan.conditions:
            if not self.inner.isdisjoint(_variables(condition)):
                raise self._refusal(
                    f"its loops are cut off where {to_text(condition)} does not hold; expected "
                    "extents that the intrinsic divides"
                )
        steps = [self.plan.extents[leaf] for leaf in self.leaves]
        sizes = [region.extent for region in regions]
        known = all(isinstance(each, int) for each in (*steps, *sizes))
        if not known or prod(map(_int, steps)) != prod(map(_int, sizes)):
            shown = [self._shown(each) for each in sizes]
            raise self._refusal(f"its loops do not run over a whole box of {' x '.join(shown)}")

    def _shown(self, extent: Extent) -> str:
        return str(expr_of(self.simplifier, extent))

    def _shared(
        self, regions: Mapping[IterVar, Region], own: Sequence[IterVar], what: str
    ) -> dict[IterVar, Var]:
        """Return variables for the intrinsic's axes and those of the stage that they match."""
        mine = list(regions.items())
        lead, rest = mine[: len(mine) - len(own)], mine[max(len(mine) - len(own), 0) :]
        wanted = [_known(axis.extent) for axis in own]
        got = [region.extent for _, region in rest]
        if got != wanted or any(region.extent != 1 for _, region in lead):
            shown = [self._shown(region.extent) for _, region in mine]
            raise self._refusal(
                f"the intrinsic has {what} of [{', '.join(map(str, wanted))}], the loops run over "
                f"[{', '.join(shown)}]; split the loops to match it"
            )
        found: dict[IterVar, Var] = {}
        for (axis, region), each in zip(rest, own, strict=True):
            var = Var(each.var.name, "int32", each.kind)
            self.simplifier.bind_loop(var, region.extent)
            self.own.add(var)
            found[axis] = found[each] = var
        return found

    # Bodies.

    def _unify(self, mine: object, theirs: object) -> None:
        """Compare two nodes, and note where tensors belong together.

        Raises:
            _Mismatch: they differ.
        """
        if isinstance(mine, ProducerLoad) and isinstance(theirs, ProducerLoad):
            self._unify_reads(mine, theirs)
        elif type(mine) is not type(theirs):
            raise _Mismatch
        elif isinstance(mine, tuple) and isinstance(theirs, tuple):
            if len(mine) != len(theirs):
                raise _Mismatch
            for a, b in zip(mine, theirs, strict=True):
                self._unify(a, b)
        elif isinstance(mine, Var | Imm) or not isinstance(mine, Node):
            if mine is not theirs and not same(mine, theirs):
                raise _Mismatch
        else:
            assert isinstance(theirs, Node)
            self._unify(fields_of(mine), fields_of(theirs))

    def _unify_reads(self, mine: ProducerLoad, theirs: ProducerLoad) -> None:
        indices = [self.simplifier.form_of(index) for index in mine.indices]
        offsets = [self.simplifier.form(index) for index in theirs.indices]
        if mine.tensor.dtype != theirs.tensor.dtype or len(offsets) > len(indices):
            raise _Mismatch
        lead = [constant(0)] * (len(indices) - len(offsets))
        lows = tuple(
            self.simplifier.sub(a, b) for a, b in zip(indices, [*lead, *offsets], strict=True)
        )
        if any(not low.vars.isdisjoint(self.own) for low in lows):
            raise _Mismatch
        known = self.found.setdefault(theirs.tensor, (mine.tensor, lows))
        if known[0] is not mine.tensor or [a.key for a in known[1]] != [b.key for b in lows]:
            raise _Mismatch


def _unify_combiners(mine: Combiner, theirs: Combiner) -> None:
    """Compare how two reductions combine values.

    Raises:
        _Mismatch: they differ.
    """
    if len(mine.lhs) != len(theirs.lhs):
        raise _Mismatch
    names: dict[Var, Expr] = dict(
        zip((*theirs.lhs, *theirs.rhs), (*mine.lhs, *mine.rhs), strict=True)
    )
    results = [substitute(each, names) for each in theirs.result]
    if not same(tuple(results), mine.result) or not same(mine.identity, theirs.identity):
        raise _Mismatch


def _variables(node: Node) -> set[Var]:
    return set(variables(node))


def _known(extent: Expr) -> int | Expr:
    return extent.value if isinstance(extent, IntImm) else extent


def _int(extent: Extent) -> int:
    assert isinstance(extent, int)
    return extent
