"""The text and the key of a workload, as the auto-scheduler's logs have them.

The key of a graph of computes is the MD5 of its text and the shapes of its arguments. So records
that TVM's auto-scheduler wrote are found again for graphs made here, provided that tensors and
axes have the names that they had there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir import (
    BinaryOp,
    Call,
    Cast,
    Conditional,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    ProducerLoad,
    Reduce,
    Select,
    TruncDiv,
    TruncMod,
    Var,
)
from autotune.te.dag import post_order
from autotune.te.tensor import ComputeOp, Operation, Tensor

ASSIGN = {"sum": "+=", "max": "max=", "min": "min="}
CALLED = {Min: "min", Max: "max", FloorDiv: "floordiv", FloorMod: "floormod"}
# These stand between their operands without blanks.
TIGHT = {Mul: "*", TruncDiv: "/", TruncMod: "%"}
SUFFIX = {"float32": "f", "float16": "h"}


def workload_text(tensors: Iterable[Tensor], simple: bool = False) -> str:
    """Return the computes behind some tensors, one a line, as the auto-scheduler prints them.

    With ``simple``, the form whose hash makes the key: placeholders without their shapes, and of a
    value that is one function call just the name of the function.

    Example::

        A = PLACEHOLDER [64, 128]
        C(i, j) += (A[i, k]*B[k, j])
    """
    lines = []
    for op in post_order(_operations(tensors)):
        if isinstance(op, ComputeOp):
            lines += _compute_lines(op, simple)
        else:
            shape = "" if simple else str(list(op.outputs[0].shape))
            lines.append(f"{op.name} = PLACEHOLDER {shape}")
    return "\n".join(lines) + "\n"


def workload_key(tensors: Sequence[Tensor]) -> str:
    """Return the key of the workload whose inputs and outputs are given, such as ``[A, B, C]``."""
    digest = hashlib.md5(workload_text(tensors, True).encode(), usedforsecurity=False).hexdigest()
    order = post_order(_operations(tensors))
    given = {tensor.op for tensor in tensors}
    inputs = [op for op in order if not isinstance(op, ComputeOp)]
    outputs = [op for op in order if isinstance(op, ComputeOp) and op in given]
    shapes = [list(tensor.shape) for op in (*inputs, *outputs) for tensor in op.outputs]
    return json.dumps([digest, *shapes])


def _operations(tensors: Iterable[Tensor]) -> list[Operation]:
    """Return the operations of the outputs: what only others read is reached through these."""
    ops = list(dict.fromkeys(tensor.op for tensor in tensors))
    read = {tensor.op for op in post_order(ops) for tensor in op.input_tensors}
    return [op for op in ops if op not in read]


def _compute_lines(op: ComputeOp, simple: bool) -> list[str]:
    axes = ", ".join(axis.name for axis in op.axis)
    lines = []
    for tensor, value in zip(op.outputs, op.body, strict=True):
        head = f"{tensor.name}({axes})"
        if isinstance(value, Reduce):
            lines.append(f"{head} {_reduction(value)}")
        elif simple and isinstance(_as_call(value), Call):
            lines.append(f"{head} = Op(tir.{_as_call(value).name})")
        else:
            lines.append(f"{head} = {_text(value)}")
    return lines


def _reduction(node: Reduce) -> str:
    where = "" if isinstance(node.condition, IntImm) else f" where {_text(node.condition)}"
    start = f" from {', '.join(map(_text, node.init))}" if node.init else ""
    if node.combiner.name in ASSIGN:
        return f"{ASSIGN[node.combiner.name]} {_text(node.sources[0])}{where}{start}"
    combined = ", ".join(map(_text, node.combiner.result))
    sources = ", ".join(map(_text, node.sources))
    return f"= reduce({combined})[{node.value_index}] over {sources}{where}{start}"


def _as_call(node: Expr) -> Any:
    """Return a conditional as the call that it is in TVM, and all else as it is."""
    if isinstance(node, Conditional) and not isinstance(node, Select):
        return Call("if_then_else", (node.cond, node.then, node.other), node.dtype)
    return node


def _text(node: Expr) -> str:
    match node:
        case Var(name):
            return name
        case IntImm(value, dtype):
            return str(value) if dtype == "int32" else f"({dtype}){value}"
        case FloatImm(value, dtype):
            number = f"{value:.6g}"
            return f"{number}{SUFFIX[dtype]}" if dtype in SUFFIX else f"({dtype}){number}"
        case ProducerLoad(tensor, indices):
            return f"{tensor.name}[{', '.join(map(_text, indices))}]"
        case Cast(value, dtype):
            return f"{dtype}({_text(value)})"
        case Select(cond, then, other):
            return f"select({_text(cond)}, {_text(then)}, {_text(other)})"
        case Conditional():
            return _text(_as_call(node))
        case Call(name, args):
            return f"tir.{name}({', '.join(map(_text, args))})"
        case Not(a):
            return f"!{_text(a)}"
        case BinaryOp(a, b):
            return _binary(node, _text(a), _text(b))
        case _:
            raise ExpressionError(f"a {type(node).__name__} has no text in a workload: {node}")


def _binary(node: BinaryOp, a: str, b: str) -> str:
    kind = type(node)
    if kind in CALLED:
        return f"{CALLED[kind]}({a}, {b})"
    if kind in TIGHT or node.symbol == "/":
        return f"({a}{TIGHT.get(kind, '/')}{b})"
    return f"({a} {node.symbol} {b})"
