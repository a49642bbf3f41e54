"""Workloads of transformers that are several products: a gated layer, and attention."""

from __future__ import annotations

from math import inf
from typing import Any

from autotune import te, topi
from benchmarks.auto_scheduler.case import Case, of
from benchmarks.rivals import Named, set_up


def gated(m: int, n: int, depth: int) -> Case:
    """Return the case of two products of float16 of the same rows, of which one gates the other.

    It is the first half of a SwiGLU layer of a transformer.
    """

    def compute(x: te.Tensor, gate: te.Tensor, up: te.Tensor) -> te.Tensor:
        def product(w: te.Tensor, name: str) -> te.Tensor:
            k = te.reduce_axis((0, depth), "k")

            def total(i: Any, j: Any) -> Any:
                return te.sum(x[i, k].astype("float32") * w[k, j].astype("float32"), axis=k)

            return te.compute((m, n), total, name)

        a, b = product(gate, "gated"), product(up, "up")

        def value(i: Any, j: Any) -> Any:
            return (a[i, j] * te.sigmoid(a[i, j]) * b[i, j]).astype("float16")

        return te.compute((m, n), value, "swiglu")

    def library(arrays: list[Any]) -> Named:
        import torch

        set_up(torch)
        x, gate, up, out = arrays
        both, silu = torch.cat([gate, up], 1), torch.nn.functional.silu

        def in_one() -> Any:
            a, b = torch.matmul(x, both).chunk(2, 1)
            return torch.mul(silu(a), b, out=out)

        yield (
            "cuBLAS",
            lambda: torch.mul(silu(torch.matmul(x, gate)), torch.matmul(x, up), out=out),
        )
        yield "cuBLAS, weights side by side", in_one

    return Case(lambda: of(compute, (m, depth), (depth, n), (depth, n), dtype="float16"), library)


def attention(
    heads: int, length: int, depth: int, causal: bool = False, keys: int = 0, shared: int = 1
) -> Case:
    """Return the case of attention of float16: two products, with a softmax in float32 between.

    Args:
        heads: of queries.
        length: how many queries a head has.
        depth: of queries, keys and values.
        causal: whether queries see no later keys.
        keys: how many a head has, if not as many.
        shared: by how many heads of queries each head of keys and values is read.
    """
    scale, keys = depth**-0.5, keys or length
    of_keys = (heads // shared, keys, depth)

    def head(h: Any) -> Any:
        return h // shared if shared > 1 else h

    def wide(x: Any) -> Any:
        return x.astype("float32")

    def compute(q: te.Tensor, k: te.Tensor, v: te.Tensor) -> te.Tensor:
        d, t = te.reduce_axis((0, depth), "d"), te.reduce_axis((0, keys), "t")
        square = (heads, length, keys)

        def score(h: Any, i: Any, j: Any) -> Any:
            return te.sum(wide(q[h, i, d]) * wide(k[head(h), j, d]), axis=d)

        scores = te.compute(square, score, "scores")

        def seen(h: Any, i: Any, j: Any) -> Any:
            value = scores(h, i, j) * scale
            return te.if_then_else(j <= i, value, te.const(-inf, "float32")) if causal else value

        scaled = te.compute(square, seen, "scaled")
        share = topi.cast(topi.nn.softmax(scaled), "float16")

        def sum_of_values(h: Any, i: Any, c: Any) -> Any:
            return te.sum(wide(share[h, i, t]) * wide(v[head(h), t, c]), axis=t)

        return topi.cast(te.compute((heads, length, depth), sum_of_values, "seen"), "float16")

    def library(arrays: list[Any]) -> Named:
        import torch

        set_up(torch)
        q, k, v = (each[None] for each in arrays[:3])
        fused = torch.nn.functional.scaled_dot_product_attention
        yield "PyTorch, fused", lambda: fused(q, k, v, is_causal=causal, enable_gqa=shared > 1)
        if shared > 1:
            many_k, many_v = (each.repeat_interleave(shared, 1) for each in (k, v))
            yield (
                "PyTorch, keys repeated ahead",
                lambda: fused(q, many_k, many_v, is_causal=causal),
            )
        if causal or shared > 1:
            return

        def apart() -> Any:
            scores = torch.matmul(arrays[0], arrays[1].transpose(1, 2)) * scale
            return torch.bmm(scores.softmax(2), arrays[2], out=arrays[3])

        yield "PyTorch, apart", apart

    shapes = ((heads, length, depth), of_keys, of_keys)
    return Case(lambda: of(compute, *shapes, dtype="float16"), library)
