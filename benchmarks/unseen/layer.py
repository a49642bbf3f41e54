"""A layer for `unseen`: the templates that can compute it, and what PyTorch offers.

What a layer computes is said in PyTorch too, apart from the references of the templates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.rivals import Named

Arrays = list[Any]
Compute = Callable[[Arrays], Any]
HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class Way:
    """A template that computes a layer.

    Attributes:
        tile: of Winograd's method, for which the filters are transformed ahead; 0 of all others.
    """

    template: str
    args: tuple[Any, ...]
    tile: int = 0


@dataclass(frozen=True)
class Layer:
    """A layer, the ways to compute it, and PyTorch's.

    Attributes:
        kind: by which a summary groups layers.
        ways: the first is what a network takes untuned; all take the same arrays in and out.
        compute: the result, of the arrays that the first way takes.
        rivals: what PyTorch offers, each to be captured before the next is asked for.
        network: one that has the layer, if it is known for that.
        sums: what a clipping activation is applied to, as sums have the errors that it shows.
    """

    kind: str
    ways: tuple[Way, ...]
    compute: Compute
    rivals: Callable[[Arrays], Named]
    tf32: bool = False
    network: str = ""
    sums: Compute | None = None

    @property
    def name(self) -> str:
        """The first way, as a call; defaults at its end are left out."""
        args = list(self.ways[0].args)
        return f"{self.ways[0].template}({', '.join(map(_shown, args))})"


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_shown, value))})"
    return value if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class After:
    """The epilogue of a sum, in the order in which templates apply it."""

    bias: bool = False
    residual: bool = False
    affine: bool = False
    activation: str = "none"
    alpha: float = 1.0

    @property
    def linear(self) -> After:
        """The same without an activation."""
        return replace(self, activation="none")

    def __call__(self, sums: Any, rest: Arrays, shape: tuple[int, ...]) -> Any:
        """Apply it to sums, whose channels lie along the axis where ``shape`` is not 1."""
        arrays = iter(rest)
        out = sums if self.alpha == 1 else sums * self.alpha
        if self.bias:
            out = out + next(arrays).reshape(shape)
        if self.residual:
            out = out + next(arrays)
        if self.affine:
            out = out * next(arrays).reshape(shape) + next(arrays).reshape(shape)
        return _activated(out, self.activation)


PLAIN = After()


def _activated(x: Any, activation: str) -> Any:
    import torch

    functional = torch.nn.functional
    functions: dict[str, Compute] = {
        "none": lambda y: y, "relu": functional.relu, "relu6": functional.relu6,
        "silu": functional.silu, "gelu": functional.gelu,
    }  # fmt: skip
    return functions[activation](x)


def eager(kind: str, template: str, args: tuple[Any, ...], compute: Compute) -> Layer:
    """Return a layer that PyTorch computes as it is said."""

    def rivals(arrays: Arrays) -> Named:
        yield "PyTorch", lambda: compute(arrays)

    return Layer(kind, (Way(template, args),), compute, rivals)


def with_compiled(layer: Layer) -> Layer:
    """Return a layer with what `torch.compile` makes of it as one more rival."""

    def rivals(arrays: Arrays) -> Named:
        import torch

        yield from layer.rivals(arrays)
        # All layers of a kind share one code object, of which it keeps only so many sizes.
        torch._dynamo.reset()
        compute = torch.compile(layer.compute, dynamic=False)
        yield "torch.compile", lambda: compute(arrays)

    return replace(layer, rivals=rivals)
