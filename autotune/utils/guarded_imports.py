"""Whether a script is prepared for the failure of an import: it stands in a ``try``."""

from __future__ import annotations

import ast
import linecache
import sys
from functools import lru_cache
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).parent.parent)
_CAUGHT = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")


def import_is_guarded() -> bool:
    """Return whether the import that is running is in a ``try`` that handles its failure.

    The text of the script tells; where there is none the answer is no.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(("<frozen ", _PACKAGE)):
            text = "".join(linecache.getlines(name, frame.f_globals))
            return any(first <= frame.f_lineno <= last for first, last in _guarded(text))
        frame = frame.f_back
    return False


@lru_cache(maxsize=16)
def _guarded(text: str) -> tuple[tuple[int, int], ...]:
    """Return the first and last lines of the bodies of such statements."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(
        (node.body[0].lineno, node.body[-1].end_lineno or 0)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and any(map(_handles, node.handlers))
    )


def _handles(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        kind is None or getattr(kind, "id", getattr(kind, "attr", "")) in _CAUGHT for kind in kinds
    )
