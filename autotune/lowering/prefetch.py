"""Hints to a CPU to fetch what a later iteration of a loop reads (`Stage.prefetch`)."""

from __future__ import annotations

from autotune.errors import LoweringError
from autotune.ir.address import EXTERN, Address
from autotune.ir.analysis_affine import constant, shift_affine
from autotune.ir.dtype import bits_of
from autotune.ir.expr import Call, IterVar, Var
from autotune.ir.stmt import Evaluate, For, ForKind, Stmt
from autotune.ir.visitor import reads_in
from autotune.lowering.bodies import BodySimplifier, reads_of
from autotune.lowering.buffers import TensorStorages
from autotune.lowering.plan import StagePlan
from autotune.lowering.regions import Region, cover, relax
from autotune.te.tensor import Tensor
from autotune.utils.math import ceil_div

# Bytes that one hint fetches.
_LINE_BYTES = 64


def prefetches(
    plan: StagePlan, simplifier: BodySimplifier, storages: TensorStorages, leaf: IterVar
) -> list[Stmt]:
    """Return the hints that stand in the loop of an axis of a stage.

    Raises:
        LoweringError: the stage does not read the tensor, or what it reads is not known.
    """
    return [
        _hints(plan, simplifier, storages, leaf, (tensor, offset))
        for tensor, axis, offset in plan.stage.prefetched
        if axis is leaf
    ]


def _hints(
    plan: StagePlan,
    simplifier: BodySimplifier,
    storages: TensorStorages,
    leaf: IterVar,
    what: tuple[Tensor, int],
) -> Stmt:
    """Return a hint for each line of what one iteration of a loop reads, some iterations later."""
    tensor, offset = what
    storage = storages.of(tensor)
    later = {leaf.var: shift_affine(simplifier.var(leaf.var), offset)}
    step = max(_LINE_BYTES * 8 // bits_of(tensor.dtype), 1)
    indices, loops = [], []
    regions = _regions(plan, simplifier, leaf, tensor)
    for axis, region in enumerate(regions):
        low = simplifier.substitute(region.low, later)
        unit = step if axis == len(regions) - 1 else 1
        if not isinstance(region.extent, int):
            raise _refusal(plan, tensor, "what one iteration reads of it is not constant")
        count = ceil_div(region.extent, unit)
        if count > 1:
            var = Var(f"ahead{axis}", "int32", "data")
            loops.append((var, count))
            low = simplifier.combine([(low, 1), (simplifier.bind(var, 0, count - 1), unit)])
        indices.append(low)
    place = simplifier.expr(storages.flat(storage, indices))
    address = Address(storage.buffer, place, "r")
    stmt: Stmt = Evaluate(Call(f"{EXTERN}__builtin_prefetch", (address,), "int32"))
    for var, count in reversed(loops):
        stmt = For(var, count, ForKind.SERIAL, stmt)
    return stmt


def _regions(
    plan: StagePlan, simplifier: BodySimplifier, leaf: IterVar, tensor: Tensor
) -> list[Region]:
    leaves = plan.stage.leaf_iter_vars
    inner = {var for each in leaves[leaves.index(leaf) + 1 :] for var in plan.loops[each].vars}
    source = simplifier.stage_of[tensor.op]
    found: list[Region] | None = None
    for load in reads_of(plan.body):
        read = load.tensor
        if simplifier.stage_of[read.op] is not source or read.value_index != tensor.value_index:
            continue
        if reads_in(*load.indices):
            raise _refusal(plan, tensor, "where it is read depends on data")
        forms = [simplifier.form_of(index) for index in load.indices]
        parts = [relax(simplifier, simplifier.sizes, form, inner) for form in forms]
        if None in parts:
            raise _refusal(plan, tensor, "what one iteration reads of it is not known")
        own = [each for each in parts if each is not None]
        pairs = zip(found or own, own, strict=True)
        # Reads whose order is not known are fetched as the first of them is.
        found = [cover(simplifier, a, b) or a for a, b in pairs]
    if found is None:
        raise _refusal(plan, tensor, "it does not read that, once stages are inlined")
    return found or [Region(constant(0), 1)]


def _refusal(plan: StagePlan, tensor: Tensor, why: str) -> LoweringError:
    return LoweringError(f"prefetch: {plan.stage.op.name} of {tensor.name}: {why}")
