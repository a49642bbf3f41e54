"""The identity of a reference function: its computation, as its source states it.

It is the same in every version of Python, and where comments, layout, docstrings, annotations or
the function's own name change; `ast.unparse` writes tuples and formatted strings in other ways
from one version to the next.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import linecache
import threading
from collections.abc import Callable
from contextlib import suppress
from types import CodeType

_PARSING = threading.Lock()
_ATTEMPTS = 5
# Fields of a syntax tree that change nothing of what is computed.
_IDLE = {"ctx", "kind", "type_comment", "annotation", "returns"}


def identity(reference: Callable[..., object] | None, former: bool = False) -> str:
    """Return what is known of a reference: its source, else its name.

    Args:
        reference: a function, or a partial of one.
        former: whether its source is written as `ast.unparse` does it, with docstrings.
    """
    if reference is None:
        return ""
    if isinstance(reference, functools.partial):
        given = [_known(value) for value in (*reference.args, *reference.keywords.items())]
        return f"{identity(reference.func, former)} of {', '.join(given)}"
    function = inspect.unwrap(reference)
    code = getattr(function, "__code__", None)
    text = _source(code, former) if isinstance(code, CodeType) else ""
    named = getattr(function, "__qualname__", type(function).__qualname__)
    return text or f"{getattr(function, '__module__', '')}.{named}"


def _known(value: object) -> str:
    plain = isinstance(value, (bool, int, float, str, tuple, type(None)))
    return repr(value) if plain else type(value).__qualname__


@functools.lru_cache(maxsize=1024)
def _source(code: CodeType, former: bool) -> str:
    """Return the source of a function; empty where it is not known."""
    write = ast.unparse if former else _written
    return "; ".join([write(node) for node in _nodes(code)])


@functools.lru_cache(maxsize=1024)
def _nodes(code: CodeType) -> tuple[ast.FunctionDef | ast.Lambda, ...]:
    """Return the syntax tree of a function, of all lambdas where several start on its line.

    It is read once: later changes of its file are not changes of this function.
    """
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)
    try:
        tree = _parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    kind = ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef
    return tuple(
        node
        for node in ast.walk(tree)
        if isinstance(node, kind) and code.co_firstlineno in _first_lines(node)
    )


def _parse(text: str) -> ast.Module:
    """Parse a text, one at a time: Python 3.11 adds up the depths of trees in all threads.

    It then raises a SystemError, as it does when a thread of someone else parses meanwhile.
    """
    with _PARSING:
        for _ in range(_ATTEMPTS - 1):
            with suppress(SystemError):
                return ast.parse(text)
        return ast.parse(text)


def _first_lines(node: ast.FunctionDef | ast.Lambda) -> set[int]:
    """Return the lines that may count as a function's first: its own, and its decorators'."""
    return {node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))}


def _written(node: ast.AST) -> str:
    kind, fields = _plain_node(node)
    fields.pop("name", None)
    return json.dumps([kind, fields])


def _plain(part: object) -> object:
    if isinstance(part, ast.Constant):
        return repr(part.value)
    if isinstance(part, ast.AST):
        return _plain_node(part)
    if isinstance(part, list):
        return [_plain(one) for one in part if not _is_idle(one)]
    return part


def _plain_node(node: ast.AST) -> tuple[str, dict[str, object]]:
    """Return a node for JSON, without fields that are empty: later versions have more of these."""
    fields = [(name, value) for name, value in ast.iter_fields(node) if name not in _IDLE]
    if isinstance(node, ast.JoinedStr):  # Python 3.12 ends some of them with an empty text
        fields = [("values", [one for one in node.values if not _is_empty_text(one)])]
    kept = {name: _plain(value) for name, value in fields if value is not None and value != []}
    return type(node).__name__, kept


def _is_idle(statement: object) -> bool:
    """Return whether a statement is a constant, such as a docstring."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_empty_text(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value == ""
