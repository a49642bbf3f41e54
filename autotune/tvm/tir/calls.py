"""TVM's calls of functions by their names.

Those of C and CUDA that `te` has too are `te`'s. Any other is called as it is: a text that the
script imports has to define it (``s[C].pragma(axis, "import_c", text)``), or the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Call, Expr, Load, as_expr, cast, const
from autotune.ir.address import Address
from autotune.te import warp_matrix
from autotune.te.extern_call import extern_call
from autotune.te.intrin_rules import is_known
from autotune.te.ir_builder import BufferVar
from autotune.te.registered_call import registered_call
from autotune.tvm.tir.arithmetic import fma
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
    copysign popcount fma"""
_OTHERS = {
    "ctpop": "popcount",
    "fabs": "abs",
    "fmax": "max",
    "fmin": "min",
    "fmuladd": "fma",
    "maxnum": "max",
    "minnum": "min",
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
# Barriers are put in where threads need them (`autotune.lowering.passes.barriers`).
_BARRIER = "tvm_storage_sync"
_ADDRESS = "address_of"
# TVM's names of exchanges within a warp, and CUDA's.
_OF_CUDA = {
    "tvm_warp_activemask": "__activemask",
    "tvm_warp_shuffle": "__shfl_sync",
    "tvm_warp_shuffle_down": "__shfl_down_sync",
    "tvm_warp_shuffle_up": "__shfl_up_sync",
}
_OF_THREE = ("fma",)
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
    plain = name.removeprefix("tir.")
    if plain in _OF_WARPS:
        return _OF_WARPS[plain](*args)
    if plain in _OF_CUDA:
        return extern_call(dtype, _OF_CUDA[plain], *args[:4])
    if plain == _ADDRESS and len(args) == 1 and isinstance(args[0], Load):
        return Address(args[0].buffer, args[0].indices[0])
    if plain == _BARRIER:
        return _barrier(*args)
    if is_known(plain) and plain not in _FUNCTIONS:
        return Call(plain, tuple([as_expr(each) for each in args]), dtype)
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
    function = _function_of_te(plain)
    # Versions of TVM ask for the number of arguments in front of them, or do not.
    taken = args[-_arguments_of(function) :] if function else args[1:]
    return call_intrin(dtype, f"tir.{plain}", *taken)


call_llvm_intrin = call_llvm_pure_intrin


def _barrier(scope: object = "shared", *_: object) -> Expr:
    """Return nothing to compute for a barrier of a block, which is put in, or of a warp."""
    if scope == "global":
        raise ExpressionError(
            f"calling {_BARRIER!r}: blocks of a kernel do not wait for each other; make a kernel "
            "of what follows the barrier, or use one block and 'shared'"
        )
    return const(0)


def _of_te(dtype: str, name: str, function: str, args: Sequence[object]) -> Expr:
    expected = _arguments_of(function)
    if len(args) != expected:
        raise ExpressionError(f"calling {name!r}: expected {expected} numbers, got {len(args)}")
    numbers = [as_expr(each) for each in args]
    return cast((fma if function == "fma" else getattr(te, function))(*numbers), dtype)


def _arguments_of(function: str) -> int:
    return 3 if function in _OF_THREE else 2 if function in _OF_TWO else 1


call_extern, call_pure_intrin = call_pure_extern, call_intrin
call_packed = call_cpacked = registered_call
