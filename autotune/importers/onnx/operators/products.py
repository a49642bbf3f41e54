"""Products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from autotune.graph import Constant, Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators.arithmetic import combined

# Most rows of a determinant, whose expansion grows as 2 to the power of them.
_LARGEST = 6


def matmul(call: Call, a: Value, b: Value) -> Value:
    """Multiply as numpy's ``matmul`` does."""
    rows, columns = a.type.ndim == 1, b.type.ndim == 1
    a = call.reshape(a, (1, *a.shape)) if rows else a
    b = call.reshape(b, (*b.shape, 1)) if columns else b
    if a.shape[-1] != b.shape[-2]:
        call.refuse(f"expected matrices that can be multiplied, got {a.type} and {b.type}")
    out = _matrices(call, a, b)
    shape = list(out.shape)
    if columns:
        del shape[-1]
    if rows:
        del shape[-1 if columns else -2]
    return call.reshape(out, shape)


def _matrices(call: Call, a: Value, b: Value) -> Value:
    """Multiply tensors of two dimensions or more."""
    if b.type.ndim == 2 and (isinstance(b, Constant) or a.type.ndim > 2):
        flat = call.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))
        out = call.apply(ops.Dense(), flat, call.transpose(b, (1, 0)))
        return call.reshape(out, (*a.shape[:-1], b.shape[1]))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (_batched(call, each, batch) for each in (a, b))
    out = call.apply(ops.BatchMatmul(False, False), a, b)
    return call.reshape(out, (*batch, *out.shape[1:]))


def _batched(call: Call, value: Value, batch: Sequence[int]) -> Value:
    """Return a value as matrices in one axis; one matrix for all stays one."""
    own = math.prod(value.shape[:-2])
    if own not in (1, math.prod(batch)):
        value = call.broadcast(value, (*batch, *value.shape[-2:]))
        own = math.prod(batch)
    return call.reshape(value, (own, *value.shape[-2:]))


def _matmul(call: Call) -> Value:
    return matmul(call, call.value(0), call.value(1))


def _gemm(call: Call) -> Value:
    """Multiply and add: ``alpha * A B + beta * C``, either matrix transposed."""
    a, b = call.value(0), call.value(1)
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    a = call.transpose(a, (1, 0)) if call.attribute("transA", 0) else a
    b = b if call.attribute("transB", 0) else call.transpose(b, (1, 0))
    if a.type.ndim != 2 or b.type.ndim != 2 or a.shape[1] != b.shape[1]:
        call.refuse(f"expected matrices that can be multiplied, got {a.type} and {b.type}")
    out = call.apply(ops.Dense(), a, b)
    out = out if alpha == 1 else call.binary(ops.Multiply, out, alpha)
    if not call.has(2) or beta == 0:
        return out
    c = call.value(2)
    c = c if beta == 1 else call.binary(ops.Multiply, c, beta)
    if c.type.size == out.shape[1] and c.shape[-1:] == out.shape[1:]:
        return call.apply(ops.BiasAdd(-1), out, call.reshape(c, (out.shape[1],)))
    return combined(call, ops.Add(), out, c)


def _einsum(call: Call) -> Value:
    """Multiply and add up by letters: products of two tensors at a time, and sums of one."""
    equation = call.attribute("equation", "").replace(" ", "")
    values = list(call.values())
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        call.refuse(f"equation {equation!r} must have a term for each of {len(values)} inputs")
    terms, right = _without_dots(terms, right, bool(arrow), values)
    for i, (term, value) in enumerate(zip(terms, values, strict=True)):
        if len(term) != value.type.ndim:
            call.refuse(f"term {term!r} must have a letter for each dimension of {value.type}")
        if len(set(term)) < len(term):
            terms[i], values[i] = _diagonal(call, term, value)
    term, value = terms[0], values[0]
    for i in range(1, len(terms)):
        needed = set(right).union(*terms[i + 1 :])
        term, value = _contracted(call, (term, value), (terms[i], values[i]), needed)
    gone = tuple([i for i, letter in enumerate(term) if letter not in right])
    value = call.apply(ops.Sum(gone), value) if gone else value
    term = "".join([letter for letter in term if letter in right])
    return call.transpose(value, [term.index(letter) for letter in right])


