"""Types of tensors: shape and dtype."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from autotune.errors import ExpressionError, GraphError
from autotune.ir import check_dtype
from autotune.ir.dtype import bits_of
from autotune.te.tensor import Tensor
from autotune.utils.check import is_whole

# Numbers of a tensor on the host.
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TensorType:
    """Shape and dtype of a tensor.

    Raises:
        GraphError: an extent is not a whole number of at least 1, or the dtype is unknown.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        given: object = self.shape
        extents = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
        if (
            isinstance(given, str)
            or not isinstance(given, Sequence)
            or not all(is_whole(n, 1) for n in extents)
        ):
            raise GraphError(
                "shape of a tensor must be a list of whole numbers of at least 1 (shapes that "
                f"are known only at run time are not supported), got {given!r}"
            )
        object.__setattr__(self, "shape", tuple(map(int, extents)))
        try:
            object.__setattr__(self, "dtype", check_dtype(self.dtype))
        except ExpressionError as error:
            raise GraphError(str(error)) from None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape, by the name that TVM's types have for it."""
        return self.shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return self.size * ((bits_of(self.dtype) + 7) // 8)

    @staticmethod
    def of(tensor: Tensor) -> TensorType:
        """Return the type of a tensor expression, whose extents must be numbers."""
        return TensorType(tuple([n for n in tensor.shape if isinstance(n, int)]), tensor.dtype)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"
