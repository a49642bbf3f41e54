"""Sums of products of 16-bit floats in float32, as tensor cores and libraries add them up.

A definition that names no type of its sums adds in that of its elements; a wider sum, which is
rounded once, is closer to what it means.
"""

from __future__ import annotations

from autotune.errors import ScheduleError
from autotune.ir import Expr, IntImm, Mul, ProducerLoad, Reduce, cast
from autotune.te.reduction import sum as sum_of
from autotune.te.rewrite import make_cache_write
from autotune.te.stage_state import StageState
from autotune.te.tensor import ComputeOp

NARROW, WIDE = ("float16", "bfloat16"), "float32"


def narrow_factors(op: object) -> tuple[Expr, Expr] | None:
    """Returns the factors of a sum of products of 16-bit floats in their type; None of another."""
    body = op.body[0] if isinstance(op, ComputeOp) and len(op.body) == 1 else None
    match body:
        case Reduce(combiner, (Mul(ProducerLoad() as a, ProducerLoad() as b),), _, IntImm()):
            narrow = body.dtype in NARROW and combiner.name == "sum" and not body.init
            return (a, b) if narrow else None
        case _:
            return None


def make_wide(stage: StageState, scope: str) -> tuple[ComputeOp, ComputeOp]:
    """Return the operation that sums in float32 in a cache, and the one that rounds its values."""
    cache, copy = make_cache_write(stage, scope, primitive="widen")
    pair = narrow_factors(cache)
    if pair is None:
        raise ScheduleError(
            f"widen({stage.name}): expected a sum of products of 16-bit floats in their own type"
        )
    body, own = cache.body[0], copy.body[0]
    assert isinstance(body, Reduce)
    assert isinstance(own, ProducerLoad)
    total = sum_of(cast(pair[0], WIDE) * cast(pair[1], WIDE), list(body.axes))
    wide = ComputeOp(cache.name, cache.tag, cache.attrs, cache.axis, (total,))
    rounded = cast(ProducerLoad(wide.outputs[0], own.indices), body.dtype)
    return wide, ComputeOp(copy.name, copy.tag, copy.attrs, copy.axis, (rounded,))
