"""Compilers' flags and their values, in each of the ways they may be written."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# A value may follow these at once (-DN=4); all others need a space or an equals sign before it.
_GLUED = ("-I", "-D", "-U", "-isystem", "-iquote", "-idirafter")
# Flags of nvcc that name files of flags; all compilers here know @file.
_FLAG_FILES = ("--options-file", "-optf")
# Files of flags that name each other are not followed for ever.
_DEEPEST = 8


@dataclass(frozen=True)
class Flag:
    """One flag: its name, the separator, and the value.

    ``-I/a``, ``-I /a`` and ``-I=/a`` all have the name ``-I`` and the value ``/a``; the separators
    are empty, a space (the value is a word of its own) and ``=``.
    """

    name: str
    between: str = ""
    value: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The flag as words of a command line."""
        if self.between == " ":
            return (self.name, self.value)
        return (self.name + self.between + self.value,)


def parse_flags(words: Iterable[str], valued: Collection[str]) -> Iterator[Flag]:
    """Parse a command line; flags that are not in ``valued`` have no value."""
    rest = iter(words)
    for word in rest:
        name = next((name for name in valued if _has_name(word, name)), None)
        if name is None:
            yield Flag(word)
        elif word == name:
            yield Flag(name, " ", next(rest, ""))
        else:
            between = "=" if word[len(name)] == "=" else ""
            yield Flag(name, between, word[len(name) + len(between) :])


def expand_flag_files(words: Iterable[str], deepest: int = _DEEPEST) -> Iterator[str]:
    """Replace names of files with flags (``@file``) by the flags in these files.

    So the contents of such a file become part of the cache key. A file that cannot be read is left
    to the compiler.
    """
    for flag in parse_flags(words, _FLAG_FILES):
        inner = None
        if deepest and flag.name in _FLAG_FILES:
            inner = _all_words(flag.value.split(","))
        elif deepest and flag.name.startswith("@"):
            inner = _all_words([flag.name[1:]])
        yield from flag.words if inner is None else expand_flag_files(inner, deepest - 1)


def _all_words(paths: Iterable[str]) -> list[str] | None:
    try:
        return [word for path in paths for word in shlex.split(Path(path).read_text("utf-8"))]
    except (OSError, ValueError):
        return None


def _has_name(word: str, name: str) -> bool:
    return word == name or word.startswith(name if name in _GLUED else f"{name}=")
