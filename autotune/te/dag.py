"""The graph of computes behind some outputs: its order, and its text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from autotune.ir import Call, Printer, Stmt
from autotune.ir.address import Address
from autotune.ir.structure import walk
from autotune.te.extern import ExternOp
from autotune.te.tensor import ComputeOp, Operation, ScanOp, Tensor


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
        # A state that no update reads has its place in the memory of a scan too.
        states = op.state_placeholder if isinstance(op, ScanOp) else ()
        read = (*op.input_tensors, *states)
        todo.extend((tensor.op, False) for tensor in reversed(read))
    return list(order)


def dag_text(outputs: Iterable[Operation]) -> str:
    """Return the computes behind ``outputs`` as text, one line for each tensor.

    Tensors of the same name are distinguished by a number. Graphs of equal text are equivalent.
    """
    order = post_order(outputs)
    names = _distinct_names(order)
    lines = []
    for op in order:
        shape = ", ".join(str(n) for n in op.outputs[0].shape)
        if isinstance(op, ScanOp):
            lines += [
                f"{names[tensor]} = SCAN {names[op.init[i]]}, {names[op.update[i]]}, "
                f"{names[op.state_placeholder[i]]}  # {tensor.dtype}"
                f"[{', '.join(map(str, tensor.shape))}]"
                for i, tensor in enumerate(op.outputs)
            ]
            continue
        if isinstance(op, ExternOp):
            lines += extern_lines(op, names)
            continue
        if not isinstance(op, ComputeOp):
            lines.append(f"{names[op.outputs[0]]} = PLACEHOLDER {op.outputs[0].dtype}[{shape}]")
            continue
        printer = Printer(names)
        axes = ", ".join(printer.expr(axis.var) for axis in op.axis)
        for tensor, value in zip(op.outputs, op.body, strict=True):
            text = printer.expr(value)
            lines.append(f"{names[tensor]}({axes}) = {text}  # {tensor.dtype}[{shape}]")
    return "\n".join(lines)


def extern_lines(op: ExternOp, names: Mapping[Tensor, str]) -> list[str]:
    """Return the statements of an operation as text, after the names of its tensors."""
    printer = Printer()
    shown = ", ".join(names.get(tensor, tensor.name) for tensor in op.inputs)
    results = ", ".join(f"{names[t]}: {t.dtype}{list(map(str, t.shape))}" for t in op.outputs)
    buffers = [f"  {printer.name_of(each)}: {each}" for each in op.buffers]
    stmts = [*printer.stmt(op.body, "  "), *unprinted(op.body)]
    return [f"{results} = EXTERN {shown}", *buffers, *stmts]


def unprinted(stmt: Stmt) -> list[str]:
    """Return what the text of statements leaves out: dtypes of calls, and uses of addresses."""
    nodes = [node for node in walk(stmt) if isinstance(node, Call | Address)]
    return [
        f"  {node.access} {node.extent}" if isinstance(node, Address) else f"  {node.dtype}"
        for node in nodes
    ]


def _distinct_names(order: Iterable[Operation]) -> dict[Tensor, str]:
    names: dict[Tensor, str] = {}
    taken: set[str] = set()
    for op in order:
        for tensor in op.outputs:
            name = tensor.name
            count = 0
            while name in taken:
                count += 1
                name = f"{tensor.name}.{count}"
            taken.add(name)
            names[tensor] = name
    return names
