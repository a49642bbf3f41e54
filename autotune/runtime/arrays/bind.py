"""Converts the arguments of a call to arrays that a kernel takes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from autotune.errors import KernelError
from autotune.kernel.kernel import Argument, Kernel, Scalar
from autotune.kernel.scalar import scalar_value
from autotune.runtime.arrays.array import (
    HostArray,
    NDArray,
    array,
    dtype_name,
    empty,
    from_dlpack,
    numpy_dtype,
)
from autotune.runtime.arrays.dlpack import strided_on_host
from autotune.runtime.arrays.memory import Block
from autotune.runtime.arrays.versions import note_written
from autotune.runtime.device import Device, cpu

# Vector loads of kernels fault on addresses that are not a multiple of the vector.
_ALIGNMENT = 16
# Libraries disagree on whether a truth value is a bool or a byte on the wire.
_SAME = ({"bool", "uint8"},)


@dataclass(frozen=True)
class BoundArrays:
    """The arrays of one call.

    Attributes:
        arrays: on the kernel's device, in order; those of scalars in host memory.
        finish: copies results back to where the caller wants them; called after the run.
        copied: whether an array is a copy, so that the caller must be let wait for the end.
    """

    arrays: tuple[NDArray, ...]
    finish: Callable[[], None]
    copied: bool = False


def bind(
    kernel: Kernel,
    values: Sequence[object],
    device: Device,
    stream: int = 0,
    may_copy: bool = True,
) -> BoundArrays:
    """Check the arguments of a call, and copy them to the device if needed.

    Arrays on the device are used in place. Host arrays for a kernel on a GPU, and arrays that are
    not contiguous or not aligned, are copied there, and back if the kernel writes them. Torch is
    told which of its tensors are written.

    Args:
        kernel: the kernel.
        values: the arguments of the call.
        device: the device on which it runs.
        stream: handle of the CUDA stream on which it runs.
        may_copy: False during the capture of a graph, which would not repeat the copying.

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
    copied = False
    for argument, value in zip(kernel.args, values, strict=True):
        where = f"{kernel.name}: argument {argument.name!r}"
        if isinstance(argument, Scalar):
            arrays.append(_number(where, argument, value))
            continue
        found = _find(where, argument, value, stream)
        _check(where, argument, found)
        in_place = _is_in_place(where, found, device)
        if not in_place and not may_copy:
            raise KernelError(
                f"{where}: it would have to be copied, which a graph under capture cannot hold; "
                f"pass a contiguous array on {device} at a multiple of {_ALIGNMENT} bytes"
            )
        copied = copied or not in_place
        ready, copy_back = _brought(argument, found, device, in_place)
        arrays.append(ready)
        copies += [copy_back] if copy_back else []
    pairs = zip(kernel.args, values, strict=True)
    note_written(value for argument, value in pairs if argument.role != "in")
    return BoundArrays(tuple(arrays), partial(_finish, copies), copied)


def _finish(copies: Sequence[Callable[[], object]]) -> None:
    for copy in copies:
        copy()


def _number(where: str, argument: Scalar, value: object) -> NDArray:
    plain = value.numpy() if isinstance(value, NDArray) else value
    return array(np.array(scalar_value(where, argument.dtype, plain), numpy_dtype(argument.dtype)))


def _find(where: str, argument: Argument, value: object, stream: int) -> NDArray | HostArray:
    """Return the value as an array of ours or of numpy, without copying."""
    if isinstance(value, (NDArray, np.ndarray)):
        return value
    if hasattr(value, "__dlpack__"):
        plain = _without_gradient(where, value)
        try:
            return from_dlpack(plain, stream)
        except KernelError as error:
            apart = _apart(plain)
            if apart is None:
                raise KernelError(f"{where}: {error}") from error
            return apart
    hint = f"; {_how_to_make(argument)}" if isinstance(value, (list, tuple)) else ""
    raise KernelError(
        f"{where}: expected an array (autotune, numpy, torch, anything with __dlpack__), got "
        f"{type(value).__name__}{hint}"
    )


