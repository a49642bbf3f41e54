"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autotune import topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.sums import summed
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class Reduction(Operator):
    """Reduce the given axes, or all.

    Attributes:
        axes: what is reduced; None for all.
        keepdims: whether reduced axes stay, with extent 1.
    """

    pattern: ClassVar[Pattern] = Pattern.COMM_REDUCE
    result_dtype: ClassVar[str | None] = None
    axes: tuple[int, ...] | None = None
    keepdims: bool = False

    def over(self, ndim: int) -> tuple[int, ...]:
        """Return the axes that are reduced, ascending."""
        given = range(ndim) if self.axes is None else self.axes
        return tuple(sorted({self.axis(axis, ndim) for axis in given}))

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the result."""
        self.take(inputs, 1)
        over = self.over(inputs[0].ndim)
        shape = [
            1 if i in over else n
            for i, n in enumerate(inputs[0].shape)
            if self.keepdims or i not in over
        ]
        return TensorType(tuple(shape), self.result_dtype or inputs[0].dtype)

    def flop(self, *types: TensorType) -> float:
        """Return one operation for each element."""
        return float(types[0].size)


def _reduction(
    key: str,
    compute: Callable[..., Tensor],
    reference: Callable[..., Array],
    dtype: str | None = None,
    adds: bool = False,
) -> type[Reduction]:
    """Make the operator of a reduction; one that adds or multiplies rounds its result only."""

    def write(self: Reduction, x: Tensor) -> Tensor:
        def reduced(values: Tensor) -> Tensor:
            return compute(values, axis=self.over(x.ndim), keepdims=self.keepdims)

        return summed(reduced, x) if adds else reduced(x)

    def run(self: Reduction, x: Array) -> Array:
        return reference(x, axis=self.over(x.ndim), keepdims=self.keepdims)

    names = {"name": key, "compute": write, "reference": run, "result_dtype": dtype}
    doc = {"__doc__": f"Take the ``{key}`` over axes.", "__module__": __name__}
    made: Any = type(key.title(), (Reduction,), {**names, **doc})
    result: type[Reduction] = dataclass(frozen=True)(made)
    return result


Sum = _reduction("sum", topi.sum, np.sum, adds=True)
Mean = _reduction("mean", topi.mean, np.mean, adds=True)
Max = _reduction("max", topi.max, np.max)
Min = _reduction("min", topi.min, np.min)
Prod = _reduction("prod", topi.prod, np.prod, adds=True)


def _first(choose: Callable[..., Array]) -> Callable[..., Array]:
    """Return the index of an extreme among the elements of all reduced axes, in order."""

    def index(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
        left = [i for i in range(x.ndim) if i not in axis]
        flat = x.transpose([*left, *axis]).reshape(*[x.shape[i] for i in left], -1)
        found = choose(flat, axis=-1).astype("int32")
        shape = [1 if i in axis else n for i, n in enumerate(x.shape)]
        return found.reshape(shape) if keepdims else found

    return index


Argmax = _reduction("argmax", topi.argmax, _first(np.argmax), "int32")
Argmin = _reduction("argmin", topi.argmin, _first(np.argmin), "int32")
