"""Messages as bytes.

Dask is given a message as one string of bytes: what is in a dict it would look through for what to
count, compress and pickle, which takes longer than all else that is done about a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def packed(message: Mapping[str, Any]) -> bytes:
    """Return a message as bytes."""
    import msgpack  # comes with Dask, which is not everywhere

    made: bytes = msgpack.packb(message)
    return made


def unpacked(data: Any) -> Any:
    """Return the message in bytes, None where they hold none; what is not bytes as it is."""
    import msgpack

    if not isinstance(data, bytes):
        return data
    try:
        return msgpack.unpackb(data)
    except ValueError:
        return None
