"""The state of a stage, and the look-ups that every primitive begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from autotune.errors import ScheduleError
from autotune.ir import Expr, For, ForKind, IterVar, walk
from autotune.te.extern import ExternOp
from autotune.te.relation import Relation
from autotune.te.step import Step
from autotune.te.tensor import ComputeOp, Operation, ScanOp, Tensor
from autotune.te.tensor_intrin import TensorIntrin


@dataclass(frozen=True)
class IterAttr:
    """Attributes of one loop: its kind, the thread axis it is bound to, its hints."""

    kind: ForKind = ForKind.SERIAL
    thread: IterVar | None = None
    pragmas: tuple[tuple[str, int | str], ...] = ()


PLAIN = IterAttr()
# Pragmas whose value is text in the target's language, to stand in front of the function.
IMPORTS = ("import_c", "import_llvm")
StageT = TypeVar("StageT", bound="StageState")


class ScheduleOwner(Protocol):
    """The schedule's interface to its stages, and to the rewrites of their operations."""

    @property
    def stages(self) -> Sequence[StageState]:
        """All stages, in the order of computation."""

    @property
    def stage_map(self) -> Mapping[Operation, StageState]:
        """The stage of each operation, and of each earlier version of one."""

    def record(self, step: Step) -> None:
        """Appends a step that has just been taken."""

    def replace_op(self, stage: StageState, op: ComputeOp) -> None:
        """Gives a stage a rewritten operation of the same axes."""


