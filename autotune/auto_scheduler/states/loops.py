"""Loops and stages of a loop state: frozen values that states share."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

from autotune.ir import Expr, IntImm, as_expr
from autotune.te import ComputeOp, Operation

Extent = int | Expr


class IterKind(IntEnum):
    """The kind of a loop; the numbers are TVM's."""

    SPATIAL = 0
    REDUCTION = 1
    MIXED = 2
    SPECIAL = 3


class Annotation(IntEnum):
    """The annotation of a loop; the numbers are TVM's, and part of records."""

    NONE = 0
    UNROLL = 1
    VECTORIZE = 2
    PARALLEL = 3
    VTHREAD = 4
    BLOCK_X = 5
    THREAD_X = 6
    BLOCK_Y = 7
    THREAD_Y = 8
    BLOCK_Z = 9
    THREAD_Z = 10
    TENSORIZE = 11

    @property
    def text(self) -> str:
        """The name in the text of states, and of a thread axis also its tag."""
        return _TEXT[self]


_TEXT = {
    Annotation.NONE: "for",
    Annotation.UNROLL: "unroll",
    Annotation.VECTORIZE: "vectorize",
    Annotation.PARALLEL: "parallel",
    Annotation.VTHREAD: "vthread",
    Annotation.BLOCK_X: "blockIdx.x",
    Annotation.THREAD_X: "threadIdx.x",
    Annotation.BLOCK_Y: "blockIdx.y",
    Annotation.THREAD_Y: "threadIdx.y",
    Annotation.BLOCK_Z: "blockIdx.z",
    Annotation.THREAD_Z: "threadIdx.z",
    Annotation.TENSORIZE: "tensorize",
}
# Name of a thread axis -> the annotation that binds a loop to it.
THREADS = {
    each.text: each
    for each in Annotation
    if each is Annotation.VTHREAD or each.text.endswith((".x", ".y", ".z"))
}


class ComputeAtKind(IntEnum):
    """The place where a stage is computed; the numbers are TVM's."""

    ROOT = 0
    INLINED = 1
    ITER = 2


@dataclass(frozen=True, eq=False)
class IterRange:
    """The values ``min .. min + extent - 1`` of a loop; loops around it may stand in them."""

    min: Extent
    extent: Extent

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IterRange):
            return NotImplemented
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"({self.min},{self.extent})"


def plain(value: Extent) -> Extent:
    """Return a constant as an int, and all else as it is."""
    expr = as_expr(value)
    return expr.value if isinstance(expr, IntImm) else expr


@dataclass(frozen=True, eq=False)
class Iterator:
    """A loop of a stage. Two are equal if they are the same loop, not if they look alike.

    Attributes:
        name: such as ``i``, ``i.0`` after a split, ``i.0@j.0@`` after a fuse.
        range: its values; None where they are not known before bounds are inferred.
        iter_kind: an `IterKind`.
        annotation: an `Annotation`.
        orig_iters: of a fused loop, the loops that it was made of.
    """

    name: str
    range: IterRange | None
    iter_kind: IterKind
    annotation: Annotation = Annotation.NONE
    orig_iters: tuple[Iterator, ...] = ()

    @property
    def extent(self) -> int | None:
        """The number of iterations, where it is known and constant."""
        known = None if self.range is None else self.range.extent
        return known if isinstance(known, int) else None

    def __repr__(self) -> str:
        return f"{self.annotation.text} {self.name} {self.range or '(None)'}"


@dataclass(frozen=True)
class StageAttributes:
    """Hints of a stage: `auto_unroll_max_step` in statements, `storage_offset` in elements.

    `pipeline` is the number of buffers of the copies attached to it, `min_blocks` how many blocks
    of its kernel a multiprocessor is to hold, and `tensor_core` names the instructions that
    compute it on tensor cores (see `PragmaStep`).
    """

    auto_unroll_max_step: int = 0
    storage_offset: int = 0
    pipeline: int = 0
    min_blocks: int = 0
    tensor_core: str = ""


@dataclass(frozen=True, eq=False)
class Stage:
    """One operation of a state: its loops, outermost first, and where it is computed."""

    op: Operation
    iters: tuple[Iterator, ...]
    compute_at: ComputeAtKind = ComputeAtKind.ROOT
    attrs: StageAttributes = field(default_factory=StageAttributes)
    COMPUTE_AT_TRANS_TABLE: ClassVar[dict[str, int]] = {
        each.name.lower(): int(each) for each in ComputeAtKind
    }

    @property
    def op_type(self) -> int:
        """0 for a placeholder, 1 for a compute, as in TVM."""
        return int(self.is_compute)

    @property
    def is_compute(self) -> bool:
        """Whether the stage computes anything."""
        return isinstance(self.op, ComputeOp)

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.op.name

    def of(self, op: Operation) -> Stage:
        """Return the stage of another operation with the same loops."""
        return self if op is self.op else Stage(op, self.iters, self.compute_at, self.attrs)

    def with_iters(self, iters: tuple[Iterator, ...]) -> Stage:
        """Return the stage with other loops."""
        return Stage(self.op, iters, self.compute_at, self.attrs)


def stage_of(op: Operation) -> Stage:
    """Return the plain stage of an operation: one loop for each of its axes."""
    iters = []
    for axes, kind in ((op.axis, IterKind.SPATIAL), (op.reduce_axis, IterKind.REDUCTION)):
        for axis in axes:
            assert axis.dom is not None
            known = IterRange(plain(axis.dom.min), plain(axis.dom.extent))
            iters.append(Iterator(clean_name(axis.name), known, kind))
    return Stage(op, tuple(iters))


def clean_name(name: str) -> str:
    """Return a name as states and printed schedules have it: ``i.outer`` is ``i_o``."""
    name = name.replace(".", "_").replace("@", "_")
    return name.replace("outer", "o").replace("inner", "i")
