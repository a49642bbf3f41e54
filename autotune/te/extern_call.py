"""Calls of functions that a script brings itself, as text, or that a compiler has."""

from __future__ import annotations

from autotune.errors import ExpressionError
from autotune.ir import Call, Expr, as_expr
from autotune.ir.address import EXTERN
from autotune.te.ir_builder import BufferVar


def extern_call(dtype: str, name: str, *args: object) -> Expr:
    """Return the call of a function that is none of ours.

    A text that the schedule imports has to define it (``s[C].pragma(axis, "import_c", text)``), or
    the compiler.

    Args:
        dtype: of the result.
        name: of the function.
        args: numbers, and addresses of elements of buffers (``buffer.access_ptr("r")``).

    Raises:
        ExpressionError: an argument is something else.
    """
    return Call(EXTERN + name, tuple([_argument(name, each) for each in args]), dtype)


def _argument(name: str, value: object) -> Expr:
    if isinstance(value, BufferVar):
        return value.data
    if isinstance(value, str):
        raise ExpressionError(
            f"calling {name!r}: expected numbers and addresses of buffers, got the text {value!r}"
        )
    return as_expr(value)