def _diagonal(call: Call, term: str, value: Value) -> tuple[str, Value]:
    """Return the elements whose indices are the same for a letter that is there several times."""
    letters = "".join(dict.fromkeys(term))
    extents = dict(zip(term, value.shape, strict=True))
    if any(extents[c] != n for c, n in zip(term, value.shape, strict=True)):
        call.refuse(f"equal letters of {term!r} must have equal extents, got {value.type}")
    strides = dict.fromkeys(letters, 0)
    for i, letter in enumerate(term):
        strides[letter] += math.prod(value.shape[i + 1 :])
    grid = np.indices([extents[c] for c in letters])
    places = sum(strides[c] * grid[i] for i, c in enumerate(letters))
    flat = call.reshape(value, (value.type.size,))
    return letters, call.apply(ops.Take(0), flat, call.as_value(np.asarray(places, "int32")))


def _without_dots(
    terms: list[str], right: str, explicit: bool, values: Sequence[Value]
) -> tuple[list[str], str]:
    """Name the dimensions that dots stand for, and the result's where it is not said."""
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if not any(c in t for t in (*terms, right))]
    most = 0
    named = []
    for term, value in zip(terms, values, strict=True):
        if "..." not in term:
            named.append(term)
            continue
        count = value.type.ndim - (len(term) - 3)
        most = max(most, count)
        named.append(term.replace("...", "".join(spare[:count][::-1])))
    dots = "".join(spare[:most][::-1])
    if explicit:
        return named, right.replace("...", dots)
    letters = "".join(named)
    return named, dots + "".join(
        sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots)
    )


def _contracted(
    call: Call, first: tuple[str, Value], second: tuple[str, Value], needed: set[str]
) -> tuple[str, Value]:
    """Multiply two tensors, and add up over the letters that nothing else needs."""
    (ta, a), (tb, b) = first, second
    extents = {**dict(zip(ta, a.shape, strict=True)), **dict(zip(tb, b.shape, strict=True))}
    batch = [c for c in ta if c in tb and c in needed]
    over = [c for c in ta if c in tb and c not in needed]
    rows, columns = [c for c in ta if c not in tb], [c for c in tb if c not in ta]

    def seen(term: str, value: Value, groups: Sequence[list[str]]) -> Value:
        order = [term.index(c) for group in groups for c in group]
        shape = [math.prod([extents[c] for c in group]) for group in groups]
        return call.reshape(call.transpose(value, order), shape)

    out = call.apply(
        ops.BatchMatmul(), seen(ta, a, (batch, rows, over)), seen(tb, b, (batch, columns, over))
    )
    letters = [*batch, *rows, *columns]
    return "".join(letters), call.reshape(out, [extents[c] for c in letters])


def _determinant(call: Call) -> Value:
    """Expand determinants row by row from the last, by those of fewer rows and columns."""
    x = call.value(0)
    size = x.shape[-1] if x.type.ndim > 1 else 0
    if not 1 <= size <= _LARGEST or x.shape[-2] != size:
        call.refuse(
            f"expected matrices of at most {_LARGEST} rows and as many columns, got {x.type}"
        )
    flat = call.reshape(x, (math.prod(x.shape[:-2]), size * size))

    def element(row: int, column: int) -> Value:
        at = row * size + column
        return call.apply(ops.StridedSlice((0, at), (flat.shape[0], at + 1)), flat)

    minors: dict[tuple[int, ...], Value] = {
        (column,): element(size - 1, column) for column in range(size)
    }
    for row in range(size - 2, -1, -1):
        wider: dict[tuple[int, ...], Value] = {}
        for columns in combinations(range(size), size - row):
            total: Value | None = None
            for i, column in enumerate(columns):
                rest = minors[columns[:i] + columns[i + 1 :]]
                term = call.apply(ops.Multiply(), element(row, column), rest)
                sign = ops.Subtract if i % 2 else ops.Add
                total = term if total is None else call.apply(sign(), total, term)
            assert total is not None
            wider[columns] = total
        minors = wider
    return call.reshape(minors[tuple(range(size))], x.shape[:-2])


CONVERTERS: dict[str, Converter] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Det": _determinant,
}
