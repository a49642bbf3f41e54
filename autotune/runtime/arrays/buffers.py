"""The arguments of a kernel while it is tuned: filled, poisoned, restored, rotated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.errors import DeviceError, KernelError
from autotune.kernel.kernel import Argument, Scalar
from autotune.runtime.arrays.array import HostArray, NDArray, array, dtype_name, empty, numpy_dtype
from autotune.runtime.arrays.memory import ALIGNMENT, NO_MEMORY, Block
from autotune.runtime.device import Device, cpu
from autotune.utils.check import Check, shown

# The first is NaN in every float format and no truth value, the second a number in all of them: an
# element that was never stored may look right over one of them, but not over both.
POISONS = (0xFF, 0xA5)


# Bytes on each side of what a kernel writes, and what they hold: an index that is off by one or
# by a short row shows there. A multiple of every alignment.
GUARD_BYTES = 1 << 16
GUARD = 0xC3
# What stands around what a kernel only reads: a huge number or NaN in every float format, so that
# reading beyond an input changes sums and greatest values, and multiplying it by zero does not.
BEYOND = 0x7F


@dataclass(frozen=True)
class Guarded:
    """An array that a kernel writes, and the bytes around it that it must not."""

    name: str
    before: NDArray
    after: NDArray


class Buffers:
    """Arrays for the arguments of a kernel, in one or more sets with equal values.

    They belong to the arguments and the device, not to one kernel: all candidates of a task can
    use the same buffers, one after another.

    Args:
        args: the arguments of the kernel.
        device: where the arrays live.
        inputs: values of the arguments that are read, in order; random ones by default.
        seed: of the random ones.

    Raises:
        KernelError: the inputs do not fit the arguments.
    """

    def __init__(
        self,
        args: Sequence[Argument],
        device: Device,
        inputs: Sequence[HostArray] | None = None,
        seed: int = 0,
    ) -> None:
        self.args = _arguments("Buffers", args)
        Check(KernelError, "Buffers").kind("device", device, Device, "a device")
        self.device = device
        values = random_inputs(self.args, seed) if inputs is None else inputs
        values = list(Check(KernelError, "Buffers").sequence("inputs", values, "a list of arrays"))
        read = [a for a in self.args if a.role != "out"]
        _check_inputs(read, values)
        given = {a.name: value for a, value in zip(read, values, strict=True)}
        self.guards: list[Guarded] = []
        self._adopt(tuple(self._first(a, given.get(a.name)) for a in self.args))
        self.poison()

    @classmethod
    def of(cls, args: Sequence[Argument], device: Device, arrays: Sequence[NDArray]) -> Buffers:
        """Return buffers whose first set are arrays that exist, one for each argument."""
        buffers = cls.__new__(cls)
        buffers.args = tuple(args)
        buffers.device = device
        buffers.guards = []
        buffers._adopt(tuple(arrays))
        return buffers

    def _first(self, argument: Argument, value: HostArray | None) -> NDArray:
        """Return the array of an argument in the first set, whose guards are looked at."""
        if isinstance(argument, Scalar):
            return array(value, home(argument, self.device))
        one, guarded = _guard(argument, self.device)
        if argument.role == "in":
            guarded.before.fill_bytes(BEYOND)
            guarded.after.fill_bytes(BEYOND)
            return one.copyfrom(value)
        guarded.before.fill_bytes(GUARD)
        guarded.after.fill_bytes(GUARD)
        self.guards.append(guarded)
        return one if value is None else one.copyfrom(value)

    def _copy(self, argument: Argument, one: NDArray) -> NDArray:
        """Return the array of an argument in another set; its guards protect its neighbours."""
        if argument.role == "in":
            return one.copyto(one.device)
        copy, _ = _guard(argument, self.device)
        return copy if argument.role == "out" else copy.copyfrom(one)

    def _adopt(self, arrays: tuple[NDArray, ...]) -> None:
        self.sets: list[tuple[NDArray, ...]] = [arrays]
        # What in-place arguments held before the first run.
        self._initial = {
            i: arrays[i].copyto(self.device) for i, a in enumerate(self.args) if a.role == "inout"
        }

    @property
    def bytes(self) -> int:
        """Size of one set."""
        return sum(a.bytes for a in self.args)

    @property
    def has_inout(self) -> bool:
        """Whether a run changes what the next run reads."""
        return bool(self._initial)

    def grow(self, sets: int) -> None:
        """Make at least ``sets`` sets, all with the values of the first."""
        while len(self.sets) < sets:
            copies = [self._copy(a, one) for a, one in zip(self.args, self.sets[0], strict=True)]
            self.sets.append(tuple(copies))
            self.reset(index=len(self.sets) - 1)

    def restorations(self, index: int) -> list[tuple[int, int, int]]:
        """Return the copies that restore one set: where to, where from, how many bytes."""
        arrays = self.sets[index]
        return [
            (arrays[position].pointer, initial.pointer, initial.nbytes)
            for position, initial in self._initial.items()
        ]

    def restore(self, index: int | None = None) -> None:
        """Give in-place arguments their first values back, in one set or in all."""
        chosen = self.sets if index is None else [self.sets[index]]
        for arrays in chosen:
            for position, initial in self._initial.items():
                arrays[position].copyfrom(initial)

    def poison(self, byte: int = POISONS[0], index: int | None = None) -> None:
        """Fill the outputs with one byte, so that a missing store shows, in one set or in all."""
        chosen = self.sets if index is None else [self.sets[index]]
        for arrays in chosen:
            for a, one in zip(self.args, arrays, strict=True):
                if a.role == "out":
                    one.fill_bytes(byte)

    def reset(self, byte: int = POISONS[0], index: int | None = None) -> None:
        """Restore the in-place arguments and poison the outputs, in one set or in all."""
        self.restore(index)
        self.poison(byte, index)

    def written(self) -> tuple[NDArray, ...]:
        """Return the arrays of the first set that a kernel writes, in order."""
        pairs = zip(self.args, self.sets[0], strict=True)
        return tuple(one for a, one in pairs if a.role != "in")

    def originals(self) -> tuple[NDArray | None, ...]:
        """Return, for each argument, the array that no kernel may change.

        Those that are only read, and what in-place arguments are restored from; None for outputs
        and for scalars, of which a kernel gets a copy.
        """
        return tuple(
            None
            if a.role == "out" or isinstance(a, Scalar)
            else self._initial.get(i, self.sets[0][i])
            for i, a in enumerate(self.args)
        )

    def read(self) -> tuple[HostArray, ...]:
        """Return the written arguments of the first set, in order."""
        pairs = zip(self.args, self.sets[0], strict=True)
        return tuple(one.numpy() for a, one in pairs if a.role != "in")

    def read_inputs(self) -> tuple[HostArray, ...]:
        """Return the inputs of the kernel as they are now, in order."""
        return tuple(
            self._initial.get(i, self.sets[0][i]).numpy()
            for i, a in enumerate(self.args)
            if a.role != "out"
        )


def sets_beyond(set_bytes: int, cache_bytes: int, most: int) -> int:
    """Return how many sets of arguments must alternate so that each is evicted from a cache.

    One if a set alone is larger than the cache, and never more than ``most``, since creating sets
    takes time; that many are at least too large for the caches nearest to the cores.
    """
    if set_bytes > cache_bytes:
        return 1
    return min(most, math.ceil(1.5 * cache_bytes / max(1, set_bytes)) + 1)


def home(argument: Argument, device: Device) -> Device:
    """Return where the values of an argument are kept for kernels that run on ``device``."""
    return cpu() if isinstance(argument, Scalar) else device


def _guard(argument: Argument, device: Device) -> tuple[NDArray, Guarded]:
    """Return an array for what a kernel writes, between guards."""
    size = argument.bytes
    rest = GUARD_BYTES + -size % ALIGNMENT
    whole = empty((GUARD_BYTES + size + rest,), "uint8", device)

    def part(start: int, shape: tuple[int, ...], dtype: str, count: int) -> NDArray:
        return NDArray(device, shape, dtype, Block(whole.pointer + start, count, whole))

    one = part(GUARD_BYTES, argument.shape, argument.dtype, size)
    before = part(0, (GUARD_BYTES,), "uint8", GUARD_BYTES)
    after = part(GUARD_BYTES + size, (rest,), "uint8", rest)
    return one, Guarded(argument.name, before, after)


def random_inputs(args: Sequence[Argument], seed: int = 0) -> list[HostArray]:
    """Return random values without zeros for the arguments that are read.

    Floats are in [-1, 1], integers in [1, 9]: zeros would hide wrong indices and run faster.
    Scalars that have a value get it.

    Raises:
        KernelError: the arguments or the seed are invalid.
        DeviceError: the host has not enough memory.
    """
    Check(KernelError, "random_inputs").whole("seed", seed, least=0)
    rng = np.random.default_rng(seed)
    read = [a for a in _arguments("random_inputs", args) if a.role != "out"]
    try:
        return [_random(rng, a) for a in read]
    except NO_MEMORY as error:
        inputs = ", ".join(f"{a.name!r} of {a.bytes} bytes" for a in read)
        raise DeviceError(f"{cpu()}: no memory for the inputs {inputs}") from error


def _arguments(owner: str, args: Any) -> tuple[Argument, ...]:
    """Return the arguments of a kernel as a tuple."""
    check, expected = Check(KernelError, owner), "a list of the arguments of a kernel"
    if not all(isinstance(a, Argument) for a in check.sequence("args", args, expected)):
        check.refuse("args", expected, args)
    return tuple(args)


def _random(rng: np.random.Generator, argument: Argument) -> HostArray:
    dtype = numpy_dtype(argument.dtype)
    if isinstance(argument, Scalar) and argument.value is not None:
        return np.array(argument.value, dtype)
    if argument.dtype == "bool":
        return rng.random(argument.shape) < 0.5
    if "float" not in argument.dtype:
        return rng.integers(1, 10, argument.shape).astype(dtype)
    wide = np.float64 if argument.dtype == "float64" else np.float32
    values = np.asarray(rng.random(argument.shape, wide))
    values *= 2  # in place: inputs may be a good part of the memory
    values -= 1
    values = values.astype(dtype, copy=False)
    values[values == 0] = 0.5
    return values


def _check_inputs(read: Sequence[Argument], values: Sequence[HostArray]) -> None:
    if len(values) != len(read):
        names = ", ".join(a.name for a in read)
        raise KernelError(f"inputs: expected {len(read)} arrays ({names}), got {len(values)}")
    for argument, value in zip(read, values, strict=True):
        try:
            shape, dtype = tuple(np.shape(value)), dtype_name(np.asarray(value).dtype)
        except (KernelError, ValueError) as error:
            raise KernelError(f"input {argument.name!r}: {error}, got {shown(value)}") from error
        if shape != argument.shape or dtype != argument.dtype:
            raise KernelError(
                f"input {argument.name!r}: expected {argument.dtype}{list(argument.shape)}, "
                f"got {dtype}{list(shape)}"
            )
