"""The functions that give lent memory back: in C, compiled once, and in Python without a compiler.

A borrower gives memory back in any thread, and at times while an error of Python is pending: numpy
drops a capsule that it cannot use when it has set its error, and a function that refuses its
arguments lets go of them. Code in Python cannot run then: it would replace that error by a
`SystemError`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autotune.errors import CompileError, DeviceError
from autotune.kernel.kernel import Kernel, KernelCall
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.target import Target
from autotune.utils.libraries import load_library
from autotune.utils.scratch import temporary_folder

_TIMEOUT_S = 120.0
_DECREF = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("Py_DecRef", ctypes.pythonapi))
_INCREF = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# In a destructor the capsule is being freed: it is passed as an address, never as an object.
_dying_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_dying_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@dataclass(frozen=True)
class Lender:
    """Addresses of C functions.

    Attributes:
        give_back, give_back_versioned: deleters of the two structures of dlpack.h.
        drop_capsule: destructor of a capsule, which gives back what nobody took.
        kept: what the addresses need to stay valid.
    """

    give_back: int
    give_back_versioned: int
    drop_capsule: int
    kept: tuple[object, ...]


def hold(owner: object) -> int:
    """Return the address of an object that lives until a function of a `Lender` is called."""
    _INCREF(owner)
    return id(owner)


@cache
def lender() -> Lender:
    """Return the functions in C; those in Python where they cannot be compiled."""
    try:
        with temporary_folder("lender") as folder:
            output = compile_kernel(
                source_of_lender(), Target("c"), timeout_s=_TIMEOUT_S, out_dir=folder
            )
            library = load_library(output.artifact, "autotune's functions for lent memory")
    except (CompileError, DeviceError, OSError):
        return lender_in_python()
    return Lender(
        _address(library.autotune_give_back),
        _address(library.autotune_give_back_versioned),
        _address(library.autotune_drop_capsule),
        (library,),
    )


def source_of_lender() -> Kernel:
    """Return the functions as something to compile."""
    return Kernel(
        name="autotune_lender",
        language="c",
        source=Path(__file__).with_name("lender.c").read_text("utf-8"),
        args=(),
        calls=(KernelCall("autotune_lender_entry", ()),),
    )


def lender_in_python() -> Lender:
    """Return functions that do the same, unless an error is pending."""
    # Where dlpack.h has the owner in the structures; a pointer's size is that of an address.
    plain = _deleter(owner_at=6 * 8)
    versioned = _deleter(owner_at=8)

    def drop(capsule: int) -> None:
        for name, give_back in ((b"dltensor", plain), (b"dltensor_versioned", versioned)):
            if _dying_is_valid(capsule, name):
                give_back(_dying_pointer(capsule, name))

    first, second, third = (_Callback(each) for each in (plain, versioned, drop))
    return Lender(_address(first), _address(second), _address(third), (first, second, third))


def _deleter(owner_at: int) -> Callable[[int], None]:
    def give_back(lent: int) -> None:
        _DECREF(ctypes.c_void_p.from_address(lent + owner_at).value)

    return give_back


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
