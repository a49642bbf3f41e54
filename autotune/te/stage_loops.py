"""The primitives that change the loops of a stage. Each checks, records, updates, returns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import SupportsIndex, cast

from autotune.errors import ScheduleError
from autotune.ir import Expr, ForKind, IntImm, IterVar, Range, Var, whole
from autotune.te.intrinsics import thread_axis
from autotune.te.pragmas import warn_of_slip
from autotune.te.relation import FuseRelation, SingletonRelation, SplitRelation, extent_of
from autotune.te.stage_state import IterAttr, StageState
from autotune.te.step import Bind, Fuse, Parallel, Pragma, Reorder, Split, Unroll, Vectorize
from autotune.te.tensor import SEQUENTIAL

# What says how large a part of a loop is.
Size = SupportsIndex | IntImm


class LoopPrimitives(StageState):
    """Split, fuse, reorder, bind and mark loops."""

    __slots__ = ()

    def split(
        self, axis: IterVar, factor: Size | None = None, nparts: Size | None = None
    ) -> tuple[IterVar, IterVar]:
        """Split one loop in two; ``factor`` is the inner extent, or ``nparts`` the outer one.

        for i in 0..n:  ->  for i.outer in 0..ceil(n / factor):
          ...                 for i.inner in 0..factor:
                                ...  # where i.outer * factor + i.inner < n
        """
        self._check_split(axis)
        if factor is not None and nparts is None:
            outer, inner = self._split(axis, (_size(axis, "factor", factor),), True)
        elif nparts is not None and factor is None:
            outer, inner = self._split(axis, (_size(axis, "nparts", nparts),), False)
        else:
            raise ScheduleError(
                f"split({axis.name!r}): expected either factor or nparts, got factor={factor}, "
                f"nparts={nparts}"
            )
        return outer, inner

    def multi_split(
        self, axis: IterVar, factors: Sequence[Size], from_inner: bool = True
    ) -> tuple[IterVar, ...]:
        """Split one loop in several, in one step; return them from outer to inner.

        for i in 0..n:  ->  for i.outer in 0..ceil(n / (a * b)):   # multi_split(i, [a, b])
          ...                 for i.inner.outer in 0..a:
                                for i.inner.inner in 0..b:
                                  ...

        ``factors`` are extents from outer to inner. The one that follows from the loop's own is
        the outermost; with ``from_inner=False`` it is the innermost, and they are counts of parts.
        """
        self._check_split(axis)
        return self._split(axis, tuple(_size(axis, "a factor", f) for f in factors), from_inner)

    def _check_split(self, axis: IterVar) -> None:
        self.position("split", axis)
        self.check_plain("split", axis)

    def _split(
        self, axis: IterVar, factors: tuple[int, ...], from_inner: bool
    ) -> tuple[IterVar, ...]:
        self.schedule.record(Split(self.key, self.position("split", axis), factors, from_inner))
        parts = []
        for i, factor in enumerate(factors):
            if from_inner:
                outer, axis = self._split_in_two(axis, prod(factors[i:]), None)
            else:
                outer, axis = self._split_in_two(axis, None, factor)
            parts.append(outer)
        return (*parts, axis)

    def _split_in_two(
        self, axis: IterVar, factor: int | None, nparts: int | None
    ) -> tuple[IterVar, IterVar]:
        at, kind = self.position("split", axis), axis.kind
        outer = IterVar(Var(axis.var.name + ".outer", axis.var.dtype, kind), None, kind)
        inner = IterVar(Var(axis.var.name + ".inner", axis.var.dtype, kind), None, kind)
        self.move_attached(axis, inner)
        self.relations.append(SplitRelation(axis, outer, inner, factor, nparts))
        self.all_iter_vars += (outer, inner)
        self.leaf_iter_vars[at : at + 1] = (outer, inner)
        self._move_pragmas(axis, outer)
        return outer, inner

    def fuse(self, *axes: IterVar | Sequence[IterVar]) -> IterVar:
        """Make one loop of neighbouring loops; the outermost stays outermost, however given.

        for i in 0..n:      ->  for i.j.fused in 0..n * m:
          for j in 0..m:          ...

        One loop stays what it is; of no loops comes a loop of one iteration, outermost.
        """
        return self._fuse(_listed(axes))

    def _fuse(self, axes: tuple[IterVar, ...]) -> IterVar:
        places = [self.position("fuse", axis) for axis in axes]
        for axis in axes:
            self.check_plain("fuse", axis)
        self._check_fuse(axes, places)
        places.sort()
        axes = tuple([self.leaf_iter_vars[place] for place in places])
        self.schedule.record(Fuse(self.key, tuple(places)))
        if not axes:
            single = IterVar(Var("singleton", "int32", "data"), Range(0, 1), "data")
            self.relations.append(SingletonRelation(single))
            self.all_iter_vars.append(single)
            self.leaf_iter_vars.insert(0, single)
            return single
        fused: IterVar = axes[0]
        for axis in axes[1:]:
            name = f"{fused.var.name}.{axis.var.name}.fused"
            both = IterVar(Var(name, fused.var.dtype, fused.kind), None, fused.kind)
            self.relations.append(FuseRelation(fused, axis, both))
            self.all_iter_vars.append(both)
            self._move_pragmas(axis, both)
            self._move_pragmas(fused, both)
            fused = both
        if len(axes) > 1:
            self.move_attached(axes[-1], fused)
            self.leaf_iter_vars[places[0] : places[0] + len(axes)] = (fused,)
        return fused

    def _check_fuse(self, axes: tuple[IterVar, ...], places: list[int]) -> None:
        names = ", ".join(axis.name for axis in axes)
        if any(b != a + 1 for a, b in pairwise(sorted(places))):
            loops = ", ".join(leaf.name for leaf in self.leaf_iter_vars)
            raise ScheduleError(
                f"fuse({names}): expected neighbouring loops; the loops of {self.name} are now: "
                f"{loops}"
            )
        if len({axis.kind for axis in axes}) > 1:
            raise ScheduleError(
                f"fuse({names}): a reduction axis of {self.name} cannot be fused with another kind"
            )
        for axis in axes[:-1]:
            for stage in self.attached():
                if stage.attach_iter is axis:
                    raise ScheduleError(
                        f"fuse({names}): {stage.name} is computed at {axis.name!r}; expected that "
                        "to be the innermost of the fused loops"
                    )

    def tile(
        self, x: IterVar, y: IterVar, x_factor: int, y_factor: int
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split two loops and put the inner parts inside; return outer x, outer y, inner x, y.

        for x in 0..n:      ->  for x.outer in 0..n / x_factor:
          for y in 0..m:          for y.outer in 0..m / y_factor:
                                    for x.inner in 0..x_factor:
                                      for y.inner in 0..y_factor:
        """
        x_outer, x_inner = self.split(x, x_factor)
        y_outer, y_inner = self.split(y, y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner

    def reorder(self, *axes: IterVar | Sequence[IterVar]) -> None:
        """Put the named loops in this order, in the places that they now take together.

        for i in 0..n:      ->  for j in 0..m:      # reorder(j, i)
          for j in 0..m:          for i in 0..n:
        """
        loops = _listed(axes)
        for axis in loops:
            self._check_unordered("reorder", axis)
        places = [self.position("reorder", axis) for axis in loops]
        if len(set(places)) < len(places):
            names = ", ".join(axis.name for axis in loops)
            raise ScheduleError(f"reorder({names}): expected each loop of {self.name} once")
        self.schedule.record(Reorder(self.key, tuple(places)))
        for place, axis in zip(sorted(places), loops, strict=True):
            self.leaf_iter_vars[place] = axis

    def bind(self, axis: IterVar, thread: IterVar) -> None:
        """Let the threads of a thread axis carry out the iterations of a loop.

        for i in 0..n:  ->  i = threadIdx.x  # n threads
          ...               ...

        A loop over a reduction axis may be bound to ``threadIdx``: the threads of a block then
        reduce together. Bound to ``blockIdx`` it would need `Schedule.rfactor`.
        """
        at = self.position("bind", axis)
        self.check_plain("bind", axis)
        if not isinstance(thread, IterVar) or not thread.thread_tag:
            raise ScheduleError(
                f"bind({axis.name!r}): expected a thread axis such as te.thread_axis("
                f"'threadIdx.x'), got {thread!r}"
            )
        self._check_unordered("bind", axis)
        self.check_compute("bind")
        tag = thread.thread_tag
        if axis.kind == "reduce" and not tag.startswith("threadIdx"):
            raise ScheduleError(
                f"bind({axis.name!r}): a reduction axis of {self.name} can be bound to threadIdx "
                f"only, got {tag}; rfactor makes a reduction axis a data axis"
            )
        extent = extent_of(thread)
        own = extent_of(axis)
        if extent is not None and own is not None and extent != own:
            raise ScheduleError(
                f"bind({axis.name!r}): {self.name} has {own} iterations, but the thread axis "
                f"{tag} has an extent of {extent}"
            )
        virtual = tag == "vthread"
        if not virtual:
            self._check_free(axis, tag)
        self.schedule.record(Bind(self.key, at, tag, extent or 0))
        kind = ForKind.VTHREAD if virtual else ForKind.THREAD
        self.iter_attrs[axis] = IterAttr(kind, thread, self.attr(axis).pragmas)

    def _check_free(self, axis: IterVar, tag: str) -> None:
        for other, attr in self.iter_attrs.items():
            if attr.thread is not None and attr.thread.thread_tag == tag:
                raise ScheduleError(
                    f"bind({axis.name!r}): {tag} is taken by axis {other.name!r} of {self.name}; "
                    "fuse the two, or take another thread axis"
                )

    def vthread(self, axis: IterVar) -> None:
        """Bind a loop to a virtual thread: its iterations are interleaved in each thread.

        for i in 0..2:  ->  do all of iteration 0 and of iteration 1, statement by statement
          ...
        """
        self.bind(axis, thread_axis("vthread"))

    def unroll(self, axis: IterVar) -> None:
        """Write a loop out.

        for i in 0..2:  ->  A[0] = ...
          A[i] = ...        A[1] = ...
        """
        self._mark(Unroll, axis, ForKind.UNROLLED)

    def vectorize(self, axis: IterVar) -> None:
        """Carry out a loop by vector operations; its extent must be a constant.

        for i in 0..4:  ->  A[0:4] = ...
          A[i] = ...
        """
        self._check_data("vectorize", axis)
        self._mark(Vectorize, axis, ForKind.VECTORIZED)

    def parallel(self, axis: IterVar) -> None:
        """Share the iterations of a loop out to the threads of a CPU.

        for i in 0..n:  ->  for i in 0..n:  # on all cores at once
          ...                 ...
        """
        self._check_data("parallel", axis)
        self._mark(Parallel, axis, ForKind.PARALLEL)

    def pragma(self, axis: IterVar, key: str, value: SupportsIndex | str | None = None) -> None:
        """Give a loop and all inside it a hint.

        ``auto_unroll_max_step`` (an int) unrolls inner loops if they become at most this many
        statements; ``unroll_explicit`` is 1 if the generated text is unrolled, 0 if the compiler
        is told to do so. With ``tensor_core`` or ``wgmma`` a loop nest that multiplies 16-bit
        floats, or floats as TF32, uses matrix instructions of one warp or of four, see
        `autotune.lowering.passes.tensor_cores` and `autotune.lowering.passes.warpgroups`.
        ``persistent`` marks a loop inside of all thread axes, over the tiles that one block
        computes one after another: asynchronous copies for the next tile begin before the results
        of the present one are stored. ``min_blocks`` (an int up to 32) asks for so few registers
        that a multiprocessor of a GPU holds that many blocks at once. Other keys have no effect.

        for i in 0..n:  ->  for i in 0..n:  # auto_unroll_max_step=16
          ...                 ...
        """
        at = self.position("pragma", axis)
        warn_of_slip(key)
        setting = _setting(axis, key, value)
        self.schedule.record(Pragma(self.key, at, key, setting))
        old = self.attr(axis)
        pragmas = (*[each for each in old.pragmas if each[0] != key], (key, setting))
        self.iter_attrs[axis] = IterAttr(old.kind, old.thread, pragmas)

    def _mark(
        self, step: type[Unroll | Vectorize | Parallel], axis: IterVar, kind: ForKind
    ) -> None:
        """Mark how a loop is executed: the last mark counts; repeating a mark adds no step."""
        at = self.position(step.tag, axis)
        if axis.kind != SEQUENTIAL:
            self.check_compute(step.tag)
        old = self.attr(axis)
        if old.kind is kind:
            return
        if old.thread is not None:
            self.check_plain(step.tag, axis)
        self.schedule.record(step(self.key, at))
        self.iter_attrs[axis] = IterAttr(kind, None, old.pragmas)

    def _check_data(self, primitive: str, axis: IterVar) -> None:
        self.position(primitive, axis)
        self._check_unordered(primitive, axis)
        if axis.kind == "reduce":
            raise ScheduleError(
                f"{primitive}({axis.name!r}): expected a data axis of {self.name}; its iterations "
                "all add to one element; rfactor makes a reduction axis a data axis"
            )

    def _check_unordered(self, primitive: str, axis: IterVar) -> None:
        if isinstance(axis, IterVar) and axis.kind == SEQUENTIAL:
            raise ScheduleError(
                f"{primitive}({axis.name!r}): the rows of {self.name} are computed one after "
                "another, as each needs those before; it can be split, fused again and unrolled"
            )

    def _move_pragmas(self, old: IterVar, new: IterVar) -> None:
        attr = self.iter_attrs.pop(old, None)
        if attr is not None:
            hints = {**dict(self.attr(new).pragmas), **dict(attr.pragmas)}
            self.iter_attrs[new] = IterAttr(ForKind.SERIAL, None, tuple(hints.items()))


def _listed(axes: tuple[IterVar | Sequence[IterVar], ...]) -> tuple[IterVar, ...]:
    """Returns axes that may have been given as one list; anything else is refused later."""
    first = axes[0] if len(axes) == 1 else axes
    return cast("tuple[IterVar, ...]", tuple(first) if isinstance(first, list | tuple) else axes)


def _size(axis: IterVar, what: str, value: Size) -> int:
    number = whole(value.value if isinstance(value, IntImm) else value)
    if isinstance(number, Expr) or not hasattr(number, "__index__"):
        raise ScheduleError(f"split({axis.name!r}): {what} must be an int, got {value!r}")
    number = int(number)
    if number < 1:
        raise ScheduleError(f"split({axis.name!r}): {what} must be at least 1, got {number}")
    return number


def _setting(axis: IterVar, key: str, value: SupportsIndex | str | None) -> int | str:
    if isinstance(value, str):
        return value
    if value is None:
        return 0
    if not hasattr(value, "__index__"):
        raise ScheduleError(
            f"pragma({axis.name!r}, {key!r}): the value must be an int or a string, got {value!r}"
        )
    return int(value)
