"""Schedule steps: the primitives of a schedule as plain frozen data.

A step names a stage by its `Stage.key`, which never changes, and an axis by its position among the
stage's leaf axes at the time of the step. So a list of steps can be printed, compared, converted
to JSON, and replayed on any graph of the same structure. A step may be inserted or removed without
changing the meaning of later steps for other stages.

Steps are data only: `autotune.te.replay` applies them to a schedule.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, cast

from autotune.errors import ScheduleError

# What a field of a step holds, and what stands for it in JSON.
Value = int | str | None | tuple[int | str | None, ...]
Plain = int | str | None | list[int | str | None]

# tag -> class, filled by the subclasses of `Step` that have one themselves.
STEPS: dict[str, type[Step]] = {}


@dataclass(frozen=True)
class Step:
    """Base of all steps; ``tag`` names the class in JSON, ``stage`` is the stage it changes."""

    tag: ClassVar[str] = ""
    stage: str

    def __init_subclass__(cls) -> None:
        if cls.tag:
            STEPS[cls.tag] = cls

    def values(self) -> list[Value]:
        """Returns the fields in order."""
        return [getattr(self, each.name) for each in fields(self)]

    def to_json(self) -> list[Plain]:
        """Returns ``[tag, field, ...]``, ready for `json.dumps`."""
        return [self.tag, *(list(v) if isinstance(v, tuple) else v for v in self.values())]

    def __str__(self) -> str:
        shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self)]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True)
class Split(Step):
    """One axis became several, whose extents from outer to inner are ``factors`` and one more.

    That one follows from the extent of the axis: it is the outermost with ``from_inner``, else the
    innermost. A factor may be open, None, in a step that a search has yet to `fill`.
    """

    tag: ClassVar[str] = "split"
    axis: int
    factors: tuple[int | None, ...]
    from_inner: bool = True

    @property
    def is_open(self) -> bool:
        """Whether any factor has yet to be chosen; such a step cannot be taken."""
        return None in self.factors

    def fill(self, factors: Sequence[int]) -> Split:
        """Returns the step with ``factors`` in the places of its open ones, in order."""
        if len(factors) != self.factors.count(None):
            raise ScheduleError(
                f"{self}: expected {self.factors.count(None)} factors for its open places, got "
                f"{list(factors)}"
            )
        chosen = iter(factors)
        return replace(self, factors=tuple(next(chosen) if f is None else f for f in self.factors))


@dataclass(frozen=True)
class Fuse(Step):
    """Neighbouring axes became one; of no axes, a loop of one iteration."""

    tag: ClassVar[str] = "fuse"
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Reorder(Step):
    """The named axes took each other's places, in this order."""

    tag: ClassVar[str] = "reorder"
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Bind(Step):
    """An axis was bound to a thread axis; ``extent`` is 0 where the thread axis says none."""

    tag: ClassVar[str] = "bind"
    axis: int
    thread: str
    extent: int


@dataclass(frozen=True)
class Annotate(Step):
    """Base of the steps that mark how one loop is carried out."""

    axis: int


@dataclass(frozen=True)
class Unroll(Annotate):
    """A loop is written out."""

    tag: ClassVar[str] = "unroll"


@dataclass(frozen=True)
class Vectorize(Annotate):
    """A loop is carried out by vector operations."""

    tag: ClassVar[str] = "vectorize"


@dataclass(frozen=True)
class Parallel(Annotate):
    """A loop is shared out to the threads of a CPU."""

    tag: ClassVar[str] = "parallel"


@dataclass(frozen=True)
class Pragma(Step):
    """A loop got a hint for the compiler."""

    tag: ClassVar[str] = "pragma"
    axis: int
    key: str
    value: int | str


@dataclass(frozen=True)
class Tensorize(Annotate):
    """A loop and all inside it became an intrinsic; ``intrin`` is `TensorIntrin.key`."""

    tag: ClassVar[str] = "tensorize"
    intrin: str


@dataclass(frozen=True)
class Prefetch(Annotate):
    """A loop fetches what it will read of output ``output`` of ``source``, ``offset`` later."""

    tag: ClassVar[str] = "prefetch"
    source: str
    output: int
    offset: int


@dataclass(frozen=True)
class ComputeAt(Step):
    """A stage is computed inside a loop of another stage."""

    tag: ClassVar[str] = "compute_at"
    target: str
    axis: int


@dataclass(frozen=True)
class ComputeInline(Step):
    """A stage is computed where it is read."""

    tag: ClassVar[str] = "compute_inline"


