"""Shapes of row-wise maps, and their numpy references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

from ..common import Array

DTYPES = {"float32": 4, "float16": 2, "bfloat16": 2}
# Names in templates, and of the structs of the kernels.
MAPS = {
    "softmax": "Softmax",
    "log_softmax": "LogSoftmax",
    "layer_norm": "LayerNorm",
    "rms_norm": "RmsNorm",
}


# Kernels index rows, and elements of a row, by 32 bits; the last block may have rows beyond.
MOST_ROWS, LONGEST = 2**31 - 4096, 2**30


def check_extents(
    owner: str, dtype: str, *extents: int, dtypes: Mapping[str, int] = DTYPES
) -> None:
    """Raise `TemplateError` for extents less than 1, and for types that are not of ``dtypes``."""
    if min(extents) < 1:
        raise TemplateError(f"{owner}: extents must be at least 1, got {extents}")
    if dtype not in dtypes:
        raise TemplateError(f"{owner}: dtype must be one of {', '.join(dtypes)}, got {dtype!r}")


def check_rows(owner: str, rows: int, length: int, *, named: str = "rows") -> None:
    """Raise `TemplateError` for more rows (or columns), or longer ones, than kernels count."""
    if rows > MOST_ROWS or length > LONGEST:
        raise TemplateError(
            f"{owner}: kernels take up to {MOST_ROWS} {named} of {LONGEST} elements, "
            f"got {rows} of {length}"
        )


@dataclass(frozen=True)
class Rows:
    """A map of each of ``rows`` rows of ``columns`` elements, which depends on the whole row.

    Attributes:
        operation: one of `MAPS`.
        epsilon: of a normalisation, added to the variance or to the mean of squares.
        gain, shift: whether a scale and an offset per channel follow.
        channels, groups: a row has so many channels of ``columns / channels`` contiguous elements
            each, and row ``i`` is of group ``i % groups``; else each column is a channel.
    """

    operation: str
    rows: int
    columns: int
    dtype: str = "float32"
    epsilon: float = 0.0
    gain: bool = False
    shift: bool = False
    channels: int = 0
    groups: int = 1

    def __post_init__(self) -> None:
        check_extents(self.operation, self.dtype, self.rows, self.columns)
        check_rows(self.operation, self.rows, self.columns)
        if self.columns % self.row_channels or self.rows % self.groups:
            raise TemplateError(f"{self.operation}: channels and groups must divide, got {self}")
        if not self.epsilon >= 0:
            raise TemplateError(f"{self.operation}: epsilon must be at least 0, got {self}")

    @property
    def row_channels(self) -> int:
        """Channels of a row."""
        return self.channels or self.columns

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return DTYPES[self.dtype]

    @property
    def flop(self) -> int:
        """Operations: five an element, such as maximum, subtraction, exponential, sum, scaling."""
        return 5 * self.rows * self.columns

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once: one read and one write."""
        parameters = (self.gain + self.shift) * self.groups * self.row_channels
        return self.element_bytes * (2 * self.rows * self.columns + parameters)

    def arguments(self) -> list[Argument]:
        """Return data, gain and shift if there are any, and out."""
        shape, parameters = (self.rows, self.columns), (self.groups * self.row_channels,)
        return [
            arg("data", shape, self.dtype),
            *([arg("gain", parameters, self.dtype)] if self.gain else []),
            *([arg("shift", parameters, self.dtype)] if self.shift else []),
            arg("out", shape, self.dtype, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""

        def normalised(data: Array, *parameters: Array) -> Array:
            out = self._mapped(data)
            grouped = (-1, self.groups, self.row_channels, self.columns // self.row_channels)
            out = out.reshape(grouped)
            others = [each.reshape(1, self.groups, self.row_channels, 1) for each in parameters]
            if self.gain:
                out = out * others.pop(0)
            if self.shift:
                out = out + others.pop(0)
            return out.reshape(self.rows, self.columns)

        return normalised

    def _mapped(self, data: Array) -> Array:
        result: Array
        match self.operation:
            case "softmax" | "log_softmax":
                less = data - data.max(axis=1, keepdims=True)
                powers = np.exp(less)
                sums = powers.sum(axis=1, keepdims=True)
                result = powers / sums if self.operation == "softmax" else less - np.log(sums)
            case "layer_norm":
                apart = data - data.mean(axis=1, keepdims=True)
                squares = np.mean(apart * apart, axis=1, keepdims=True)
                result = apart / np.sqrt(squares + self.epsilon)
            case _:
                squares = np.mean(data * data, axis=1, keepdims=True)
                result = data / np.sqrt(squares + self.epsilon)
        return result
