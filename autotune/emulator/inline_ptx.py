"""Finds asm statements in a CUDA kernel, and makes calls of them that the emulator performs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\b\s*(?:(?:__)?volatile(?:__)?\b)?\s*\(")
# In an asm statement what ends its parts, and strings and comments, in which nothing does.
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|[():]', re.DOTALL)
# An operand, which may also be in a macro: `"=r"(word)`.
_OPERAND = re.compile(r'"(=|\+|)[rlfdhnq]"\s*\(')


@dataclass(frozen=True)
class Statement:
    """An asm statement of a source.

    Attributes:
        begin, end: where it begins, and where its last parenthesis is.
        parts: its text, outputs, inputs and clobbers, as far as it has them.
    """

    begin: int
    end: int
    parts: tuple[str, ...]


def statements(source: str) -> Iterator[Statement]:
    """Yield the asm statements of a source, one after another."""
    end = 0
    for found in _ASM.finditer(source):
        if found.start() >= end:
            colons, end = _colons(source, found.end())
            cuts = [found.end() - 1, *colons, end]
            parts = [source[a + 1 : b] for a, b in pairwise(cuts)]
            yield Statement(found.start(), end, tuple(parts))


def _colons(source: str, begin: int) -> tuple[list[int], int]:
    """Return where the colons of an asm statement are, and its last parenthesis."""
    colons: list[int] = []
    depth = 1
    for word in _WORD.finditer(source, begin):
        depth += {"(": 1, ")": -1}.get(word[0], 0)
        if not depth:
            return colons, word.start()
        if word[0] == ":" and depth == 1:
            colons.append(word.start())
    return colons, len(source)


def with_ptx(source: str) -> str:
    """Rewrite asm statements to calls of the emulator's `ptx`: text, outputs and inputs.

    Newlines stay where they are, so that lines keep their numbers, and macros their bodies. A
    statement all of which is an argument of a macro is not found.
    """
    done, at = [], 0
    for one in statements(source):
        text, *others = one.parts
        operands = "".join(f", {{{part}}}" for part in others[:2])
        layout = "".join(re.findall(r"[\\\n]", "".join(others[2:])))
        done += [source[at : one.begin], f"emulator::ptx({text}{operands}{layout}"]
        at = one.end
    if not done:
        return source
    changed = "".join(done) + source[at:]
    return _OPERAND.sub(lambda one: f"emulator::{'ptx_out' if one[1] else 'ptx_in'}(", changed)
