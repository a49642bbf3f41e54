"""Convolutions of volumes, and transposed ones, as convolutions of images between two copies.

Networks arrange weights once, and have other operators take part in what the copies do
(`autotune.graph.passes.to_conv2d`, which says why the results are the same). Here nothing is known
but shapes: a kernel before arranges each operand that does not lie as one of images would, and one
after brings the result in order. The convolution between has the knobs of its own template.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from autotune import SourceKernel, Target, call, workspace
from autotune.kernel import KernelCall

from .. import common

THREADS, EACH = 256, 4


@dataclass(frozen=True)
class Copy:
    """A kernel that arranges an operand, or the result.

    Attributes:
        name: of the argument of the convolution of images: ``data``, ``weight`` or ``out``.
        size: elements of what is in that order.
        blocks: that copy it.
        early: whether it may begin before the kernel before it ends, which its text waits for.
    """

    name: str
    size: int
    blocks: int
    early: bool = False


class Arranged(Protocol):
    """A layer that is a convolution of images between copies."""

    @property
    def images(self) -> Any:
        """The convolution of images, of which the arguments are data, weight and out."""

    @property
    def copies(self) -> list[Copy]:
        """What is copied."""

    @property
    def text(self) -> str:
        """The file of the kernels that copy."""

    def defines(self) -> Mapping[str, int | str]:
        """Return what that is parameterised by."""

    def arguments(self) -> list[Any]:
        """Return data, weight and out."""

    def reference(self) -> Any:
        """Return numpy in, numpy out."""


class Images(Protocol):
    """A family of convolutions of images."""

    def candidates(self, shape: Any) -> dict[str, list[int]]:
        """Return the values each knob may take."""

    def violation(self, shape: Any, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""

    def default_choice(self, shape: Any, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""

    def kernel(self, shape: Any, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice of knobs."""


@dataclass(frozen=True)
class AsImages:
    """A family of convolutions of images, applied between copies."""

    family: Images

    def candidates(self, shape: Arranged) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        return self.family.candidates(shape.images)

    def violation(self, shape: Arranged, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""
        return self.family.violation(shape.images, choice, target)

    def default_choice(self, shape: Arranged, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        return self.family.default_choice(shape.images, target)

    def kernel(self, shape: Arranged, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of a choice: copies, the convolution, and a copy."""
        source, copies = self.family.kernel(shape.images, choice), shape.copies
        rooms = {each.name: f"{each.name}_of_images" for each in copies}
        inner = [
            replace(one, args=tuple(rooms.get(name, name) for name in one.args))
            for one in source.calls
        ]
        before: list[KernelCall] = []
        after: list[KernelCall] = []
        for each in copies:
            ends = (each.name, rooms[each.name])
            place, ends = (after, ends[::-1]) if each.name == "out" else (before, ends)
            entry = f"arrange_{each.name}"
            place.append(call(entry, list(ends), each.blocks, THREADS, early=each.early))
        calls = [*before, *inner, *after]
        return replace(
            source,
            name=calls[0].entry,
            source=f"{source.source}\n{common.text(*(['early.h', shape.text] if copies else []))}",
            defines={**source.defines, **shape.defines()},
            args=shape.arguments(),
            calls=calls,
            workspace=[
                *source.workspace,
                *(workspace(rooms[each.name], (each.size,), "float32") for each in copies),
            ],
            reference=shape.reference(),
        )


def blocks_for(size: int, width: int = 1) -> int:
    """Return the blocks that copy so many elements, of which threads copy ``width`` together."""
    return common.ceil_div(size // width, THREADS * EACH)
