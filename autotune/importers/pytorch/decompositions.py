"""Operators of torch written as others that converters know; torch itself has no such rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from autotune.errors import GraphError
from autotune.importers.pytorch.formulas import formulas
from autotune.utils.lazy_torch import torch

# Torch's dense fast path of `nn.TransformerEncoderLayer` passes one of these with a mask.
_OF_QUERIES, _OF_KEYS = 0, 1
# Rows of a triangular matrix that is inverted.
_MOST_INVERTED = 256


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return what computes a call, by overloads of operators, for ``run_decompositions``."""
    aten = torch("importers", GraphError).ops.aten
    return {
        aten._transformer_encoder_layer_fwd.default: _encoder_layer,
        aten._native_multi_head_attention.default: _multi_head_attention,
        aten.linalg_solve_triangular.default: _solve_triangular,
        **formulas(),
    }


def _encoder_layer(
    x: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any, weight: Any, bias: Any,
    use_gelu: bool, norm_first: bool, eps: float, *rest: Any, mask: Any = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    """Compute a layer of `nn.TransformerEncoder`, as it is computed where no gradient is asked."""
    functional = torch().nn.functional
    first, second, up, down = rest[0:2], rest[2:4], rest[4:6], rest[6:8]
    mask, mask_type = [*rest[8:], mask, mask_type][:2] if len(rest) > 8 else (mask, mask_type)

    def norm(tensor: Any, vectors: Any) -> Any:
        return functional.layer_norm(tensor, (width,), *vectors, eps)

    def attended(tensor: Any) -> Any:
        made, _ = _multi_head_attention(
            tensor, tensor, tensor, width, heads, qkv_weight, qkv_bias, weight, bias, mask, False,
            mask_type=mask_type,
        )  # fmt: skip
        return made

    def widened(tensor: Any) -> Any:
        inner = functional.linear(tensor, *up)
        inner = functional.gelu(inner) if use_gelu else functional.relu(inner)
        return functional.linear(inner, *down)

    if norm_first:
        x = x + attended(norm(x, first))
        return x + widened(norm(x, second))
    x = norm(x + attended(x), first)
    return norm(x + widened(x), second)


def _multi_head_attention(
    query: Any, key: Any, value: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any,
    weight: Any, bias: Any, mask: Any = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Compute `nn.MultiheadAttention`; where a mask is true (or not 0) a key is hidden."""
    pytorch = torch()
    functional = pytorch.nn.functional

    def by_heads(tensor: Any) -> Any:
        return tensor.unflatten(-1, (heads, width // heads)).transpose(1, 2)

    if query is key is value:
        parts = functional.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        parts = [
            functional.linear(tensor, qkv_weight[i * width : (i + 1) * width],
                              qkv_bias[i * width : (i + 1) * width])
            for i, tensor in enumerate((query, key, value))
        ]  # fmt: skip
    q, k, v = map(by_heads, parts)
    seen = None
    if mask is not None:
        seen = mask == 0
        if mask_type == _OF_KEYS:
            seen = seen[:, None, None, :]
        elif mask_type == _OF_QUERIES and seen.dim() == 3:
            seen = seen[:, None]
    if not need_weights:
        made = functional.scaled_dot_product_attention(q, k, v, seen)
        shares = query.new_empty(0)
    else:
        scores = (q * (1 / math.sqrt(width // heads))) @ k.transpose(-2, -1)
        if seen is not None:
            scores = scores.masked_fill(~seen, -math.inf)
        shares = scores.softmax(-1)
        made = shares @ v
        if average_attn_weights:
            shares = shares.mean(1)
    return functional.linear(made.transpose(1, 2).flatten(2), weight, bias), shares


def _solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """Multiply by the inverse of a triangular matrix, which is made of those of its blocks.

    The inverse of ``[[p, 0], [r, q]]`` is ``[[1/p, 0], [-1/q r 1/p, 1/q]]``: all blocks of one
    size at once, from single elements on.
    """
    pytorch = torch()
    count = a.shape[-1]
    if count > _MOST_INVERTED or a.is_complex():
        return NotImplemented
    lower = a.mT if upper else a
    size = 1 << (count - 1).bit_length()
    lower = pytorch.nn.functional.pad(lower, (0, size - count, 0, size - count))
    ones = lower.new_ones(size)
    diagonal = lower.diagonal(dim1=-2, dim2=-1)
    inside = pytorch.arange(size, device=a.device) < count
    inverse = ones if unitriangular else pytorch.where(inside, diagonal, ones).reciprocal()
    inverse = inverse.expand(*lower.shape[:-1])[..., None, None]
    extent = 1
    while extent < size:
        blocks = lower.unflatten(-1, (-1, 2 * extent)).unflatten(-3, (-1, 2 * extent))
        own = blocks.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
        first, second = inverse.unflatten(-3, (-1, 2)).unbind(-3)
        below = -(second @ own[..., extent:, :extent] @ first)
        above = pytorch.cat([first, pytorch.zeros_like(first)], -1)
        inverse = pytorch.cat([above, pytorch.cat([below, second], -1)], -2)
        extent *= 2
    inverse = inverse[..., 0, :count, :count]
    inverse = inverse.mT if upper else inverse
    return inverse @ b if left else b @ inverse
