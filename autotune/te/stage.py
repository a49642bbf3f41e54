"""A stage of a schedule: where it is computed and where its result lives."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.errors import ScheduleError
from autotune.ir import Expr, ForKind, IterVar, as_expr
from autotune.te.condition import condition_text, read_condition
from autotune.te.relation import extent_of
from autotune.te.stage_loops import LoopPrimitives
from autotune.te.stage_state import IMPORTS, IterAttr
from autotune.te.step import (
    AsyncCopies,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    DoubleBuffer,
    EnvThreads,
    Prefetch,
    SetScope,
    SetStorePredicate,
    StorageAlign,
    Tensorize,
)
from autotune.te.tensor import PlaceholderOp, ScanOp, Tensor
from autotune.te.tensor_intrin import TensorIntrin
from autotune.te.warp_matrix import FRAGMENTS

SCOPES = ("global", "shared", "local", "warp", *FRAGMENTS)


class Stage(LoopPrimitives):
    """One operation of a schedule and how it is computed; see `StageState` for its fields."""

    __slots__ = ()
    attach_stage: Stage | None
    scan: Stage | None

    @property
    def attachment(self) -> tuple[Stage, IterVar] | None:
        """The stage and the loop inside which this one is computed; None if it is nowhere."""
        if self.attach_stage is None or self.attach_iter is None:
            return None
        return self.attach_stage, self.attach_iter

    def compute_at(self, parent: Stage, scope: IterVar) -> Stage:
        """Compute the stage inside a loop of a stage that reads it, just what is read there.

        for i: A[i] = ...         for i:
        for i:                ->    A[i] = ...
          B[i] = ... A[i] ...       B[i] = ... A[i] ...
        """
        self.check_compute("compute_at")
        self.check_placed("compute_at")
        if not isinstance(parent, Stage) or parent.schedule is not self.schedule:
            raise ScheduleError(
                f"compute_at({self.name}): expected a stage of this schedule, s[T], got {parent!r}"
            )
        at = parent.position(f"compute_at({self.name})", scope)
        if self.is_output:
            raise ScheduleError(
                f"compute_at({self.name}): it is an output of the schedule and stays at the root"
            )
        if not parent.reads_from(self):
            raise ScheduleError(
                f"compute_at({self.name}): {parent.name} does not read {self.name}; expected one "
                "of the stages that do"
            )
        self.schedule.record(ComputeAt(self.key, parent.key, at))
        self.attach_type = "at"
        self.attach_stage = parent
        self.attach_iter = scope
        return self

    def compute_inline(self) -> Stage:
        """Compute each element where it is read, without storing it.

        for i: A[i] = x[i] + 1  ->  for i:
        for i: B[i] = A[i] * 2        B[i] = (x[i] + 1) * 2
        """
        op = self.check_compute("compute_inline")
        self.check_placed("compute_inline")
        if self.is_output or op.reduce_axis:
            what = "an output of the schedule" if self.is_output else "a reduction"
            raise ScheduleError(
                f"compute_inline({self.name}): it is {what}; expected a compute between others "
                "that gives one value for each element"
            )
        self.schedule.record(ComputeInline(self.key))
        self._attach("inline")
        return self

    def compute_root(self) -> Stage:
        """Compute the stage in loops of its own, before all that read it. So it is at first.

        What depends on the state of a scan is then computed with each row, in the loop over these.

        for i:                    for i: A[i] = ...
          A[i] = ...          ->  for i:
          B[i] = ... A[i] ...       B[i] = ... A[i] ...
        """
        self.check_compute("compute_root")
        self.check_placed("compute_root")
        self.schedule.record(ComputeRoot(self.key))
        self._attach("root")
        if self.scan is not None:
            self.place_in_scan(self.scan)
        return self

    def place_in_scan(self, scan: Stage) -> None:
        """Compute the stage with each row of a scan: that is its root."""
        self.scan = scan
        self.attach_type, self.attach_stage = "at", scan
        self.attach_iter = scan.leaf_iter_vars[-1]

    def _attach(self, kind: str) -> None:
        self.attach_type = kind
        self.attach_stage = None
        self.attach_iter = None

    def set_scope(self, scope: str) -> Stage:
        """Set the memory that holds the result: global, shared, local or warp; return the stage.

        for i: A[i] = ...  ->  for i: A[i] = ...  # A: float32[n] @shared
        """
        self.check_compute("set_scope")
        self.check_placed("set_scope")
        if scope not in SCOPES:
            raise ScheduleError(
                f"set_scope({self.name}): expected one of {', '.join(SCOPES)}, got {scope!r}"
            )
        if self.is_output and scope != "global":
            raise ScheduleError(
                f"set_scope({self.name}): an output of the schedule lives in global memory, got "
                f"{scope!r}; cache_write gives it a cache elsewhere"
            )
        self.schedule.record(SetScope(self.key, scope))
        self.scope = scope
        return self

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Make the stride of a dimension ``offset`` modulo ``factor`` by padding what is inside.

        A: float32[8, 32]        A: float32[8, 32] strides=[33, 1]
        A[i, j] is A + 32i + j   A[i, j] is A + 33i + j      # storage_align(i, 32, 1)

        So that threads that read a column of a shared array meet different banks.
        """
        op = self.check_compute("storage_align")
        dimension = next((i for i, each in enumerate(op.axis) if each is axis), None)
        if dimension is None:
            names = ", ".join(each.name for each in op.axis)
            raise ScheduleError(
                f"storage_align({self.name}): expected one of its own dimensions ({names}), got "
                f"{axis!r}"
            )
        if factor < 1 or not 0 <= offset < factor:
            raise ScheduleError(
                f"storage_align({self.name}): expected factor >= 1 and 0 <= offset < factor, got "
                f"factor={factor}, offset={offset}"
            )
        self.schedule.record(StorageAlign(self.key, dimension, int(factor), int(offset)))
        self.alignments[dimension] = (int(factor), int(offset))

    def double_buffer(self) -> None:
        """Give the stage two buffers, so that the next block is fetched while one is in use.

        for k:                      A[0] = ...
          A = ... k ...         ->  for k:
          B += ... A ...              A[(k + 1) % 2] = ... k + 1 ...
                                      B += ... A[k % 2] ...
        """
        self.check_compute("double_buffer")
        self._check_inner("double_buffer")
        self.schedule.record(DoubleBuffer(self.key))
        self.double_buffered = True

    def async_copy(self, stages: int = 2) -> None:
        """Fill a shared stage by copies that run ahead, in a ring of ``stages`` buffers.

        for k:                      begin to copy blocks 0 .. stages - 2
          A = ... k ...         ->  for k:
          B += ... A ...              begin to copy block k + stages - 1
                                      wait until block k has come
                                      B += ... A[k % stages] ...
        """
        self.check_compute("async_copy")
        self._check_inner("async_copy")
        if self.scope != "shared":
            raise ScheduleError(
                f"async_copy({self.name}): expected a stage in shared memory, such as "
                f"s.cache_read(T, 'shared', readers) makes; the scope is {self.scope or 'not set'}"
            )
        if not isinstance(stages, int) or stages < 2:
            raise ScheduleError(
                f"async_copy({self.name}): stages must be an int of at least 2, got {stages!r}"
            )
        self.schedule.record(AsyncCopies(self.key, stages))
        self.pipeline_stages = stages

    def _check_inner(self, primitive: str) -> None:
        if self.is_output:
            raise ScheduleError(
                f"{primitive}({self.name}): an output of the schedule has one buffer, the caller's"
            )

    def env_threads(self, threads: IterVar | Sequence[IterVar]) -> None:
        """Launch threads around all that a scan computes; their extents have to be known.

        for t in steps:         ->  for threadIdx.x in 64:   # env_threads([thread_x])
          ...                         for t in steps:
                                        ...

        What is computed at one of them, by `compute_at`, is computed once for all rows.
        """
        listed = tuple(threads) if isinstance(threads, list | tuple) else (threads,)
        if not isinstance(self.op, ScanOp):
            raise ScheduleError(
                f"env_threads({self.name}): expected the stage of a te.scan; bind the loops of "
                "another stage"
            )
        extents = [_env_extent(self, each) for each in listed]
        tags = [each.thread_tag for each in listed]
        taken = {attr.thread.thread_tag for attr in self.iter_attrs.values() if attr.thread}
        if len({*tags, *taken}) < len(tags) + len(taken):
            raise ScheduleError(
                f"env_threads({self.name}): expected each thread axis once, got {', '.join(tags)}"
                + (f" after {', '.join(taken)}" if taken else "")
            )
        self.schedule.record(EnvThreads(self.key, tuple(tags), tuple(extents)))
        for each in listed:
            self.iter_attrs[each] = IterAttr(ForKind.THREAD, each)
        self.all_iter_vars[:0] = listed
        self.leaf_iter_vars[:0] = listed

    def tensorize(self, axis: IterVar, intrin: TensorIntrin) -> None:
        """Carry out a loop, and all inside it, by an intrinsic of `te.decl_tensor_intrin`.

        for i.outer:              for i.outer:
          for i.inner: ...    ->    intrinsic(C + ..., A + ..., B + ...)

        Lowering compares what the loops compute with what the intrinsic does.
        """
        self.check_compute("tensorize")
        at = self.position("tensorize", axis)
        if not isinstance(intrin, TensorIntrin):
            raise ScheduleError(
                f"tensorize({self.name}): expected what te.decl_tensor_intrin returns, got "
                f"{intrin!r}"
            )
        for leaf in self.leaf_iter_vars[at:]:
            self.check_plain("tensorize", leaf)
        self.schedule.record(Tensorize(self.key, at, intrin.key))
        self.tensorized = (axis, intrin)

    def prefetch(self, tensor: Tensor, var: IterVar, offset: int) -> None:
        """Let each iteration of a loop fetch what a later one reads, on a CPU.

        for i:               for i:
          ... = A[i]   ->      fetch A[i + offset] to the cache
                               ... = A[i]

        On a GPU, whose threads wait for others to fetch, it has no effect.
        """
        self.check_compute("prefetch")
        at = self.position("prefetch", var)
        source = self.schedule.stage_map.get(tensor.op) if isinstance(tensor, Tensor) else None
        if source is None or not self.reads_from(source):
            raise ScheduleError(
                f"prefetch({self.name}): expected a tensor that it reads, got {tensor!r}"
            )
        ahead = int(offset)
        self.schedule.record(Prefetch(self.key, at, source.key, tensor.value_index, ahead))
        self.prefetched = (*self.prefetched, (tensor, var, ahead))

    def set_store_predicate(self, condition: object) -> None:
        """Store the result only where a condition on thread axes and loops holds.

        B[0] = ...  ->  if threadIdx.x == 0:
                          B[0] = ...
        """
        self.check_compute("set_store_predicate")
        predicate = as_expr(condition)
        self.schedule.record(SetStorePredicate(self.key, condition_text(self, predicate)))
        self.store_predicate = predicate

    def read_condition(self, text: str) -> Expr:
        """Return the condition that a `SetStorePredicate` step wrote as text."""
        return read_condition(self, text)

    def __str__(self) -> str:
        lines = [f"{self.name}: {', '.join(self._notes())}"]
        for depth, axis in enumerate(self.leaf_iter_vars, 1):
            attr = self.attr(axis)
            notes = [f"{key}={value}" for key, value in attr.pragmas if key not in IMPORTS]
            if self.tensorized is not None and self.tensorized[0] is axis:
                notes.append(f"tensorized by {self.tensorized[1].name}")
            if attr.kind is not ForKind.SERIAL:
                notes.insert(0, attr.thread.thread_tag if attr.thread else attr.kind.value)
            if axis.kind == "reduce":
                notes.insert(0, "reduce")
            lines.append(f"{'  ' * depth}for {axis.name}{_comment(notes)}")
        return "\n".join(lines)

    __repr__ = __str__

    def _notes(self) -> list[str]:
        notes = ["placeholder" if isinstance(self.op, PlaceholderOp) else "root"]
        if self.attach_type == "inline":
            notes = ["inline"]
        if self.attachment is not None:
            parent, axis = self.attachment
            notes = [f"at {axis.name} of {parent.name}"]
        notes += [self.scope] if self.scope else []
        notes += [f"align {d} to {f} + {o}" for d, (f, o) in sorted(self.alignments.items())]
        notes += ["double buffer"] if self.double_buffered else []
        notes += [f"async copy in {self.pipeline_stages} stages"] if self.pipeline_stages else []
        if self.store_predicate is not None:
            notes.append(f"store where {self.store_predicate}")
        return notes


def _env_extent(stage: Stage, axis: object) -> int:
    """Return the extent of a thread axis that surrounds a scan."""
    tag = axis.thread_tag if isinstance(axis, IterVar) else ""
    extent = extent_of(axis) if isinstance(axis, IterVar) else None
    if tag in ("", "vthread") or extent is None:
        raise ScheduleError(
            f"env_threads({stage.name}): expected thread axes with a constant extent, such as "
            f"te.thread_axis((0, 64), 'threadIdx.x'), got {axis!r}"
        )
    return extent


def _comment(notes: list[str]) -> str:
    return f"  # {', '.join(notes)}" if notes else ""
