"""Initial values of parameters, by the endings of their names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array, TensorType, Value
from autotune.runtime.arrays.array import NDArray, array
from autotune.tvm.relay.function import Function, IRModule

T = TypeVar("T")
# A network, and first values of its parameters.
Workload = tuple[IRModule, dict[str, NDArray]]

# Gives the first value of a parameter, by its name and type.
Initializer = Callable[[str, TensorType], Array]


class Xavier:
    """Uniform numbers within ``sqrt(3 / mean of fans)``, as in Glorot and Bengio (2010).

    Fans are taken from the stored shape, as ``[out, in, ...]``, whatever the layout: a slip of
    TVM's that its values depend on. Numbers come from numpy's global generator.
    """

    def __call__(self, name: str, kind: TensorType) -> Array:
        """Return the first value of a parameter.

        Raises:
            GraphError: nothing is known of such a name.
        """
        zeros = ("bias", "beta", "mean")
        if name.endswith(zeros):
            return np.zeros(kind.shape, kind.dtype)
        if name.endswith(("gamma", "var")):
            return np.ones(kind.shape, kind.dtype)
        if name.endswith("weight"):
            return self._weight(name, kind)
        raise GraphError(
            f"parameter {name!r}: expected a name that ends in weight, bias, beta, mean, gamma or "
            "var, by which its first value is chosen"
        )

    @staticmethod
    def _weight(name: str, kind: TensorType) -> Array:
        if kind.ndim < 2:
            raise GraphError(f"weight {name!r}: expected at least 2 dimensions, got {kind}")
        window = math.prod(kind.shape[2:])
        factor = (kind.shape[1] * window + kind.shape[0] * window) / 2.0
        if "depthwise" in name:
            factor = float(window)
        bound = math.sqrt(3.0 / factor)
        return np.random.uniform(-bound, bound, size=kind.shape).astype(kind.dtype)


def create_workload(
    net: Function | Value, initializer: Initializer | None = None, seed: int = 0
) -> Workload:
    """Return a network as a module, and first values of its parameters.

    Args:
        net: the network; its input is called ``data``.
        initializer: called with the name and type of each parameter; `Xavier` by default.
        seed: of numpy's global generator, which is seeded, as in TVM.
    """
    module = IRModule.from_expr(net)
    np.random.seed(seed)
    initial = initializer or Xavier()
    params = {
        each.name: array(initial(each.name, each.type))
        for each in module["main"].params
        if each.name != "data"
    }
    return module, params


def run_infer_type(expr: T) -> T:
    """Return an expression or a module as it is: types are known as soon as it is made."""
    return expr
