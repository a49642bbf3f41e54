"""Expressions as C text, with parentheses only where precedence or readability needs them."""

from __future__ import annotations

import math
from typing import TypeGuard

from autotune.codegen import registered_calls
from autotune.codegen.dialect import Dialect, ScalarType
from autotune.codegen.extern_calls import OF_NUMBERS
from autotune.codegen.fragments import HEADER, Fragment, call_text
from autotune.codegen.identifiers import Names
from autotune.codegen.literals import float_text, int_text
from autotune.codegen.registered_calls import CALLER
from autotune.errors import LoweringError
from autotune.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Conditional,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    int_range,
    is_float,
)
from autotune.ir.address import EXTERN, Address
from autotune.ir.dispatch import Dispatcher
from autotune.ir.registered import REGISTERED
from autotune.te.declared_buffer import LOAD_WORD
from autotune.te.warp_matrix import WARP_MATRIX

Text = tuple[str, int]  # what is written, and how tightly its outermost operator binds

# FACTORS is a product without divisions: a * (b % c * d) is not a * b % c * d.
ATOM, UNARY, FACTORS, PRODUCT, SUM, SHIFT, COMPARE = 16, 15, 14, 13, 12, 11, 10
EQUAL, BIT_AND, BIT_XOR, BIT_OR, AND, OR, CHOICE = 9, 8, 7, 6, 5, 4, 3

# class -> (operator, binding of the result, least binding of the left and right operand)
INFIX: dict[type[BinaryOp], tuple[str, int, int, int]] = {
    Add: ("+", SUM, SUM, SUM),
    Sub: ("-", SUM, SUM, PRODUCT),
    Mul: ("*", PRODUCT, PRODUCT, FACTORS),
    Div: ("/", PRODUCT, PRODUCT, UNARY),
    TruncDiv: ("/", PRODUCT, PRODUCT, UNARY),
    TruncMod: ("%", PRODUCT, PRODUCT, UNARY),
    LT: ("<", COMPARE, SHIFT, SHIFT),
    LE: ("<=", COMPARE, SHIFT, SHIFT),
    GT: (">", COMPARE, SHIFT, SHIFT),
    GE: (">=", COMPARE, SHIFT, SHIFT),
    EQ: ("==", EQUAL, SHIFT, SHIFT),
    NE: ("!=", EQUAL, SHIFT, SHIFT),
    And: ("&&", AND, AND, AND),
    Or: ("||", OR, EQUAL, EQUAL),
}
BITWISE = {
    "bitwise_and": ("&", BIT_AND),
    "bitwise_or": ("|", BIT_OR),
    "bitwise_xor": ("^", BIT_XOR),
    "shift_left": ("<<", SHIFT),
    "shift_right": (">>", SHIFT),
}
THREADS = {f"{word}Idx.{d}": word[0] + d for word in ("block", "thread") for d in "xyz"}
# Not associative when rounded: a + (b + c) of floats keeps its parentheses.
_ROUNDED = (Add, Mul)


def in_order_of_nan(node: Min | Max) -> tuple[Expr, Expr]:
    """Return the sides of a function that is the second one where either is a NaN.

    Beside a constant a NaN stays one, as in PyTorch's ReLU. What was found so far stands first in
    reductions; it comes second, as fewer instructions wait for that side.
    """
    if not is_float(node.dtype) or isinstance(node.a, FloatImm):
        return node.a, node.b
    return node.b, node.a


def extreme_of(node: Min | Max) -> str:
    """Return the function of a dialect in which one instruction may lose the NaN of a side."""
    name = "min" if isinstance(node, Min) else "max"
    is_one_known = any(
        isinstance(x, FloatImm) and not math.isnan(x.value) for x in (node.a, node.b)
    )
    return name if is_one_known or not is_float(node.dtype) else f"{name}_or_nan"


