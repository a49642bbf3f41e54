"""Operators that write where an index says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import te
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.spelling import define
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr, as_expr
from autotune.te.stores import store_at
from autotune.te.tensor import Tensor
from autotune.topi import utils

_GREATEST = te.comm_reducer(lambda x, y: te.max(x, y), lambda t: te.const(-1, t), name="place")


class Writing(Operator):
    """Replaces elements of the first input; may become a `Storing` where that is written over."""

    def stored(self, shape: tuple[int, ...]) -> Storing:
        """Return what the operator becomes where the result is in the memory of the data."""
        raise NotImplementedError


class Storing(Operator):
    """What a `Writing` becomes where its result is in the memory of its data, no input any more.

    Its result has the shape of the data, of which it stores what is new.
    """

    pattern: ClassVar[Pattern] = Pattern.OPAQUE


@dataclass(frozen=True)
class Write(Writing):
    """Replace elements of the first input by those of the third, at indices of the second.

    Indices of some neighbouring axes are whole numbers of int32, counted through all of these axes
    from the front; where one is none of theirs, nothing is written. No two are the same place.

    Attributes:
        along: the first of the axes.
        axes: how many there are.
    """

    name: ClassVar[str] = "write"
    pattern: ClassVar[Pattern] = Pattern.INJECTIVE
    along: int = 0
    axes: int = 1

    def stored(self, shape: tuple[int, ...]) -> Storing:
        """Return the operator that stores the updates."""
        return WriteOver(shape, self.along, self.axes)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        self.take(inputs, 3)
        data, places, updates = inputs
        at = self.axis(self.along, data.ndim, "along")
        if not 1 <= self.axes <= data.ndim - at:
            self.refuse("axes", f"1 to {data.ndim - at}", self.axes)
        if places.dtype != "int32" or updates.ndim != places.ndim:
            self.refuse("indices", "of int32, with the dimensions of the updates", places)
        shape = (*data.shape[:at], places.shape[at], *data.shape[at + self.axes :])
        if updates.shape != shape or updates.dtype != data.dtype:
            self.refuse("updates", f"{data.dtype}{list(shape)}", updates)
        for axis, (extent, whole) in enumerate(zip(places.shape, shape, strict=True)):
            if extent not in (1, whole):
                self.refuse("indices", f"of extent 1 or {whole} in axis {axis}", places)
        return data

    def compute(self, *inputs: Tensor) -> Tensor:
        """Choose between each element and what is written to its place."""
        data, places, updates = inputs
        at = self.along % data.ndim
        shape, behind = TensorType.of(data).shape, at + self.axes
        count = TensorType.of(updates).shape[at]

        def place(*i: Expr) -> Expr:
            flat = as_expr(0)
            for index, extent in zip(i[at:behind], data.shape[at:behind], strict=True):
                flat = flat * extent + index
            return flat

        if count == 1:

            def alone(*i: Expr) -> Expr:
                own = (*i[:at], as_expr(0), *i[behind:])
                return te.select(_index(places, *own) == place(*i), updates(*own), data(*i))

            return define(data.shape, alone, "T_write")
        # Which of the updates is of a place, if any.
        whole = math.prod(shape[at:behind])
        turn = te.reduce_axis((0, count), "k")
        outer = (*places.shape[:at], whole, *places.shape[at + 1 :])

        def writer(*i: Expr) -> Expr:
            hit = places(*i[:at], turn.var, *i[at + 1 :]) == i[at]
            found: Expr = _GREATEST(te.select(hit, turn.var, te.const(-1, "int32")), axis=turn)
            return found

        names = utils.axis_names(len(outer))
        found = te.compute(outer, writer, "T_writer", varargs_names=names)

        def chosen(*i: Expr) -> Expr:
            which = _index(found, *i[:at], place(*i), *i[behind:])
            new = updates(*i[:at], te.max(which, 0), *i[behind:])
            return te.select(which >= 0, new, data(*i))

        return define(data.shape, chosen, "T_write")

    def reference(self, *inputs: Array) -> Array:
        """Write."""
        data, places, updates = inputs
        at = self.along % data.ndim
        behind = data.shape[at + self.axes :]
        flat = np.array(data).reshape(*data.shape[:at], -1, *behind)
        extent = flat.shape[at]
        # One more place takes what is written nowhere.
        room = np.concatenate([flat, flat[(slice(None),) * at + (slice(0, 1),)]], at)
        wide = np.where((places < 0) | (places >= extent), extent, places).astype("int64")
        np.put_along_axis(room, np.broadcast_to(wide, updates.shape), updates, at)
        written: Array = room[(slice(None),) * at + (slice(0, extent),)].reshape(data.shape)
        return written


@dataclass(frozen=True)
class WriteOver(Storing):
    """What `Write` becomes.

    Attributes:
        shape: of the data.
        along, axes: as of `Write`.
    """

    name: ClassVar[str] = "write_over"
    shape: tuple[int, ...] = ()
    along: int = 0
    axes: int = 1

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        self.take(inputs, 2)
        data = TensorType(self.shape, inputs[1].dtype)
        return Write(self.along, self.axes).infer(data, *inputs)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Store the updates only."""
        places, updates = inputs
        at = self.along % len(self.shape)
        over = self.shape[at : at + self.axes]
        whole = math.prod(over)

        def body(*i: Expr) -> tuple[Expr, tuple[Expr, ...], Expr]:
            flat = _index(places, *i)
            # The other axes of several are 0: the flat index is of the last one.
            indices = (*i[:at], *[as_expr(0)] * (self.axes - 1), flat, *i[at + 1 :])
            return updates(*i), indices, te.all(flat >= 0, flat < whole)

        extents = TensorType.of(updates).shape
        names = utils.axis_names(len(extents))
        return store_at(self.shape, extents, body, "T_write_over", names)

    def reference(self, *inputs: Array) -> Array:
        """Write to zeros."""
        places, updates = inputs
        data = np.zeros(self.shape, updates.dtype)
        return Write(self.along, self.axes).reference(data, places, updates)


