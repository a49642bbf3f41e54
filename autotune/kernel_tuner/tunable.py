"""Arguments whose type follows from a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import KernelError
from autotune.kernel_tuner.launch import Params
from autotune.runtime.arrays.array import numpy_dtype
from autotune.utils.check import shown

Array = npt.NDArray[Any]
Dtypes = Mapping[str, object] | Sequence[str] | None

_NAMES = {
    "bfloat16": "bfloat16 bf16 kbfloat16 __nv_bfloat16",
    "float16": "half f16 float16 __half khalf",
    "float32": "float single f32 float32 kfloat",
    "float64": "double f64 float64 kdouble",
}
_KNOWN = {name: dtype for dtype, names in _NAMES.items() for name in names.split()}
_DEFAULT = ("half", "float", "double")


@dataclass(frozen=True, init=False)
class TunablePrecision:
    """An argument that is given to each configuration in the precision that a parameter says.

    Attributes:
        param_key: the parameter, whose values are names of types.
        array: the numbers, which are rounded to each type.
        dtypes: numpy's name of the type for each value of the parameter.
    """

    param_key: str
    array: Array | np.generic
    dtypes: Mapping[str, str]

    def __init__(self, param_key: str, array: object, dtypes: Dtypes = None) -> None:
        """Take numbers, which may be an array or one number of numpy.

        Args:
            param_key: the parameter.
            array: the numbers.
            dtypes: dtypes by value of the parameter, or names of types; by default "half",
                "float" and "double".

        Raises:
            KernelError: a dtype is no float of numpy, or the array has no numbers.
        """
        held = array if isinstance(array, np.generic) else np.asarray(array, order="C")
        bare = isinstance(array, int | float) and not isinstance(array, np.generic)
        if held.dtype.kind not in "fiub" or bare:
            raise KernelError(
                "TunablePrecision: expected an array of numbers, or a number of numpy, such as "
                f"numpy.float64(x), got {shown(array)}"
            )
        given = _DEFAULT if dtypes is None or not len(dtypes) else dtypes
        if isinstance(given, str):
            raise KernelError(f"TunablePrecision: expected dtypes, got {shown(given)}")
        listed = given if isinstance(given, Mapping) else {name: name for name in given}
        named = {str(name): _dtype(dtype) for name, dtype in listed.items()}
        for name, value in (("param_key", param_key), ("array", held), ("dtypes", named)):
            object.__setattr__(self, name, value)

    def dtype(self, params: Params) -> str:
        """Return the dtype for these parameters.

        Raises:
            KernelError: there is none for the value of the parameter, or no such parameter.
        """
        value = str(params.get(self.param_key))
        if value not in self.dtypes:
            raise KernelError(
                f"TunablePrecision: expected {self.param_key!r} to be one of "
                f"{', '.join(self.dtypes)}, got {value!r}"
            )
        return self.dtypes[value]

    def select(self, params: Params) -> Array | np.generic:
        """Return the numbers for these parameters."""
        found: Array | np.generic = self.array.astype(numpy_dtype(self.dtype(params)))
        return found


def _dtype(given: object) -> str:
    """Return numpy's name of a type."""
    if isinstance(given, str) and given.lower() in _KNOWN:
        return _KNOWN[given.lower()]
    try:
        found = None if given is None else np.dtype(given)  # type: ignore[call-overload]
    except TypeError:
        found = None
    if found is None or found.kind not in "fiu":
        raise KernelError(f"TunablePrecision: expected numbers of numpy, got {shown(given)}")
    return str(found.name)
