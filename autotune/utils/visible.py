"""Text from elsewhere, as it may be shown on a terminal."""

from __future__ import annotations


def visible(text: str, lines: bool = False) -> str:
    r"""Return a text with all that is no visible character written out, as in ``\x1b[2J``.

    What a log or a compiler says may hold commands of terminals, or signs that turn the order of
    letters around.

    Args:
        text: from anywhere.
        lines: whether it may have several lines, and tabs.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(
        letter if letter.isprintable() or letter in kept else repr(letter)[1:-1]
        for letter in (text.replace("\r\n", "\n") if lines else text)
    )
