"""A workload of the auto-scheduler: its definition, and what PyTorch calls for the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autotune import te
from benchmarks.rivals import Named

Tensors = list[te.Tensor]


@dataclass(frozen=True)
class Case:
    """One workload.

    Attributes:
        tensors: makes its graph: inputs, then the output.
        library: yields what PyTorch calls, given arrays of the inputs and of the output.
        template: arguments of the C template that computes the same, if there is one.
    """

    tensors: Callable[[], Tensors]
    library: Callable[[list[Any]], Named]
    template: tuple[Any, ...] = ()


def of(operator: Callable[..., te.Tensor], *shapes: tuple[int, ...], dtype: str = "float32"
       ) -> Tensors:  # fmt: skip
    """Return the inputs of some shapes, and what an operator makes of them."""
    inputs = [te.placeholder(shape, dtype, f"x{i}") for i, shape in enumerate(shapes)]
    return [*inputs, operator(*inputs)]
