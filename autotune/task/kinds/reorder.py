"""The kind of knob that orders loops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from autotune.errors import SpaceError
from autotune.task.kinds.entity import Entity, SequenceEntity, whole_numbers
from autotune.task.kinds.transform_space import FloatTable, TransformSpace, check_policy
from autotune.te import IterVar, Operation, Schedule, Tensor
from autotune.utils.check import Check

_CHECK = Check(SpaceError)
POLICIES = ("identity", "all", "interval_all", "candidate", "interleave", "interleave_cuda")
# The axes of each chain, outer to inner, in whatever form the template names them.
Chains = Sequence[Sequence[object]]


@dataclass(frozen=True, repr=False, eq=False)
class ReorderEntity(SequenceEntity):
    """An order of loops: position i holds the axis ``perm[i]``; it may name only some axes."""

    perm: Sequence[int]
    tag: ClassVar[str] = "re"
    attribute: ClassVar[str] = "perm"

    @classmethod
    def from_json(cls, value: object) -> ReorderEntity:
        """Return the entity of a value in JSON form."""
        return cls(whole_numbers(value))

    def apply(
        self, sch: Schedule, op: Tensor | Operation, axes: Sequence[IterVar]
    ) -> list[IterVar]:
        """Reorder the loops ``axes`` of stage ``op`` and return them in their new order."""
        ordered = [axes[i] for i in self.perm]
        sch[op].reorder(*ordered)
        return ordered


class ReorderSpace(TransformSpace):
    """Orders of a list of loops.

    Args:
        axes: the loops, as the template names them.
        policy: ``identity``; ``all`` permutations; ``interval_all`` of the positions in
            ``interval``; the orders in ``candidate``; or ``interleave`` and ``interleave_cuda``,
            which merge the chains ``spatial`` and ``reduce`` into one order.
        interval: first and past-the-end position.
        candidate: orders, each a list of axes.
        spatial: one chain of loops, outer to inner, for each spatial axis.
        reduce: one chain for each reduction axis.
    """

    kind: ClassVar[type[Entity]] = ReorderEntity

    def __init__(
        self,
        axes: Sequence[object],
        policy: str,
        interval: tuple[int, int] | None = None,
        candidate: Chains | None = None,
        spatial: Chains | None = None,
        reduce: Chains | None = None,
    ) -> None:
        self.policy = policy
        self._axes = _CHECK.sequence("axes", axes, "a list of loops")
        self.num_output = len(axes)
        self._interval, self._candidate = interval, candidate
        self._spatial, self._reduce = spatial, reduce

    @cached_property
    def _perms(self) -> Sequence[Sequence[int]]:
        """All orders."""
        check_policy(self.policy, POLICIES)
        perms = self._orders()
        if not perms:
            raise SpaceError(
                f"policy {self.policy!r} gives no order of {self.num_output} axes; candidate "
                f"must have an order, got {self._candidate}"
            )
        return perms

    def _orders(self) -> Sequence[Sequence[int]]:
        positions = range(self.num_output)
        if self.policy == "identity":
            return [positions]
        if self.policy == "all":
            return list(itertools.permutations(positions))
        if self.policy == "interval_all":
            begin, end = self._bounds(self._interval)
            inner = itertools.permutations(range(begin, end))
            return [(*positions[:begin], *order, *positions[end:]) for order in inner]
        if self.policy == "candidate":
            return self._positions("candidate", self._candidate)
        return [self._interleave()]

    def _bounds(self, interval: tuple[int, int] | None) -> tuple[int, int]:
        expected = f"first and past-the-end position within 0 and {self.num_output}"
        ends = _CHECK.sequence("interval", interval, expected)
        if len(ends) != 2:
            _CHECK.refuse("interval", expected, interval)
        begin = _CHECK.whole("interval", ends[0], least=0, most=self.num_output)
        return begin, _CHECK.whole("interval", ends[1], least=begin, most=self.num_output)

    def _interleave(self) -> list[int]:
        """Return the outer spatial loops, then reduction and innermost spatial loops."""
        spatial = self._positions("spatial", self._spatial)
        reduce = self._positions("reduce", self._reduce)
        outer = merge_chains([chain[:-1] for chain in spatial])
        innermost = [chain[-1:] for chain in spatial]
        if self.policy == "interleave":
            return outer + merge_chains(innermost + reduce)
        return outer + merge_chains(reduce) + merge_chains(innermost)

    def _positions(self, keyword: str, chains: Chains | None) -> list[list[int]]:
        """Return the positions of the axes in each chain, which must not contain an axis twice."""
        expected = f"lists of the axes, as policy {self.policy!r} needs them"
        found = []
        for chain in _CHECK.sequence(keyword, chains, expected):
            axes = _CHECK.sequence(keyword, chain, expected)
            found.append([self._position(keyword, axis) for axis in axes])
            if len(set(found[-1])) < len(axes):
                _CHECK.refuse(keyword, f"{expected}, each once", axes)
        return found

    def _position(self, keyword: str, axis: object) -> int:
        for i, known in enumerate(self._axes):
            if known is axis or _plain_equal(known, axis):
                return i
        _CHECK.refuse(keyword, f"made of the axes {self._axes!r}", axis)

    def __len__(self) -> int:
        return len(self._perms)

    def __getitem__(self, index: int) -> ReorderEntity:
        return ReorderEntity(self._perms[index])

    def suits(self, entity: Entity) -> bool:
        """Return whether an order names only loops that there are."""
        known = range(self.num_output)
        return isinstance(entity, ReorderEntity) and all(i in known for i in entity.perm)

    def __repr__(self) -> str:
        return f"Reorder(policy={self.policy}) len={len(self)}"

    def feature_names(self, name: str) -> list[str]:
        """Return one column name per position."""
        columns = self.feature_table.shape[1]
        return [f"{name}[{i}]" for i in range(columns)]

    def _feature_table(self) -> FloatTable:
        if len({len(perm) for perm in self._perms}) > 1:
            return np.eye(len(self))  # candidates of unequal length: one column an order
        return super()._feature_table()


def merge_chains(chains: Sequence[Sequence[int]]) -> list[int]:
    """Return the merged chains: always the head of that with most left (the first on a tie)."""
    left = [list(chain) for chain in chains]
    merged = []
    while any(left):
        longest = max(left, key=len)
        merged.append(longest.pop(0))
    return merged


def _plain_equal(known: object, axis: object) -> bool:
    """Compare positions and split outputs; iteration variables overload ``==``."""
    plain = isinstance(known, (int, str, tuple)) and type(known) is type(axis)
    return plain and bool(known == axis)
