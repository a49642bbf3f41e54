"""The four kinds of choices a configuration is made of.

An entity is one value of one knob. Each kind knows its tag in logs, its JSON form, its numeric
features and, where it has one, its effect on a schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Union

from autotune.errors import SpaceError
from autotune.task.errors import KnobValueError
from autotune.te import thread_axis

# Position of each annotation in its one-hot code; the order is that of AutoTVM's features.
ANNOTATIONS = (
    "none", "vec", "unroll", "blockIdx.x", "blockIdx.y", "blockIdx.z",
    "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread", "fuse",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class SplitEntity:
    """Sizes of the loops one axis is split into, outermost first; -1 stands for "the rest"."""

    size: list[int]
    tag: ClassVar[str] = "sp"

    def to_json(self) -> list[int]:
        """Return the value that stands in logs."""
        return list(self.size)

    @classmethod
    def from_json(cls, value: object) -> SplitEntity:
        """Read the value that stands in logs."""
        return cls(_whole_numbers(value))

    def features(self) -> list[Any]:
        """Return the sizes."""
        return list(self.size)

    def apply(self, sch: Any, op: Any, axis: Any) -> list[Any]:
        """Split ``axis`` of stage ``op``; the first size follows from the others.

        for i in n:  ->  for i.0 in n / (b * c): for i.1 in b: for i.2 in c:   (size [-1, b, c])
        """
        return list(sch[op].multi_split(axis, self.size[1:])) if self.size[1:] else [axis]

    def __hash__(self) -> int:
        return hash(tuple(self.size))

    def __repr__(self) -> str:
        return str(self.size)


@dataclass(frozen=True, repr=False, eq=False)
class ReorderEntity:
    """An order of loops: position i holds the axis ``perm[i]``; it may name only some axes."""

    perm: Sequence[int]
    tag: ClassVar[str] = "re"

    def to_json(self) -> list[int]:
        """Return the value that stands in logs."""
        return list(self.perm)

    @classmethod
    def from_json(cls, value: object) -> ReorderEntity:
        """Read the value that stands in logs."""
        return cls(_whole_numbers(value))

    def features(self) -> list[Any]:
        """Return the permutation itself."""
        return list(self.perm)

    def apply(self, sch: Any, op: Any, axes: Sequence[Any]) -> list[Any]:
        """Reorder the loops ``axes`` of stage ``op`` and return them in their new order."""
        ordered = [axes[i] for i in self.perm]
        sch[op].reorder(*ordered)
        return ordered

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReorderEntity) and tuple(self.perm) == tuple(other.perm)

    def __hash__(self) -> int:
        return hash(tuple(self.perm))

    def __repr__(self) -> str:
        return str(self.perm)


@dataclass(frozen=True, repr=False, eq=False)
class AnnotateEntity:
    """One annotation for each axis; for cache anchors, the axis position of each anchor."""

    anns: Sequence[Any]
    tag: ClassVar[str] = "an"

    def to_json(self) -> list[Any]:
        """Return the value that stands in logs."""
        return list(self.anns)

    @classmethod
    def from_json(cls, value: object) -> AnnotateEntity:
        """Read the value that stands in logs."""
        if not isinstance(value, (list, tuple)):
            raise TypeError("expected a list")
        return cls(list(value))

    def features(self) -> list[Any]:
        """Return a one-hot code per axis; an anchor is its position."""
        return [number for ann in self.anns for number in annotation_code(ann)]

    def apply(
        self,
        sch: Any,
        op: Any,
        axes: list[Any],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Any = None,
        source: Iterable[Iterable[Any]] | None = None,
    ) -> list[Any]:
        """Annotate the loops ``axes`` of stage ``op`` and return them, fused ones replaced.

        Args:
            sch: the schedule.
            op: the stage, by tensor or operation.
            axes: its loops; not changed.
            axis_lens: their lengths, needed with ``max_unroll`` or ``vec_size``.
            max_unroll: longest loop that may be unrolled; a longer one marks ``cfg`` invalid.
            vec_size: lengths that may be vectorised; another one marks ``cfg`` invalid.
            cfg: the configuration that an impossible annotation is reported to.
            source: for each anchor the tensors computed there (policy ``locate_cache``).
        """
        if source is not None:
            for tensors, anchor in zip(source, self.anns, strict=True):
                for tensor in tensors:
                    sch[tensor].compute_at(sch[op], axes[anchor])
            return list(axes)
        loops = list(axes)
        for i, ann in enumerate(self.anns):
            length = axis_lens[i] if axis_lens is not None else None
            if ann == "unroll" and max_unroll and length is not None and length > max_unroll:
                cfg.raise_error("Too large factor for unrolling")
            if ann == "vec" and vec_size and length is not None and length not in vec_size:
                cfg.raise_error("Wrong size of lanes in vectorization")
            _annotate(sch[op], loops, i, ann)
        return loops

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnnotateEntity) and tuple(self.anns) == tuple(other.anns)

    def __hash__(self) -> int:
        return hash(tuple(self.anns))

    def __repr__(self) -> str:
        return str(self.anns)


@dataclass(frozen=True, repr=False)
class OtherOptionEntity:
    """Any JSON value."""

    val: Any
    tag: ClassVar[str] = "ot"

    def to_json(self) -> Any:
        """Return the value that stands in logs."""
        return self.val

    @classmethod
    def from_json(cls, value: object) -> OtherOptionEntity:
        """Read the value that stands in logs."""
        return cls(value)

    def features(self) -> list[Any]:
        """Return the value itself."""
        return [self.val]

    def __hash__(self) -> int:
        try:
            return hash(self.val)
        except TypeError:
            return hash(type(self.val))  # a list or dict: equal ones have equal types

    def __repr__(self) -> str:
        return str(self.val)


Entity = Union[SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity]  # noqa: UP007

_BY_TAG: dict[str, type[Entity]] = {
    kind.tag: kind for kind in (SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity)
}


def entity_from_json(name: str, tag: str, value: object) -> Entity:
    """Read one ``[name, tag, value]`` triple of a log.

    Raises:
        SpaceError: the tag is unknown, or the value is not of its kind.
    """
    if not isinstance(name, str):
        raise SpaceError(f"the name of a knob is a text, not {name!r}")
    if not isinstance(tag, str) or tag not in _BY_TAG:
        raise SpaceError(
            f"knob {name!r}: Invalid config knob type: {tag!r}; expected one of "
            f"{', '.join(_BY_TAG)}"
        )
    try:
        return _BY_TAG[tag].from_json(value)
    except (TypeError, ValueError) as error:
        raise SpaceError(f"knob {name!r}: {value!r} is no value of type {tag!r}") from error


def _whole_numbers(value: object) -> list[int]:
    if not isinstance(value, (list, tuple, range)) or any(type(n) is not int for n in value):
        raise TypeError("expected a list of whole numbers")
    return list(value)


def annotation_code(ann: object) -> list[float]:
    """Return the one-hot code of an annotation, or the position of an anchor."""
    if isinstance(ann, int):
        return [float(ann)]
    if ann not in ANNOTATIONS:
        raise KnobValueError(f"annotation {ann!r}: expected one of {', '.join(ANNOTATIONS)}")
    return [float(ann == known) for known in ANNOTATIONS]


def _annotate(stage: Any, loops: list[Any], position: int, ann: Any) -> None:
    """Give one loop its annotation; a fused loop takes the place of its inner neighbour."""
    loop = loops[position]
    if ann == "none":
        return
    if ann == "unroll":
        stage.unroll(loop)
    elif ann == "vec":
        stage.vectorize(loop)
    elif ann == "fuse":
        if position + 1 >= len(loops):
            raise SpaceError("annotation 'fuse': there is no inner loop to fuse the last one with")
        loops[position + 1] = stage.fuse(loop, loops[position + 1])
    elif ann in ANNOTATIONS:
        stage.bind(loop, thread_axis(ann))
    else:
        raise SpaceError(f"Invalid annotation {ann!r}; expected one of {', '.join(ANNOTATIONS)}")
