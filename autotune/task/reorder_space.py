"""Knobs that order loops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.errors import SpaceError
from autotune.task.entities import ReorderEntity
from autotune.task.transform_space import FloatTable, TransformSpace

POLICIES = ("identity", "all", "interval_all", "candidate", "interleave", "interleave_cuda")
Chains = Sequence[Sequence[Any]]


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

    def __init__(
        self,
        axes: Sequence[Any],
        policy: str,
        interval: tuple[int, int] | None = None,
        candidate: Chains | None = None,
        spatial: Chains | None = None,
        reduce: Chains | None = None,
    ) -> None:
        self.policy = policy
        self.num_output = len(axes)
        self._axes = list(axes)
        self._interval, self._candidate = interval, candidate
        self._spatial, self._reduce = spatial, reduce
        self._perms = self._orders()
        if not self._perms:
            raise SpaceError(f"policy {policy!r} gives no order of {len(axes)} axes")

    def _orders(self) -> Sequence[Sequence[int]]:
        positions = range(self.num_output)
        if self.policy == "identity":
            return [positions]
        if self.policy == "all":
            return list(itertools.permutations(positions))
        if self.policy == "interval_all":
            begin, end = self._given("interval", self._interval)
            inner = itertools.permutations(range(begin, end))
            return [(*positions[:begin], *order, *positions[end:]) for order in inner]
        if self.policy == "candidate":
            return self._positions(self._given("candidate", self._candidate))
        if self.policy in ("interleave", "interleave_cuda"):
            return [self._interleaved()]
        raise SpaceError(f"Invalid policy: {self.policy}; expected one of {POLICIES}")

    def _interleaved(self) -> list[int]:
        """Outer spatial loops, then reduction and innermost spatial loops."""
        spatial = self._positions(self._given("spatial", self._spatial))
        reduce = self._positions(self._given("reduce", self._reduce))
        outer = merge_chains([chain[:-1] for chain in spatial])
        innermost = [chain[-1:] for chain in spatial]
        if self.policy == "interleave":
            return outer + merge_chains(innermost + reduce)
        return outer + merge_chains(reduce) + merge_chains(innermost)

    def _given(self, keyword: str, value: Any) -> Any:
        if value is None:
            raise SpaceError(f"policy {self.policy!r} needs {keyword}=")
        return value

    def _positions(self, chains: Chains) -> list[list[int]]:
        return [[self._position(axis) for axis in chain] for chain in chains]

    def _position(self, axis: Any) -> int:
        for i, known in enumerate(self._axes):
            if known is axis or _plain_equal(known, axis):
                return i
        raise SpaceError(f"{axis!r} is not one of the axes {self._axes!r}")

    def __len__(self) -> int:
        return len(self._perms)

    def __getitem__(self, index: int) -> ReorderEntity:
        return ReorderEntity(self._perms[index])

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


def merge_chains(chains: Chains) -> list[int]:
    """Merge chains, always taking the head of the chain with most left (the first on a tie)."""
    left = [list(chain) for chain in chains]
    merged = []
    while any(left):
        longest = max(left, key=len)
        merged.append(longest.pop(0))
    return merged


def _plain_equal(known: Any, axis: Any) -> bool:
    """Compare positions and split outputs; iteration variables overload ``==``."""
    plain = isinstance(known, (int, str, tuple)) and type(known) is type(axis)
    return plain and bool(known == axis)
