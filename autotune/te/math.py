"""Mathematical functions on expressions; each becomes a `Call` of the function's name.

Functions of floating-point numbers first convert an integer argument to float32. Rounding, and
tests such as `isfinite`, return the trivial result for an integer.
"""

from __future__ import annotations

from autotune.errors import ExpressionError
from autotune.ir import Call, Expr, as_expr, cast, const, is_float, is_int
from autotune.te.intrinsics import pair
from autotune.te.location import user_line

Argument = object
# The function that `tf32` is.
TF32 = "tf32"


def _argument(name: str, x: Argument) -> Expr:
    try:
        return as_expr(x)
    except ExpressionError:
        raise ExpressionError(
            f"{user_line()}: te.{name}: expected an expression, got {x!r}; for whole tensors use "
            f"topi.{name}"
        ) from None


def _to_float(x: Expr) -> Expr:
    return x if is_float(x.dtype) else cast(x, "float32")


def _float(name: str, x: Argument) -> Expr:
    return Call(name, (_to_float(_argument(name, x)),))


def _round(name: str, x: Argument) -> Expr:
    expr = _argument(name, x)
    return Call(name, (expr,)) if is_float(expr.dtype) else expr


def _test(name: str, x: Argument, of_ints: bool) -> Expr:
    expr = _argument(name, x)
    return Call(name, (expr,), "bool") if is_float(expr.dtype) else const(of_ints, "bool")


def _float2(name: str, x: Argument, y: Argument) -> Expr:
    a, b = pair(name, x, y)
    return Call(name, (_to_float(a), _to_float(b)))


def exp(x: Argument) -> Expr:
    """Return e to the power of ``x``."""
    return _float("exp", x)


def exp2(x: Argument) -> Expr:
    """Return 2 to the power of ``x``."""
    return _float("exp2", x)


def exp2_flushed(x: Argument) -> Expr:
    """Return 2 to the power of a float32 ``x``; zero perhaps where it is below 2**-126."""
    return _float("exp2_flushed", x)


def exp10(x: Argument) -> Expr:
    """Return 10 to the power of ``x``."""
    return _float("exp10", x)


def log(x: Argument) -> Expr:
    """Return the natural logarithm."""
    return _float("log", x)


def log2(x: Argument) -> Expr:
    """Return the logarithm to base 2."""
    return _float("log2", x)


def log10(x: Argument) -> Expr:
    """Return the logarithm to base 10."""
    return _float("log10", x)


def log1p(x: Argument) -> Expr:
    """Return the natural logarithm of ``1 + x``."""
    return _float("log1p", x)


def sqrt(x: Argument) -> Expr:
    """Return the square root."""
    return _float("sqrt", x)


def rsqrt(x: Argument) -> Expr:
    """Return 1 divided by the square root."""
    return _float("rsqrt", x)


def tanh(x: Argument) -> Expr:
    """Return the hyperbolic tangent."""
    return _float("tanh", x)


def sigmoid(x: Argument) -> Expr:
    """Return ``1 / (1 + exp(-x))``."""
    return _float("sigmoid", x)


def sin(x: Argument) -> Expr:
    """Return the sine."""
    return _float("sin", x)


def cos(x: Argument) -> Expr:
    """Return the cosine."""
    return _float("cos", x)


def tan(x: Argument) -> Expr:
    """Return the tangent."""
    return _float("tan", x)


def sinh(x: Argument) -> Expr:
    """Return the hyperbolic sine."""
    return _float("sinh", x)


def cosh(x: Argument) -> Expr:
    """Return the hyperbolic cosine."""
    return _float("cosh", x)


def asin(x: Argument) -> Expr:
    """Return the arc sine."""
    return _float("asin", x)


def acos(x: Argument) -> Expr:
    """Return the arc cosine."""
    return _float("acos", x)


def atan(x: Argument) -> Expr:
    """Return the arc tangent."""
    return _float("atan", x)


def asinh(x: Argument) -> Expr:
    """Return the inverse of the hyperbolic sine."""
    return _float("asinh", x)


def acosh(x: Argument) -> Expr:
    """Return the inverse of the hyperbolic cosine, from 0 on."""
    return _float("acosh", x)


def atanh(x: Argument) -> Expr:
    """Return the inverse of the hyperbolic tangent."""
    return _float("atanh", x)


def erf(x: Argument) -> Expr:
    """Return the error function."""
    return _float("erf", x)


def floor(x: Argument) -> Expr:
    """Return ``x`` rounded towards minus infinity."""
    return _round("floor", x)


def ceil(x: Argument) -> Expr:
    """Return ``x`` rounded towards plus infinity."""
    return _round("ceil", x)


def trunc(x: Argument) -> Expr:
    """Return ``x`` rounded towards zero."""
    return _round("trunc", x)


def round(x: Argument) -> Expr:
    """Return ``x`` rounded to the nearest integer, halves away from zero."""
    return _round("round", x)


def nearbyint(x: Argument) -> Expr:
    """Return ``x`` rounded to the nearest integer, halves to even."""
    return _round("nearbyint", x)


def isnan(x: Argument) -> Expr:
    """Return whether ``x`` is not a number."""
    return _test("isnan", x, False)


def isinf(x: Argument) -> Expr:
    """Return whether ``x`` is infinite."""
    return _test("isinf", x, False)


def isfinite(x: Argument) -> Expr:
    """Return whether ``x`` is finite."""
    return _test("isfinite", x, True)


def atan2(y: Argument, x: Argument) -> Expr:
    """Return the angle of the point ``(y, x)``."""
    return _float2("atan2", y, x)


def fmod(x: Argument, y: Argument) -> Expr:
    """Return the remainder of ``x / y``, which has the sign of ``x``."""
    return _float2("fmod", x, y)


def hypot(x: Argument, y: Argument) -> Expr:
    """Return the length of the vector ``(x, y)``."""
    return _float2("hypot", x, y)


def copysign(x: Argument, y: Argument) -> Expr:
    """Return ``x`` with the sign of ``y``."""
    return _float2("copysign", x, y)


def power(x: Argument, y: Argument) -> Expr:
    """Return ``x`` to the power of ``y``."""
    return _float2("pow", x, y)


pow = power


def tf32(x: Argument) -> Expr:
    """Return a float32 in TF32: with the 11 bits that tensor cores multiply floats by.

    So a definition asks for them: sums of ``te.tf32(a[i, k]) * te.tf32(b[k, j])`` may run on
    tensor cores, those of ``a[i, k] * b[k, j]`` never do. It is rounded to the nearest, of two to
    the larger; only Hopper's warpgroups, which read operands from memory, cut. Either is right:
    what is expected of kernels allows for 2**-10 of each factor.
    """
    expr = _argument("tf32", x)
    if expr.dtype != "float32":
        raise ExpressionError(f"{user_line()}: te.tf32: expected a float32, got {expr.dtype}")
    return Call(TF32, (expr,))


def abs(x: Argument) -> Expr:
    """Return the absolute value."""
    expr = _argument("abs", x)
    return expr if expr.dtype.startswith(("uint", "bool")) else Call("abs", (expr,))


def popcount(x: Argument) -> Expr:
    """Count the bits that are set in an integer."""
    expr = _argument("popcount", x)
    if not is_int(expr.dtype):
        raise ExpressionError(f"{user_line()}: te.popcount: expected an integer, got {expr.dtype}")
    dtype = expr.dtype
    if dtype in ("int8", "int16"):  # C would count the bits of an int
        expr = cast(expr, f"u{dtype}")
    return Call("popcount", (expr,), dtype)