def _apart(source: object) -> HostArray | None:
    """Return a strided array of the host as one of numpy; None for others."""
    try:
        found = strided_on_host(source)
    except KernelError:
        return None
    if found is None:
        return None
    shape, strides, dtype, block = found
    kind = numpy_dtype(dtype)
    memory: Any = (ctypes.c_char * block.bytes).from_address(block.pointer)
    memory.owner = block  # the array keeps this object, and it the memory
    steps = [step * kind.itemsize for step in strides]
    array: HostArray = np.ndarray(shape, kind, memory, strides=steps)
    # Elements of an expanded array are one: what is written there would be lost.
    array.flags.writeable = all(step or n == 1 for n, step in zip(shape, strides, strict=True))
    return array


def _without_gradient(where: str, value: Any) -> object:
    """Return a tensor as one that no gradient is recorded for, where none is wanted.

    Raises:
        KernelError: one is.
    """
    if getattr(value, "requires_grad", False) is not True or "torch" not in sys.modules:
        return value
    if not sys.modules["torch"].is_grad_enabled():
        return value.detach()
    raise KernelError(
        f"{where}: it requires a gradient, and a kernel records none: call it within "
        "torch.no_grad(), pass tensor.detach(), or make an operator with autotune.torch.as_op"
    )


def _check(where: str, argument: Argument, found: NDArray | HostArray) -> None:
    try:
        dtype = found.dtype if isinstance(found, NDArray) else dtype_name(found.dtype)
    except KernelError as error:
        raise KernelError(f"{where}: {error}") from error
    if tuple(found.shape) != argument.shape:
        raise KernelError(f"{where}: expected shape {argument.shape}, got {tuple(found.shape)}")
    if dtype != argument.dtype and {dtype, argument.dtype} not in _SAME:
        raise KernelError(
            f"{where}: expected dtype {argument.dtype}, got {dtype}; {_how_to_have(argument)}"
        )
    if isinstance(found, np.ndarray) and argument.role != "in":
        refuse_lost_results(where, found.shape, found.strides, found.flags.writeable)


def _how_to_make(argument: Argument) -> str:
    """Return how a caller gets an array in place of a list."""
    if argument.role != "in":
        return "make an array before and read it after the call, as a list gets no results"
    return f"numpy.asarray(..., {argument.dtype!r}) makes an array of it"


def _how_to_have(argument: Argument) -> str:
    """Return how a caller gets an array of the argument's dtype."""
    if argument.role != "in":
        return f"make the array as {argument.dtype}, as a converted copy would lose the results"
    return f"convert it by .astype({argument.dtype!r}), a tensor by .to(torch.{argument.dtype})"


def refuse_lost_results(
    where: str, shape: Sequence[int], strides: Sequence[int], writeable: bool
) -> None:
    """Raise where an array that a kernel writes cannot hold results of its own.

    Args:
        where: which argument it is.
        shape: of the array.
        strides: of the array, in whatever unit.
        writeable: whether it may be written at all.

    Raises:
        KernelError: its elements share memory, or it is read-only.
    """
    if any(n > 1 and not step for n, step in zip(shape, strides, strict=True)):
        why = "its elements share memory, as after expand() or broadcast_to()"
    elif not writeable:
        why = "the array is read-only"
    else:
        return
    raise KernelError(f"{where}: it is written by the kernel, but {why}")


def _is_in_place(where: str, found: NDArray | HostArray, device: Device) -> bool:
    """Return whether the kernel can use the array without a copy.

    Raises:
        KernelError: it is on another GPU.
    """
    if isinstance(found, np.ndarray):
        aligned = found.ctypes.data % _ALIGNMENT == 0
        return device.kind == "cpu" and aligned and found.flags.c_contiguous
    if found.device.kind == "cuda" and found.device != device:
        raise KernelError(
            f"{where}: the kernel runs on {device}, the array is on {found.device}; copy it with "
            "copyto()"
        )
    return found.device == device and found.pointer % _ALIGNMENT == 0


def _brought(
    argument: Argument, found: NDArray | HostArray, device: Device, in_place: bool
) -> tuple[NDArray, Callable[[], object] | None]:
    """Return the array to pass and, where it is a copy that is written, how to copy it back."""
    if isinstance(found, np.ndarray):
        if in_place:
            return _wrap(found, argument), None
        return _staged_host(argument, found, device)
    if in_place:
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
