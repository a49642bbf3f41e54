"""From what a caller passes to the arrays a kernel takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from autotune.errors import KernelError
from autotune.kernel import Argument, Kernel, Scalar, scalar_value
from autotune.runtime.arrays.array import (
    HostArray,
    NDArray,
    array,
    dtype_name,
    empty,
    from_dlpack,
    numpy_dtype,
)
from autotune.runtime.arrays.memory import Block
from autotune.runtime.device import Device, cpu

# Vector loads of kernels fault on addresses that are not a multiple of the vector.
_ALIGNMENT = 16
# Libraries disagree on whether a truth value is a bool or a byte on the wire.
_SAME = ({"bool", "uint8"},)


@dataclass(frozen=True)
class Bound:
    """The arrays of one call.

    Attributes:
        arrays: on the kernel's device, in order; those of scalars in host memory.
        finish: copies results back to where the caller wants them; called after the run.
    """

    arrays: tuple[NDArray, ...]
    finish: Callable[[], None]


def bind(kernel: Kernel, values: Sequence[object], device: Device) -> Bound:
    """Check what a caller passes, and bring it to the device.

    Arrays that are already there are used as they are. Host arrays passed to a kernel on a GPU,
    and arrays that are not contiguous or not aligned, are copied there, and back if written.

    Raises:
        KernelError: wrong number, shape, dtype or device; the message names the argument.
    """
    if len(values) != len(kernel.args):
        names = ", ".join(a.name for a in kernel.args)
        raise KernelError(
            f"{kernel.name}: expected {len(kernel.args)} arguments ({names}), got {len(values)}"
        )
    arrays: list[NDArray] = []
    copies: list[Callable[[], object]] = []
    for argument, value in zip(kernel.args, values, strict=True):
        where = f"{kernel.name}: argument {argument.name!r}"
        if isinstance(argument, Scalar):
            arrays.append(_number(where, argument, value))
            continue
        found = _find(where, argument, value)
        _check(where, argument, found)
        ready, copy_back = _brought(where, argument, found, device)
        arrays.append(ready)
        copies += [copy_back] if copy_back else []
    return Bound(tuple(arrays), partial(_finish, copies))


def _finish(copies: Sequence[Callable[[], object]]) -> None:
    for copy in copies:
        copy()


def _number(where: str, argument: Scalar, value: object) -> NDArray:
    plain = value.numpy() if isinstance(value, NDArray) else value
    return array(np.array(scalar_value(where, argument.dtype, plain), numpy_dtype(argument.dtype)))


def _find(where: str, argument: Argument, value: object) -> NDArray | HostArray:
    """Return the value as an array of ours or of numpy, without copying."""
    if isinstance(value, (NDArray, np.ndarray)):
        return value
    if hasattr(value, "__dlpack__"):
        try:
            return from_dlpack(value)
        except KernelError as error:
            raise KernelError(f"{where}: {error}") from error
    raise KernelError(
        f"{where}: expected an array (autotune, numpy, torch, anything with __dlpack__), got "
        f"{type(value).__name__}"
    )


def _check(where: str, argument: Argument, found: NDArray | HostArray) -> None:
    try:
        dtype = found.dtype if isinstance(found, NDArray) else dtype_name(found.dtype)
    except KernelError as error:
        raise KernelError(f"{where}: {error}") from error
    if tuple(found.shape) != argument.shape:
        raise KernelError(f"{where}: expected shape {argument.shape}, got {tuple(found.shape)}")
    if dtype != argument.dtype and {dtype, argument.dtype} not in _SAME:
        raise KernelError(f"{where}: expected dtype {argument.dtype}, got {dtype}")
    if isinstance(found, np.ndarray) and argument.role != "in" and not found.flags.writeable:
        raise KernelError(f"{where}: it is written by the kernel, but the array is read-only")


def _brought(
    where: str, argument: Argument, found: NDArray | HostArray, device: Device
) -> tuple[NDArray, Callable[[], object] | None]:
    """Return the array to pass and, where it is a copy that is written, how to copy it back."""
    if isinstance(found, np.ndarray):
        if device.kind == "cpu" and found.flags.c_contiguous:
            found = _wrap(found, argument)
        else:
            return _staged_host(argument, found, device)
    if found.device.kind == "cuda" and found.device != device:
        raise KernelError(
            f"{where}: the kernel runs on {device}, the array is on {found.device}; copy it with "
            "copyto()"
        )
    if found.device == device and found.pointer % _ALIGNMENT == 0:
        return found, None
    # Outputs too: what a kernel does not write keeps its value, wherever it runs.
    staged = empty(argument.shape, found.dtype, device).copyfrom(found)
    return staged, None if argument.role == "in" else partial(found.copyfrom, staged)


def _staged_host(
    argument: Argument, values: HostArray, device: Device
) -> tuple[NDArray, Callable[[], object] | None]:
    staged = empty(argument.shape, argument.dtype, device).copyfrom(values)
    if argument.role == "in":
        return staged, None
    return staged, lambda: np.copyto(values, staged.numpy())


def _wrap(values: HostArray, argument: Argument) -> NDArray:
    block = Block(values.ctypes.data, values.nbytes, values)
    return NDArray(cpu(), argument.shape, argument.dtype, block)
