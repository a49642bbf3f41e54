"""Compilers' flags and their values, in each of the ways they may be written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

# A value may follow these at once (-DN=4); all others need a space or an equals sign before it.
_GLUED = ("-I", "-D", "-U", "-isystem", "-iquote", "-idirafter")


@dataclass(frozen=True)
class Flag:
    """One flag: its name, what stands between it and its value, and the value.

    ``-I/a``, ``-I /a`` and ``-I=/a`` are all named ``-I`` with value ``/a``; between them stands
    nothing, a space (the value is a word of its own) and ``=``.
    """

    name: str
    between: str = ""
    value: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The flag as it stands on a command line."""
        if self.between == " ":
            return (self.name, self.value)
        return (self.name + self.between + self.value,)


def parsed(words: Iterable[str], valued: Collection[str]) -> Iterator[Flag]:
    """Read a command line; flags that are not in ``valued`` are taken as they stand."""
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


def _has_name(word: str, name: str) -> bool:
    return word == name or word.startswith(name if name in _GLUED else f"{name}=")
