"""Messages as bytes, by msgpack.

Dask would inspect each value of a dict, to decide how to serialise and compress it, which takes
longer than all other handling of a message. So a message is passed to Dask as one byte string.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BYTES = (bytes, bytearray, memoryview)
# Compiler messages and file names may hold bytes that are not valid UTF-8.
_TEXT = "surrogatepass"


def packed(message: Mapping[str, object]) -> bytes:
    """Return a message as bytes."""
    import msgpack  # installed with Dask, which is optional

    made: bytes = msgpack.packb(message, unicode_errors=_TEXT)
    return made


def is_packed(message: object) -> bool:
    """Return whether a message arrived as bytes."""
    return isinstance(message, _BYTES)


def unpacked(data: object) -> Any:
    """Decode a message: None if the bytes are malformed; anything but bytes is returned as is."""
    import msgpack

    if not is_packed(data):
        return data
    try:
        return msgpack.unpackb(data, unicode_errors=_TEXT)
    except ValueError:
        return None
