"""Untrusted text, escaped for a terminal, and shortened."""

from __future__ import annotations


def visible(text: str, lines: bool = False) -> str:
    r"""Return a text in which invisible characters are escaped, as in ``\x1b[2J``.

    A log or a compiler's message may contain commands for terminals, or characters that reverse
    the order of letters.

    Args:
        text: any text.
        lines: whether it may have several lines, and tabs.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(
        letter if letter.isprintable() or letter in kept else repr(letter)[1:-1]
        for letter in (text.replace("\r\n", "\n") if lines else text)
    )


def shorten(text: str, width: int = 60) -> str:
    """Return text that is no longer than ``width``."""
    return text if len(text) <= width else text[: width - 3] + "..."
