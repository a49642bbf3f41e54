"""Readable text of expressions and statements, the same in every run: golden files hold it.

    fn add(A: in float32[64], B: out float32[64]):
      for i.outer in 0..16:  # parallel
        for i.inner in 0..4:  # vectorized
          B[i.outer * 4 + i.inner] = A[i.outer * 4 + i.inner] + 1.0f

Different variables or buffers of one name within one text are told apart by a number: ``i``,
``i.1``. Float constants carry ``f`` (float32), ``h`` (float16), ``bf`` (bfloat16) or nothing
(float64); an integer of another dtype than int32 stands in a call: ``int64(3)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from autotune.ir import base, stmt
from autotune.ir.address import Address
from autotune.ir.base import BinaryOp, Call, Cast, Expr, FloatImm, IntImm, Not, Var
from autotune.ir.dispatch import Dispatcher
from autotune.ir.expr import (
    Add,
    And,
    Broadcast,
    CompareOp,
    Conditional,
    Div,
    FloorDiv,
    FloorMod,
    Load,
    Max,
    Min,
    Mul,
    Or,
    ProducerLoad,
    Ramp,
    Reduce,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
)
from autotune.ir.node import Node
from autotune.ir.stmt import (
    Allocate,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Buffer,
    Evaluate,
    For,
    ForKind,
    Function,
    If,
    LetStmt,
    Seq,
    Stmt,
    Store,
    While,
    one_of_all,
)
from autotune.utils.assert_never import assert_never

FLOAT_SUFFIX = {"float32": "f", "float16": "h", "bfloat16": "bf", "float64": ""}
PRECEDENCE: dict[type[Expr], int] = {
    Or: 1, And: 2, Add: 4, Sub: 4, Mul: 5, Div: 5, TruncDiv: 5, TruncMod: 5,
}  # fmt: skip
COMPARE = 3
CALLED = (Min, Max, FloorDiv, FloorMod)
# The text of an operator where it is not its symbol: ``/`` and ``%`` mean what they do in C.
NAMES: dict[type[Expr], str] = {
    TruncDiv: "/", TruncMod: "%", FloorDiv: "floordiv", FloorMod: "floormod",
}  # fmt: skip


# Statements that hold no other.
Leaf = Store | Evaluate | Barrier | AsyncCopy | AsyncCommit | AsyncWait


class Named(Protocol):
    """A variable, a buffer or a tensor."""

    @property
    def name(self) -> str:
        """The name that it is printed by, where no other has it."""


class Printer(Dispatcher):
    """Prints nodes; one printer gives one name to one variable or buffer.

    ``tensors`` names tensors that should not go by their own name.
    """

    def __init__(self, tensors: Mapping[Any, str] | None = None) -> None:
        self._tensors = tensors or {}
        self._names: dict[object, str] = {}
        self._taken: dict[str, int] = {}

    def name_of(self, thing: Named) -> str:
        """Return the name of a variable or buffer, made different from all others so far."""
        name = self._names.get(thing)
        if name is None:
            wanted = name = thing.name
            while name in self._taken:
                self._taken[wanted] += 1
                name = f"{wanted}.{self._taken[wanted]}"
            self._taken[name] = 0
            self._names[thing] = name
        return name

    def expr(self, node: object, within: int = 0) -> str:
        """Return the text of an expression, in parentheses where ``within`` binds tighter."""
        if isinstance(node, BinaryOp) and not isinstance(node, CALLED):
            level = COMPARE if isinstance(node, CompareOp) else PRECEDENCE[type(node)]
            # a - (b + c), and a compare of a compare, keep their parentheses.
            left = self.expr(node.a, level + isinstance(node, CompareOp))
            symbol = NAMES.get(type(node), node.symbol)
            text = f"{left} {symbol} {self.expr(node.b, level + 1)}"
            return f"({text})" if level < within else text
        whole: str = self.methods[type(node)](self, node)
        return whole

    def generic(self, node: object) -> str:
        """Return the text of what is no node, such as a number."""
        return str(node)

    def _all(self, nodes: tuple[object, ...]) -> str:
        return ", ".join(self.expr(node) for node in nodes)

    def visit_Var(self, node: Var) -> str:
        """Return the name."""
        return self.name_of(node)

    def visit_IntImm(self, node: IntImm) -> str:
        """Return the number, with its dtype where that is not the usual one."""
        if node.dtype == "int32":
            return str(node.value)
        if node.dtype == "bool":
            return "true" if node.value else "false"
        return f"{node.dtype}({node.value})"

    def visit_FloatImm(self, node: FloatImm) -> str:
        """Return the number, with a suffix for its dtype."""
        return f"{node.value!r}{FLOAT_SUFFIX[node.dtype]}"

    def visit_Cast(self, node: Cast) -> str:
        """Return the dtype like a function."""
        return f"{node.dtype}({self.expr(node.value)})"

    def visit_Call(self, node: Call) -> str:
        """Return the call."""
        return f"{node.name}({self._all(node.args)})"

    def visit_BinaryOp(self, node: BinaryOp) -> str:
        """Return an operator that is written like a function."""
        name = NAMES.get(type(node), node.symbol)
        return f"{name}({self.expr(node.a)}, {self.expr(node.b)})"

    def visit_Not(self, node: Not) -> str:
        """Return the negation."""
        return f"!({self.expr(node.a)})"

    def visit_Conditional(self, node: Conditional) -> str:
        """Return the choice like a function."""
        name = "select" if isinstance(node, Select) else "if_then_else"
        return f"{name}({self._all((node.cond, node.then, node.other))})"

    def visit_Load(self, node: Load) -> str:
        """Return the element."""
        return f"{self.name_of(node.buffer)}[{self._all(node.indices)}]"

    def visit_Address(self, node: Address) -> str:
        """Return the address of the element."""
        return f"&{self.name_of(node.buffer)}[{self.expr(node.index)}]"

    def visit_ProducerLoad(self, node: ProducerLoad) -> str:
        """Return the element of the tensor."""
        name = self._tensors.get(node.tensor, node.tensor.name)
        return f"{name}[{self._all(node.indices)}]"

    def visit_Reduce(self, node: Reduce) -> str:
        """Return the reduction with its axes."""
        axes = ", ".join(self.expr(axis.var) for axis in node.axes)
        text = f"{node.combiner.name}({self._all(node.sources)}, axis=[{axes}]"
        if not (isinstance(node.condition, IntImm) and node.condition.value):
            text += f", where={self.expr(node.condition)}"
        if node.init:
            text += f", init=[{self._all(node.init)}]"
        if len(node.sources) > 1:
            return f"{text})[{node.value_index}]"
        return f"{text})"

    def visit_Ramp(self, node: Ramp) -> str:
        """Return the indices like a function."""
        return f"ramp({self.expr(node.base)}, {node.stride}, {node.lanes})"

    def visit_Broadcast(self, node: Broadcast) -> str:
        """Return the lanes like a function."""
        return f"broadcast({self.expr(node.value)}, {node.lanes})"

    def stmt(self, node: Stmt, indent: str = "") -> list[str]:
        """Return the lines of a statement."""
        if isinstance(node, Function):
            return self._function(node, indent)
        match one_of_all(node):
            case Seq(stmts):
                return [line for each in stmts for line in self.stmt(each, indent)]
            case For() as loop:
                return [indent + self._for_head(loop), *self.stmt(loop.body, indent + "  ")]
            case While(cond, body):
                return [f"{indent}while {self.expr(cond)}:", *self.stmt(body, indent + "  ")]
            case If() as choice:
                return self._if(choice, indent)
            case Allocate(buffer, body):
                return [f"{indent}allocate {self._declare(buffer)}", *self.stmt(body, indent)]
            case LetStmt(var, value, body):
                text = self.expr(value)
                return [f"{indent}let {self.name_of(var)} = {text}", *self.stmt(body, indent)]
            case leaf:
                return [indent + self._leaf(leaf)]

    def _leaf(self, node: Leaf) -> str:
        """Return the text of a statement that holds no other."""
        match node:
            case Store(buffer, indices, value):
                return f"{self.name_of(buffer)}[{self._all(indices)}] = {self.expr(value)}"
            case Evaluate(value):
                return self.expr(value)
            case Barrier(scope):
                return f"barrier({scope})"
            case AsyncCopy(dst, dst_index, src, src_index, size):
                to = f"{self.name_of(dst)}[{self.expr(dst_index)}]"
                source = f"{self.name_of(src)}[{self.expr(src_index)}]"
                return f"async_copy {to} <- {source}, {size} bytes"
            case AsyncCommit():
                return "async_commit"
            case AsyncWait(pending):
                return f"async_wait({pending})"
            case other:
                assert_never(other)

    def _for_head(self, node: For) -> str:
        notes = [] if node.kind is ForKind.SERIAL else [node.thread or node.kind.value]
        notes += [f"{key}={value}" for key, value in node.annotations.items()]
        comment = f"  # {', '.join(notes)}" if notes else ""
        return f"for {self.name_of(node.var)} in 0..{self.expr(node.extent, 6)}:{comment}"

    def _if(self, node: If, indent: str) -> list[str]:
        lines = [f"{indent}if {self.expr(node.cond)}:", *self.stmt(node.then, indent + "  ")]
        if node.other is not None:
            lines += [f"{indent}else:", *self.stmt(node.other, indent + "  ")]
        return lines

    def _declare(self, buffer: Buffer) -> str:
        dims = ", ".join(map(str, buffer.shape))
        text = f"{self.name_of(buffer)}: {buffer.dtype}[{dims}] @{buffer.scope}"
        if buffer.strides != stmt.row_major(buffer.shape):
            text += f" strides=[{', '.join(map(str, buffer.strides))}]"
        return text

    def _function(self, node: Function, indent: str) -> list[str]:
        args = []
        for buffer, role in zip(node.args, node.roles, strict=True):
            dims = ", ".join(map(str, buffer.shape))
            args.append(f"{self.name_of(buffer)}: {role} {buffer.dtype}[{dims}]")
        head = f"{indent}fn {node.name}({', '.join(args)}):"
        return [head, *self.stmt(node.body, indent + "  ")]


def to_text(node: Node) -> str:
    """Return the readable text of an expression or statement; ``str(node)`` is the same."""
    printer = Printer()
    if isinstance(node, Stmt):
        return "\n".join(printer.stmt(node))
    return printer.expr(node)


base.PRINTER[0] = to_text
stmt.STMT_PRINTER[0] = to_text
