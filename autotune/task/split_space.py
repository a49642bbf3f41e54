"""Knobs that split one axis into several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np

from autotune.errors import SpaceError
from autotune.task.axes import VirtualAxis
from autotune.task.entities import Entity, SplitEntity
from autotune.task.radix import INT64_LIMIT
from autotune.task.transform_space import FloatTable, IntTable, TransformSpace, check_policy
from autotune.utils.check import Check
from autotune.utils.math import ceil_div, divisors, powers_of_two, product

POLICIES = ("factors", "power2", "verbose", "candidate")
NO_MAX_FACTOR = 1 << 31
# More entities than this for one knob is a mistake, and would not fit in memory.
MAX_ENTITIES = 1 << 22
# Products and factors tried together.
BLOCK = 1 << 20

_CHECK = Check(SpaceError)

SplitFilter = Callable[[SplitEntity], bool]


class SplitSpace(TransformSpace):
    """All ways to split an axis under a policy, as one table of sizes.

    Args:
        axis: the axis to split.
        policy: ``factors`` (exact), ``power2`` and ``verbose`` (may leave a tail), or
            ``candidate`` (the sizes given).
        num_outputs: number of loops, at least 1.
        max_factor: largest inner size.
        filter: keeps the entities it returns true for.
        no_tail: whether the inner sizes must divide the length; by default only for ``factors``.
        candidate: sizes for the policy ``candidate``.
    """

    sequence_attribute: ClassVar[str] = "size"

    def __init__(
        self,
        axis: VirtualAxis,
        policy: str,
        num_outputs: int,
        max_factor: int = NO_MAX_FACTOR,
        filter: SplitFilter | None = None,
        no_tail: bool | None = None,
        candidate: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.policy = policy
        self.product = axis.length
        self.num_output = num_outputs
        self.no_tail = policy == "factors" if no_tail is None else no_tail
        self._sizes = self._table(max_factor, candidate)
        if filter is not None:
            _CHECK.function("filter", filter, "a split, such as lambda s: s.size[-1] <= 64")
            kept = [i for i in range(len(self._sizes)) if filter(self[i])]
            self._sizes = self._sizes[kept]
        if not len(self._sizes):
            raise SpaceError(self._nothing_left(max_factor))

    def _table(self, max_factor: int, candidate: Sequence[Sequence[int]] | None) -> IntTable:
        check_policy(self.policy, POLICIES)
        _CHECK.whole("num_outputs", self.num_output, least=1)
        if self.policy == "candidate":
            return self._candidates(candidate)
        _CHECK.whole("the length of the axis", self.product, least=1)
        largest = _CHECK.whole("max_factor", max_factor, least=1)
        return _sizes(self.product, self.num_output, self.policy, largest, not self.no_tail)

    def _candidates(self, candidate: Sequence[Sequence[int]] | None) -> IntTable:
        expected = f"a list of sizes such as [{[1] * self.num_output}]"
        if not _CHECK.sequence("candidate", candidate, expected):
            _CHECK.refuse("candidate", expected, candidate)
        for sizes in candidate or ():
            if len(_CHECK.sequence("candidate", sizes, expected)) != self.num_output:
                _CHECK.refuse("candidate", f"lists of {self.num_output} sizes", sizes)
            for position, size in enumerate(sizes):
                if size != -1 or position:
                    _CHECK.whole("candidate", size, least=1)
        shape = (len(candidate or ()), self.num_output)
        rows = [list(sizes) for sizes in candidate or ()]
        try:
            return np.array(rows, dtype=np.int64).reshape(shape)
        except (OverflowError, ValueError, TypeError) as error:
            raise SpaceError(f"the sizes of a candidate are whole numbers: {error}") from error

    def _nothing_left(self, max_factor: int) -> str:
        return (
            f"no split of {self.product} into {self.num_output} is left (policy {self.policy!r}, "
            f"max_factor {max_factor}); relax the filter or allow larger factors"
        )

    def __len__(self) -> int:
        return len(self._sizes)

    def __getitem__(self, index: int) -> SplitEntity:
        return SplitEntity(self._sizes[index].tolist())

    def find(self, entity: Entity) -> int | None:
        """Return the index of the entity with these sizes, or None.

        Old logs name the outermost size, where it is -1 here.
        """
        size = entity.size if isinstance(entity, SplitEntity) else []
        if len(size) != self.num_output or not all(map(_is_size, size)):
            return None
        outer = ceil_div(self.product, product(size[1:]) or 1)
        if self.policy != "candidate" and size[0] == outer:
            size = [-1, *size[1:]]
        found = np.flatnonzero((self._sizes == np.array(size, dtype=np.int64)).all(axis=1))
        return int(found[0]) if len(found) else None

    def misfit(self, entity: Entity) -> str:
        """Say why an entity is not among these, in words for the user."""
        if not isinstance(entity, SplitEntity):
            return "the template splits an axis with it"
        if self.policy == "candidate":
            return super().misfit(entity)
        why = violation(entity.size, self.product, self.num_output, self.no_tail)
        return why or f"it is not among the {len(self)} splits that the template offers"

    def __repr__(self) -> str:
        return (
            f"Split(policy={self.policy}, product={self.product}, "
            f"num_outputs={self.num_output}) len={len(self)}"
        )

    def feature_names(self, name: str) -> list[str]:
        """Return one column name per size."""
        return [f"{name}[{i}]" for i in range(self.num_output)]

    def element_codes(self, position: int) -> IntTable:
        """Return the size at ``position`` of each entity."""
        return self._sizes[:, position]

    def _feature_table(self) -> FloatTable:
        return self._sizes.astype(np.float64)


def _is_size(n: object) -> bool:
    return isinstance(n, (int, np.integer)) and -1 <= int(n) < INT64_LIMIT


def violation(size: Sequence[int], length: int, num_outputs: int, no_tail: bool) -> str:
    """Say why ``size`` cannot split an axis of ``length``; an empty string when it can."""
    if len(size) != num_outputs:
        return f"it has {len(size)} sizes, the template splits into {num_outputs}"
    if any(n == 0 or n < -1 for n in size) or -1 in size[1:]:
        return "sizes are positive, and only the first may be -1"
    inner = 1
    for n in size[1:]:
        inner *= n
    if no_tail and (length % inner or size[0] not in (-1, length // inner)):
        return f"the factors do not divide the axis of length {length}"
    return ""


@lru_cache(maxsize=4096)
def _sizes(length: int, num_outputs: int, policy: str, max_factor: int, tails: bool) -> IntTable:
    """Enumerate sizes: the innermost varies slowest, the one at position 1 fastest.

    Partial products are pruned as they grow, so the work is proportional to the result.
    """
    factors = np.array(_factors(length, policy, max_factor), dtype=np.int64)
    products = np.ones(1, dtype=np.int64)
    columns: list[IntTable] = []  # innermost first
    for _ in range(num_outputs - 1):
        rows, chosen = _extended(products, factors, length, tails)
        columns = [*(done[rows] for done in columns), chosen]
        products = products[rows] * chosen
    rest = np.full(len(products), -1, dtype=np.int64)
    table = np.stack([rest, *reversed(columns)], axis=1)
    table.setflags(write=False)
    return table


def _extended(
    products: IntTable, factors: IntTable, length: int, tails: bool
) -> tuple[IntTable, IntTable]:
    """Return which product is extended by which factor, in order."""
    rows, chosen, found = [], [], 0
    height = max(BLOCK // max(len(factors), 1), 1)
    for start in range(0, len(products), height):
        rest = length // products[start : start + height, None]  # dividing cannot overflow
        keep = factors <= rest if tails else rest % factors == 0
        row, column = np.nonzero(keep)
        rows.append(row + start)
        chosen.append(factors[column])
        found += len(row)
        if found > MAX_ENTITIES:
            raise SpaceError(
                f"splitting {length} gives more than {MAX_ENTITIES} entities for one knob; "
                f"use max_factor, fewer outputs, or several knobs"
            )
    return np.concatenate(rows), np.concatenate(chosen)


def _factors(length: int, policy: str, max_factor: int) -> list[int]:
    if policy == "factors":
        candidates = divisors(length)
    elif policy == "power2":
        candidates = powers_of_two(length)
    else:
        # Indices in old logs depend on the iteration order of exactly this set.
        candidates = list(set(divisors(length)) | set(powers_of_two(length)))
    return [n for n in candidates if n <= max_factor]
