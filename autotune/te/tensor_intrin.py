"""Tensor intrinsics: a small computation, and the statements that carry it out.

`Stage.tensorize` replaces the loops of a stage that compute just that by the statements.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from autotune.errors import ScheduleError
from autotune.ir import Evaluate, Expr, Printer, Stmt
from autotune.te.dag import dag_text, unprinted
from autotune.te.declared_buffer import DeclaredBuffer, decl_buffer
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor

_HASH_LENGTH = 16


@dataclass(frozen=True, eq=False)
class TensorIntrin:
    """A computation and the statements for it.

    Attributes:
        name: for messages.
        op: the computation.
        buffers: of its inputs and outputs, as the statements use them.
        body: computes the outputs.
        reset: gives outputs of a reduction their first values, if there is such a statement.
        update: adds to the outputs of a reduction, if there is such a statement.
        key: the name and a hash of all the rest, equal for equal intrinsics.
    """

    name: str
    op: ComputeOp
    buffers: Mapping[Tensor, DeclaredBuffer]
    body: Stmt
    reset: Stmt | None
    update: Stmt | None
    key: str


# The intrinsics that are in use, by key: what a recorded step names.
_IN_USE: WeakValueDictionary[str, TensorIntrin] = WeakValueDictionary()


def intrin_by_key(key: str) -> TensorIntrin:
    """Return an intrinsic that this process has declared and still holds.

    Raises:
        ScheduleError: there is none of this key.
    """
    found = _IN_USE.get(key)
    if found is None:
        raise ScheduleError(
            f"tensorize: the intrinsic {key} is not declared in this process; declare it as the "
            "script that recorded the step did"
        )
    return found


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, DeclaredBuffer] | None = None,
    scalar_params: object = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """Declare statements that carry out a computation.

    Args:
        op: the computation: a `te.compute` of placeholders.
        fcompute: called with the lists of the buffers of its inputs, in the order they are read,
            and of its outputs. It returns a statement, or for a reduction three: one for all of
            it, one that sets first values, and one that adds to what is there.
        name: for messages.
        binds: buffers, by tensor; others are dense, and begin anywhere.
        scalar_params: not taken.
        default_buffer_params: arguments of `decl_buffer` for the others.

    Raises:
        ScheduleError: ``op`` is no compute of placeholders, or ``fcompute`` returns no statement.
    """
    what = f"decl_tensor_intrin({name!r})"
    if not isinstance(op, ComputeOp):
        raise ScheduleError(f"{what}: expected the operation of a te.compute, got {op!r}")
    if scalar_params is not None:
        raise ScheduleError(f"{what}: scalar_params are not taken; read a tensor of one element")
    for tensor in op.input_tensors:
        if not isinstance(tensor.op, PlaceholderOp):
            raise ScheduleError(
                f"{what}: {op.name} reads {tensor.name}, which is computed; expected a single "
                "computation of placeholders"
            )
    given = dict(binds or {})
    buffers = {
        tensor: given.get(tensor) or _buffer_of(tensor, dict(default_buffer_params or {}))
        for tensor in (*op.input_tensors, *op.outputs)
    }
    inputs = [buffers[tensor] for tensor in op.input_tensors]
    outputs = [buffers[tensor] for tensor in op.outputs]
    body, reset, update = _statements(what, fcompute(inputs, outputs))
    text = _text(op, buffers, (body, reset, update))
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_HASH_LENGTH]
    key = f"{name}:{digest}"
    made = TensorIntrin(name, op, buffers, body, reset, update, key)
    return _IN_USE.setdefault(key, made)


def _buffer_of(tensor: Tensor, params: dict[str, Any]) -> DeclaredBuffer:
    return decl_buffer(tensor.shape, tensor.dtype, tensor.name, **params)


def _statements(what: str, returned: Any) -> tuple[Stmt, Stmt | None, Stmt | None]:
    listed: Sequence[Any] = returned if isinstance(returned, tuple | list) else (returned,)
    made = [Evaluate(each) if isinstance(each, Expr) else each for each in listed]
    wrong = [each for each in made if each is not None and not isinstance(each, Stmt)]
    if not 1 <= len(made) <= 3 or wrong or made[0] is None:
        raise ScheduleError(
            f"{what}: expected a statement, or for a reduction those for all of it, for first "
            f"values and for an update, got {returned!r}"
        )
    body, reset, update = (*made, None, None)[:3]
    assert body is not None
    return body, reset, update


def _text(
    op: ComputeOp, buffers: Mapping[Tensor, DeclaredBuffer], stmts: Sequence[Stmt | None]
) -> str:
    """Return all that an intrinsic is, as text."""
    printer = Printer()
    lines = [dag_text([op])]
    for buffer in buffers.values():
        names = [printer.name_of(buffer), printer.expr(buffer.elem_offset)]
        parts = [printer.expr(each) for each in (*buffer.shape, *buffer.strides)]
        lines.append(f"{names} {parts} {buffer.dtype} {buffer.scope} {buffer.offset_factor}")
    for stmt in stmts:
        lines += ["--", *([*printer.stmt(stmt), *unprinted(stmt)] if stmt is not None else [])]
    return "\n".join(lines)
