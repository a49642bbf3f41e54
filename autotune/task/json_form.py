"""The JSON form of a value, by which values are recognised after they were written to a log."""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii

import numpy as np


def plain(value: object) -> object:
    """Return the JSON form of what numpy computed; the ``default`` of `json.dumps`.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {value!r}")


def json_text(value: object) -> str:
    """Return a text that is equal for values of one JSON form: ``(1, 2)`` and ``[1, 2]`` have it.

    ``3``, ``3.0`` and ``True`` have different forms. What has no JSON form cannot come from a log;
    it is known by its own text.
    """
    if type(value) is int:  # most are, and a list of values may be long
        return int.__repr__(value)
    if type(value) is str:
        return encode_basestring_ascii(value)
    try:
        text = json.dumps(value, default=plain)
        # Keys of dictionaries become text on their way through JSON, and come in any order.
        return json.dumps(json.loads(text), sort_keys=True) if "{" in text else text
    except (TypeError, ValueError, RecursionError):
        return f"{type(value).__name__}: {value!r}"
