"""What is added to the scores of attention: biases by position, and masks that depend on data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.graph import ops
from autotune.graph.passes.composing import GraphReader, reshaped
from autotune.graph.value import Constant, Value, apply

# A score that a mask replaces by at most this is as good as one to which that is added: nothing of
# it is left in float32.
_REPLACED = -1e9


@dataclass(frozen=True)
class Bias:
    """What is added to scores of a shape, to which it broadcasts."""

    value: Value
    scores: tuple[int, ...]


def added(reader: GraphReader, value: Value) -> tuple[Value, Bias] | None:
    """Return scores and what is added to them, by which a mask hides keys too."""
    if total := reader.made_by(value, ops.Add):
        pairs = (total.inputs, total.inputs[::-1])
        found = (
            (a, _narrow(reader, b, value.shape))
            for a, b in pairs
            if a.shape == value.shape and _is_product(reader, a)
        )
        return next(found, None)
    chosen = reader.made_by(value, ops.Where)
    if chosen is None:
        return None
    whole, *ends = chosen.inputs
    condition = _narrow(reader, whole, value.shape)
    hidden = [_number_of(_narrow(reader, each, value.shape).value) for each in ends]
    for scores, number in ((ends[0], hidden[1]), (ends[1], hidden[0])):
        if scores.shape == value.shape and number is not None and number <= _REPLACED:
            shape = condition.value.shape
            kept = [np.full(shape, 0.0 if each is scores else number) for each in ends]
            wide = [Constant.of(each, dtype=scores.dtype) for each in kept]
            mask = apply(ops.Where(), condition.value, *wide)
            return scores, Bias(mask, condition.scores)
    return None


def _is_product(reader: GraphReader, value: Value) -> bool:
    """Return whether a product of matrices of the same size is on the way to a value."""
    if reader.made_by(value, ops.BatchMatmul):
        return True
    kinds = (ops.Reshape, ops.Cast, ops.Multiply, ops.Divide, ops.Add, ops.Where)
    made = next((found for kind in kinds if (found := reader.made_by(value, kind))), None)
    wide = [each for each in made.inputs if each.type.size == value.type.size] if made else []
    return any(_is_product(reader, each) for each in wide)


def _number_of(value: Value) -> float | None:
    """Return the number that all elements of a constant are; None of all else."""
    if not isinstance(value, Constant) or not value.type.size:
        return None
    first = value.array.reshape(-1)[0]
    return float(first) if (value.array == first).all() else None


def _narrow(reader: GraphReader, value: Value, scores: tuple[int, ...]) -> Bias:
    """Return a value as it was before it was repeated, and the shape to which that was done."""
    shaped = reader.made_by(value, ops.Reshape)
    before = shaped.inputs[0] if shaped else value
    wide = reader.made_by(before, ops.BroadcastTo)
    if wide is None or before.shape[-2:] != scores[-2:] or value.shape != scores:
        return Bias(value, scores)
    return Bias(wide.inputs[0], before.shape)


def times(bias: Bias, factor: float) -> Bias:
    """Return what is added, times a number."""
    if factor == 1:
        return bias
    dtype = bias.value.dtype
    if isinstance(bias.value, Constant):
        wide = bias.value.array.astype("float64") * factor
        return Bias(Constant.of(wide, dtype=dtype), bias.scores)
    number = Constant.of(np.asarray(factor), dtype=dtype)
    return Bias(apply(ops.Multiply(), bias.value, number), bias.scores)


def added_to_heads(biases: tuple[Bias, ...], q: Value) -> tuple[Value, ...]:
    """Return what is added to scores as one bias of attention of q, if anything is."""
    if not biases:
        return ()
    sums = "float64" if q.dtype == "float64" else "float32"
    every = [_unrepeated(_of_heads(each, q.shape[:2])) for each in biases]
    kind = q.dtype if all(_is_exact(each, q.dtype) for each in every) else sums
    total, *others = [
        each if each.dtype == kind else apply(ops.Cast(kind), each) for each in every
    ]
    for each in others:
        total = apply(ops.Add(), total, each)
    return (total,)


def _unrepeated(value: Value) -> Value:
    """Return a bias with an extent of 1 where what is known is repeated."""
    if not isinstance(value, Constant):
        return value
    array = value.array
    for axis in range(3):
        first = array.take([0], axis)
        array = first if (array == first).all() else array
    return value if array is value.array else Constant.of(array)


def _is_exact(value: Value, dtype: str) -> bool:
    """Return whether a value is of a dtype, or known and the same in it."""
    if value.dtype == dtype or not isinstance(value, Constant):
        return value.dtype == dtype
    there = Constant.of(value.array, dtype=dtype).array.astype(value.array.dtype)
    return bool((there == value.array).all())


def _of_heads(bias: Bias, outer: tuple[int, ...]) -> Value:
    """Return a bias as (batch, heads, queries, keys).

    Where the dimensions before the queries do not form batches and heads of which each is repeated
    or not as a whole, they are written out.
    """
    value, lead, keys = bias.value, bias.scores[:-2], bias.scores[-1]
    given = (1,) * (len(bias.scores) - value.type.ndim) + value.shape
    queries = given[-2] if given[-1] == keys else bias.scores[-2]
    alike = math.prod(given[:-2]) == 1
    own, shape = (given[:-2], (1, 1)) if alike else (lead, tuple(outer))
    for cut in () if alike else range(len(lead) + 1):
        parts = [(lead[:cut], given[:cut]), (lead[cut:], given[cut:-2])]
        whole = all(mine == wide or math.prod(mine) == 1 for wide, mine in parts)
        if math.prod(lead[:cut]) == outer[0] and whole:
            own, shape = given[:-2], tuple(math.prod(mine) for _, mine in parts)
            break
    wide = (*own, queries, keys)
    if isinstance(value, Constant):
        repeated = np.broadcast_to(value.array.reshape(given), wide)
        return Constant.of(repeated.reshape(*shape, queries, keys))
    if wide != given:
        value = apply(ops.BroadcastTo(wide), reshaped(value, given))
    return reshaped(value, (*shape, queries, keys))
