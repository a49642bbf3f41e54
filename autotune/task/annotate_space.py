"""Knobs that bind, unroll or vectorise loops, or choose where a cache is computed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from autotune.errors import SpaceError
from autotune.task.entities import ANNOTATIONS, AnnotateEntity
from autotune.task.transform_space import IntTable, TransformSpace, check_policy
from autotune.utils.check import Check

_CHECK = Check(SpaceError)
POLICIES = (
    "bind_gpu", "bind_gpu_virtual", "locate_cache", "or try, none, unroll, vec joined by '_'",
)  # fmt: skip
CHOICES = ("none", "unroll", "vec")


class AnnotateSpace(TransformSpace):
    """Annotations of a list of loops.

    Args:
        axes: the loops.
        policy: ``bind_gpu`` and ``bind_gpu_virtual`` (one fixed binding that depends on the number
            of loops), ``locate_cache`` (positions of ``num_anchor`` caches), or ``none``,
            ``unroll``, ``vec`` and ``try`` joined by ``_``, as in ``try_unroll_vec``.
        num_anchor: number of caches for ``locate_cache``.
    """

    sequence_attribute: ClassVar[str] = "anns"

    def __init__(self, axes: Sequence[Any], policy: str, num_anchor: int | None = None) -> None:
        self.policy = _CHECK.text("policy", policy, "try_unroll")
        self.num_output = len(_CHECK.sequence("axes", axes, "a list of loops"))
        self._anns = self._assignments(num_anchor)
        if not self._anns:
            raise SpaceError(
                f"policy {policy!r} leaves no annotation of {len(axes)} axes: at most one axis "
                f"can be vectorised; add 'try' or 'unroll', as in 'try_{policy}'"
            )

    def _assignments(self, num_anchor: int | None) -> list[Sequence[Any]]:
        if self.policy == "bind_gpu":
            return [self._bound(virtual=False)]
        if self.policy == "bind_gpu_virtual":
            return [self._bound(virtual=True)]
        if self.policy == "locate_cache":
            count = _CHECK.whole("num_anchor", num_anchor, least=1, most=self.num_output)
            return list(itertools.combinations(range(self.num_output), count))
        choices = self.policy.replace("try", "none").split("_")
        if not set(choices) <= set(CHOICES):
            check_policy(self.policy, POLICIES)
        every = itertools.product(choices, repeat=self.num_output)
        return [list(anns) for anns in every if anns.count("vec") <= 1]

    def _bound(self, virtual: bool) -> list[str]:
        """Bind the innermost loops to as many dimensions as there are loops for."""
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
