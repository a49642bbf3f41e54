"""A network's graph computed by PyTorch: another implementation of every operator of the zoo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Constant, Graph, Value, ops
from autotune.graph.operator import Operator


class TorchGraph:
    """A graph whose parameters are bound, as a function of numpy arrays or tensors.

    Args:
        graph: in NCHW.
        torch: the module.
        dtype: of all numbers with a fraction, such as ``torch.float64``.
        device: where they lie.
        channels_last: whether images and filters lie in memory as NHWC.
    """

    def __init__(
        self,
        graph: Graph,
        torch: Any,
        dtype: Any,
        device: str = "cpu",
        channels_last: bool = False,
    ) -> None:
        self._graph = graph
        self._torch = torch
        self._dtype = dtype
        self._device = device
        self._channels_last = channels_last
        self._known: dict[Value, Any] = {
            value: self._constant(value, node.inputs)
            for node in graph.nodes
            for value in node.inputs
            if isinstance(value, Constant)
        }

    def _constant(self, value: Constant, beside: Sequence[Value]) -> Any:
        """Return a constant with the rank of what it is added to, so that torch can fold it."""
        ranks = [len(each.type.shape) for each in beside]
        missing = max(ranks) - len(value.type.shape) if len(ranks) == 2 else 0
        is_of_channels = len(value.type.shape) == 3  # [c, 1, 1]
        return self.tensor(value.array[None] if missing == 1 and is_of_channels else value.array)

    def tensor(self, array: Any) -> Any:
        """Return numbers as a tensor of the dtype of the graph, where it is computed."""
        made = self._torch.from_numpy(np.array(array)).to(self._device, self._dtype)
        if self._channels_last and made.ndim == 4:
            made = made.to(memory_format=self._torch.channels_last)
        return made

    def __call__(self, *tensors: Any) -> list[Any]:
        """Return the outputs."""
        known = dict(self._known) | dict(zip(self._graph.inputs, tensors, strict=True))
        for node in self._graph.nodes:
            inputs = [known[value] for value in node.inputs]
            known[node.outputs[0]] = self._apply(node.op, *inputs)
        return [known[value] for value in self._graph.outputs]

    def _apply(self, op: Operator, *x: Any) -> Any:
        torch, f = self._torch, self._torch.nn.functional
        simple: dict[str, Callable[..., Any]] = {
            "nn.relu": torch.relu,
            "add": torch.add,
            "multiply": torch.mul,
            "concatenate": lambda *parts: torch.cat(parts, op.along),  # type: ignore[attr-defined]
            "nn.dense": f.linear,
            "nn.batch_flatten": lambda a: a.flatten(1),
            "nn.dropout": lambda a: a,
            "nn.softmax": lambda a: torch.softmax(a, op.axis_of_sum),  # type: ignore[attr-defined]
            "nn.global_avg_pool2d": lambda a: a.mean((2, 3), keepdim=True),
        }
        if op.name in simple:
            return simple[op.name](*x)
        match op:
            case ops.Conv2d():
                ((top, bottom), (left, right)), data = op.sides, x[0]
                if (top, left) != (bottom, right):
                    data, top, left = f.pad(data, (left, right, top, bottom)), 0, 0
                return f.conv2d(data, x[1], None, op.steps, (top, left), op.holes, op.groups)
            case ops.BatchNorm():
                data, gamma, beta, mean, var = x
                gamma = gamma if op.scale else None
                return f.batch_norm(data, mean, var, gamma, beta if op.center else None,
                                    False, 0.0, op.epsilon)  # fmt: skip
            case ops.BiasAdd():
                return x[0] + x[1].reshape(1, -1, *[1] * (x[0].ndim - 2))
            case ops.Pool2d():
                return self._pool(op, x[0])
            case ops.Clip():
                return torch.clamp(x[0], op.a_min, op.a_max)
        raise GraphError(f"TorchGraph: no {op.name} yet")

    def _pool(self, op: ops.Pool2d, data: Any) -> Any:
        f = self._torch.nn.functional
        ((size, step, sides, _), (size_x, step_x, sides_x, _)) = op.windows()
        kernel, steps, around = (size, size_x), (step, step_x), (sides[0], sides_x[0])
        even = sides[0] == sides[1] and sides_x[0] == sides_x[1]
        if op.kind == "max":
            if even:
                return f.max_pool2d(data, kernel, steps, around)
            padded = f.pad(data, (*sides_x, *sides), value=float("-inf"))
            return f.max_pool2d(padded, kernel, steps)
        if not even:
            raise GraphError("TorchGraph: an average over uneven padding")
        return f.avg_pool2d(data, kernel, steps, around, count_include_pad=op.count_include_pad)
