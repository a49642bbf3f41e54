"""Types of a model's inputs: what the model says, and what the caller adds."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.errors import ExpressionError, GraphError
from autotune.graph import Array, TensorType, Variable
from autotune.importers.onnx.model import OnnxInput
from autotune.importers.onnx.tensors import numpy_type
from autotune.ir import check_dtype
from autotune.utils.check import is_whole
from autotune.utils.names import did_you_mean


@dataclass(frozen=True)
class Signature:
    """What the caller says of inputs.

    Attributes:
        shapes: extents of inputs by name; and of dimensions by the names that the model has for
            them, such as ``batch``.
        dtypes: dtypes of inputs by name, in place of the model's.
    """

    shapes: Mapping[str, Sequence[int] | int] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)

    def inputs(
        self, inputs: Sequence[OnnxInput], read: Container[str]
    ) -> dict[str, Variable | Array]:
        """Return the inputs of the graph by name; one without elements is known.

        Args:
            inputs: those of the model.
            read: the names of those that are wanted; the others need no shape, but may have one.

        Raises:
            GraphError: extents are not known, or names are not those of the model.
        """
        self._check_names(inputs)
        extents = self._extents(inputs)
        inputs = [each for each in inputs if each.name in read]
        shapes = {each.name: self._shape(each, extents) for each in inputs}
        open_ones = [each for each in inputs if shapes[each.name] is None]
        if open_ones:
            raise GraphError(_explained(open_ones))
        return {each.name: self._input(each, shapes[each.name] or ()) for each in inputs}

    def _input(self, each: OnnxInput, shape: tuple[int, ...]) -> Variable | Array:
        dtype = self._dtype(each)
        if 0 in shape:
            return np.zeros(shape, numpy_type(dtype))
        return Variable(TensorType(shape, dtype), each.name)

    def _check_names(self, inputs: Sequence[OnnxInput]) -> None:
        names = [each.name for each in inputs]
        dims = {n for each in inputs for n in each.shape or () if isinstance(n, str) and n}
        for argument, given, known in (
            ("shapes", self.shapes, [*names, *sorted(dims)]),
            ("dtypes", self.dtypes, names),
        ):
            for name in given:
                if name not in known:
                    raise GraphError(
                        f"from_onnx: {argument} must name inputs of the model "
                        f"({', '.join(known) or 'it has none'}), got {name!r}"
                        f"{did_you_mean(name, known)}"
                    )

    def _given(self, each: OnnxInput) -> tuple[int, ...] | None:
        """Return the shape that the caller gives an input."""
        if each.name not in self.shapes:
            return None
        given = self.shapes[each.name]
        whole = isinstance(given, Sequence) and not isinstance(given, str)
        if not whole or not all(is_whole(n, 0) for n in given):  # type: ignore[union-attr]
            raise GraphError(
                f"from_onnx: the shape of {each.name!r} must be whole numbers of at least 0, got "
                f"{given!r}"
            )
        shape = tuple([int(n) for n in given])  # type: ignore[union-attr]
        if each.shape is not None and len(shape) != len(each.shape):
            raise GraphError(
                f"from_onnx: the shape of {each.name!r} must have {len(each.shape)} extents, as "
                f"in the model, got {list(shape)}"
            )
        return shape

    def _extents(self, inputs: Sequence[OnnxInput]) -> dict[str, int]:
        """Return the extents of dimensions with names."""
        found: dict[str, int] = {}
        names = {each.name for each in inputs}
        for name, value in self.shapes.items():
            if name not in names:
                if isinstance(value, tuple) and len(value) == 1:
                    (value,) = value
                if not is_whole(value, 0):
                    raise GraphError(
                        f"from_onnx: dimension {name!r} must be a whole number of at least 0, got "
                        f"{value!r}"
                    )
                found[name] = int(value)
        for each in inputs:
            for dim, extent in zip(each.shape or (), self._given(each) or (), strict=False):
                if isinstance(dim, str) and dim and found.setdefault(dim, extent) != extent:
                    raise GraphError(
                        f"from_onnx: dimension {dim!r} is {found[dim]} elsewhere, and {extent} in "
                        f"the shape of {each.name!r}"
                    )
        return found

    def _shape(self, each: OnnxInput, extents: Mapping[str, int]) -> tuple[int, ...] | None:
        given = self._given(each)
        if given is not None:
            return given
        shape = [extents.get(n) if isinstance(n, str) else n for n in each.shape or ()]
        known = tuple([n for n in shape if n is not None])
        return known if each.shape is not None and len(known) == len(shape) else None

    def _dtype(self, each: OnnxInput) -> str:
        try:
            return check_dtype(self.dtypes.get(each.name, each.dtype))
        except ExpressionError as error:
            raise GraphError(f"from_onnx: dtypes: {each.name!r}: {error}") from None


def _explained(inputs: Sequence[OnnxInput]) -> str:
    """Return the message for inputs whose extents are not known, with what to write."""
    lines = []
    for each in inputs:
        known = "unknown" if each.shape is None else ", ".join(str(n) or "?" for n in each.shape)
        lines.append(f"  {each.name}: [{known}]")
    example = inputs[0]
    extents = tuple([n if isinstance(n, int) else 1 for n in example.shape or (1,)])
    option = ",".join(map(str, extents))
    return "\n".join(
        [
            "from_onnx: shapes must be known when a network is compiled, and these are open:",
            *lines,
            f"give them, as in shapes={{{example.name!r}: {extents}}} (of the command "
            f"`autotune model`: --shape {example.name}={option}), or by the names of dimensions",
        ]
    )
