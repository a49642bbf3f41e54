"""Values as cells of a CSV file that a spreadsheet may open."""

from __future__ import annotations

import json

# What a formula begins with, also in letters as wide as Chinese ones; spreadsheets pass over
# control characters before it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def cell(value: object) -> str | float | None:
    """Return a value as a cell; lists and objects become JSON.

    A text that a spreadsheet would execute as a formula gets an apostrophe in front, so that it is
    displayed as text: a log may come from anyone
    (https://owasp.org/www-community/attacks/CSV_Injection).
    """
    if isinstance(value, str):
        return f"'{value}" if value.lstrip(" ").startswith(_FORMULA) else value
    if value is None or isinstance(value, (int, float)):
        return value
    return json.dumps(value, default=str)
