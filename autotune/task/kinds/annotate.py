"""The kind of knob that binds, unrolls or vectorises loops, or says where caches are computed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from autotune.errors import SpaceError
from autotune.task.errors import KnobValueError
from autotune.task.kinds.entity import Entity, SequenceEntity
from autotune.task.kinds.stand_in import Elements, StandInMaker
from autotune.task.kinds.transform_space import IntTable, TransformSpace, check_policy
from autotune.te import IterVar, Operation, Schedule, Stage, Tensor, thread_axis
from autotune.utils.check import Check

_CHECK = Check(SpaceError)
POLICIES = (
    "bind_gpu", "bind_gpu_virtual", "locate_cache", "or try, none, unroll, vec joined by '_'",
)  # fmt: skip
CHOICES = ("none", "unroll", "vec")
# Position of each annotation in its one-hot code; the order is that of AutoTVM's features.
ANNOTATIONS = (
    "none", "vec", "unroll", "blockIdx.x", "blockIdx.y", "blockIdx.z",
    "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread", "fuse",
)  # fmt: skip


class Refusing(Protocol):
    """A configuration that an impossible annotation is reported to."""

    def raise_error(self, msg: str) -> None:
        """Marks the configuration impossible."""


@dataclass(frozen=True, repr=False, eq=False)
class AnnotateEntity(SequenceEntity):
    """One annotation for each axis; for cache anchors, the axis position of each anchor."""

    anns: Sequence[str | int]
    tag: ClassVar[str] = "an"
    attribute: ClassVar[str] = "anns"

    @classmethod
    def from_json(cls, value: object) -> AnnotateEntity:
        """Return the entity of a value in JSON form."""
        if not isinstance(value, (list, tuple)):
            raise TypeError("expected a list")
        return cls(list(value))

    def features(self) -> list[object]:
        """Return a one-hot code per axis; an anchor is its position."""
        return [number for ann in self.anns for number in annotation_code(ann)]

    def apply(
        self,
        sch: Schedule,
        op: Tensor | Operation,
        axes: list[IterVar],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Refusing | None = None,
        source: Iterable[Iterable[Tensor | Operation]] | None = None,
    ) -> list[IterVar]:
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
            self._locate(sch, sch[op], axes, source)
            return list(axes)
        loops = list(axes)
        for i, ann in enumerate(self.anns):
            length = axis_lens[i] if axis_lens is not None else None
            if ann == "unroll" and max_unroll and length is not None and length > max_unroll:
                _refuse(cfg, "Too large factor for unrolling")
            if ann == "vec" and vec_size and length is not None and length not in vec_size:
                _refuse(cfg, "Wrong size of lanes in vectorization")
            _annotate(sch[op], loops, i, ann)
        return loops

    def _locate(
        self,
        sch: Schedule,
        stage: Stage,
        axes: Sequence[IterVar],
        source: Iterable[Iterable[Tensor | Operation]],
    ) -> None:
        """Compute tensors inside the loops at their anchors."""
        for tensors, anchor in zip(source, self.anns, strict=True):
            if not isinstance(anchor, int):
                raise SpaceError(
                    f"source goes with the policy locate_cache, whose anchors are positions; got "
                    f"{anchor!r}"
                )
            for tensor in tensors:
                sch[tensor].compute_at(stage, axes[anchor])


class AnnotateSpace(TransformSpace):
    """Annotations of a list of loops.

    Args:
        axes: the loops.
        policy: ``bind_gpu`` and ``bind_gpu_virtual`` (one fixed binding that depends on the number
            of loops), ``locate_cache`` (positions of ``num_anchor`` caches), or ``none``,
            ``unroll``, ``vec`` and ``try`` joined by ``_``, as in ``try_unroll_vec``.
        num_anchor: number of caches for ``locate_cache``.
    """

    kind: ClassVar[type[Entity]] = AnnotateEntity
    has_elements: ClassVar[bool] = True

    def __init__(self, axes: Sequence[object], policy: str, num_anchor: int | None = None) -> None:
        self.policy = policy
        self.num_output = len(_CHECK.sequence("axes", axes, "a list of loops"))
        self._num_anchor = num_anchor

    @cached_property
    def _anns(self) -> Sequence[Sequence[str | int]]:
        """All annotations."""
        _CHECK.text("policy", self.policy, "try_unroll")
        anns = self._assignments()
        if not anns:
            raise SpaceError(
                f"policy {self.policy!r} leaves no annotation of {self.num_output} axes: at most "
                f"one axis can be vectorised; add 'try' or 'unroll', as in 'try_{self.policy}'"
            )
        return anns

    def _assignments(self) -> Sequence[Sequence[str | int]]:
        if self.policy == "bind_gpu":
            return [self._bound(virtual=False)]
        if self.policy == "bind_gpu_virtual":
            return [self._bound(virtual=True)]
        if self.policy == "locate_cache":
            count = _CHECK.whole("num_anchor", self._num_anchor, least=1, most=self.num_output)
            return list(itertools.combinations(range(self.num_output), count))
        choices = self.policy.replace("try", "none").split("_")
        if not set(choices) <= set(CHOICES):
            check_policy(self.policy, POLICIES)
        every = itertools.product(choices, repeat=self.num_output)
        return [list(anns) for anns in every if anns.count("vec") <= 1]

    def _bound(self, virtual: bool) -> list[str]:
        """Return what binds the innermost loops to as many dimensions as there are loops for."""
        levels = 3 if virtual else 2
        for dims in (3, 2, 1):
            spare = self.num_output - levels * dims
            if spare >= 0:
                letters = "zyx"[3 - dims :]
                middle = ["vthread"] * dims if virtual else []
                blocks = [f"blockIdx.{letter}" for letter in letters]
                threads = [f"threadIdx.{letter}" for letter in letters]
                return ["fuse"] * spare + blocks + middle + threads
        raise SpaceError(
            f"Unhandled case in {self.policy}: it needs at least {levels} axes, "
            f"got {self.num_output}"
        )

    def __len__(self) -> int:
        return len(self._anns)

    def __getitem__(self, index: int) -> AnnotateEntity:
        return AnnotateEntity(self._anns[index])

    def suits(self, entity: Entity) -> bool:
        """Return whether an entity has an annotation for each loop, or a loop for each anchor."""
        expected = self.num_output if self._num_anchor is None else self._num_anchor
        return isinstance(entity, AnnotateEntity) and len(entity.anns) == expected

    def __repr__(self) -> str:
        return f"Annotate(policy={self.policy}) len={len(self)}"

    def feature_names(self, name: str) -> list[str]:
        """Return a column per axis and annotation, or one per anchor."""
        positions = range(len(self._anns[0]))
        if self.policy == "locate_cache":
            return [f"{name}[{i}]" for i in positions]
        return [f"{name}[{i}]={ann}" for i in positions for ann in ANNOTATIONS]

    def element_codes(self, position: int) -> IntTable:
        """Return a number for the annotation at ``position`` of each entity."""
        values = [anns[position] for anns in self._anns]
        codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
        return np.array([codes[value] for value in values], dtype=np.int64)

    def traced(self, asked: StandInMaker) -> object:
        """Return a symbolic annotation, whose elements are chosen when a filter reads them."""
        elements = Elements(len(self._anns[0]), lambda i: self._element(i, asked))
        return asked.entity(AnnotateEntity, lambda: elements)

    def _element(self, position: int, asked: StandInMaker) -> object:
        values = list(dict.fromkeys(anns[position] for anns in self._anns))  # by their code
        return asked.one_of(values, position, self.element_codes(position))


def annotation_code(ann: object) -> list[float]:
    """Return the one-hot code of an annotation, or the position of an anchor.

    Raises:
        KnobValueError: it is neither.
    """
    if isinstance(ann, int):
        return [float(ann)]
    if ann not in ANNOTATIONS:
        raise KnobValueError(f"annotation {ann!r}: expected one of {', '.join(ANNOTATIONS)}")
    return [float(ann == known) for known in ANNOTATIONS]


def _annotate(stage: Stage, loops: list[IterVar], position: int, ann: str | int) -> None:
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
    elif isinstance(ann, str) and ann in ANNOTATIONS:
        stage.bind(loop, thread_axis(ann))
    else:
        raise SpaceError(f"Invalid annotation {ann!r}; expected one of {', '.join(ANNOTATIONS)}")


def _refuse(cfg: Refusing | None, why: str) -> None:
    if cfg is None:
        raise SpaceError(f"{why}; pass cfg, so that the configuration is marked impossible")
    cfg.raise_error(why)
