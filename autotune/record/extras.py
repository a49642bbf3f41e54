"""Keys of ours in a record, checked as they are read: whoever uses one may rely on its form."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from autotune.workload.candidate import key_from_json

# Most characters of a message in a record: compilers can say a million of them.
MESSAGE_LIMIT = 4000
_LONGEST_HASH = 64
_ALWAYS_KNOWN = ("race", "roofline")
_LARGEST = sys.float_info.max


def check_extras(extra: Mapping[str, Any]) -> None:
    """Check what is known of a trial beyond AutoTVM's keys; keys of others pass.

    Raises:
        ValueError: a key of ours has another form.
    """
    for key, value in extra.items():
        known = _FORMS.get(key)
        # What was not known at the time, such as the spread of one sample, is null.
        if known is None or (value is None and key not in _ALWAYS_KNOWN):
            continue
        if not known[0](value):
            raise ValueError(f"{key!r} is {known[1]}, not {value!r}"[:200])


def bounded(message: str) -> str:
    """Return a message with its head and tail only, where it is too long for a record."""
    if len(message) <= MESSAGE_LIMIT:
        return message
    half = MESSAGE_LIMIT // 2 - 50  # room for the words between
    left_out = len(message) - 2 * half
    return f"{message[:half]}\n... {left_out} characters left out ...\n{message[-half:]}"


def writable(text: str) -> str:
    """Return a text without the halves of characters that JSON can name and no file can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def is_number(value: object) -> bool:
    """Return whether a value is a finite number; true and false are none."""
    kind = type(value)
    return (kind is float or kind is int) and -_LARGEST <= value <= _LARGEST  # type: ignore[operator]


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_interval(value: object) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(is_number, value))


def _is_report(value: object) -> bool:
    return isinstance(value, dict) and all(
        number is None or (is_number(number) and number >= 0) for number in value.values()
    )


def _is_race(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    candidates, default = value.get("candidates", []), value.get("default", 0)
    if not isinstance(candidates, list) or not _is_key(default):
        return False
    keys = all(_are_keys(value.get(key, [])) for key in ("passed_over", "tied"))
    return keys and all(map(_is_candidate, candidates))


def _are_keys(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_key, value))


def _is_key(value: object) -> bool:
    try:
        key_from_json(value)
    except ValueError:
        return False
    return True


def _is_candidate(value: object) -> bool:
    return (
        isinstance(value, dict)
        and (_is_count(value.get("index")) if "index" in value else _is_key(value.get("key")))
        and is_number(value.get("seconds", 0))
    )


def _is_share(value: object) -> bool:
    return is_number(value) and value >= 0  # type: ignore[operator]


_FORMS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "race": (_is_race, "a race with its candidates"),
    "ci95": (_is_interval, "two numbers"),
    "median": (_is_share, "a number from 0 on"),
    # Of one sample, such as that of a trial that was cut short, no spread is known.
    "noise_floor": (lambda v: v is None or _is_share(v), "a number from 0 on, or null"),
    "roofline": (_is_share, "a number from 0 on"),
    "min_repeat_ms": (_is_share, "a number from 0 on"),
    "samples": (_is_count, "a whole number from 0 on"),
    "resources": (_is_report, "a number for each name"),
    "graph": (lambda v: isinstance(v, bool), "true, false or null"),
    "flush": (lambda v: isinstance(v, bool), "true or false"),
    "kernel_hash": (
        lambda v: isinstance(v, str) and len(v) <= _LONGEST_HASH, "a text of hexadecimal digits"
    ),
}  # fmt: skip
