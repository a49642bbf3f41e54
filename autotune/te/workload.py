"""The text and the key of a workload, as the auto-scheduler's logs have them.

The key of a graph of computes is the MD5 of its text and the shapes of its arguments. So records
that TVM's auto-scheduler wrote are found again for graphs made here, provided that tensors and
axes have the names that they had there. The text is TVM's to the letter, also in what it leaves
out: the condition and the first value of a reduction, and the source of one that the user defined.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir import (
    Add,
    BinaryOp,
    Call,
    Cast,
    Conditional,
    Div,
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
from autotune.ir.dtype import FLOAT_LIMIT
from autotune.te.dag import post_order
from autotune.te.extern import ExternOp
from autotune.te.tensor import ComputeOp, Operation, ScanOp, Tensor

ASSIGN: dict[type[Expr], str] = {Add: "+=", Max: "max=", Min: "min="}
CALLED = {Min: "min", Max: "max", FloorDiv: "floordiv", FloorMod: "floormod"}
# These stand between their operands without blanks.
TIGHT: dict[type[Expr], str] = {Mul: "*", Div: "/", TruncDiv: "/"}
SUFFIX = {"float32": "f", "float16": "h", "float64": ""}


def workload_text(tensors: Iterable[Tensor], simple: bool = False) -> str:
    """Return the computes behind some tensors, one a line, as the auto-scheduler prints them.

    With ``simple``, the form whose hash makes the key: placeholders without their shapes, and of a
    value that is one function call just the name of the function.

    Example::

        A = PLACEHOLDER [64, 128]
        C(i, j) += (A[i, k]*B[k, j])
    """
    return graph_text(post_order(_operations(tensors)), simple)


def graph_text(ops: Iterable[Operation], simple: bool = False) -> str:
    """Return operations as text in the order given; see `workload_text`."""
    lines = []
    for op in ops:
        if isinstance(op, ExternOp):
            raise ExpressionError(
                f"{op.name} is a te.extern, which the auto-scheduler's records cannot name; "
                "schedule what is around it yourself, or by a template"
            )
        if isinstance(op, ComputeOp):
            lines += compute_lines(op, simple)
        elif isinstance(op, ScanOp):
            raise ExpressionError(
                f"{op.name} is a te.scan, which the auto-scheduler's records cannot name: its "
                "rows come one after another; schedule it yourself, or by a template"
            )
        else:
            lines.append(f"{op.name} = PLACEHOLDER {'' if simple else _shape(op)}")
    return "\n".join(lines) + "\n"


def first_text(ops: Iterable[Operation]) -> str:
    """Return operations as the text whose hash alone was the key until November 2020.

    It holds shapes and types of all, and no names of inputs but where they are read.
    """
    parts = []
    for op in ops:
        body = "placeholder"
        if isinstance(op, ComputeOp):
            body = f"[{', '.join(map(_first_body, op.body))}]"
        parts.append(f"{body},{tuple(op.outputs[0].shape)},{op.outputs[0].dtype};")
    return "".join(parts)


def _first_body(node: Expr) -> str:
    if not isinstance(node, Reduce):
        return _text(node)
    combiner = node.combiner
    names = ("result", "lhs", "rhs", "identity_element")
    values = (combiner.result, combiner.lhs, combiner.rhs, combiner.identity)
    parts = [f"{name}={_listed(each)}" for name, each in zip(names, values, strict=True)]
    axes = [f"iter_var({axis.name}, range(min=0, ext={axis.extent}))" for axis in node.axes]
    return (
        f"reduce(combiner=comm_reducer({', '.join(parts)}), source={_listed(node.sources)}, "
        f"init={_listed(node.init)}, axis=[{', '.join(axes)}], where=(bool)1, "
        f"value_index={node.value_index})"
    )


def _listed(nodes: Iterable[Expr]) -> str:
    return f"[{', '.join(map(_text, nodes))}]"


def digest(text: str) -> str:
    """Return the MD5 of a text in hexadecimal, which is not used for security."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _shape(op: Operation) -> str:
    """Return the shape of a placeholder; what is not constant is a question mark."""
    return f"[{', '.join(str(n) if isinstance(n, int) else '?' for n in op.outputs[0].shape)}]"


def workload_key(tensors: Sequence[Tensor]) -> str:
    """Return the key of the workload whose inputs and outputs are given, such as ``[A, B, C]``."""
    order = post_order(_operations(tensors))
    given = {tensor.op for tensor in tensors}
    inputs = [op for op in order if not isinstance(op, ComputeOp)]
    outputs = [op for op in order if isinstance(op, ComputeOp) and op in given]
    shapes = [list(tensor.shape) for op in (*inputs, *outputs) for tensor in op.outputs]
    return json.dumps([digest(workload_text(tensors, simple=True)), *shapes])


def _operations(tensors: Iterable[Tensor]) -> list[Operation]:
    """Return the operations of the outputs: what only others read is reached through these."""
    ops = list(dict.fromkeys(tensor.op for tensor in tensors))
    read = {tensor.op for op in post_order(ops) for tensor in op.input_tensors}
    return [op for op in ops if op not in read]


def compute_lines(op: ComputeOp, simple: bool = False) -> list[str]:
    """Return the lines of one operation, one for each of its outputs; see `workload_text`."""
    axes = ", ".join(axis.name for axis in op.axis)
    lines = []
    for index, value in enumerate(op.body):
        head = f"{op.name}({axes})" + (f".v{index}" if len(op.body) > 1 else "")
        if isinstance(value, Reduce):
            lines.append(head + _reduction(value))
        elif simple and isinstance(_as_call(value), Call):
            lines.append(f"{head} = Op(tir.{_as_call(value).name})")
        else:
            lines.append(f"{head} = {_text(value)}")
    return lines


def _reduction(node: Reduce) -> str:
    """Return what follows the name of a reduction; conditions and first values are left out."""
    combined = node.combiner.result[node.value_index]
    if type(combined) in ASSIGN:
        return f" {ASSIGN[type(combined)]} {_text(node.sources[0])}"
    if isinstance(combined, Select):
        return f" {_text(combined)}= ({','.join(map(_text, node.sources))})"
    return f"reduce{_text(combined)}"


def _as_call(node: Expr) -> Any:
    """Return a conditional in TVM's form, a call, and any other expression unchanged."""
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
            # Where we have an infinity, as around maxima, TVM has the largest finite number.
            number = f"{max(min(value, FLOAT_LIMIT[dtype]), -FLOAT_LIMIT[dtype]):.6g}"
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
    if kind in TIGHT:
        return f"({a}{TIGHT[kind]}{b})"
    return f"({a} {'%' if kind is TruncMod else node.symbol} {b})"
