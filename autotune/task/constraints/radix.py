"""Mixed-radix numbers: a point of a space is one integer, its digits are the knobs' choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
# int64 where the space allows it, Python ints in an object array where it is larger.
IndexArray = npt.NDArray[Any]
INT64_LIMIT = 1 << 63
# Counts of points, the weights of drawing, are below this in 64 bits.
WEIGHT_LIMIT = 1 << 62


class Radix:
    """Conversion between integers and their digits, the first digit varying fastest."""

    def __init__(self, dims: Sequence[int]) -> None:
        self.dims = list(dims)
        self.total = prod(self.dims)
        self.dtype: type = np.int64 if self.total < INT64_LIMIT else object
        self.strides = [prod(self.dims[:i]) for i in range(len(self.dims))]

    def array(self, indices: object) -> IndexArray:
        """Return indices as an array of the right type."""
        return np.asarray(indices, dtype=self.dtype).reshape(-1)

    def digits(self, indices: object) -> IntArray:
        """Return the digits of each index, one row an index."""
        rest = self.array(indices)
        digits = np.empty((len(rest), len(self.dims)), dtype=np.int64)
        for column, base in enumerate(self.dims):
            digits[:, column] = rest % base
            rest = rest // base
        return digits

    def digits_of(self, index: int) -> list[int]:
        """Return the digits of one index; for a single one numpy would take ten times longer."""
        digits = []
        for base in self.dims:
            index, digit = divmod(index, base)
            digits.append(digit)
        return digits

    def ranges_below(self, index: int) -> Iterator[list[slice]]:
        """Yield ranges of digits that together hold all smaller indices, each once."""
        if index >= self.total:
            yield [slice(0, n) for n in self.dims]
            return
        digits = self.digits_of(index) if index > 0 else []
        for position, digit in enumerate(digits):  # agree above `position`, are smaller there
            if digit:
                spans = [slice(0, n) for n in self.dims[:position]]
                yield [*spans, slice(0, digit), *(slice(d, d + 1) for d in digits[position + 1 :])]

    def indices(self, digits: object) -> IndexArray:
        """Return the index of each row of digits."""
        rows = np.asarray(digits, dtype=np.int64)
        indices: IndexArray = np.zeros(len(rows), dtype=self.dtype)
        for column, stride in enumerate(self.strides):
            indices += rows[:, column].astype(self.dtype) * stride
        return indices
