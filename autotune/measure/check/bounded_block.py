"""Elements of which the reductions of a reference go on together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import MeasureError
from autotune.ir import IntImm, IterVar

# Elements of the two innermost axes whose reductions go on together: they fit the first cache.
_WIDTH, _HEIGHT = 64, 8


@dataclass(frozen=True)
class Block:
    """Elements that are computed together: of the two innermost axes that have more than one.

    Attributes:
        inner, upper: these axes, if there are any.
        width, height: how many elements of each.
        others: the axes that are left.
        names: of the counters of all axes.
    """

    inner: IterVar | None
    upper: IterVar | None
    width: int
    height: int
    others: tuple[IterVar, ...]
    names: Mapping[IterVar, str]

    @staticmethod
    def of(axes: Sequence[IterVar], row: str = "") -> Block:
        """Return the blocks of a compute; of one row if its counter ``row`` is given."""
        free = axes[1:] if row else axes
        long = [a for a in free if constant_extent(a) > 1]
        inner, upper = ([None, None, *long])[:-3:-1]
        width = min(constant_extent(inner), _WIDTH) if inner is not None else 1
        height = min(constant_extent(upper), _HEIGHT) if upper is not None else 1
        others = tuple(a for a in free if a is not inner and a is not upper)
        names = {axis: f"i{n}" for n, axis in enumerate(axes)}
        names |= {axes[0]: row} if row else {}
        return Block(inner, upper, width, height, others, names)

    @property
    def elements(self) -> int:
        """The number of elements that are computed together."""
        return self.width * self.height

    @property
    def begins(self) -> tuple[str, str]:
        """The loops over blocks; the inner axis first, so that what its block reads is kept."""
        wide = 1 if self.inner is None else constant_extent(self.inner)
        high = 1 if self.upper is None else constant_extent(self.upper)
        return (
            f"for (int64_t b = 0; b < {wide}; b += {self.width})",
            f"for (int64_t u = 0; u < {high}; u += {self.height})",
        )

    @property
    def sizes(self) -> tuple[str, str]:
        """The number of elements of this block; the last one may be smaller."""
        wide = 1 if self.inner is None else constant_extent(self.inner)
        high = 1 if self.upper is None else constant_extent(self.upper)
        return _rest("width", "b", self.width, wide), _rest("height", "u", self.height, high)

    def where(self, axis: IterVar) -> str:
        """Return the counter of an axis for one element of the block."""
        if axis is self.inner:
            return "(b + j)"
        return "(u + h)" if axis is self.upper else self.names[axis]


def _rest(name: str, begin: str, step: int, extent: int) -> str:
    return f"const int64_t {name} = {begin} + {step} < {extent} ? {step} : {extent} - {begin};"


def constant_extent(axis: IterVar) -> int:
    """Return the extent of an axis.

    Raises:
        MeasureError: it is symbolic.
    """
    if not isinstance(axis.extent, IntImm):
        raise MeasureError(f"axis {axis.name!r}: its extent is known only when it runs")
    return axis.extent.value
