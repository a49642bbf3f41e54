"""Operators on each element as text: expressions of operands a, b and c in Python's syntax.

Templates that compute such an expression read them; see the template library's `Expression`.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence

from autotune.graph import Constant, Node, Operator, Pattern, Value, ops

# Letters of an expression, in which an array that is read several times is repeated.
LONGEST = 2000
# Most levels of the tree of an expression: templates translate it by recursion.
DEEPEST = 100
# What an expression writes as a call of the same name.
_CALLS = (
    "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "floor", "ceil", "abs",
)  # fmt: skip
_ENDLESS = re.compile(r"\b(inf|nan)\b")
# By operator: the expression, of operands a, b and c.
TEXTS: Mapping[str, str] = {
    **{name: f"{name}(a)" for name in _CALLS},
    "negative": "-a",
    "copy": "a",
    "nn.relu": "relu(a)",
    "nn.silu": "a * sigmoid(a)",
    "add": "a + b",
    "subtract": "a - b",
    "multiply": "a * b",
    "divide": "a / b",
    "power": "a ** b",
    "maximum": "max(a, b)",
    "minimum": "min(a, b)",
    "nn.bias_add": "a + b",
    "nn.prelu": "where(a > 0, a, a * b)",
    "where": "where(abs(a) > 0, b, c)",
}


def _leaky(op: Operator) -> str:
    assert isinstance(op, ops.LeakyRelu)
    return f"where(a > 0, a, a * {op.alpha!r})"


def _clip(op: Operator) -> str:
    assert isinstance(op, ops.Clip)
    least = "a" if op.a_max == math.inf else f"min(a, {op.a_max!r})"
    return least if op.a_min == -math.inf else f"max({least}, {op.a_min!r})"


def _gelu(op: Operator) -> str:
    assert isinstance(op, ops.Gelu)
    by_tanh = f"a * sigmoid({2 * math.sqrt(2 / math.pi)!r} * a * (1 + 0.044715 * a * a))"
    return by_tanh if op.approximate == "tanh" else "gelu(a)"


# Those whose expressions depend on attributes.
WRITTEN: Mapping[str, Callable[[Operator], str]] = {
    "nn.leaky_relu": _leaky, "clip": _clip, "nn.gelu": _gelu,
}  # fmt: skip


def text_of(op: Operator) -> str | None:
    """Return the expression of operands a, b and c that an operator is; None where it is none.

    Expressions have no infinite numbers, which attributes may be.
    """
    text = WRITTEN[op.name](op) if op.name in WRITTEN else TEXTS.get(op.name)
    return None if text is None or _ENDLESS.search(text) else text


def text_of_node(node: Node, texts: Mapping[Value, str]) -> str:
    """Return the expression of a node's result; empty where there is none.

    Args:
        node: an operator on each element, of one result.
        texts: expressions of its inputs; numbers are not among them.
    """
    parts = [texts.get(each) or _number(each) for each in node.inputs]
    text = text_of(node.op)
    if text is None or not all(parts) or isinstance(node.op, ops.BiasAdd | ops.Prelu):
        return ""
    names = dict(zip("abc", parts, strict=False))
    # Names and numbers are whole words.
    words = [names.get(word, word) for word in re.findall(r"\w+|\W", text)]
    made = f"({''.join(words)})"
    return made if len(made) <= LONGEST else ""


def _number(value: Value) -> str:
    """Return a constant without dimensions as text, if it is a plain number."""
    if not isinstance(value, Constant) or not value.is_scalar:
        return ""
    number = float(value.array)
    return f"({number!r})" if math.isfinite(number) else ""


def function_of_one(nodes: Sequence[Node], value: Value) -> str:
    """Return the expression of ``a`` that nodes compute of a value alone, element by element.

    It is empty where they read anything else but numbers, or there is none.
    """
    texts = {value: "a"}
    for node in nodes:
        plain = len(node.outputs) == 1 and node.op.pattern <= Pattern.BROADCAST
        if not plain or node.output.type != value.type:
            return ""
        text = text_of_node(node, texts)
        if not text:
            return ""
        texts[node.output] = text
    return shallow(texts[nodes[-1].output]) if nodes else ""


def shallow(text: str) -> str:
    """Return an expression; empty if its tree has more levels than templates take."""
    try:
        level: list[ast.AST] = [ast.parse(text, mode="eval").body]
    except (SyntaxError, RecursionError, MemoryError):  # so many that Python has none either
        return ""
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return text
    return ""
