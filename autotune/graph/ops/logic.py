"""Questions of each element, answered by a bool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autotune import topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class Test(Operator):
    """An operator of one input, whose result is a bool for each element."""

    pattern: ClassVar[Pattern] = Pattern.ELEMWISE

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of bools in the shape of the input."""
        self.take(inputs, 1)
        return TensorType(inputs[0].shape, "bool")


def _test(
    key: str, title: str, compute: Callable[[Tensor], Tensor], reference: Callable[[Array], Array]
) -> type[Test]:
    """Make the operator of a question."""

    def write(self: Operator, x: Tensor) -> Tensor:
        return compute(x)

    def run(self: Operator, x: Array) -> Array:
        return reference(x)

    names = {"name": key, "compute": write, "reference": run, "__module__": __name__}
    doc = {"__doc__": f"Ask ``{key}`` of each element."}
    made: Any = type(title, (Test,), {**names, **doc})
    result: type[Test] = dataclass(frozen=True)(made)
    return result


LogicalNot = _test("logical_not", "LogicalNot", topi.logical_not, np.logical_not)
IsNan = _test("isnan", "IsNan", topi.isnan, np.isnan)
IsInf = _test("isinf", "IsInf", topi.isinf, np.isinf)
