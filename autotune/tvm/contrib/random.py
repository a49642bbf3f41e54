"""TVM's `contrib.random`: tensors of random numbers, drawn by numpy whenever they are computed."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.te.extern import extern
from autotune.te.registered_call import registered_call
from autotune.te.tensor import Tensor

__all__ = ["normal", "randint", "uniform"]


def uniform(low: float, high: float, size: Sequence[int]) -> Tensor:
    """Return float32 numbers between two others."""
    return _drawn("uniform", float(low), float(high), size, "float32")


def normal(loc: float, scale: float, size: Sequence[int]) -> Tensor:
    """Return float32 numbers of the normal distribution around ``loc``."""
    return _drawn("normal", float(loc), float(scale), size, "float32")


def randint(low: int, high: int, size: Sequence[int], dtype: str = "int32") -> Tensor:
    """Return integers from ``low`` to below ``high``."""
    return _drawn("randint", int(low), int(high), size, dtype)


def _drawn(name: str, first: float, second: float, size: Sequence[int], dtype: str) -> Tensor:
    made: Tensor = extern(
        tuple(size),
        [],
        lambda ins, outs: registered_call(f"tvm.contrib.random.{name}", first, second, outs[0]),
        name,
        dtype,
    )
    return made