@dataclass(frozen=True)
class WriteSlice(Writing):
    """Replace a strided slice of the first input by the second one, which has its shape.

    Attributes:
        begin: of the slice, in each dimension.
        strides: in each dimension, at least 1.
    """

    name: ClassVar[str] = "write_slice"
    pattern: ClassVar[Pattern] = Pattern.INJECTIVE
    begin: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    def stored(self, shape: tuple[int, ...]) -> Storing:
        """Return the operator that stores the slice."""
        return WriteSliceOver(shape, self.begin, self.strides)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        self.take(inputs, 2)
        data, updates = inputs
        if not len(self.begin) == len(self.strides) == data.ndim == updates.ndim:
            self.refuse("begin and strides", f"{data.ndim} numbers each", self.begin)
        if updates.dtype != data.dtype:
            self.refuse("updates", f"of {data.dtype}", updates)
        parts = zip(self.begin, self.strides, updates.shape, data.shape, strict=True)
        if any(b < 0 or step < 1 or b + (n - 1) * step >= whole for b, step, n, whole in parts):
            self.refuse("begin and strides", f"those of a slice within {data}", self.begin)
        return data

    def compute(self, *inputs: Tensor) -> Tensor:
        """Choose by the index."""
        data, updates = inputs
        shape, extents = TensorType.of(data).shape, TensorType.of(updates).shape
        parts = list(zip(self.begin, self.strides, extents, shape, strict=True))

        def value(*i: Expr) -> Expr:
            inside, places = [], []
            for index, (begin, step, count, whole) in zip(i, parts, strict=True):
                if count == whole:
                    places.append(index)
                    continue
                far = index - begin
                if begin:
                    inside.append(far >= 0)
                if begin + (count - 1) * step < whole - 1:
                    inside.append(far <= (count - 1) * step)
                if step > 1:
                    inside.append(te.indexmod(te.max(far, 0), step) == 0)
                place = te.indexdiv(te.max(far, 0), step)
                places.append(te.min(place, count - 1))
            if not inside:
                return updates(*i)
            return te.if_then_else(te.all(*inside), updates(*places), data(*i))

        return define(shape, value, "T_write_slice")

    def reference(self, *inputs: Array) -> Array:
        """Write."""
        data, updates = inputs
        made = np.array(data)
        made[tuple(
            slice(begin, begin + (count - 1) * step + 1, step)
            for begin, step, count in zip(self.begin, self.strides, updates.shape, strict=True)
        )] = updates  # fmt: skip
        return made


@dataclass(frozen=True)
class WriteSliceOver(Storing):
    """What `WriteSlice` becomes.

    Attributes:
        shape: of the data.
        begin, strides: as of `WriteSlice`.
    """

    name: ClassVar[str] = "write_slice_over"
    shape: tuple[int, ...] = ()
    begin: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        self.take(inputs, 1)
        data = TensorType(self.shape, inputs[0].dtype)
        return WriteSlice(self.begin, self.strides).infer(data, *inputs)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Store the updates only."""
        (updates,) = inputs

        def body(*i: Expr) -> tuple[Expr, tuple[Expr, ...], Expr]:
            parts = zip(i, self.begin, self.strides, strict=True)
            places = tuple(index * step + begin for index, begin, step in parts)
            return updates(*i), places, te.const(1, "bool")

        extents = TensorType.of(updates).shape
        names = utils.axis_names(len(extents))
        return store_at(self.shape, extents, body, "T_write_slice_over", names)

    def reference(self, *inputs: Array) -> Array:
        """Write to zeros."""
        data = np.zeros(self.shape, inputs[0].dtype)
        return WriteSlice(self.begin, self.strides).reference(data, *inputs)


def _index(places: Tensor, *i: Expr) -> Expr:
    """Read an index, whose extents may be 1."""
    return places(*[
        as_expr(0) if extent == 1 else index
        for extent, index in zip(places.shape, i, strict=True)
    ])  # fmt: skip
