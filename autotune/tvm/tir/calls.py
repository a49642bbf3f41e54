"""TVM's calls of functions by their names.

Those of C and CUDA that `te` has too are `te`'s. Any other is called as it is: a text that the
script imports has to define it (``s[C].pragma(axis, "import_c", text)``), or the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr, cast
from autotune.ir.address import Address
from autotune.te import warp_matrix
from autotune.te.extern_call import extern_call
from autotune.te.ir_builder import BufferVar
from autotune.te.registered_call import registered_call
from autotune.utils.check import Check

__all__ = [
    "call_cpacked",
    "call_extern",
    "call_intrin",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_packed",
    "call_pure_extern",
    "call_pure_intrin",
]

# Functions of one or two numbers that are called alike, and others by C's and CUDA's names.
_ALIKE = """
    exp exp2 exp10 log log2 log10 log1p sqrt rsqrt tanh sigmoid sin cos tan sinh cosh asin acos
    atan asinh acosh atanh erf floor ceil trunc nearbyint isnan isinf isfinite atan2 fmod hypot
    copysign popcount"""
_OTHERS = {
    "fabs": "abs",
    "fmax": "max",
    "fmin": "min",
    "popc": "popcount",
    "pow": "power",
    "rint": "nearbyint",
}
_FUNCTIONS: Mapping[str, str] = {**{name: name for name in _ALIKE.split()}, **_OTHERS}
# TVM's calls for tensor cores.
_OF_WARPS: Mapping[str, Callable[..., Expr]] = {
    "tvm_fill_fragment": warp_matrix.fill_fragment,
    "tvm_load_matrix_sync": warp_matrix.load_matrix_sync,
    "tvm_mma_sync": warp_matrix.mma_sync,
    "tvm_store_matrix_sync": warp_matrix.store_matrix_sync,
}
_OF_TWO = ("atan2", "copysign", "fmod", "hypot", "max", "min", "power")


def call_pure_extern(dtype: str, func_name: str, *args: object) -> Expr:
    """Return a call of a function of C or CUDA, such as ``"expf"`` or ``"__dp4a"``.

    One that `te` has is that of `te`, which is precise where CUDA's ``__expf`` is fast.

    Args:
        dtype: of the result.
        func_name: its name, with ``f`` for float32, and with TVM's ``"tir."``.
        args: numbers, and addresses of elements of buffers (``buffer.access_ptr("r")``).

    Raises:
        ExpressionError: an argument is something else, or a function of `te` takes another number
            of arguments.
    """
    name = Check(ExpressionError, "call").text("func_name", func_name, "exp")
    function = _function_of_te(name)
    if function is None or any(isinstance(each, Address | BufferVar) for each in args):
        return extern_call(dtype, name, *args)
    return _of_te(dtype, name, function, args)


def _function_of_te(name: str) -> str | None:
    """Return the name that a function has in `te`; None if it is none of these."""
    plain = name.removeprefix("tir.").removeprefix("__")
    known = next((each for each in (plain, plain.removesuffix("f")) if each in _FUNCTIONS), None)
    return None if known is None else _FUNCTIONS[known]


def call_intrin(dtype: str, func_name: str, *args: object) -> Expr:
    """Return a call of a function that `te` has, under TVM's name of it, such as ``"tir.exp"``.

    Args:
        dtype: of the result.
        func_name: its name.
        args: one or two numbers.

    Raises:
        ExpressionError: `te` has no such function, or it takes another number of arguments.
    """
    name = Check(ExpressionError, "call").text("func_name", func_name, "tir.exp")
    of_warps = _OF_WARPS.get(name.removeprefix("tir."))
    if of_warps is not None:
        return of_warps(*args)
    function = _function_of_te(name)
    if function is None:
        raise ExpressionError(
            f"calling {name!r}: te has no such function; call one of CUDA C++ or C by "
            "call_pure_extern, and give its text by the pragma import_c if it is yours"
        )
    return _of_te(dtype, name, function, args)


def call_llvm_pure_intrin(dtype: str, name: str, *args: object) -> Expr:
    """Return a call of an intrinsic of LLVM that `te` has too, such as ``"llvm.exp2.f32"``.

    Args:
        dtype: of the result.
        name: its name.
        args: the number of arguments that its signature has, as TVM asks for, and these.

    Raises:
        ExpressionError: `te` has no such function.
    """
    given = Check(ExpressionError, "call").text("name", name, "llvm.exp2.f32")
    plain = given.removeprefix("llvm.").split(".")[0]
    return call_intrin(dtype, f"tir.{plain}", *args[1:])


call_llvm_intrin = call_llvm_pure_intrin


def _of_te(dtype: str, name: str, function: str, args: Sequence[object]) -> Expr:
    expected = 2 if function in _OF_TWO else 1
    if len(args) != expected:
        raise ExpressionError(f"calling {name!r}: expected {expected} numbers, got {len(args)}")
    return cast(getattr(te, function)(*args), dtype)


call_extern, call_pure_intrin = call_pure_extern, call_intrin
call_packed = call_cpacked = registered_call
