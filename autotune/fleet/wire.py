"""Messages as bytes.

Dask is given a message as one string of bytes: what is in a dict it would look through for what to
count, compress and pickle, which takes longer than all else that is done about a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BYTES = (bytes, bytearray, memoryview)
# A compiler's words and the names of files are text of any kind.
_TEXT = "surrogatepass"


def packed(message: Mapping[str, object]) -> bytes:
    """Return a message as bytes."""
    import msgpack  # comes with Dask, which is not everywhere

    made: bytes = msgpack.packb(message, unicode_errors=_TEXT)
    return made


def is_packed(message: object) -> bool:
    """Return whether a message came as bytes."""
    return isinstance(message, _BYTES)


def unpacked(data: object) -> Any:
    """Return the message in bytes, None where they hold none; what is not bytes as it is."""
    import msgpack

    if not is_packed(data):
        return data
    try:
        return msgpack.unpackb(data, unicode_errors=_TEXT)
    except ValueError:
        return None
