"""TVM's calls of functions by their names: those of C and CUDA that `te` has too."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr, cast
from autotune.utils.check import Check

__all__ = ["call_extern", "call_intrin", "call_pure_extern", "call_pure_intrin"]

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
_OF_TWO = ("atan2", "copysign", "fmod", "hypot", "max", "min", "power")


def call_pure_extern(dtype: str, func_name: str, *args: object) -> Expr:
    """Return a call of a function of C or CUDA, such as ``"expf"`` or ``"__expf"``.

    It is that of `te`, which is precise where CUDA's ``__expf`` is fast.

    Args:
        dtype: of the result.
        func_name: its name, with ``f`` for float32, and with TVM's ``"tir."``.
        args: one or two numbers.

    Raises:
        ExpressionError: `te` has no such function, or it takes another number of arguments.
    """
    name = Check(ExpressionError, "call").text("func_name", func_name, "exp")
    plain = name.removeprefix("tir.").removeprefix("__")
    known = next((each for each in (plain, plain.removesuffix("f")) if each in _FUNCTIONS), None)
    if known is None:
        raise ExpressionError(
            f"calling {name!r}: te has no such function; write a kernel that calls it in CUDA C++ "
            "or C, as an autotune.SourceKernel"
        )
    function = _FUNCTIONS[known]
    expected = 2 if function in _OF_TWO else 1
    if len(args) != expected:
        raise ExpressionError(f"calling {name!r}: expected {expected} numbers, got {len(args)}")
    return cast(getattr(te, function)(*args), dtype)


call_extern = call_intrin = call_pure_intrin = call_pure_extern
