"""Knobs in ``#pragma unroll NAME``, where nvcc and NVRTC do not expand macros."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

# A pragma that asks for an unrolled loop, up to its factor; the factor, up to a comment.
_UNROLL = r"^([ \t]*#[ \t]*pragma[ \t]+unroll\b)((?:(?!//|/\*)[^\n])*)"
_SEARCH = re.compile(_UNROLL, re.M)
# The same, or what may hold lines that look like one: comments, and literals, raw ones among them.
_PARTS = re.compile(
    rf"{_UNROLL}"
    r"|//(?:[^\n\\]|\\[\s\S])*"
    r"|/\*[\s\S]*?\*/"
    r'|\b(?:u8|[uUL])?R"([^()\\\s]{0,16})\([\s\S]*?\)\3"'
    r'|"(?:[^"\\\n]|\\[\s\S])*"'
    r"|'(?:[^'\\\n]|\\[\s\S])*'",
    re.M,
)
_NAME = re.compile(r"\b[A-Za-z_]\w*")


def with_factors(source: str, lines: Mapping[str, str]) -> str:
    """Return a source with the values of knobs in ``#pragma unroll NAME``; without it for 0.

    Args:
        source: the text.
        lines: the ``#define`` line of each knob.
    """
    return "".join(_replaced(source, lines))


def _replaced(source: str, lines: Mapping[str, str]) -> Iterator[str]:
    done = 0
    for start, end, head, factor in _pragmas(source):
        value = _expanded(factor, lines)
        yield source[done:start]
        yield "" if value.strip(" \t\r()") == "0" else head + value
        done = end
    yield source[done:]


# All trials of a template have one text.
@lru_cache(maxsize=64)
def _pragmas(source: str) -> tuple[tuple[int, int, str, str], ...]:
    """Return the begin and end of each pragma, and its parts before and from its factor."""
    if _SEARCH.search(source) is None:
        return ()
    found = (part for part in _PARTS.finditer(source) if part[1] is not None)
    return tuple([(part.start(), part.end(), part[1], part[2]) for part in found])


def _expanded(text: str, lines: Mapping[str, str]) -> str:
    """Return a text with knobs replaced, in their values as well, as the preprocessor does."""

    def value(name: re.Match[str]) -> str:
        line = lines.get(name[0])
        if line is None:
            return name[0]
        others = {other: lines[other] for other in lines if other != name[0]}
        return _expanded(line.removeprefix(f"#define {name[0]} ").strip(), others)

    return _NAME.sub(value, text)
