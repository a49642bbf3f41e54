"""Knobs that order loops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.errors import SpaceError
from autotune.task.entities import ReorderEntity
from autotune.task.transform_space import FloatTable, TransformSpace, check_policy
from autotune.utils.check import Check

_CHECK = Check(SpaceError)
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
        self.num_output = len(_CHECK.sequence("axes", axes, "a list of loops"))
        check_policy(policy, POLICIES)
        self._axes = list(axes)
        self._interval, self._candidate = interval, candidate
        self._spatial, self._reduce = spatial, reduce
        self._perms = self._orders()
        if not self._perms:
            raise SpaceError(
                f"policy {policy!r} gives no order of {len(axes)} axes; candidate "
                f"must have an order, got {candidate}"
            )

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
        return [self._interleaved()]

    def _bounds(self, interval: Any) -> tuple[int, int]:
        expected = f"first and past-the-end position within 0 and {self.num_output}"
        if len(_CHECK.sequence("interval", interval, expected)) != 2:
            _CHECK.refuse("interval", expected, interval)
        begin = _CHECK.whole("interval", interval[0], least=0, most=self.num_output)
        return begin, _CHECK.whole("interval", interval[1], least=begin, most=self.num_output)

    def _interleaved(self) -> list[int]:
        """Outer spatial loops, then reduction and innermost spatial loops."""
        spatial = self._positions("spatial", self._spatial)
        reduce = self._positions("reduce", self._reduce)
        outer = merge_chains([chain[:-1] for chain in spatial])
        innermost = [chain[-1:] for chain in spatial]
        if self.policy == "interleave":
            return outer + merge_chains(innermost + reduce)
        return outer + merge_chains(reduce) + merge_chains(innermost)

    def _positions(self, keyword: str, chains: Chains | None) -> list[list[int]]:
        """Return the positions of the axes in each chain; no axis stands twice in one."""
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


def _plain_equal(known: object, axis: object) -> bool:
    """Compare positions and split outputs; iteration variables overload ``==``."""
    plain = isinstance(known, (int, str, tuple)) and type(known) is type(axis)
    return plain and bool(known == axis)
