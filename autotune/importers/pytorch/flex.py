"""`flex_attention` written as other operators: its functions of one score, of all at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from autotune.errors import GraphError
from autotune.utils.lazy_torch import torch

# What a function of a score takes: the score, and the numbers of its batch, head, query and key.
_PLACES = 4
# Parts of the result, the first of which is the attention.
_SUMS, _GREATEST = 1, 2


@contextmanager
def flexible_attention(program: Any) -> Iterator[None]:
    """Let calls of `flex_attention` be traced as other operators while a program is taken apart.

    Afterwards the program is as it was before.
    """
    flex = getattr(torch("importers", GraphError).ops.higher_order, "flex_attention", None)
    calls = [(node, node.args) for node in program.graph.nodes if node.target is flex]
    for node, args in calls:
        q, k, v, score, mask, scale, _, *buffers = args
        score, mask = [
            program.graph_module.get_submodule(each.target) for each in (score, mask[-1])
        ]
        read = {user.args[1] for user in node.users if user.users}
        node.target = _called(score, mask, read)
        node.args = (q, k, v, scale, *buffers)
    try:
        yield
    finally:
        for node, args in calls:
            node.target, node.args = flex, args


def _called(score: Any, mask: Any, read: set[int]) -> Callable[..., Any]:
    """Return what computes a call.

    Args:
        score: the graph of what becomes of a score.
        mask: the graph of whether a key is seen.
        read: which results are needed.
    """

    def attention(
        q: Any, k: Any, v: Any, scale: float, of_score: Sequence[Any] = (),
        of_mask: Sequence[Any] = (),
    ) -> tuple[Any, Any, Any]:  # fmt: skip
        k, v = (each.expand(len(q), *each.shape[1:]) for each in (k, v))
        extents = *q.shape[:3], k.shape[2]
        seen = _of_places(mask, (), extents, of_mask, q.device)
        if _adds(score) and read <= {0}:
            return _fused(q, k, v, scale, seen, score, of_score), None, None
        k, v = (_repeated(each, q.shape[1]) for each in (k, v))
        kind = torch().promote_types(q.dtype, torch().float32)
        scores = q.to(kind) @ k.to(kind).transpose(-2, -1) * scale
        scores = _of_places(score, (scores,), extents, of_score, q.device).to(kind)
        scores = scores.masked_fill(~seen, -math.inf)
        greatest = scores.amax(-1)
        # Queries that see no key get zeros.
        powers = (scores - greatest.clamp(min=-1e30)[..., None]).exp()
        sums = powers.sum(-1)
        made = (powers / sums.clamp(min=1e-30)[..., None]).to(q.dtype) @ v
        # In powers of 2, as torch does.
        logarithm = (greatest + sums.log()) / math.log(2)
        return made, logarithm, greatest / math.log(2)

    return attention


def _fused(
    q: Any, k: Any, v: Any, scale: float, seen: Any, score: Any, buffers: Sequence[Any]
) -> Any:
    """Compute attention of which something is added to the scores, or nothing."""
    mask = seen
    if not _is_score(_result(score), score):
        zero = torch().zeros((), dtype=torch().float32, device=q.device)
        extents = *q.shape[:3], k.shape[2]
        bias = _of_places(score, (zero,), extents, buffers, q.device)
        mask = bias.to(torch().float32).masked_fill(~seen, -math.inf)
    return torch().nn.functional.scaled_dot_product_attention(
        q, k, v, mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )


def _repeated(tensor: Any, heads: int) -> Any:
    """Return keys or values for each head of the queries."""
    own = tensor.shape[1]
    return tensor[:, :, None].expand(-1, -1, heads // own, -1, -1).flatten(1, 2)


def _of_places(
    function: Any, first: Sequence[Any], extents: Sequence[int], buffers: Sequence[Any],
    device: Any,
) -> Any:  # fmt: skip
    """Return what a function of one score is at all of them, or what broadcasts to that.

    Args:
        function: its graph, of ``first``, the numbers of a place, and buffers.
        first: the scores, or one number for all.
        extents: of the scores.
        buffers: what else it reads.
        device: of the result.
    """
    pytorch = torch()
    inputs = [node for node in function.graph.nodes if node.op == "placeholder"]
    used = [bool(each.users) for each in inputs[len(first) : len(first) + _PLACES]]
    scores = [0 if each.dim() else None for each in first]
    some = [n if scores == [0] or use else 1 for n, use in zip(extents, used, strict=True)]
    places = [pytorch.arange(n, dtype=pytorch.int32, device=device) for n in some]
    made = function
    for axis in reversed(range(_PLACES)):
        own = [0 if i == axis else None for i in range(_PLACES)]
        made = pytorch.vmap(made, in_dims=(*scores, *own, *[None] * len(buffers)))
    return made(*first, *places, *buffers)


def _adds(score: Any) -> bool:
    """Return whether what becomes of a score is the score and something that does not need it."""
    pytorch = torch()
    node = _result(score)
    while not _is_score(node, score):
        if node.target not in (pytorch.ops.aten.add.Tensor, pytorch.ops.aten.sub.Tensor):
            return False
        both, further = list(node.args), [_needs_score(each, score) for each in node.args]
        if node.kwargs or sum(further) != 1 or ("sub" in str(node.target) and further[1]):
            return False
        node = both[further.index(True)]
    return True


def _result(function: Any) -> Any:
    """Return the node of what a graph returns."""
    made = function.graph.output_node().args[0]
    return made[0] if isinstance(made, (list, tuple)) else made


def _is_score(node: Any, function: Any) -> bool:
    return node is next(iter(function.graph.nodes))


def _needs_score(node: Any, function: Any) -> bool:
    if not hasattr(node, "all_input_nodes"):
        return False
    return _is_score(node, function) or any(
        _needs_score(each, function) for each in node.all_input_nodes
    )
