"""The layout of a stage that is not visible outside of a kernel.

The layout is row-major, unless vectors run along another axis than the last: then the elements
of a vector are made contiguous, so that it is loaded and stored by one instruction. So a copy of
weights that is made for a tile (`cache_read`) is packed as its reader's vectors want it, and sums
of output channels side by side need no gathering.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

from autotune.ir.analysis_affine import Affine, AtomKind
from autotune.ir.expr import Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import ForKind
from autotune.lowering.bodies import reads_of
from autotune.lowering.plan import Plan, StagePlan
from autotune.te.stage import Stage
from autotune.te.tensor import Operation


def neighbours(
    plan: Plan, simplifier: Simplifier, stage_of: Mapping[Operation, Stage]
) -> Mapping[Stage, int]:
    """Returns the dimension whose elements should be neighbours, where it is not the last.

    What is computed most often decides where vectors go along different dimensions.
    """
    if plan.gpu:
        return {}
    votes: dict[Stage, Counter[int]] = {stage: Counter() for stage in plan.stages}
    for stage_plan in plan.stages.values():
        var = _vector(stage_plan)
        if var is not None:
            _vote(stage_plan, var, simplifier, stage_of, votes)
    found = {}
    for stage, counts in votes.items():
        one = plan.stages[stage]
        if not counts or not one.compact or one.stage.alignments:
            continue
        axis, _ = max(counts.items(), key=lambda item: (item[1], item[0]))
        if axis != len(one.regions) - 1:
            found[stage] = axis
    return found


def _vector(plan: StagePlan) -> Var | None:
    """Return the variable of the loop of a stage that is a vector."""
    for leaf, form in plan.loops.items():
        attr = plan.stage.iter_attrs.get(leaf)
        if attr is not None and attr.kind is ForKind.VECTORIZED and len(form.vars) == 1:
            (var,) = form.vars
            return var
    return None


def _vote(
    reader: StagePlan,
    var: Var,
    simplifier: Simplifier,
    stage_of: Mapping[Operation, Stage],
    votes: Mapping[Stage, Counter[int]],
) -> None:
    """Count what a stage computes for the dimensions along which it stores and reads vectors."""
    extents = [axis.extent for axis in (*reader.stage.op.axis, *reader.stage.op.reduce_axis)]
    work = prod(getattr(extent, "value", 1) for extent in extents)
    places = [(reader.stage, [reader.values[axis] for axis in reader.stage.op.axis])]
    for read in reads_of(reader.body):
        indices = [simplifier.form_of(index) for index in read.indices]
        places.append((stage_of[read.tensor.op], indices))
    for stage, forms in places:
        along = [i for i, form in enumerate(forms) if var in form.vars]
        if stage in votes and len(along) == 1 and _steps_by_one(forms[along[0]], var):
            votes[stage][along[0]] += work


def _steps_by_one(form: Affine, var: Var) -> bool:
    """Return whether a form grows by one as a variable does."""
    return [k for atom, k in form.terms.items() if var in atom.vars] == [1] and any(
        atom.kind is AtomKind.VAR and var in atom.vars for atom in form.terms
    )
