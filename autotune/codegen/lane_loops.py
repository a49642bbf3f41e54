"""Vector loops for a CPU, in the compiler's vector types (a GNU extension that clang has too).

A loop that is only marked for SIMD keeps its results in memory: compilers vectorise after they
have decided what lives in registers. Values of vector types do live in registers, which makes a
tile of sums several times as fast. How wide they are is decided by the compiler's own macros, so
the text is the same for all machines::

    for (int j = 0; j < 32; j += LANES(float_v64)) {
      *(float_v64*)&c[j] += a * *(const float_v64*)&b[j];
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.codegen.expressions import UNARY, ExpressionPrinter, extreme_of, in_order_of_nan
from autotune.ir import (
    Add,
    BinaryOp,
    Buffer,
    Conditional,
    Div,
    Expr,
    FloatImm,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Store,
    Sub,
    Var,
    is_float,
)
from autotune.kernel.kernel import item_bytes

# Bytes of the widest vector registers there are, and of the narrowest.
WIDEST, NARROWEST = 64, 16
# Steps of a vector loop that are always written out: more than fit into registers are not.
MOST_STEPS = 16
# How helpers begin: in a long function GCC would call them, and vectorise nothing around a call.
INLINED = "static inline __attribute__((always_inline))"
_TYPES = {"float32": "float", "float64": "double", "int32": "int"}

# Tuned for some CPUs, GCC 12 loads an operand again for each product that it is in.
VECTOR_BYTES = """#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#pragma GCC target("tune=generic")
#endif
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES(type) ((int)(sizeof(type) / sizeof((type){0}[0])))
"""
_TYPEDEF = (
    "typedef {item} {name} __attribute__((vector_size(VECTOR_BYTES < {bytes} ? VECTOR_BYTES : "
    "{bytes}),\n    aligned(sizeof({item})), may_alias));\n"
)
_CHOICE = """{word} {name} {choice}_{name}({name} a, {name} b) {{
  typedef __typeof__(a {symbol} b) mask;
  const mask first = a {symbol} b;
  return ({name})((first & (mask)a) | (~first & (mask)b));
}}
"""
# Keeps a NaN of either side. Only the choice of the larger, b beside a NaN, waits for b.
_OR_NAN = """{word} {name} {choice}_or_nan_{name}({name} a, {name} b) {{
  typedef __typeof__(a {symbol} b) mask;
  const mask first = a {symbol} b, other = a != a;
  const mask found = (first & (mask)a) | (~first & (mask)b);
  return ({name})((other & (mask)a) | (~other & found));
}}
"""


def helpers() -> dict[str, str]:
    """Return the texts of all types of vectors and of their functions, by name."""
    found = {"VECTOR_BYTES": VECTOR_BYTES}
    for item in _TYPES.values():
        for size in (NARROWEST, 32, WIDEST):
            name = f"{item}_v{size}"
            found[name] = _TYPEDEF.format(item=item, name=name, bytes=size)
            for choice, symbol in (("max", ">"), ("min", "<")):
                words = {"word": INLINED, "name": name, "choice": choice, "symbol": symbol}
                found[f"{choice}_{name}"] = _CHOICE.format(**words)
                if item != "int":
                    found[f"{choice}_or_nan_{name}"] = _OR_NAN.format(**words)
    return found


@dataclass(frozen=True)
class LaneLoop:
    """A vector loop as text.

    Attributes:
        type: of its vectors.
        steps: its iterations on the machine with the narrowest vectors.
        statement: its body.
    """

    type: str
    steps: int
    statement: str


def lane_loop(node: For, printer: ExpressionPrinter) -> LaneLoop | None:
    """Return a vector loop in vector types, or None if it needs lanes one by one.

    It is to be asked for when the loop's variable has its name.
    """
    store, extent = node.body, node.extent
    if node.kind is not ForKind.VECTORIZED or not isinstance(store, Store):
        return None
    if not isinstance(extent, IntImm) or store.buffer.dtype not in _TYPES:
        return None
    size = extent.value * item_bytes(store.buffer.dtype)
    granule = min(size & -size, WIDEST)
    if granule < NARROWEST or step_of(store.indices[0], node.var) != 1:
        return None
    name = f"{_TYPES[store.buffer.dtype]}_v{granule}"
    lanes = _Lanes(node.var, store.buffer.dtype, name, printer)
    text = lanes.statement(store)
    if text is None:
        return None
    printer.needs.update(("VECTOR_BYTES", name), lanes.helpers)
    return LaneLoop(name, size // NARROWEST, text)


def step_of(index: Expr, var: Var) -> int | None:
    """Return by how much an index grows with a variable; None if that differs or is not known."""
    match index:
        case Var():
            return int(index is var)
        case IntImm():
            return 0
        case Add(a, b) | Sub(a, b):
            left, right = step_of(a, var), step_of(b, var)
            if left is None or right is None:
                return None
            return left + right if isinstance(index, Add) else left - right
        case Mul(a, IntImm(value, _)) | Mul(IntImm(value, _), a):
            step = step_of(a, var)
            return None if step is None else step * value
        case BinaryOp(a, b):
            return 0 if step_of(a, var) == step_of(b, var) == 0 else None
        case _:
            return None


class _Lanes:
    """Writes a statement for many values of a variable at once."""

    def __init__(self, var: Var, dtype: str, name: str, printer: ExpressionPrinter) -> None:
        self.var, self.dtype, self.name, self.printer = var, dtype, name, printer
        # Vectors are variables whose name is their text, and operators on them.
        self._vectors: set[Expr] = set()
        # Functions that the text calls; they need the type, so a loop without a text has none.
        self.helpers: set[str] = set()

    def statement(self, store: Store) -> str | None:
        """Return the text of a store, or None."""
        target = self._place(store.buffer, store.indices[0], "")
        value = store.value
        if isinstance(value, Add) and self._is_target(value.a, store):
            rest = self.value(value.b)
            return None if rest is None else f"{target} += {self._text(rest)};"
        found = self.value(value)
        return None if found is None else f"{target} = {self._text(self._spread(found))};"

    def value(self, expr: Expr) -> Expr | None:
        """Return an expression whose text is a vector, or a scalar if all lanes are the same.

        None if the lanes need operations of their own.
        """
        if expr.dtype != self.dtype:
            return None
        match expr:
            case Load(buffer, (index,)):
                step = step_of(index, self.var)
                if step == 1:
                    return self._vector(self._place(buffer, index, "const "))
                return expr if step == 0 else None
            case Add(a, b) | Sub(a, b) | Mul(a, b) | Div(a, b) | Max(a, b) | Min(a, b):
                return self._binary(expr, a, b)
            case IfThenElse(cond, then, other) if is_same_for_all(cond, self.var):
                return self._choice(expr, then, other)
            case Var() if expr is not self.var:
                return expr
            case IntImm() | FloatImm():
                return expr
            case _:
                return None

    def _binary(self, expr: Expr, a: Expr, b: Expr) -> Expr | None:
        if isinstance(expr, Div) and not is_float(self.dtype):
            return None
        left, right = self.value(a), self.value(b)
        if left is None or right is None:
            return None
        if not (self._is_vector(left) or self._is_vector(right)):
            return expr
        if isinstance(expr, Max | Min):
            helper = f"{extreme_of(expr)}_{self.name}"
            self.helpers.add(helper)
            ordered = (left, right) if in_order_of_nan(expr)[0] is a else (right, left)
            sides = ", ".join(self._text(self._spread(each)) for each in ordered)
            return self._vector(f"{helper}({sides})")
        assert isinstance(expr, BinaryOp)
        return self._marked(type(expr)(left, right))

    def _choice(self, expr: Conditional, then: Expr, other: Expr) -> Expr | None:
        first, second = self.value(then), self.value(other)
        if first is None or second is None:
            return None
        if not (self._is_vector(first) or self._is_vector(second)):
            return expr
        # Both sides are cast, as C takes only equal types, and an operator drops attributes.
        sides = (f"({self.name})({self._text(self._spread(each))})" for each in (first, second))
        return self._marked(IfThenElse(expr.cond, *map(self._vector, sides)))

    def _spread(self, value: Expr) -> Expr:
        """Return a vector with a value in each lane; minus zero keeps the sign of a zero."""
        if self._is_vector(value):
            return value
        if isinstance(value, IntImm | FloatImm) and str(float(value.value)) == "0.0":
            return self._vector(f"({self.name}){{0}}")
        return self._vector(f"({self.printer.text(value, UNARY)} - ({self.name}){{0}})")

    def _vector(self, text: str) -> Expr:
        var = Var(text, self.dtype)
        self.printer.names.set(var, text)
        return self._marked(var)

    def _marked(self, expr: Expr) -> Expr:
        self._vectors.add(expr)
        return expr

    def _is_vector(self, expr: Expr) -> bool:
        return expr in self._vectors

    def _text(self, expr: Expr) -> str:
        return self.printer.text(expr)

    def _place(self, buffer: Buffer, index: Expr, const: str) -> str:
        return f"*({const}{self.name}*)&{self.printer.element(buffer, index)}"

    def _is_target(self, expr: Expr, store: Store) -> bool:
        return (
            isinstance(expr, Load)
            and expr.buffer is store.buffer
            and self.printer.text(expr.indices[0]) == self.printer.text(store.indices[0])
        )


def is_same_for_all(expr: Expr, var: Var) -> bool:
    """Return whether a condition is the same for all values of a variable."""
    match expr:
        case Var():
            return expr is not var
        case BinaryOp(a, b):
            return is_same_for_all(a, var) and is_same_for_all(b, var)
        case IntImm():
            return True
        case _:
            return False
