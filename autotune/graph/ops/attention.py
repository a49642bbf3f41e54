"""Attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import te, topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr
from autotune.ir.itervar import IterVar
from autotune.te.tensor import Tensor

_FLOATS = ("float16", "bfloat16", "float32", "float64")
# Sums of exponentials, of which the largest is 1, are at least 1 unless no key is seen.
_LEAST = 1e-30


@dataclass(frozen=True)
class Attention(Operator):
    """softmax(q k^T * scale + bias) v of each head, the layout as in PyTorch.

    Inputs are q (batch, heads, queries, size), k and v (batch, kv_heads, keys, size), each head of
    which serves ``heads / kv_heads`` neighbours, and there may be a bias (batch, heads, queries,
    keys), whose extents but the last may be 1: it is of the type of q or float32, and -inf hides a
    key. The result is as q. Scores and sums of 16-bit floats are in float32.

    Attributes:
        causal: whether query i sees keys up to i + keys - queries only, so that the last one sees
            all: with as many queries as keys PyTorch's ``is_causal``. A query that sees none, or
            whose scores are all minus infinity, gets zeros, as in PyTorch from 2.5 on.
        scale: of scores; None for 1 / sqrt(size).
    """

    name: ClassVar[str] = "nn.scaled_dot_product_attention"
    pattern: ClassVar[Pattern] = Pattern.OPAQUE
    causal: bool = False
    scale: float | None = None

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of q."""
        self.take(inputs, 3, 4)
        q, k, v, *biases = inputs
        if q.ndim != 4 or q.dtype not in _FLOATS:
            self.refuse("q", f"(batch, heads, queries, size) of {', '.join(_FLOATS)}", q)
        fits = k.ndim == 4 and (k.shape[0], k.shape[3], k.dtype) == (
            q.shape[0],
            q.shape[3],
            q.dtype,
        )
        if not fits or q.shape[1] % k.shape[1]:
            expected = f"(batch, kv_heads, keys, size) for q {q}, kv_heads dividing {q.shape[1]}"
            self.refuse("k", expected, k)
        if v != k:
            self.refuse("v", f"{k}, as k is", v)
        for bias in biases:
            self._check_bias(bias, (*q.shape[:3], k.shape[2]), q.dtype)
        if not isinstance(self.causal, bool):
            self.refuse("causal", "True or False", self.causal)
        scale: object = self.scale
        number = isinstance(scale, int | float) and not isinstance(scale, bool)
        if scale is not None and not (number and math.isfinite(scale)):  # type: ignore[arg-type]
            self.refuse("scale", "a number, or None for 1 / sqrt(size)", scale)
        return q

    def _check_bias(self, bias: TensorType, scores: tuple[int, ...], dtype: str) -> None:
        """Refuse a bias that does not fit the scores."""
        whole = bias.ndim == 4 and bias.shape[3] == scores[3]
        fits = whole and all(n in (1, m) for n, m in zip(bias.shape, scores, strict=True))
        if not fits or bias.dtype not in {dtype, _bias_dtype(dtype)}:
            types = " or ".join(dict.fromkeys((dtype, _bias_dtype(dtype))))
            expected = f"{scores} of {types}, where extents but the last may be 1"
            self.refuse("bias", expected, bias)

    def factor(self, size: int) -> float:
        """Return what scores of heads of a size are multiplied by."""
        return size**-0.5 if self.scale is None else float(self.scale)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Write the scores to memory: products, softmax and products in stages."""
        q, k, v, *biases = inputs
        kind = _bias_dtype(q.dtype)
        size = TensorType.of(q).shape[3]
        queries, keys = TensorType.of(q).shape[2], TensorType.of(k).shape[2]
        factor = te.const(self.factor(size), kind)
        each, key = te.reduce_axis((0, size), "d"), te.reduce_axis((0, keys), "j")
        scores = _scores(q, k, each, kind)

        def seen(i: Expr, j: Expr, value: Expr, other: Expr) -> Expr:
            return te.Select(j <= i + (keys - queries), value, other) if self.causal else value

        lowest = te.min_value(kind)
        biased = _biased(biases, kind)
        scaled = te.compute(
            scores.shape,
            lambda b, h, i, j: seen(i, j, biased(scores(b, h, i, j) * factor, b, h, i, j), lowest),
            "T_scaled",
        )
        highest = topi.max(scaled, 3, True)
        powers = te.compute(
            scores.shape,
            lambda b, h, i, j: seen(
                i,
                j,
                te.exp(scaled(b, h, i, j) - te.max(highest(b, h, i, 0), lowest)),
                te.const(0, kind),
            ),
            "T_powers",
        )
        total = topi.sum(powers, 3, True)
        sums = _weighted(powers, v, key, kind)
        least = te.const(_LEAST, kind)
        result: Tensor = te.compute(
            q.shape,
            lambda b, h, i, d: (sums(b, h, i, d) / te.max(total(b, h, i, 0), least)).astype(
                q.dtype
            ),
            "T_attention",
        )
        return result

    def reference(self, *inputs: Array) -> Array:
        """Multiply, take the softmax, and multiply."""
        q, k, v, *biases = inputs
        group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
        k, v = (np.repeat(each, group, axis=1) for each in (k, v))
        scores = q @ k.swapaxes(2, 3) * self.factor(q.shape[3])
        for bias in biases:
            scores = scores + bias
        if self.causal:
            last = np.arange(queries)[:, None] + keys - queries
            scores = np.where(np.arange(keys) <= last, scores, -np.inf)
        highest = scores.max(3, keepdims=True)
        powers = np.exp(scores - np.where(np.isinf(highest), 0, highest))
        return np.asarray(powers / np.maximum(powers.sum(3, keepdims=True), _LEAST) @ v)

    def flop(self, *types: TensorType) -> float:
        """Return two operations for each product, of both multiplications, with keys seen."""
        q, k = types[:2]
        queries, keys = q.shape[2], k.shape[2]
        pairs = queries * keys
        if self.causal:
            pairs = sum(max(0, min(keys, i + 1 + keys - queries)) for i in range(queries))
        return 4.0 * q.shape[0] * q.shape[1] * q.shape[3] * pairs


def _bias_dtype(dtype: str) -> str:
    """Return the type of sums of a type, in which a bias may be as well."""
    return "float64" if dtype == "float64" else "float32"


def _biased(biases: Sequence[Tensor], kind: str) -> Callable[..., Expr]:
    """Return what adds the biases to the score of a batch, head, query and key."""

    def biased(score: Expr, *at: Expr) -> Expr:
        for bias in biases:
            shape = TensorType.of(bias).shape
            index = [0 if n == 1 else i for n, i in zip(shape, at, strict=True)]
            score = score + bias(*index).astype(kind)
        return score

    return biased


def _scores(q: Tensor, k: Tensor, each: IterVar, kind: str) -> Tensor:
    """Returns the products of all queries with the keys of their heads, summed over ``each``."""
    batch, heads, queries, _ = TensorType.of(q).shape
    kv_heads, keys = TensorType.of(k).shape[1:3]
    group = heads // kv_heads
    scores: Tensor = te.compute(
        (batch, heads, queries, keys),
        lambda b, h, i, j: te.sum(
            q(b, h, i, each.var).astype(kind)
            * k(b, te.indexdiv(h, group), j, each.var).astype(kind),
            axis=each,
        ),
        "T_scores",
    )
    return scores


def _weighted(powers: Tensor, v: Tensor, key: IterVar, kind: str) -> Tensor:
    """Returns the sums over ``key`` of the values of each head, weighted by powers."""
    batch, heads, queries, _ = TensorType.of(powers).shape
    kv_heads, _, size = TensorType.of(v).shape[1:4]
    group = heads // kv_heads
    sums: Tensor = te.compute(
        (batch, heads, queries, size),
        lambda b, h, i, d: te.sum(
            powers(b, h, i, key.var) * v(b, te.indexdiv(h, group), key.var, d).astype(kind),
            axis=key,
        ),
        "T_sums",
    )
    return sums
