"""Functions that kernels on the CPU call by name: those of libraries, and those of a script.

A kernel has only their names. What a script registers is known in its own process: not where
trials run, to which no functions are sent (`functions_elsewhere`).
"""

from __future__ import annotations

import ctypes
import json
import operator
import threading
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from autotune.codegen.registered_calls import CALLER
from autotune.errors import DeviceError
from autotune.ir.registered import REAL, TEXT
from autotune.kernel.kernel import item_bytes
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.arrays.memory import Block
from autotune.runtime.device import cpu
from autotune.runtime.host.library_functions import LIBRARY_FUNCTIONS, Function
from autotune.utils.names import did_you_mean

_registered: dict[str, Function] = {}
_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_longlong, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_longlong)
)


def register(name: str, function: Function) -> None:
    """Keep a function under a name, in this process."""
    _registered[name] = function


def registered() -> Mapping[str, Function]:
    """Return what the script registered, by name."""
    return _registered


def find(name: str) -> Function | None:
    """Return the function of a name: one that was registered, or else that of a library."""
    return _registered.get(name) or LIBRARY_FUNCTIONS.get(name)


def unknown_elsewhere(names: Sequence[str]) -> list[str]:
    """Return the names that other processes do not know, or know by another function."""
    return [each for each in names if each in _registered or each not in LIBRARY_FUNCTIONS]


class RegisteredCalls:
    """Calls functions for a loaded kernel, and keeps what they raise until it has ended.

    Args:
        kernel: its name, for messages.
        library: the shared object.
    """

    def __init__(self, kernel: str, library: ctypes.CDLL) -> None:
        self._kernel = kernel
        self._failure: tuple[str, BaseException] | None = None
        self._kinds: dict[bytes, list[Any]] = {}
        self._depth = threading.local()
        self._callback = _PROTOTYPE(self._call)
        variable = ctypes.c_void_p.in_dll(library, CALLER)
        variable.value = ctypes.cast(self._callback, ctypes.c_void_p).value

    @classmethod
    def of(cls, kernel: str, library: ctypes.CDLL) -> RegisteredCalls | None:
        """Return the calls of a loaded kernel; None if it makes none."""
        return cls(kernel, library) if hasattr(library, CALLER) else None

    @property
    def is_inside(self) -> bool:
        """Whether a function that the kernel calls runs in this thread."""
        return getattr(self._depth, "value", 0) > 0

    def _call(self, name: bytes, kinds: bytes, values: Any) -> int:
        if self._failure is not None:
            return 0
        called = name.decode()
        self._depth.value = getattr(self._depth, "value", 0) + 1
        try:
            found = find(called)
            if found is None:
                raise DeviceError(_unknown(called))
            if kinds not in self._kinds:
                self._kinds[kinds] = json.loads(kinds)
            result = found(*_arguments(self._kinds[kinds], values))
            return _number(called, result)
        except BaseException as error:
            self._failure = called, error
            return 0
        finally:
            self._depth.value -= 1

    def check(self) -> None:
        """Raise what a function raised since the last look.

        Raises:
            DeviceError: with its text; the exception is its cause.
        """
        if self._failure is None:
            return
        (called, error), self._failure = self._failure, None
        if isinstance(error, DeviceError) or not isinstance(error, Exception):
            raise error
        raise DeviceError(
            f"kernel {self._kernel!r}: the function {called!r} raised "
            f"{type(error).__name__}: {error}"
        ) from error


def _number(called: str, result: object) -> int:
    """Return the number that a kernel gets for a result, numpy's too; 0 for what is none."""
    if isinstance(result, np.bool_):
        return int(result)
    if isinstance(result, float | np.floating):
        raise DeviceError(
            f"{called!r} returned {result}; kernels get numbers of int32, so write others into an "
            "array that is an argument"
        )
    number = operator.index(result) if isinstance(result, int | np.integer) else 0
    if not -(2**31) <= number < 2**31:
        raise DeviceError(f"{called!r} returned {number}; kernels get numbers of int32")
    return number


def _unknown(name: str) -> str:
    return (
        f"no function is registered under {name!r} in this process; register it by "
        f"tvm.register_func before the kernel runs{did_you_mean(name, _registered)}"
    )


def _arguments(kinds: Sequence[Any], values: Any) -> Iterator[object]:
    """Yield what a function gets: arrays over the memory of the kernel, numbers and texts."""
    at = 0
    for kind in kinds:
        if isinstance(kind, list) and kind[0] == TEXT:
            yield kind[1]
            continue
        if isinstance(kind, list):
            dtype, rank = kind
            shape = tuple(values[at + 1 : at + 1 + rank])
            block = Block(values[at], prod(shape) * item_bytes(dtype), None)
            yield NDArray(cpu(0), shape, dtype, block)
            at += 1 + rank
            continue
        if kind == REAL:
            yield ctypes.c_double.from_buffer(ctypes.c_longlong(values[at])).value
        else:
            yield values[at]
        at += 1