def _is_positive(node: Expr) -> TypeGuard[IntImm]:
    """Return whether a node is a constant above zero."""
    return isinstance(node, IntImm) and node.value > 0


class ExpressionPrinter(Dispatcher):
    """Prints scalar expressions. Equal nodes are printed once: the text of each is kept.

    Args:
        dialect: the tables.
        names: of variables and buffers.
        needs: collects the headers and helpers that the text needs.
    """

    def __init__(self, dialect: Dialect, names: Names, needs: set[str]) -> None:
        self.dialect = dialect
        self.names = names
        self.needs = needs
        self.kept: dict[Expr, Text] = {}
        self.threads: set[str] = set()  # the thread indices that occurred
        self.divides = False  # whether there is a division of integers
        self._scalars: dict[str, ScalarType] = {}
        self.fragments: dict[Buffer, Fragment] = {}

    def text(self, expr: Expr, least: int = 0) -> str:
        """Return an expression as text that binds at least as tightly as ``least``."""
        text, binding = self.kept.get(expr) or self.print(expr)
        return text if binding >= least else f"({text})"

    def binding(self, expr: Expr) -> int:
        """Return how tightly the outermost operator of an expression's text binds."""
        return (self.kept.get(expr) or self.print(expr))[1]

    def print(self, expr: Expr) -> Text:
        """Return the text of an expression and keep it."""
        result: Text = self.methods[type(expr)](self, expr)
        self.kept[expr] = result
        return result

    def generic(self, node: Expr) -> object:
        """Refuse what lowering should have replaced."""
        raise LoweringError(f"no C text for {type(node).__name__} in {node}")

    def scalar_of(self, dtype: str) -> ScalarType:
        """Return how values of ``dtype`` are written, and note what that needs."""
        scalar = self._scalars.get(dtype)
        if scalar is None:
            scalar = self.dialect.scalars.get(dtype)
            if scalar is None:
                raise LoweringError(f"no C type for dtype {dtype!r}")
            self.needs.update(scalar.needs)
            self._scalars[dtype] = scalar
        return scalar

    # -- leaves ------------------------------------------------------------------------------

    def visit_Var(self, node: Var) -> Text:
        """A variable, which a loop or a let has named, or a thread index."""
        if node in self.names:
            return self.names[node], ATOM
        short = THREADS.get(node.name)
        if short is None:
            # Lowering promises closed bodies: this is a fault of ours, not of a schedule.
            raise AssertionError(f"variable {node.name!r} is used outside of what defines it")
        self.threads.add(node.name)
        return short, ATOM

    def visit_IntImm(self, node: IntImm) -> Text:
        """An integer constant."""
        self.scalar_of(node.dtype)  # C has `true` and `false` in a header
        text = int_text(node.value, node.dtype)
        return text, UNARY if node.value < 0 else ATOM

    def visit_FloatImm(self, node: FloatImm) -> Text:
        """A floating-point constant; infinity and NaN go by name."""
        scalar = self.scalar_of(node.dtype)
        column, value = scalar.functions, node.value
        if math.isnan(value):
            self.needs.add("math.h")
            text = self.dialect.nan[column]
        elif math.isinf(value):
            self.needs.add("math.h")
            text = ("-" if value < 0 else "") + self.dialect.infinity[column]
        else:
            text = float_text(value, column != "double")
        if scalar.literal != "{}":
            return scalar.literal.format(text), ATOM
        return text, UNARY if text.startswith("-") else ATOM

    def visit_Load(self, node: Load) -> Text:
        """A read of one element."""
        scalar = self.scalar_of(node.buffer.dtype)
        text = self.element(node.buffer, node.indices[0])
        if scalar.load == "{}":
            return text, ATOM
        text = scalar.load.format(text)
        return text, UNARY if text.startswith("(") else ATOM

    def element(self, buffer: object, index: Expr) -> str:
        """Return the text of an element of a buffer, in the type of its storage."""
        return f"{self.names[buffer]}[{self.text(index)}]"

    # -- operators ---------------------------------------------------------------------------

    def visit_BinaryOp(self, node: BinaryOp) -> Text:
        """An operator that C writes between its operands."""
        symbol, binding, left, right = INFIX[type(node)]
        kind = type(node)
        a, b = node.a, node.b
        if kind is TruncDiv or kind is TruncMod:
            self.divides = True
        if kind in _ROUNDED and is_float(node.dtype):
            right += 1
        if kind is Add and isinstance(b, IntImm) and int_range(b.dtype)[0] < b.value < 0:
            symbol, b = "-", IntImm(-b.value, b.dtype)
        elif kind is Mul and isinstance(b, IntImm | FloatImm) and b.value == -1:
            return self.narrowed(self.scalar_of(node.dtype), f"-{self.text(a, ATOM)}", UNARY)
        if kind is Mul and self.binding(a) >= FACTORS:
            binding = FACTORS
        text = f"{self.text(a, left)} {symbol} {self.text(b, right)}"
        narrow = symbol in "+-*" or (kind is TruncDiv and not _is_positive(b))
        scalar = self.scalar_of(node.dtype)
        return self.narrowed(scalar, text, binding) if narrow else (text, binding)

    def narrowed(self, scalar: ScalarType, text: str, binding: int) -> Text:
        """Return a value that C may have promoted to ``int``, converted to its dtype."""
        if not scalar.promotes:
            return text, binding
        return f"({scalar.value}){text if binding >= UNARY else f'({text})'}", UNARY

    def visit_FloorDiv(self, node: FloorDiv | FloorMod) -> Text:
        """Division that rounds down: a shift or mask if it can be, else a helper function."""
        is_division = isinstance(node, FloorDiv)
        if _is_positive(node.b):
            value = node.b.value
            if value & (value - 1) == 0:
                a = self.text(node.a, UNARY)
                if is_division:
                    return f"{a} >> {value.bit_length() - 1}", SHIFT
                return f"{a} & {value - 1}", BIT_AND
        if node.dtype.startswith("uint"):  # nothing is negative: C rounds down too
            return self.visit_BinaryOp((TruncDiv if is_division else TruncMod)(node.a, node.b))
        helper = ("floor_div" if is_division else "floor_mod") + (
            "_i64" if node.dtype.endswith("64") else "_i32"
        )
        self.needs.add(helper)
        text = f"{helper}({self.text(node.a)}, {self.text(node.b)})"
        return (
            (text, ATOM)
            if _is_positive(node.b)
            else self.narrowed(self.scalar_of(node.dtype), text, ATOM)
        )

    visit_FloorMod = visit_FloorDiv

    def visit_Extremum(self, node: Min | Max) -> Text:
        """The smaller or larger of two values, by the function table."""
        if self.dialect.second_of_nan:
            return self.visit_Call(Call(extreme_of(node), in_order_of_nan(node)))
        return self.visit_Call(Call("min" if isinstance(node, Min) else "max", (node.a, node.b)))

    def visit_Not(self, node: Not) -> Text:
        """Logical negation."""
        return f"!{self.text(node.a, ATOM)}", UNARY

    def visit_Conditional(self, node: Conditional) -> Text:
        """A choice between two values."""
        condition = self.text(node.cond, UNARY)
        then, other = self.text(node.then, CHOICE + 1), self.text(node.other, CHOICE)
        return f"{condition} ? {then} : {other}", CHOICE

    # -- calls and conversions ---------------------------------------------------------------

    def visit_Call(self, node: Call) -> Text:
        """A function of the function table or of the script, or a bitwise operator."""
        if node.name.startswith(EXTERN):
            name = node.name.removeprefix(EXTERN)
            if name in OF_NUMBERS:
                self.needs.add("math.h")
            return f"{name}({', '.join(map(self.text, node.args))})", ATOM
        if node.name.startswith(REGISTERED):
            self.needs.add(CALLER)
            return registered_calls.call_text(node, [self.text(arg) for arg in node.args]), UNARY
        if node.name == LOAD_WORD:
            return self.word(node), UNARY
        if node.name.startswith(WARP_MATRIX):
            self.needs.add(HEADER)
            return call_text(node, [self.text(arg) for arg in node.args]), ATOM
        if node.name in BITWISE:
            symbol, binding = BITWISE[node.name]
            a, b = (self.text(arg, UNARY) for arg in node.args)
            if node.name == "shift_left":
                return self.narrowed(self.scalar_of(node.dtype), f"{a} {symbol} {b}", binding)
            return f"{a} {symbol} {b}", binding
        if node.name == "bitwise_not":
            return self.narrowed(
                self.scalar_of(node.dtype), f"~{self.text(node.args[0], UNARY)}", UNARY
            )
        dtype = node.args[0].dtype if node.args else node.dtype
        row = self.dialect.functions.get(node.name, {})
        template = row.get(self.scalar_of(dtype).functions) or row.get("*")
        if template is None:
            raise LoweringError(f"no C function for {node.name} of {dtype}, in {node}")
        if template.startswith("#"):  # a helper of ours, written in front
            template = template[1:]
            helper = template.partition("(")[0].partition("<")[0]
            self.needs.update((helper, *self.dialect.helper_needs.get(helper, ())))
        else:
            self.needs.add("math.h")
        text = template.format(*map(self.argument, node.args))
        if node.name == "abs":
            return self.narrowed(self.scalar_of(node.dtype), text, ATOM)
        if node.name == "popcount" and node.dtype != "int32":  # it is an int
            return f"({self.scalar_of(node.dtype).value}){text}", UNARY
        return text, ATOM

    def argument(self, node: Expr) -> str:
        """Return the text of an argument; a run of elements is given by the first of them."""
        if isinstance(node, Load) and isinstance(node.indices[0], Ramp):
            return self.element(node.buffer, node.indices[0].base)
        return self.text(node)

    def word(self, node: Call) -> str:
        """Return the elements behind an address as one number."""
        kind = "unsigned int" if node.dtype.startswith("u") else "int"
        return f"*(const {kind}*)({self.text(node.args[0])})"

    def visit_Address(self, node: Address) -> Text:
        """The address of an element; a fragment of a warp stands for itself."""
        fragment = self.fragments.get(node.buffer)
        if fragment is not None:
            number = self.text(node.index, PRODUCT) + f" / {fragment.elements}"
            if isinstance(node.index, IntImm):
                number = str(node.index.value // fragment.elements)
            return f"{self.names[node.buffer]}[{number}]", ATOM
        if isinstance(node.index, IntImm) and node.index.value == 0:
            return self.names[node.buffer], ATOM
        return f"{self.names[node.buffer]} + {self.text(node.index, SUM)}", SUM

    def visit_Cast(self, node: Cast) -> Text:
        """A conversion: by the table of casts, or as C does it."""
        source, target = node.value.dtype, node.dtype
        scalar, casts = self.scalar_of(target), self.dialect.casts
        for pair in ((source, target), ("*", target), (source, "*")):
            if pair in casts:
                text = casts[pair].format(self.text(node.value), type=scalar.value)
                return text, UNARY if text.startswith("(") else ATOM
        if is_float(source) and self.scalar_of(source).value == scalar.value:
            return self.print(node.value)  # a 16-bit float that is computed in float
        return f"({scalar.value}){self.text(node.value, UNARY)}", UNARY

    def visit_Ramp(self, node: Ramp | Broadcast) -> Text:
        """Refuse a vector: `VectorPrinter` splits vectors into lanes or wide accesses."""
        raise LoweringError(f"a vector where one value is expected: {node}")

    visit_Broadcast = visit_Ramp
