"""The result of bound inference: the region, loops, values and conditions of each stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.ir.analysis_affine import Affine
from autotune.ir.expr import Expr, IterVar, Reduce, Var
from autotune.lowering.extents import Extent
from autotune.lowering.regions import Region
from autotune.te.schedule import Schedule
from autotune.te.stage import Stage


@dataclass(frozen=True)
class Thread:
    """A thread axis of one kernel: the variable that all its stages share, and its extent."""

    tag: str
    var: Var
    extent: Extent
    stage: str
    root: Stage

    @property
    def is_virtual(self) -> bool:
        """Whether it is a virtual thread, which lowering turns into interleaved copies."""
        return self.tag == "vthread"

    @property
    def count(self) -> int:
        """The extent of an axis of threads, which is a constant; that of blocks need not be."""
        assert isinstance(self.extent, int)
        return self.extent


@dataclass(frozen=True)
class Body:
    """The values that a stage stores, with inlined stages put in and indices simplified.

    Attributes:
        values: what is stored, or for a reduction what is combined.
        reduction: the reduction the values belong to, or None.
        condition: where the values of a reduction count.
        needed: where they can change a result; elsewhere it does not matter if they count.
        init: what a reduction begins with, if not with its identity.
    """

    values: tuple[Expr, ...]
    reduction: Reduce | None = None
    condition: Expr | None = None
    needed: Expr | None = None
    init: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class StagePlan:
    """The result of bound inference for one stage.

    Attributes:
        stage: the stage itself.
        root: the stage in whose loops, at the outermost, this one is computed.
        scope: the memory that its result lives in.
        compact: whether the buffer holds just the region, or the whole tensor.
        regions: for each dimension what is computed.
        extents: of all axes, those of loops among them.
        loops: the value of each loop, by leaf axis.
        threads: the thread axes that leaf axes are bound to.
        values: of all axes; those of the output count from the start of the region.
        conditions: which iterations are inside: tails of splits, ends of the tensor.
        outside: the variables of the loops around the stage.
        body: what is computed.
    """

    stage: Stage
    root: Stage
    scope: str
    compact: bool
    regions: tuple[Region, ...]
    extents: Mapping[IterVar, Extent]
    loops: Mapping[IterVar, Affine]
    threads: Mapping[IterVar, Thread]
    values: Mapping[IterVar, Affine]
    conditions: tuple[Expr, ...]
    outside: frozenset[Var]
    body: Body


@dataclass(frozen=True)
class Plan:
    """The plans of all stages that are computed, and their thread axes.

    ``threads`` holds those of each kernel by tag, ``virtual`` the virtual ones by variable.
    """

    schedule: Schedule
    gpu: bool
    stages: Mapping[Stage, StagePlan]
    threads: Mapping[tuple[Stage, str], Thread]
    virtual: Mapping[Var, Thread]

    def is_virtual(self, var: Var) -> bool:
        """Return whether a variable is that of a virtual thread."""
        return var in self.virtual
