"""A loaded function on one device, as calls need it; and its description for the C launcher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from autotune.kernel.kernel import Argument, Constant, Kernel, Scalar
from autotune.kernel.scalar import scalar_value
from autotune.runtime.arrays.array import NDArray, numpy_dtype
from autotune.runtime.call.native import dtype_code

# Roles of the C launcher.
_ARRAY, _BY_VALUE, _SIZE, _HIDDEN = range(4)
Row = tuple[object, ...]
# What the C launcher takes: argument positions and bytes.
Ranges = tuple[tuple[int, int], ...]


class Callee(Protocol):
    """The callable form of an artifact on a back end.

    Attributes:
        entry: its description for the C launcher; None if calls go through Python.
    """

    entry: object

    def start(self, arrays: Sequence[NDArray], stream: int) -> None:
        """Run once on arrays that fit; where a device runs by itself, only queue it."""
        ...

    def wait(self, stream: int) -> None:
        """Wait for what was started on a stream."""
        ...

    def is_capturing(self, stream: int) -> bool:
        """Return whether the stream records a graph instead of running."""
        ...


def scalar_bits(where: str, dtype: str, value: object) -> int:
    """Return the bits of a number, in as many as its type has.

    Raises:
        KernelError: it does not fit.
    """
    plain = value.numpy() if isinstance(value, NDArray) else value
    number = np.array(scalar_value(where, dtype, plain), numpy_dtype(dtype))
    return int.from_bytes(number.tobytes(), "little")


def slot_values(kernel: Kernel, arrays: Sequence[NDArray]) -> tuple[int, ...]:
    """Return the addresses of arrays that fit, and the bits of numbers."""
    return tuple(
        scalar_bits(a.name, a.dtype, one) if isinstance(a, Scalar) else one.pointer
        for a, one in zip(kernel.args, arrays, strict=True)
    )


def param_rows(kernel: Kernel, open_kernel: Kernel) -> tuple[Row, ...]:
    """Describe the arguments of a kernel; ``open_kernel`` is it before sizes were put in."""
    sizes = open_kernel.sizes
    names = () if sizes is None else sizes.names
    hidden = () if sizes is None else sizes.hidden
    return tuple(_param(kernel, a, a.name in names, a.name in hidden) for a in kernel.args)


def _param(kernel: Kernel, argument: Argument, is_size: bool, is_hidden: bool) -> Row:
    code, bits = dtype_code(argument.dtype)
    # Truth values are bytes: libraries disagree on what they are on the wire.
    dtype = (1 if code == 6 else code) << 8 | bits
    to_bits = partial(scalar_bits, f"{kernel.name}: argument {argument.name!r}", argument.dtype)
    if not isinstance(argument, Scalar):
        return _ARRAY, dtype, int(argument.role != "in"), argument.shape, 0, to_bits
    role = _HIDDEN if is_hidden else _SIZE if is_size else _BY_VALUE
    value = to_bits(argument.value) if role != _BY_VALUE else 0
    # The launcher reads numbers itself where it knows the type by its DLPack code.
    return role, code << 8 | bits, 0, (), value, to_bits


def call_rows(kernel: Kernel, functions: Sequence[int]) -> tuple[Row, ...]:
    """Describe the calls; ``functions`` are addresses on the host, 0 on a device."""
    slots = slots_of(kernel)
    return tuple(
        (
            one.launch.grid,
            one.launch.block,
            one.launch.shared_bytes,
            int(one.launch.early),
            function,
            tuple(slots[name] for name in one.args),
        )
        for one, function in zip(kernel.calls, functions, strict=True)
    )


def slots_of(kernel: Kernel) -> dict[str, int]:
    """Return where the launcher keeps each argument and, behind them, each workspace."""
    names = [a.name for a in kernel.args] + [w.name for w in kernel.workspace]
    return {name: slot for slot, name in enumerate(names)}


def zero_rows(kernel: Kernel) -> Ranges:
    """Return the workspaces that are cleared before each run."""
    slots = slots_of(kernel)
    return tuple((slots[w.name], w.bytes) for w in kernel.workspace if w.zero)


def constant_rows(kernel: Kernel) -> Ranges:
    """Return the arguments that are copied to variables of the source."""
    return tuple((i, a.bytes) for i, a in enumerate(kernel.args) if isinstance(a, Constant))


def new_entry(
    launcher: Any,
    kernel: Kernel,
    open_kernel: Kernel,
    prepare: Callable[[int, int, int, int], tuple[int, ...]],
    failed: Callable[[str, int], None],
    *,
    device: tuple[int, int] | None = None,
    functions: Sequence[int] = (),
    filler: int = 0,
) -> Any:
    """Return the description of a loaded kernel for the C launcher.

    Args:
        launcher: the module in C; None gives None, and so do more arguments than it takes.
        kernel: what was loaded.
        open_kernel: the same before its sizes were put in.
        prepare: called with what tells streams apart, a stream, the number of a capture or 0, and
            its graph; returns functions and workspaces, and where constants are.
        failed: raises for a function of the driver and its status.
        device: number and context of a CUDA device; None for the host.
        functions: addresses of the entries of the host.
        filler: address of what fills the constants of the host.
    """
    if launcher is None or not _is_taken(kernel, launcher.MOST_ARGS):
        return None
    index, context = device or (0, 0)
    return launcher.Entry(
        int(device is not None),
        index,
        context,
        param_rows(kernel, open_kernel),
        call_rows(kernel, functions or [0] * len(kernel.calls)),
        len(kernel.workspace),
        zero_rows(kernel),
        constant_rows(kernel),
        filler,
        prepare,
        failed,
    )


def _is_taken(kernel: Kernel, most: int) -> bool:
    """Return whether the C launcher takes so many arguments; else Python makes the call."""
    longest = max(len(one.args) for one in kernel.calls)
    return max(len(kernel.args), len(kernel.workspace)) <= most and longest <= 2 * most
