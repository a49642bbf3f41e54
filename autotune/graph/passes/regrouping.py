"""How dimensions before a reshape correspond to those behind it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

from autotune.graph import ops
from autotune.graph.operator import Operator

# By operator that has numbers along one axis: the attribute that says which.
_AXIS_OF: dict[type[Operator], str] = {
    ops.BatchNorm: "channel_axis",
    ops.BiasAdd: "axis_of_bias",
    ops.Dequantize: "along",
    ops.LayerNorm: "axis_of_norm",
    ops.LogSoftmax: "axis_of_sum",
    ops.Prelu: "axis_of_slope",
    ops.Quantize: "along",
    ops.RmsNorm: "axis_of_norm",
    ops.Softmax: "axis_of_sum",
}


@dataclass(frozen=True)
class Regrouping:
    """A reshape, as groups of dimensions that become groups of others of as many elements.

    Attributes:
        before, after: the two shapes.

    Example::

        Regrouping((6, 1, 5), (2, 3, 5)).groups  # (((0,), (0, 1)), ((2,), (2,)))
    """

    before: tuple[int, ...]
    after: tuple[int, ...]

    @cached_property
    def groups(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """The smallest groups: axes before, axes behind. Those of extent 1 are in none."""
        found = []
        old = [axis for axis, extent in enumerate(self.before) if extent != 1]
        new = [axis for axis, extent in enumerate(self.after) if extent != 1]
        while old:
            ours, theirs = [old.pop(0)], [new.pop(0)]
            size, other = self.before[ours[0]], self.after[theirs[0]]
            while size != other:
                if size < other:
                    ours.append(old.pop(0))
                    size *= self.before[ours[-1]]
                else:
                    theirs.append(new.pop(0))
                    other *= self.after[theirs[-1]]
            found.append((tuple(ours), tuple(theirs)))
        return tuple(found)

    def axes(self, wanted: Collection[int]) -> tuple[int, ...] | None:
        """Return the axes before that are these axes behind; None where there are none.

        Axes of extent 1 behind are none of those before.
        """
        wide = {axis for axis in wanted if self.after[axis] != 1}
        found: list[int] = []
        for ours, theirs in self.groups:
            inside = wide.intersection(theirs)
            if inside and len(inside) < len(theirs):
                return None
            found += ours if inside else ()
        return tuple(found)

    def shape_of(self, operand: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the shape before of what is broadcast to the shape behind; None without one."""
        if operand == self.after:
            return self.before
        missing = len(self.after) - len(operand)
        if missing < 0:
            return None
        extents = (*[1] * missing, *operand)
        shape = [1] * len(self.before)
        for ours, theirs in self.groups:
            seen = [extents[axis] for axis in theirs]
            if seen == [self.after[axis] for axis in theirs]:
                for axis in ours:
                    shape[axis] = self.before[axis]
            elif set(seen) != {1}:
                return None
        if tuple(shape) == self.before:
            return self.before
        first = next((axis for axis, extent in enumerate(shape) if extent != 1), len(shape))
        return tuple(shape[first:])

    def moved(self, op: Operator) -> Operator | None:
        """Return what computes the same before the reshape; None where nothing does.

        Args:
            op: an operator of the shape behind, that computes element by element, along an axis,
                or that reduces axes and keeps them with extent 1.
        """
        if isinstance(op, ops.Reduction):
            over = self.axes(op.over(len(self.after))) if op.keepdims else None
            return replace(op, axes=over) if over else None
        name = _AXIS_OF.get(type(op))
        if name is None:
            return op
        own = self.axes([op.axis(getattr(op, name), len(self.after))])
        if own is None or len(own) != 1:
            return None
        return replace(op, **{name: own[0]})
