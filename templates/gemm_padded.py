"""Products of 16-bit floats whose n or k is odd: on copies with rows that vectors can read.

Tensor cores are fed by copies of 4 or 16 bytes, for which rows must begin at multiples of that.
Where they do not, a kernel before copies what is in the way to rows of a multiple of 8 elements,
and one behind cuts the result. That reads and writes b once more, which counts where m is small:
who multiplies by the same b again and again does better to store it with an even n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from autotune import SourceKernel, Target, call, workspace
from autotune.kernel import KernelCall

from . import common
from .gemm_shape import Gemm


class Products(Protocol):
    """A family of kernels of products."""

    def candidates(self, shape: Gemm) -> dict[str, list[int]]:
        """Return the values each knob may take."""

    def violation(self, shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""

    def default_choice(self, shape: Gemm, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""

    def kernel(self, shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice of knobs."""


def is_needed(shape: Gemm) -> bool:
    """Return whether rows of a or b begin at addresses that are no multiple of 4 bytes."""
    return shape.n % 2 > 0 or shape.k % 2 > 0


def padded(shape: Gemm) -> Gemm:
    """Return the shape of the copies."""
    return replace(shape, n=8 * common.ceil_div(shape.n, 8), k=8 * common.ceil_div(shape.k, 8))


@dataclass(frozen=True)
class Padded:
    """A family of products, applied to padded copies."""

    family: Products

    def candidates(self, shape: Gemm) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        return self.family.candidates(padded(shape))

    def violation(self, shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""
        return self.family.violation(padded(shape), choice, target)

    def default_choice(self, shape: Gemm, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        return self.family.default_choice(padded(shape), target)

    def kernel(self, shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of a choice: copies, product, and cut."""
        whole = padded(shape)
        source = self.family.kernel(whole, choice)
        sizes = {"a": whole.m * whole.k, "b": whole.k * whole.n, "c": whole.m * whole.n}
        wide, long = whole.n > shape.n, whole.k > shape.k
        places = {"a": long, "b": True, "c": wide}
        names = {name: f"padded_{name}" if there else name for name, there in places.items()}
        calls = [
            *([_copy("pad_a", ["a", "padded_a"], sizes["a"])] if long else []),
            _copy("pad_b", ["b", "padded_b"], sizes["b"]),
            *(
                replace(one, args=tuple(names.get(name, name) for name in one.args))
                for one in source.calls
            ),
            *([_copy("cut_c", ["padded_c", "c"], sizes["c"])] if wide else []),
        ]
        rooms = [
            workspace(names[name], (size,), shape.dtype)
            for name, size in sizes.items()
            if places[name]
        ]
        return replace(
            source,
            name=calls[0].entry,
            source=f"{source.source}\n{common.text('pad.cu')}",
            args=shape.arguments(),
            defines={**source.defines, **common.defines(plain_n=shape.n, plain_k=shape.k)},
            calls=calls,
            workspace=[*source.workspace, *rooms],
            reference=shape.reference(),
        )


def _copy(entry: str, names: list[str], elements: int) -> KernelCall:
    return call(entry, names, common.ceil_div(elements, 8 * 256), 256)
