"""Where in the user's program a mistake was made."""

from __future__ import annotations

import sys
from pathlib import Path

PACKAGE = str(Path(__file__).parent.parent) + "/"


def user_line() -> str:
    """Return ``file:line`` of the innermost frame outside the package, for error messages."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
