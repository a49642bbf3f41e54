"""Shortens messages in records, and removes characters that a file cannot hold."""

from __future__ import annotations

# Most characters of a message in a record: compilers can say a million of them.
MESSAGE_LIMIT = 4000


def shorten_message(message: str) -> str:
    """Return a message with its head and tail only, where it is too long for a record."""
    if len(message) <= MESSAGE_LIMIT:
        return message
    half = MESSAGE_LIMIT // 2 - 50  # leaves space for the words between
    left_out = len(message) - 2 * half
    return f"{message[:half]}\n... {left_out} characters left out ...\n{message[-half:]}"


def writable(text: str) -> str:
    """Return a text without the halves of characters that JSON can name and no file can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