@dataclass(frozen=True)
class ComputeRoot(Step):
    """A stage is computed in loops of its own."""

    tag: ClassVar[str] = "compute_root"


@dataclass(frozen=True)
class CacheRead(Step):
    """A copy of output ``output`` of a stage, which ``readers`` read instead."""

    tag: ClassVar[str] = "cache_read"
    output: int
    scope: str
    readers: tuple[str, ...]


@dataclass(frozen=True)
class Reindex(Step):
    """A view of output ``output`` of a stage, which ``reader`` reads instead.

    Its dimensions are axes of the reader, fused; see `autotune.te.reindex.groups_text`.
    """

    tag: ClassVar[str] = "reindex"
    output: int
    reader: str
    groups: str


@dataclass(frozen=True)
class Permute(Step):
    """A copy of output ``output`` of a stage in another order of dimensions, for ``readers``."""

    tag: ClassVar[str] = "permute"
    output: int
    order: tuple[int, ...]
    readers: tuple[str, ...]


@dataclass(frozen=True)
class CacheWrite(Step):
    """A stage's computation moved to a cache, from which the stage copies."""

    tag: ClassVar[str] = "cache_write"
    scope: str


@dataclass(frozen=True)
class CacheWriteParts(CacheWrite):
    """A stage's computation moved to a cache that has two dimensions for one."""

    tag: ClassVar[str] = "cache_write_parts"
    dimension: int
    length: int


@dataclass(frozen=True)
class CacheWritePhases(CacheWrite):
    """A sum moved to a cache with dimensions for phases, which leaves out terms that are zero."""

    tag: ClassVar[str] = "cache_write_phases"


@dataclass(frozen=True)
class CacheWriteWide(CacheWrite):
    """A sum of 16-bit floats moved to a cache, in float32."""

    tag: ClassVar[str] = "cache_write_wide"


@dataclass(frozen=True)
class Rfactor(Step):
    """A reduction was done in two: partly along one axis, then over that axis."""

    tag: ClassVar[str] = "rfactor"
    axis: int
    factor_axis: int


@dataclass(frozen=True)
class StorageAlign(Step):
    """The stride of a dimension became ``offset`` modulo ``factor``."""

    tag: ClassVar[str] = "storage_align"
    dimension: int
    factor: int
    offset: int


@dataclass(frozen=True)
class DoubleBuffer(Step):
    """A stage got two buffers: one is filled while the other is read."""

    tag: ClassVar[str] = "double_buffer"


@dataclass(frozen=True)
class AsyncCopies(Step):
    """A shared stage is filled by asynchronous copies in a pipeline of ``stages`` buffers."""

    tag: ClassVar[str] = "async_copy"
    stages: int


@dataclass(frozen=True)
class SetScope(Step):
    """A stage's result lives in another kind of memory."""

    tag: ClassVar[str] = "set_scope"
    scope: str


@dataclass(frozen=True)
class EnvThreads(Step):
    """Threads were launched around all that a scan computes; ``extents`` say how many."""

    tag: ClassVar[str] = "env_threads"
    threads: tuple[str, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True)
class SetStorePredicate(Step):
    """A stage is stored only where a condition, written as text, holds."""

    tag: ClassVar[str] = "set_store_predicate"
    condition: str


@dataclass(frozen=True)
class Normalize(Step):
    """Inlined stages were put into their readers; ``stage`` is empty."""

    tag: ClassVar[str] = "normalize"


def derived_key(taken: Container[str], key: str, role: str) -> str:
    """Returns the key of a stage that is added to serve another one, such as ``"2.shared"``."""
    first = f"{key}.{role}"
    keys = itertools.chain([first], (f"{first}.{i}" for i in itertools.count(1)))
    return next(each for each in keys if each not in taken)


def step_from_json(row: Iterable[object]) -> Step:
    """Returns the step that `Step.to_json` wrote."""
    tag, *values = row
    cls = STEPS.get(tag) if isinstance(tag, str) else None
    if cls is None:
        raise ScheduleError(f"step {tag!r} is unknown; expected one of {', '.join(STEPS)}")
    wanted = [each.name for each in fields(cls)]
    if len(values) != len(wanted):
        raise ScheduleError(f"step {tag!r}: expected {', '.join(wanted)}, got {values}")
    given = [tuple(v) if isinstance(v, list) else v for v in values]
    make = cast(Callable[..., Step], cls)
    return make(*given)
