"""Counts of sequences of numbers: TfIdfVectorizer, as exporters of scikit-learn write it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from autotune.graph import Array, Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.shape_rules import of_some_size

_MODES = ("TF", "IDF", "TFIDF")


def _vectorised(call: Call) -> Value:
    """Count each n-gram of a pool in each row, also with numbers between its own."""
    x = call.value(0)
    pool = np.asarray(call.attribute("pool_int64s", ()), "int64")
    if not pool.size:
        call.refuse("text is not supported; expected n-grams of whole numbers, pool_int64s")
    mode = call.attribute("mode", "TF")
    if mode not in _MODES:
        call.refuse(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    if x.type.ndim not in (1, 2):
        call.refuse(f"expected data of one or two dimensions, got {x.type}")
    places = np.asarray(call.attribute("ngram_indexes", ()), "int64")
    least, most = call.attribute("min_gram_length", 1), call.attribute("max_gram_length", 1)
    skips = call.attribute("max_skip_count", 0)
    if not 1 <= least <= most or skips < 0:
        call.refuse(
            f"expected lengths of n-grams from 1 on and skips from 0 on, got {least} to {most} "
            f"and {skips}"
        )
    if (pool != pool.astype(x.dtype)).any():
        x = call.cast(x, "int64")
    rows = call.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    known = [(n, grams) for n, grams in _grams(call, pool) if len(grams)]
    of_some_size(call, [rows.type.size, len(places)])
    counts = [
        _counts(call, rows, grams, skips)
        if least <= n <= most
        else call.as_value(np.zeros((rows.shape[0], len(grams)), "float32"))
        for n, grams in known
    ]
    total = counts[0] if len(counts) == 1 else call.apply(ops.Concatenate(1), *counts)
    if total.shape[1] != len(places):
        call.refuse(f"expected {total.shape[1]} ngram_indexes, one for each, got {len(places)}")
    if mode == "IDF":
        total = call.cast(call.binary(ops.Greater, total, 0), "float32")
    weights = call.attribute("weights", ())
    if len(weights) not in (0, len(places)):
        call.refuse(f"expected {len(places)} weights, one for each n-gram, got {len(weights)}")
    if mode != "TF" and len(weights):
        factors = np.asarray(weights, "float32")[None]
        total = call.apply(ops.Multiply(), total, call.as_value(factors))
    found = _placed(call, total, places)
    return call.reshape(found, (*x.shape[:-1], found.shape[1]))


def _grams(call: Call, pool: Array) -> list[tuple[int, Array]]:
    """Return the n-grams of each length, one a row."""
    begins = [*call.attribute("ngram_counts", (0,)), pool.size]
    found = list(enumerate(pairwise(begins), 1))
    if begins[0] or any(a > b or (b - a) % n for n, (a, b) in found):
        call.refuse(
            f"ngram_counts must say where n-grams of each length begin in {pool.size} numbers, "
            f"got {begins[:-1]}"
        )
    return [(n, pool[a:b].reshape(-1, n)) for n, (a, b) in found]


def _counts(call: Call, rows: Value, grams: Array, skips: int) -> Value:
    """Return how often each n-gram is in each row: [rows, n-grams]."""
    (batch, extent), length = rows.shape, grams.shape[1]
    total = call.as_value(np.zeros((batch, len(grams)), "float32"))
    for step in range(1, skips + 2 if length > 1 else 2):
        starts = extent - (length - 1) * step
        if starts < 1:
            break
        hit: Value | None = None
        for i in range(length):
            cut = ops.StridedSlice((0, i * step), (batch, i * step + starts))
            part = call.reshape(call.apply(cut, rows), (batch, starts, 1))
            own = call.as_value(grams[:, i].astype(rows.dtype).reshape(1, 1, -1))
            same = call.apply(ops.Equal(), part, own)
            hit = same if hit is None else call.apply(ops.LogicalAnd(), hit, same)
        assert hit is not None
        found = call.apply(ops.Sum((1,), False), call.cast(hit, "float32"))
        total = call.apply(ops.Add(), total, found)
    return total


def _placed(call: Call, counts: Value, places: Array) -> Value:
    """Return counts where their n-grams belong; 0 where none does."""
    extent = int(places.max()) + 1
    if places.min() < 0 or len(set(places.tolist())) < len(places):
        call.refuse("ngram_indexes must be different whole numbers from 0 on")
    of_some_size(call, [extent])
    order = np.full(extent, len(places), "int32")
    order[places] = np.arange(len(places), dtype="int32")
    wide = call.apply(ops.Pad(((0, 0), (0, 1))), counts)
    return call.apply(ops.Take(1), wide, call.as_value(order))


CONVERTERS: dict[str, Converter] = {"TfIdfVectorizer": _vectorised}
