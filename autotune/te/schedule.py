"""Schedules: the stages of a graph of computes, and the recorded steps that shaped them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast, overload

from autotune.errors import ScheduleError
from autotune.ir import IterVar
from autotune.te.dag import dag_text, post_order
from autotune.te.group import StageGroup, group_of
from autotune.te.inline import inline_stages
from autotune.te.phases import make_phases
from autotune.te.reindex import VIEW, Groups, groups_text, make_reindex
from autotune.te.rewrite import PERMUTED, make_cache_read, make_cache_write
from autotune.te.rfactor import make_rfactor
from autotune.te.scan_stages import place_scans
from autotune.te.stage import SCOPES, Stage
from autotune.te.stage_state import StageState
from autotune.te.step import (
    CacheRead,
    CacheWrite,
    CacheWriteParts,
    CacheWritePhases,
    CacheWriteWide,
    Normalize,
    Permute,
    Reindex,
    Rfactor,
    Step,
    derived_key,
)
from autotune.te.tensor import Operation, Tensor
from autotune.te.wide_sums import make_wide

# One or several things of a graph.
Place = Tensor | Operation
Outputs = Place | Sequence[Place]


class Schedule:
    """A schedule of a graph of computes; created by `create_schedule`.

    ``s[T]`` is the stage of a tensor or operation, also of versions from before a rewrite.
    Primitives change stages in place, and each appends a frozen `Step` to ``steps``; `replay` of
    these steps gives an equal schedule. ``stages`` are in the order of computation.
    """

    def __init__(self, outputs: Iterable[Operation]) -> None:
        self.outputs: tuple[Operation, ...] = tuple(outputs)
        order = enumerate(post_order(self.outputs))
        self.stages: list[Stage] = [Stage(self, op, str(i)) for i, op in order]
        self.stage_map: dict[Operation, Stage] = {stage.op: stage for stage in self.stages}
        self._steps: list[Step] = []
        for op in self.outputs:
            self.stage_map[op].is_output = True
        place_scans(self.stages, self.stage_map)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps so far."""
        return tuple(self._steps)

    def record(self, step: Step) -> None:
        """Append a step; the primitives call it, after their checks."""
        self._steps.append(step)

    def stage_of(self, tensor: Tensor) -> Stage:
        """Return the stage that computes a tensor, also one of an earlier version of its op."""
        return self[tensor]

    def __getitem__(self, key: Tensor | Operation) -> Stage:
        op = key.op if isinstance(key, Tensor) else key
        stage = self.stage_map.get(op) if isinstance(op, Operation) else None
        if stage is None:
            what = getattr(key, "name", key)
            names = ", ".join(each.name for each in self.stages)
            raise ScheduleError(
                f"{what!r} is no tensor or operation of this schedule, which has {names}"
            )
        return stage

    def stage_by_key(self, key: str) -> Stage:
        """Returns the stage of a `Stage.key`.

        Raises:
            ScheduleError: no stage has it; the message says which keys there are.
        """
        for stage in self.stages:
            if stage.key == key:
                return stage
        keys = ", ".join(f"{each.key} ({each.name})" for each in self.stages)
        raise ScheduleError(f"stage {key!r} is none of this schedule, which has {keys}")

    def binds_threads(self) -> bool:
        """Return whether it is for a GPU: some loop is bound to a block or thread."""
        return any(stage.names_threads for stage in self.stages) or any(
            attr.thread is not None and attr.thread.thread_tag != "vthread"
            for stage in self.stages
            for attr in stage.iter_attrs.values()
        )

    def cache_read(self, tensor: Tensor, scope: str, readers: Outputs) -> Tensor:
        """Let some stages read a copy of a tensor; return the copy.

        for i: B[i] = A[i] + 1  ->  for i: A.shared[i] = A[i]
                                    for i: B[i] = A.shared[i] + 1

        A second copy of a tensor in one scope is called ``A.d.shared``, as in TVM.
        """
        stage = self[tensor]
        _check_scope("cache_read", tensor.name, scope)
        reading = list(dict.fromkeys(self[each] for each in _listed(readers)))
        step = CacheRead(stage.key, tensor.value_index, scope, tuple(each.key for each in reading))
        name = self._copy_name(stage.op.outputs[tensor.value_index].name, scope)
        op = make_cache_read(self, stage, tensor.value_index, name, reading)
        self.record(step)
        self._add_behind(stage, op, scope).scope = scope
        return op.outputs[0]

    def permute(self, tensor: Tensor, readers: Outputs, order: Sequence[int]) -> Tensor:
        """Let some stages read a copy whose dimensions are permuted; return the copy.

        for i, k: C[i] += B[k, i]  ->  for x, y: B.permuted[x, y] = B[y, x]
                                       for i, k: C[i] += B.permuted[i, k]

        ``order`` lists the tensor's dimensions in the order of the copy, whose last dimension is
        contiguous in memory.
        """
        stage, at = self[tensor], tensor.value_index
        reading = list(dict.fromkeys(self[each] for each in _listed(readers)))
        name = self._copy_name(stage.op.outputs[at].name, PERMUTED)
        op = make_cache_read(self, stage, at, name, reading, order)
        self.record(Permute(stage.key, at, tuple(order), tuple(each.key for each in reading)))
        self._add_behind(stage, op, PERMUTED)
        return op.outputs[0]

    def reindex(self, tensor: Tensor, reader: Place, groups: Groups) -> Tensor:
        """Let a stage read a tensor through a view by its own axes; return the view.

        for i, k: B[i] += A[i + k]  ->  for x, y: A.matrix[x, y] = A[x + y]
                                        for i, k: B[i] += A.matrix[i, k]

        ``groups`` are numbers of axes of the reader, data before reductions: those of one group
        become one dimension, the last of them the fastest. The reader has to read the tensor at
        one place only, by axes in groups. Inlined, the view costs no memory.
        """
        stage, reading = self[tensor], self[reader]
        source = stage.op.outputs[tensor.value_index]
        op = make_reindex(self, source, self._copy_name(source.name, VIEW), reading, groups)
        self.record(Reindex(stage.key, tensor.value_index, reading.key, groups_text(groups)))
        self._add_behind(stage, op, VIEW)
        return op.outputs[0]

    @overload
    def cache_write(
        self, tensor: Tensor, scope: str, parts: tuple[int, int] | None = None
    ) -> Tensor: ...

    @overload
    def cache_write(
        self, tensor: Sequence[Tensor], scope: str, parts: tuple[int, int] | None = None
    ) -> Tensor | list[Tensor]: ...

    def cache_write(
        self,
        tensor: Tensor | Sequence[Tensor],
        scope: str,
        parts: tuple[int, int] | None = None,
    ) -> Tensor | list[Tensor]:
        """Compute a tensor in a cache, from which its stage copies; return the cache.

        for i, k: C[i] += A[i, k]  ->  for i, k: C.local[i] += A[i, k]
                                       for i: C[i] = C.local[i]

        Of an operation with several outputs, give the list of all; a list comes back. It must be
        the first primitive on the stage, as the loops move to the cache.

        With ``parts``, a dimension and a length, the cache has two dimensions for that one::

            # cache_write(C, "local", (0, 8))
            for i, k: C[i] += A[i // 8, k]  ->  for o, j, k: C.local[o, j] += A[o, k]
                                                for i: C[i] = C.local[i // 8, i % 8]
        """
        several = not isinstance(tensor, Tensor)
        tensors = [tensor] if isinstance(tensor, Tensor) else list(tensor)
        stage = self[tensors[0]]
        _check_scope("cache_write", stage.name, scope)
        if [self[each] for each in tensors] != [stage] * stage.op.num_outputs:
            raise ScheduleError(
                f"cache_write({stage.name}): expected a list of all {stage.op.num_outputs} "
                "outputs of one operation"
            )
        cache_op, copy_op = make_cache_write(stage, scope, parts)
        if parts is None:
            self.record(CacheWrite(stage.key, scope))
        else:
            self.record(CacheWriteParts(stage.key, scope, *map(int, parts)))
        outputs = self._compute_in_cache(stage, cache_op, copy_op, scope)
        return outputs if several else outputs[0]

    def _compute_in_cache(
        self, stage: Stage, cache_op: Operation, copy_op: Operation, scope: str
    ) -> list[Tensor]:
        self._replace(stage, copy_op)
        self._add_before(stage, cache_op, scope).scope = scope
        return list(cache_op.outputs)

    def phases(self, tensor: Tensor, scope: str) -> Tensor:
        """Sum over what has zeros between its elements without these, in a cache; return that.

        for h, k: C[h] += D[h + k] * w[k]  ->  a sum for each phase of h, see `autotune.te.phases`

        Only ``C`` may read ``D``, which loses its zeros.
        """
        stage = self[tensor]
        _check_scope("phases", stage.name, scope)
        made = make_phases(self, stage, scope)
        self.record(CacheWritePhases(stage.key, scope))
        self._replace(self[made.source.op], made.packed)
        return self._compute_in_cache(stage, made.cache, made.copy, scope)[0]

    def widen(self, tensor: Tensor, scope: str) -> Tensor:
        """Sum products of 16-bit floats in float32, in a cache, and round once; return the cache.

        for i, k: C[i] += A[i, k] * B[k]  ->  C.local[i] += float32(A[i, k]) * float32(B[k])
                                              for i: C[i] = float16(C.local[i])
        """
        stage = self[tensor]
        _check_scope("widen", stage.name, scope)
        wide, copy = make_wide(stage, scope)
        self.record(CacheWriteWide(stage.key, scope))
        return self._compute_in_cache(stage, wide, copy, scope)[0]

    def rfactor(
        self, tensor: Tensor | Sequence[Tensor], axis: IterVar, factor_axis: int = 0
    ) -> Any:
        """Reduce in two: along ``axis`` apart, then over it. Return the tensor in between.

        for i:                   for k.inner, i:
          for k.outer, k.inner:    for k.outer: B.rf[k.inner, i] += A[i, k]
            B[i] += A[i, k]  ->  for i:
                                   for k.inner: B[i] += B.rf[k.inner, i]

        ``factor_axis`` is the place of the new dimension, counted from the end if negative. The
        stage of ``tensor`` gets new axes; see ``s[B].op``. Its data axes must be unscheduled.
        """
        first = tensor if isinstance(tensor, Tensor) else tensor[0]
        stage = self[first]
        factored = make_rfactor(stage, axis, factor_axis)
        at = stage.position("rfactor", axis)
        self.record(Rfactor(stage.key, at, factor_axis))
        self._replace(stage, factored.final_op)
        factored.give_loops(self._add_before(stage, factored.factor_op, "rf"))
        outputs = list(factored.factor_op.outputs)
        return outputs if len(outputs) > 1 else outputs[0]

    def create_group(
        self, outputs: Outputs, inputs: Outputs, include_inputs: bool = False
    ) -> StageGroup:
        """Return the stages that compute some tensors from others, to be moved together.

        for i: B[i] = A[i] + 1  ->  for i:                 # create_group(C, A)
        for i: C[i] = B[i] * 2        B[i] = A[i] + 1      #   .compute_at(s[D], i)
        for i: D[i] = C[i] - 3        C[i] = B[i] * 2
                                      D[i] = C[i] - 3

        The group is no stage of its own: each of its primitives is one of every stage in it.
        """
        ends, begins = (
            [self[place].op for place in _listed(places)] for places in (outputs, inputs)
        )
        return group_of(self.stages, ends, begins, include_inputs)

    def normalize(self) -> Schedule:
        """Return a copy in which inlined stages are substituted in the bodies that read them."""
        result = self.copy()
        result.inline_now()
        return result

    def inline_now(self) -> None:
        """Put what is computed inline into the bodies that read it."""
        self.record(Normalize(""))
        inline_stages(self)

    def copy(self) -> Schedule:
        """Return a schedule of its own state that shares the axes: both take the same ones."""
        result = Schedule.__new__(Schedule)
        result.__dict__.update(self.__dict__)
        new = {id(stage): stage.copied_to(result) for stage in self.stages}
        for stage in new.values():
            if stage.attach_stage is not None:
                stage.attach_stage = new[id(stage.attach_stage)]
            if stage.scan is not None:
                stage.scan = new[id(stage.scan)]
        result.stages = list(new.values())
        result.stage_map = {op: new[id(stage)] for op, stage in self.stage_map.items()}
        result._steps = list(self._steps)
        return result

    def _new_key(self, stage: Stage, role: str) -> str:
        return derived_key({each.key for each in self.stages}, stage.key, role)

    def _copy_name(self, name: str, scope: str) -> str:
        taken = {each.op.name for each in self.stages}
        while f"{name}.{scope}" in taken:
            name += ".d"
        return f"{name}.{scope}"

    def _place_beside(self, new: Stage, stage: Stage) -> None:
        """Compute a stage that serves another where that one is: with each row of a scan."""
        scan = stage.scan
        if scan is None:
            return
        if stage.attach_iter is scan.first_loops[0]:
            # What serves the first rows does not depend on others.
            new.attach_type, new.attach_stage, new.attach_iter = "at", scan, stage.attach_iter
        else:
            new.place_in_scan(scan)

    def _add_before(self, stage: Stage, op: Operation, role: str) -> Stage:
        """Add the stage of an operation that another one reads, which it serves in a role."""
        return self._insert(self.stages.index(stage), op, stage, role)

    def _add_behind(self, stage: Stage, op: Operation, role: str) -> Stage:
        """Add the stage of an operation that reads another one, which it serves in a role."""
        return self._insert(self.stages.index(stage) + 1, op, stage, role)

    def _insert(self, at: int, op: Operation, served: Stage, role: str) -> Stage:
        new = Stage(self, op, self._new_key(served, role))
        self.stages.insert(at, new)
        self.stage_map[op] = new
        self._place_beside(new, served)
        return new

    def _replace(self, stage: Stage, op: Operation) -> None:
        """Give a stage another operation, with fresh loops."""
        self.replace_op(stage, op)
        stage.all_iter_vars = [*op.axis, *op.reduce_axis]
        stage.leaf_iter_vars = stage.all_iter_vars[:]
        stage.first_loops = stage.all_iter_vars[:]
        stage.relations = []
        stage.iter_attrs = {}

    def replace_op(self, stage: StageState, op: Operation) -> None:
        """Give a stage a rewritten operation of the same axes."""
        self.stage_map[op] = self[stage.op]
        stage.op = op

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        if self._steps != other._steps:
            return False
        return self.outputs == other.outputs or dag_text(self.outputs) == dag_text(other.outputs)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages))

    def __repr__(self) -> str:
        outputs = ", ".join(op.name for op in self.outputs)
        return f"Schedule({outputs}: {len(self.stages)} stages, {len(self._steps)} steps)"


def _check_scope(primitive: str, name: str, scope: str) -> None:
    if scope not in SCOPES:
        raise ScheduleError(
            f"{primitive}({name}): expected a scope of {', '.join(SCOPES)}, got {scope!r}"
        )


def _listed(places: Outputs) -> Sequence[Place]:
    return places if isinstance(places, list | tuple) else [cast(Place, places)]


def create_schedule(ops: Outputs) -> Schedule:
    """Make the plain schedule of one or more operations (or tensors) and all they read."""
    given = [each.op if isinstance(each, Tensor) else each for each in _listed(ops)]
    for op in given:
        if not isinstance(op, Operation):
            raise ScheduleError(f"create_schedule: expected operations or tensors, got {op!r}")
    if not given:
        raise ScheduleError("create_schedule: expected at least one operation")
    return Schedule(dict.fromkeys(given))


def inlined(schedule: Schedule) -> Schedule:
    """Return a copy with inlined stages put into their readers and no step recorded."""
    result = schedule.copy()
    inline_stages(result)
    return result
