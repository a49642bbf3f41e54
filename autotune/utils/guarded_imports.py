"""Whether a script is prepared for the failure of an import, or only asks for a module."""

from __future__ import annotations

import ast
import importlib
import linecache
import os
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import FrameType

# Code between an import and what looks for its module: Python's, part of it frozen, and ours.
_BETWEEN = (
    "<frozen ",
    f"{Path(importlib.__file__).parent}{os.sep}",
    f"{Path(__file__).parent.parent}{os.sep}",
)
_OF_IMPORTS = ("ImportError", "ModuleNotFoundError")
_CAUGHT = (*_OF_IMPORTS, "Exception", "BaseException")


def import_is_guarded() -> bool:
    """Return whether the import that is running is in a ``try`` that handles its failure.

    Or in ``with suppress(ImportError)``, or in a function that the same file calls in one that
    names ImportError. The text of the script tells; where there is none the answer is no.
    """
    script = ""
    kinds: tuple[str, ...] = _CAUGHT
    for frame in _frames():
        name = frame.f_code.co_filename
        text = "".join(linecache.getlines(name, frame.f_globals))
        if name.startswith(_BETWEEN) or not text:
            continue
        script = script or name
        if name != script:
            return False
        if any(first <= frame.f_lineno <= last for first, last in _guarded(text, kinds)):
            return True
        kinds = _OF_IMPORTS  # many a script has all of its work in a try that prints what failed
    return False


def module_is_asked_for() -> bool:
    """Return whether no import is running, but ``importlib.util.find_spec``."""
    for frame in _frames():
        name = frame.f_code.co_filename
        if not name.startswith(_BETWEEN):
            return False
        if frame.f_code.co_name == "find_spec" and frame.f_globals["__name__"] == "importlib.util":
            return True
    return False


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


@lru_cache(maxsize=16)
def _guarded(text: str, kinds: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Return the first and last lines of the bodies of such statements."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(
        (node.body[0].lineno, node.body[-1].end_lineno or 0)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Try) and _handles((each.type for each in node.handlers), kinds))
        or (isinstance(node, ast.With) and _suppresses(node, kinds))
    )


def _suppresses(node: ast.With, kinds: tuple[str, ...]) -> bool:
    calls = [each.context_expr for each in node.items if isinstance(each.context_expr, ast.Call)]
    return any(_name(call.func) == "suppress" and _handles(call.args, kinds) for call in calls)


def _handles(types: Iterable[ast.expr | None], kinds: tuple[str, ...]) -> bool:
    """Return whether one of what is caught is of these kinds; None catches all."""
    return any(
        _name(kind) in kinds if kind is not None else "BaseException" in kinds
        for each in types
        for kind in (each.elts if isinstance(each, ast.Tuple) else [each])
    )


def _name(node: ast.expr) -> str:
    return getattr(node, "id", getattr(node, "attr", ""))
