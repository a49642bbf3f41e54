"""3-D convolutions and transposed ones, computed as a 2-D convolution between copies.

Networks arrange weights once, and fuse the copies with other operators
(`autotune.graph.passes.to_conv2d`, which says why the results are the same). Here nothing is known
but shapes: a kernel before the convolution arranges each operand whose layout differs, and one
after it arranges the result. The convolution has the knobs of its own template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from autotune import SourceKernel, Target, arg, call, workspace
from autotune.errors import TemplateError
from autotune.graph import TensorType, ops
from autotune.kernel import Argument, KernelCall

from .. import common
from ..common import Array
from ..products.gemm_shape import HALVES

THREADS, EACH = 256, 4
# Cycles of a copying kernel besides its traffic, more of one that waits for the kernel before it
# to end, and bytes a cycle that a multiprocessor moves. With these, estimates of 92 forms of 41
# transposed layers on an H100 have an error of 11%.
LAUNCH_CYCLES, WAITING_CYCLES, BYTES_A_CYCLE = 1480, 1730, 17
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """A kernel that arranges an operand or the result.

    Attributes:
        name: of the argument of the 2-D convolution: ``data``, ``weight`` or ``out``.
        size: elements of the arranged array.
        blocks: of the launch.
        early: whether it may start before the kernel before it ends, which its text waits for.
    """

    name: str
    size: int
    blocks: int
    early: bool = False


@dataclass(frozen=True)
class Layer:
    """A layer without epilogue: its operator, and the shapes of its data and weight."""

    op: ops.Conv2d | ops.Conv3d | ops.Conv2dTranspose
    data: Shape
    weight: Shape

    @cached_property
    def out(self) -> Shape:
        """Shape of the result."""
        return self.op.infer(TensorType(self.data), TensorType(self.weight)).shape

    @property
    def conv2d(self) -> Any:
        """The 2-D convolution, of data, weight and out."""
        raise NotImplementedError

    @property
    def copies(self) -> list[Copy]:
        """The copies around it."""
        raise NotImplementedError

    def copying_cycles(self, target: Target) -> float:
        """Return the estimated cycles of the copies."""
        copies = self.copies
        size = 2 if self.dtype in HALVES else 4
        moved = 2 * size * sum(each.size for each in copies) / common.multiprocessors(target)
        launches = LAUNCH_CYCLES * len(copies) + WAITING_CYCLES * sum(not e.early for e in copies)
        return moved / BYTES_A_CYCLE + launches

    @property
    def text(self) -> str:
        """The file of the kernels that copy."""
        raise NotImplementedError

    @property
    def texts(self) -> tuple[str, ...]:
        """This file, and what it is made of."""
        return (self.text,)

    def defines(self) -> Mapping[str, int | str]:
        """Return the parameters of these kernels."""
        raise NotImplementedError

    @property
    def is_supported(self) -> bool:
        """Returns whether the arrays of the 2-D convolution are small enough for kernels."""
        try:
            return self.conv2d is not None
        except TemplateError:
            return False

    @property
    def dtype(self) -> str:
        """Type of all arrays."""
        return "float32"

    @property
    def flop(self) -> int:
        """Multiplications and additions."""
        return int(
            self.op.flop(*(TensorType(each) for each in (self.data, self.weight, self.out)))
        )

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        return sum(each.bytes for each in self.arguments())

    def arguments(self) -> list[Argument]:
        """Return data, weight and out."""
        return [
            arg("data", self.data, self.dtype),
            arg("weight", self.weight, self.dtype),
            arg("out", self.out, self.dtype, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        return self.op.reference


class Conv2dFamily(Protocol):
    """A family of kernels of 2-D convolutions."""

    def candidates(self, shape: Any) -> dict[str, list[int]]:
        """Return the values each knob may take."""

    def violation(self, shape: Any, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""

    def default_choice(self, shape: Any, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""

    def kernel(self, shape: Any, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice of knobs."""


@dataclass(frozen=True)
class ViaConv2d:
    """A family of kernels of 2-D convolutions, applied between copies."""

    family: Conv2dFamily

    def candidates(self, shape: Layer) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        return self.family.candidates(shape.conv2d)

    def violation(self, shape: Layer, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""
        return self.family.violation(shape.conv2d, choice, target)

    def default_choice(self, shape: Layer, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        return self.family.default_choice(shape.conv2d, target)

    def suggestions(self, shape: Layer, target: Target) -> list[dict[str, int]]:
        """Return the untuned choices of other families of the space, if it has several."""
        of_family = getattr(self.family, "suggestions", None)
        return of_family(shape.conv2d, target) if of_family else []

    def completed(self, shape: Layer, values: Mapping[str, int]) -> Mapping[str, int]:
        """Return the values of all knobs for what was chosen when there was one family."""
        of_family = getattr(self.family, "completed", None)
        return of_family(shape.conv2d, values) if of_family else values

    def kernel(self, shape: Layer, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of a choice: copies, the convolution, and a copy."""
        source, copies = self.family.kernel(shape.conv2d, choice), shape.copies
        buffers = {each.name: f"{each.name}_of_conv2d" for each in copies}
        inner = [
            replace(one, args=tuple(buffers.get(name, name) for name in one.args))
            for one in source.calls
        ]
        before: list[KernelCall] = []
        after: list[KernelCall] = []
        for each in copies:
            ends = (each.name, buffers[each.name])
            calls, ends = (after, ends[::-1]) if each.name == "out" else (before, ends)
            entry = f"arrange_{each.name}"
            calls.append(call(entry, list(ends), each.blocks, THREADS, early=each.early))
        calls = [*before, *inner, *after]
        texts = ["dependent_launch.h", *shape.texts] if copies else []
        return replace(
            source,
            name=calls[0].entry,
            source=f"{source.source}\n{common.text(*texts)}",
            defines={**source.defines, **shape.defines()},
            args=shape.arguments(),
            calls=calls,
            workspace=[
                *source.workspace,
                *(workspace(buffers[each.name], (each.size,), shape.dtype) for each in copies),
            ],
            reference=shape.reference(),
        )


def blocks_for(size: int, width: int = 1) -> int:
    """Return the blocks that copy so many elements in vectors of ``width``."""
    return common.ceil_div(size // width, THREADS * EACH)
