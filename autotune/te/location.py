"""The line of the user's program that caused an error."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections import defaultdict
from pathlib import Path
from warnings import warn_explicit

PACKAGE = str(Path(__file__).parent.parent) + "/"
# A decorated function of the package, or a cached property, is called from there.
_BETWEEN = (PACKAGE, contextlib.__file__, functools.__file__)

_LINE = re.compile(r"\S+:\d+: ")
# By file of the user's: what was said of which line, as `warnings` keeps it.
_SAID: defaultdict[str, dict[str | tuple[str, type[Warning], int], int]] = defaultdict(dict)


def user_line() -> str:
    """Return ``file:line`` of the innermost frame outside the package, for error messages."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def warn_user(text: str) -> None:
    """Warn at the line that `user_line` names, of the same thing there once."""
    file, _, line = user_line().rpartition(":")
    warn_explicit(text, UserWarning, file, int(line), registry=_SAID[file])


def without_line(message: str) -> str:
    """Return an error's message without the line at its beginning."""
    return _LINE.sub("", message, count=1) if _LINE.match(message) else message


def locate_error(error: Exception, name: str) -> str:
    """Return an error's message with the user's line and the tensor's name, if it lacks them.

    The line is the innermost one of the user's among those that the error passed through.
    """
    message = str(error)
    if _LINE.match(message):
        return message
    line = ""
    step = error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not file.startswith(_BETWEEN):
            line = f"{file}:{step.tb_lineno}"
        step = step.tb_next
    return f"{line or user_line()}: {name}: {message}"
