"""The kind of knob that splits one axis into several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import ClassVar, Final

import numpy as np

from autotune.errors import SpaceError
from autotune.task.axes import axis_length
from autotune.task.constraints.radix import INT64_LIMIT
from autotune.task.kinds.entity import Entity, SequenceEntity, whole_numbers
from autotune.task.kinds.stand_in import Elements, StandInMaker
from autotune.task.kinds.transform_space import (
    FloatTable,
    IntTable,
    TransformSpace,
    check_policy,
)
from autotune.te import IterVar, Operation, Schedule, Tensor
from autotune.utils.check import Check
from autotune.utils.math import ceil_div, divisors, powers_of_two

POLICIES = ("factors", "power2", "verbose", "candidate")
NO_MAX_FACTOR = 1 << 31
# More entities than this for one knob is a mistake, and would not fit in memory.
MAX_ENTITIES = 1 << 22
# Products and factors tried together.
BLOCK = 1 << 20

UNLIMITED: Final = 1 << 62

_CHECK = Check(SpaceError)


@dataclass(frozen=True, repr=False, eq=False)
class SplitEntity(SequenceEntity):
    """Sizes of the loops into which an axis is split, outermost first; -1 means "the rest"."""

    size: list[int]
    tag: ClassVar[str] = "sp"
    attribute: ClassVar[str] = "size"

    @classmethod
    def from_json(cls, value: object) -> SplitEntity:
        """Return the entity of a value in JSON form."""
        return cls(whole_numbers(value))

    def apply(self, sch: Schedule, op: Tensor | Operation, axis: IterVar) -> list[IterVar]:
        """Split ``axis`` of stage ``op``; the first size follows from the others.

        for i in n:  ->  for i.0 in n / (b * c): for i.1 in b: for i.2 in c:   (size [-1, b, c])
        """
        return list(sch[op].multi_split(axis, self.size[1:])) if self.size[1:] else [axis]


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

    kind: ClassVar[type[Entity]] = SplitEntity
    has_elements: ClassVar[bool] = True

    def __init__(
        self,
        axis: object,
        policy: str,
        num_outputs: int,
        max_factor: int = NO_MAX_FACTOR,
        filter: SplitFilter | None = None,
        no_tail: bool | None = None,
        candidate: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.policy = policy
        self.num_output = num_outputs
        self.no_tail = policy == "factors" if no_tail is None else no_tail
        self._axis, self._max_factor = axis, max_factor
        self._filter, self._candidate = filter, candidate

    @cached_property
    def product(self) -> int:
        """The length of the axis."""
        return axis_length(self._axis)

    @cached_property
    def _sizes(self) -> IntTable:
        """One row of sizes for each entity."""
        sizes = self._table()
        if self._filter is not None:
            accepts = self._filter
            _CHECK.function("filter", accepts, "a split, such as lambda s: s.size[-1] <= 64")
            sizes = sizes[[i for i in range(len(sizes)) if accepts(_entity(sizes[i]))]]
        if not len(sizes):
            raise SpaceError(self._nothing_left())
        return sizes

    def _table(self) -> IntTable:
        length = self.product
        check_policy(self.policy, POLICIES)
        _CHECK.whole("num_outputs", self.num_output, least=1)
        if self.policy == "candidate":
            return self._candidates()
        _CHECK.whole("the length of the axis", length, least=1)
        largest = _CHECK.whole("max_factor", self._max_factor, least=1)
        return _sizes(length, self.num_output, self.policy, largest, not self.no_tail)

    def _candidates(self) -> IntTable:
        candidate = self._candidate
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

    def _nothing_left(self) -> str:
        return (
            f"no split of {self.product} into {self.num_output} is left (policy {self.policy!r}, "
            f"max_factor {self._max_factor}); relax the filter or allow larger factors"
        )

    def __len__(self) -> int:
        return len(self._sizes)

    def __getitem__(self, index: int) -> SplitEntity:
        return _entity(self._sizes[index])

    def find(self, entity: Entity) -> int | None:
        """Return the index of the entity with these sizes, or None.

        Old logs name the outermost size, where it is -1 here.
        """
        size = entity.size if isinstance(entity, SplitEntity) else []
        if len(size) != self.num_output or not all(map(_is_size, size)):
            return None
        outer = ceil_div(self.product, prod(size[1:]) or 1)
        if self.policy != "candidate" and size[0] == outer:
            size = [-1, *size[1:]]
        found = np.flatnonzero((self._sizes == np.array(size, dtype=np.int64)).all(axis=1))
        return int(found[0]) if len(found) else None

    def misfit(self, entity: Entity) -> str:
        """Return why an entity is not among these, in words for the user."""
        if not isinstance(entity, SplitEntity):
            return "the template splits an axis with it"
        if self.policy == "candidate":
            return super().misfit(entity)
        why = violation(entity.size, self.product, self.num_output, self.no_tail)
        return why or f"it is not among the {len(self)} splits that the template offers"

    def suits(self, entity: Entity) -> bool:
        """Return whether an entity splits such an axis."""
        if not isinstance(entity, SplitEntity) or self.policy == "candidate":
            return isinstance(entity, SplitEntity)
        return not violation(entity.size, self.product, self.num_output, self.no_tail)

    def within(self, limits: Sequence[int]) -> SplitEntity:
        """Return the split of the largest tiles that divide the axis.

        Sizes are filled from the innermost outwards, each with the largest factor of the remainder
        that is not above its limit; -1 is no limit.

        Raises:
            SpaceError: these are no limits of such a split, or none is small enough.
        """
        if len(limits) != self.num_output:
            raise SpaceError(f"expected {self.num_output} constraints, got {list(limits)}")
        left, size = self.product, [0] * self.num_output
        for position in reversed(range(self.num_output)):
            limit = UNLIMITED if limits[position] == -1 else limits[position]
            fitting = [factor for factor in divisors(left) if factor <= limit]
            if not fitting:
                raise SpaceError(f"no tile is small enough; constraint {limit} is below 1")
            size[position] = fitting[-1]
            left //= fitting[-1]
        return SplitEntity(size)

    def imitation(self, entity: Entity) -> SplitEntity | None:
        """Return the split of the largest tiles that are not larger than those of another."""
        sizes = entity.size if isinstance(entity, SplitEntity) else []
        if len(sizes) != self.num_output or any(n < 1 for n in sizes[1:]):
            return None
        return self.within([-1, *sizes[1:]])

    def likeness(self, entity: Entity) -> float:
        """Return the share of our factors that the split of another workload has too."""
        sizes = entity.size if isinstance(entity, SplitEntity) else []
        reference, own = prod(n for n in sizes if n != -1), divisors(self.product)
        return sum(reference % factor == 0 for factor in own) / len(own)

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

    def traced(self, asked: StandInMaker) -> object:
        """Return a split whose sizes are numbers that are not known yet."""
        columns = [self.element_codes(i) for i in range(self.num_output)]
        elements = Elements(self.num_output, lambda i: asked.number(columns[i]))
        return asked.entity(SplitEntity, lambda: elements)

    def _feature_table(self) -> FloatTable:
        return self._sizes.astype(np.float64)


def _entity(sizes: IntTable) -> SplitEntity:
    return SplitEntity(sizes.tolist())


def _is_size(n: object) -> bool:
    return isinstance(n, (int, np.integer)) and -1 <= int(n) < INT64_LIMIT


def violation(size: Sequence[int], length: int, num_outputs: int, no_tail: bool) -> str:
    """Return why ``size`` cannot split an axis of ``length``; an empty string when it can."""
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
    """Return the sizes of all splits: the innermost varies slowest, the one at position 1 fastest.

    Partial products are pruned as they grow, so the work is proportional to the result.
    """
    factors = np.array(_factors(length, policy, max_factor), dtype=np.int64)
    products = np.ones(1, dtype=np.int64)
    columns: list[IntTable] = []  # innermost first
    for _ in range(num_outputs - 1):
        rows, chosen = _extend(products, factors, length, tails)
        columns = [*(done[rows] for done in columns), chosen]
        products = products[rows] * chosen
    rest = np.full(len(products), -1, dtype=np.int64)
    table = np.stack([rest, *reversed(columns)], axis=1)
    table.setflags(write=False)
    return table


def _extend(
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
