"""The graph of computes behind some outputs: its order, and its text."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.te.tensor import ComputeOp, Operation


def post_order(outputs: Iterable[Operation]) -> list[Operation]:
    """Return the operations behind ``outputs``, each after all that it reads."""
    order: dict[Operation, None] = {}
    todo = [(op, False) for op in reversed(list(outputs))]
    while todo:
        op, ready = todo.pop()
        if op in order:
            continue
        if ready:
            order[op] = None
            continue
        todo.append((op, True))
        todo.extend((tensor.op, False) for tensor in reversed(op.input_tensors))
    return list(order)


def dag_text(outputs: Iterable[Operation]) -> str:
    """Return the computes behind ``outputs`` as text, one line for each tensor.

    Two graphs of the same text compute the same.
    """
    lines = []
    for op in post_order(outputs):
        shape = ", ".join(str(n) for n in op.outputs[0].shape)
        if not isinstance(op, ComputeOp):
            lines.append(f"{op.name} = PLACEHOLDER {op.outputs[0].dtype}[{shape}]")
            continue
        axes = ", ".join(axis.name for axis in op.axis)
        for tensor, value in zip(op.outputs, op.body, strict=True):
            lines.append(f"{tensor.name}({axes}) = {value}  # {tensor.dtype}[{shape}]")
    return "\n".join(lines)