class StageState:
    """One operation of a schedule and how it is to be computed.

    ``key`` names the stage in steps. That of a stage of the plain schedule is its place there,
    ``"2"``; a stage that a primitive adds is called after the one it serves, ``"2.shared"``.
    ``op`` is the operation as the schedule has rewritten it, ``origin_op`` what the stage began
    with. ``leaf_iter_vars`` are the loops from outermost to innermost; ``relations`` say how they
    come from the axes of ``op``. ``attach_type`` is ``"root"``, ``"inline"`` or ``"at"``; the last
    means inside loop ``attach_iter`` of ``attach_stage``. ``scope`` is empty where it follows from
    the place. ``alignments`` maps a dimension to its ``(factor, offset)``. ``first_loops`` are the
    loops that it was made with, which those of a factored reduction are in another order than the
    axes. ``tensorized`` is the loop that an intrinsic replaces, and that. ``scan`` is the stage of
    the recurrence in whose loops it is computed, and ``holds_state`` says that it computes rows of
    that, which it stores there.
    """

    __slots__ = (
        "alignments",
        "all_iter_vars",
        "attach_iter",
        "attach_stage",
        "attach_type",
        "double_buffered",
        "first_loops",
        "holds_state",
        "is_output",
        "iter_attrs",
        "key",
        "leaf_iter_vars",
        "op",
        "origin_op",
        "pipeline_stages",
        "prefetched",
        "relations",
        "scan",
        "schedule",
        "scope",
        "store_predicate",
        "tensorized",
    )

    attach_stage: StageState | None
    scan: StageState | None

    def __init__(self, schedule: ScheduleOwner, op: Operation, key: str) -> None:
        self.schedule = schedule
        self.key = key
        self.op = op
        self.origin_op = op
        self.all_iter_vars: list[IterVar] = [*op.axis, *op.reduce_axis]
        self.leaf_iter_vars: list[IterVar] = self.all_iter_vars[:]
        self.first_loops: list[IterVar] = self.all_iter_vars[:]
        self.relations: list[Relation] = []
        self.iter_attrs: dict[IterVar, IterAttr] = {}
        self.attach_type = "root"
        self.attach_stage = None
        self.attach_iter: IterVar | None = None
        self.scope = ""
        self.alignments: dict[int, tuple[int, int]] = {}
        self.double_buffered = False
        self.pipeline_stages = 0
        self.store_predicate: Expr | None = None
        self.prefetched: tuple[tuple[Tensor, IterVar, int], ...] = ()
        self.tensorized: tuple[IterVar, TensorIntrin] | None = None
        self.is_output = False
        self.scan = None
        self.holds_state = False

    def copied_to(self: StageT, schedule: ScheduleOwner) -> StageT:
        """Return the same stage of a copy of its schedule; it is attached where this one is."""
        new = type(self).__new__(type(self))
        new.schedule, new.key, new.op, new.origin_op = schedule, self.key, self.op, self.origin_op
        new.all_iter_vars = self.all_iter_vars[:]
        new.leaf_iter_vars = self.leaf_iter_vars[:]
        new.first_loops = self.first_loops[:]
        new.relations = self.relations[:]
        new.iter_attrs = self.iter_attrs.copy()
        new.attach_type, new.attach_iter = self.attach_type, self.attach_iter
        new.attach_stage = self.attach_stage
        new.scope = self.scope
        new.alignments = self.alignments.copy()
        new.double_buffered = self.double_buffered
        new.pipeline_stages = self.pipeline_stages
        new.store_predicate = self.store_predicate
        new.prefetched = self.prefetched
        new.tensorized = self.tensorized
        new.is_output = self.is_output
        new.scan, new.holds_state = self.scan, self.holds_state
        return new

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.op.name

    def attr(self, axis: IterVar) -> IterAttr:
        """Return how the loop of ``axis`` is carried out."""
        return self.iter_attrs.get(axis, PLAIN)

    @property
    def computes_whole_tiles(self) -> bool:
        """Whether its loops are marked for tensor cores, which compute tiles as a whole.

        What of a tile lies beyond the result is never read.
        """
        hints = {key for attr in self.iter_attrs.values() for key, _ in attr.pragmas}
        return not hints.isdisjoint(("tensor_core", "wgmma"))

    @property
    def names_threads(self) -> bool:
        """Whether it is computed by statements that name the threads of a GPU."""
        loops = walk(self.op.body) if isinstance(self.op, ExternOp) else ()
        return any(isinstance(each, For) and each.thread is not None for each in loops)

    def is_scheduled(self) -> bool:
        """Return whether any primitive has changed the loops of the stage."""
        moved = self.leaf_iter_vars != self.first_loops
        return bool(self.relations or self.iter_attrs) or moved

    def position(self, primitive: str, axis: object) -> int:
        """Return the position of a leaf axis among the loops; raise if it is not one of them."""
        for i, leaf in enumerate(self.leaf_iter_vars):
            if leaf is axis:
                return i
        raise ScheduleError(f"{primitive}: {self._why_no_leaf(axis)}")

    def _why_no_leaf(self, axis: object) -> str:
        leaves = ", ".join(leaf.name for leaf in self.leaf_iter_vars)
        if not isinstance(axis, IterVar):
            return f"expected an axis of {self.name} (one of {leaves}), got {axis!r}"
        if any(each is axis for each in self.all_iter_vars):
            what = "has been split or fused already"
        else:
            what = f"is no axis of {self.name}"
        return f"axis {axis.name!r} {what}; the loops of {self.name} are now: {leaves or 'none'}"

    def check_plain(self, primitive: str, axis: IterVar) -> None:
        """Raise if a loop is bound, unrolled, vectorized or parallel already."""
        attr = self.iter_attrs.get(axis)
        if attr is None or attr.kind is ForKind.SERIAL:
            return
        how = f"bound to {attr.thread.thread_tag}" if attr.thread else attr.kind.value
        raise ScheduleError(
            f"{primitive}: axis {axis.name!r} of {self.name} is {how} already; do this before it"
        )

    def check_compute(self, primitive: str) -> ComputeOp:
        """Return the stage's compute; raise if the stage is a placeholder or a scan."""
        if isinstance(self.op, ScanOp):
            raise ScheduleError(
                f"{primitive}: {self.name} is a scan, whose rows its updates compute; expected "
                f"the stage of one of them, s[{self.op.update[0].name}]"
            )
        if isinstance(self.op, ExternOp):
            raise ScheduleError(
                f"{primitive}: {self.name} is a te.extern, which its statements compute as a "
                "whole; it has no loops to schedule"
            )
        if not isinstance(self.op, ComputeOp):
            raise ScheduleError(
                f"{primitive}: {self.name} is a placeholder, which computes nothing; expected the "
                "stage of a compute (cache_read makes one that copies a placeholder)"
            )
        return self.op

    def check_placed(self, primitive: str) -> None:
        """Raise if a stage computes rows of a scan, which says where they are kept."""
        if self.scan is not None and self.holds_state:
            raise ScheduleError(
                f"{primitive}({self.name}): it computes rows of {self.scan.name}, in whose loop "
                "it stays, and whose memory it writes; schedule its loops, or what it reads"
            )

    def reads_from(self, source: StageState) -> bool:
        """Return whether it reads another stage, directly or through stages between."""
        seen, todo = {self}, [self]
        while todo:
            for tensor in todo.pop().op.input_tensors:
                stage = self.schedule.stage_map[tensor.op]
                if stage is source:
                    return True
                if stage not in seen:
                    seen.add(stage)
                    todo.append(stage)
        return False

    def attached(self) -> list[StageState]:
        """Returns the stages that are computed inside a loop of this one."""
        return [each for each in self.schedule.stages if each.attach_stage is self]

    def move_attached(self, old: IterVar, new: IterVar) -> None:
        """Move what is computed at ``old``, which disappears, to ``new``."""
        for stage in self.schedule.stages:
            if stage.attach_iter is old and stage.attach_stage is self:
                stage.attach_iter = new
