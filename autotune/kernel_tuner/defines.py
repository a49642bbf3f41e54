"""Macros of a kernel by Kernel Tuner's argument ``defines``, and C kernels written for C++."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autotune.errors import KernelError
from autotune.utils.check import shown

# A comment, a text, a character; what says that a function is linked as in C; a brace.
_TOKENS = re.compile(
    r"/\*.*?\*/|//[^\n]*"
    r'|\bextern\s+"C"\s*(?P<block>\{)?'
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'(?:[^'\\\n]|\\.)*'|[{}]",
    re.DOTALL,
)


def checked_defines(defines: object) -> Mapping[str, object] | None:
    """Return what is to be defined; None where all parameters are.

    Raises:
        KernelError: it is no dict, or a name in it cannot be defined.
    """
    if defines is None:
        return None
    if not isinstance(defines, Mapping):
        raise KernelError(
            f"defines: expected a dict such as {{'N': 'block_size_x'}}, got {shown(defines)}"
        )
    for name in defines:
        if not isinstance(name, str) or not name.isidentifier():
            raise KernelError(f"defines: expected the name of a macro, got {shown(name)}")
    return dict(defines)


def macros_of(defines: Mapping[str, object], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return macros with these parameters.

    Args:
        defines: name -> a number, a function of the parameters, or a text, in which names of
            parameters stand for their values.
        params: the parameters.
    """
    return {name: _value(given, params) for name, given in defines.items()}


def _value(given: object, params: Mapping[str, Any]) -> Any:
    if callable(given):
        return given(dict(params))
    if not isinstance(given, str):
        return given
    return re.sub(r"[A-Za-z_]\w*", lambda found: str(params.get(found[0], found[0])), given)


# What C does not have: headers without an ending, names in namespaces, templates, casts, lambdas,
# references; and a truth value without its header.
_CXX = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*<(?:[a-z_]+|c[a-z]+)>|\bstd::|\busing\s+\w"
    r"|\bnamespace\b|\btemplate\s*<|\b(?:static|const|dynamic|reinterpret)_cast\s*<|\bnullptr\b"
    r"|\bconstexpr\b|\bclass\s+\w+\s*[:{]|\[[&=]\]\s*[({]"
    r"|\b(?:auto|char|short|int|long|float|double|bool|unsigned)\s*&",
    re.MULTILINE,
)
CXX_FLAGS = ("-x", "c++")


def is_cxx(source: str) -> bool:
    """Return whether a text for the CPU is C++."""
    said = _TOKENS.sub(lambda found: " " if found[0].startswith(("/", "'")) else found[0], source)
    truth = re.search(r"\bbool\s+\w", said) and not re.search(r"\bstdbool\.h\b|\bbool\s*;", said)
    return bool(truth or _CXX.search(said))


def without_linkage(source: str) -> str:
    """Return a text in C without ``extern "C"``, which Kernel Tuner's kernels have for C++."""
    parts: list[str] = []
    done, depth = 0, 0
    linked: list[int] = []  # depths of braces of such blocks
    for found in _TOKENS.finditer(source):
        token, new = found[0], found[0]
        if token.startswith("extern"):
            new = "\n" * token.count("\n")
        if token == "{" or found["block"]:
            depth += 1
            linked += [depth] if found["block"] else []
        elif token == "}":
            new = "" if depth in linked else token
            linked = [each for each in linked if each != depth]
            depth -= 1
        parts += [source[done : found.start()], new]
        done = found.end()
    return "".join([*parts, source[done:]])
