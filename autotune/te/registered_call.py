"""Calls of functions that are registered under a name, as TVM's `tir.call_packed` makes them.

They are functions of Python, or of a library of the host, and get whole arrays: statements on a
CPU call them. A name, and not a function, is what expressions, kernels and records hold.
"""

from __future__ import annotations

import json

from autotune.errors import ExpressionError
from autotune.ir import Buffer, Call, Expr, FloatImm, Stmt, as_expr, cast, is_float
from autotune.ir.address import WHOLE, Address
from autotune.ir.dtype import lanes_of
from autotune.ir.registered import INTEGER, REAL, REGISTERED, TEXT
from autotune.ir.structure import walk
from autotune.te.declared_buffer import DeclaredBuffer
from autotune.te.ir_builder import BufferVar
from autotune.utils.check import Check


def registered_call(name: object, *args: object) -> Expr:
    """Return the call of a function that is registered under a name.

    Args:
        name: of the function.
        args: buffers, which it gets as arrays; numbers and texts.

    Raises:
        ExpressionError: an argument is something else, or a buffer has strides.
    """
    known = Check(ExpressionError, "call_packed").text("name", name, "my.function")
    if not known.isprintable():
        raise ExpressionError(
            f"call_packed: expected a name of printable characters, got {known!r}"
        )
    kinds: list[object] = []
    values: list[Expr] = []
    for each in args:
        kind, given = _argument(known, each)
        kinds.append(kind)
        values += given
    return Call(f"{REGISTERED}{json.dumps([known, *kinds])}", tuple(values), "int32")


def registered_calls(*stmts: Stmt) -> list[str]:
    """Return the names of the registered functions that statements call, each once."""
    calls = (node for node in walk(*stmts) if isinstance(node, Call))
    found = (call.name for call in calls if call.name.startswith(REGISTERED))
    return list(dict.fromkeys(json.loads(each.removeprefix(REGISTERED))[0] for each in found))


def _argument(name: str, value: object) -> tuple[object, list[Expr]]:
    """Return how an argument arrives, and what is passed for it."""
    if isinstance(value, str):
        return [TEXT, value], []
    view = value.view if isinstance(value, BufferVar) else value
    if isinstance(view, DeclaredBuffer) and not view.dense:
        raise ExpressionError(
            f"call_packed({name!r}): {view.name} has strides of its own, while functions get "
            "arrays whose elements lie one after another; declare it without strides"
        )
    if isinstance(view, Buffer):
        memory = value.buffer if isinstance(value, BufferVar) else view
        shape = [as_expr(extent) for extent in view.shape]
        return [view.dtype, len(shape)], [Address(memory, as_expr(0), "rw", WHOLE), *shape]
    if isinstance(value, Address):
        raise ExpressionError(
            f"call_packed({name!r}): an address has no shape; pass the buffer {value.buffer.name}"
        )
    number = as_expr(value)
    if lanes_of(number.dtype) > 1 or number.dtype == "handle":
        raise ExpressionError(
            f"call_packed({name!r}): expected buffers, numbers and texts, got {value!r}"
        )
    if isinstance(number, FloatImm) or is_float(number.dtype):
        return REAL, [cast(number, "float64")]
    return INTEGER, [cast(number, "int64")]
