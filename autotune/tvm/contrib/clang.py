"""TVM's `contrib.clang`: functions in C, to be imported by the pragma ``import_llvm``.

TVM compiles them to LLVM's intermediate code. Here the text itself is imported, in front of the
function that calls it, so both are compiled together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from autotune.errors import CompileError
from autotune.tvm.contrib.cc import get_cc
from autotune.utils.check import Check

__all__ = ["create_llvm", "find_clang"]

# In C all functions are those of C.
_LINKAGE = re.compile(r'\bextern\s+"C"\s*')


def find_clang(required: bool = True) -> list[str]:
    """Return the compilers of C that are here: the one that `tvm.build` uses, if any.

    Raises:
        CompileError: there is none, and one is required.
    """
    found = get_cc()
    if found is None and required:
        raise CompileError("find_clang: there is no compiler of C; install gcc or clang")
    return [] if found is None else [found]


def create_llvm(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> str:
    """Return the text of functions in C, for the pragma ``import_llvm``.

    Args:
        inputs: the text, or the path of a file of it, or a list of these.
        output: a file that the text is written to as well.
        options: accepted: the text is compiled with the function that calls it.
        cc: accepted.

    Raises:
        CompileError: a file cannot be read or written.
    """
    del options, cc
    check = Check(CompileError, "create_llvm")
    listed = [inputs] if isinstance(inputs, str | os.PathLike) else inputs
    parts = check.sequence("inputs", listed, "text in C, or paths of files")
    text = "\n".join(_as_c(_read(check, each)) for each in parts)
    if output is not None:
        try:
            Path(check.path("output", output)).write_text(text, "utf-8")
        except OSError as error:
            raise CompileError(f"create_llvm: cannot write {output}: {error}") from error
    return text


def _read(check: Check, given: object) -> str:
    if isinstance(given, str) and ("\n" in given or "(" in given):
        return given
    path = Path(check.path("inputs", given))
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise CompileError(f"create_llvm: cannot read {path}: {error}") from error


def _as_c(text: str) -> str:
    """Return text of C++ whose functions are declared ``extern "C"`` as C."""
    found = _LINKAGE.search(text)
    while found is not None:
        rest = text[found.end() :]
        if rest.startswith("{"):
            end = _closing(rest)
            rest = rest[1:end] + rest[end + 1 :]
        text = text[: found.start()] + rest
        found = _LINKAGE.search(text)
    return text


def _closing(text: str) -> int:
    """Return where the brace ends that a text begins with."""
    depth = 0
    for place, each in enumerate(text):
        depth += {"{": 1, "}": -1}.get(each, 0)
        if depth == 0:
            return place
    raise CompileError('create_llvm: a brace after extern "C" is not closed')
