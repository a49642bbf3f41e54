"""Values that are given to an input of a network, in the dtype that the input has."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from autotune.errors import AutotuneError, GraphError, KernelError
from autotune.graph import Array
from autotune.network.plan import ExecutionPlan, MemoryKind
from autotune.runtime.arrays.array import NDArray, from_dlpack, numpy_dtype

_log = logging.getLogger("autotune")
# Kinds of elements, from those with the fewest values on.
_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2}


def set_input(name: str, own: NDArray, given: object, said: bool = False) -> bool:
    """Copy values to an input; returns whether they were converted.

    Numbers of another dtype are converted, as TVM does, and that is logged unless ``said``. TVM
    also cuts off fractions and wraps whole numbers around, which is an error here.

    Raises:
        GraphError: values would be changed by more than rounding.
        KernelError: they have another shape, or are no numbers.
    """
    try:
        return _set_input(name, own, given, said)
    except KernelError as error:
        raise KernelError(f"input {name!r}: {error}") from error


def _set_input(name: str, own: NDArray, given: object, said: bool) -> bool:
    if isinstance(given, NDArray) and given.dtype == own.dtype:
        own.copyfrom(given)
        return False
    try:
        values = given.numpy() if isinstance(given, NDArray) else np.asarray(given)
    except (TypeError, ValueError):
        own.copyfrom(given)  # says what is wrong
        raise
    kind, wanted = _kind(values.dtype), numpy_dtype(own.dtype)
    bits = own.dtype == "bfloat16" and values.dtype == np.uint16
    if values.dtype == wanted or kind not in _ORDER or values.shape != own.shape or bits:
        own.copyfrom(values)
        return False
    own.copyfrom(_convert(name, values, wanted))
    if not said:
        _log.warning(
            "input %r: values of dtype %s were converted to %s", name, values.dtype, own.dtype
        )
    return True


def _kind(dtype: np.dtype[np.generic]) -> str:
    return "f" if dtype == ml_dtypes.bfloat16 else dtype.kind


def _convert(name: str, values: Array, wanted: np.dtype[np.generic]) -> Array:
    """Return values in another dtype, rounded at most."""
    if _ORDER[_kind(values.dtype)] > _ORDER[_kind(wanted)]:
        loss = f"of dtype {wanted}, or of one that has no more values"
    else:
        with np.errstate(over="ignore"):
            result: Array = values.astype(wanted)
        if _kind(wanted) == "f":
            fits = bool((np.isfinite(result) | ~np.isfinite(values)).all())
        else:
            fits = bool((result == values).all())
        if fits:
            return result
        loss = f"in the range of {wanted}"
    raise GraphError(
        f"input {name!r}: values must be {loss}; got dtype {values.dtype} (convert them with "
        f"astype({str(wanted)!r}) where that is meant)"
    )


def lent(tensor: object, expected: str) -> NDArray:
    """Return a tensor of another library as an array of ours, in its memory."""
    try:
        return from_dlpack(tensor)
    except (AutotuneError, BufferError, TypeError, ValueError) as error:
        raise GraphError(f"bind_input: expected {expected}: {error}") from error


def check_apart(
    plan: ExecutionPlan, inputs: Sequence[NDArray], outputs: Sequence[NDArray], index: int,
    branches: bool,
) -> None:  # fmt: skip
    """Refuse an array for an input where a run writes it while it is still read.

    Args:
        plan: of the network.
        inputs: of an instance, the new one among them.
        outputs: of the instance, before an output follows the input in whose memory it is.
        index: number of the input.
        branches: whether functions run side by side.
    """
    for number, place in enumerate(plan.outputs):
        moves = (place.memory, place.at) == (MemoryKind.INPUT, index)
        output = inputs[index] if moves else outputs[number]
        for given in range(len(inputs)) if moves else (index,):
            array = inputs[given]
            if not _overlap(array, output) or (place.memory, place.at) not in plan.uses:
                continue
            same = array.pointer == output.pointer
            if plan.may_write_over(given, number, same) and not branches:
                continue
            raise GraphError(
                f"bind_input: the array is in output {number}, which a run writes while it "
                f"still reads input {plan.input_names[given]!r}; give an array of its own"
            )


def _overlap(one: NDArray, other: NDArray) -> bool:
    return max(one.pointer, other.pointer) < min(
        one.pointer + one.nbytes, other.pointer + other.nbytes
    )
