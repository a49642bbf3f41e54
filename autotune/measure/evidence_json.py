"""The JSON of evidence: the one place that knows the keys of a record beside AutoTVM's.

`autotune.record.codec` writes and reads rows with it, and `MeasureResult.extra` shows it. Reading
is strict: readers may rely on the form of a key. Unknown keys are kept unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from autotune.measure.evidence import NAMES, NOTHING, Energy, Evidence, Race, RacedCandidate
from autotune.utils.plain_data import (
    count,
    flag,
    is_number,
    listed,
    mapping,
    number,
    share,
    text,
)
from autotune.workload import key_from_json, key_to_json

Value = TypeVar("Value")

_LONGEST_HASH = 64
# Where these are, they say something.
_NEVER_NULL = ("race", "roofline")
_QUANTITIES = ("joules", "watts", "seconds", "at_least")
_RACE = frozenset(
    ("candidates", "tied", "passed_over", "trial", "default", "default_trial", "rounds", "risk")
)


def to_json(evidence: Evidence) -> dict[str, object]:
    """Return the keys of a record: what is known, and what others noted."""
    if evidence is NOTHING:
        return {}
    own = evidence.__dict__
    row = {name: _plain(name, own[name]) for name in NAMES if own.get(name) is not None}
    if "samples" in row and "noise_floor" not in row:
        row["noise_floor"] = None  # of one sample no spread is known; records say so
    return {**row, **evidence.others}


def from_json(row: Mapping[str, object]) -> Evidence:
    """Read the keys of a record.

    Raises:
        ValueError: a key of ours has another form.
    """
    if not row:
        return NOTHING
    known: dict[str, object] = {}
    others: dict[str, object] = {}
    for given, value in row.items():
        if given not in _READ:
            others[given] = value
            continue
        key, form = _READ[given]
        if value is None and key not in _NEVER_NULL:  # it was not known at the time
            continue
        try:
            known[key] = form(value)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            if expected := _FORMS[key][1]:
                raise ValueError(f"{key!r} is {expected}, not {value!r}"[:200]) from error
            others[key] = value  # of somebody else, who has another use for the name
    if others:
        known["others"] = others
    return Evidence.known(known)


def from_notes(extra: Mapping[str, object]) -> Evidence:
    """Return the notes of a user's builder or runner on a trial, which may have any form."""
    evidence = NOTHING
    for key, value in extra.items():
        try:
            evidence &= from_json({key: value})
        except ValueError:
            evidence &= Evidence(others={key: value})
    return evidence


def _plain(name: str, value: object) -> object:
    if isinstance(value, Race):
        return _race_to_json(value)
    if isinstance(value, Energy):
        return {key: each for key, each in value.__dict__.items() if each not in (None, "")}
    if name == "same_code_as" and isinstance(value, str):
        return key_to_json(value)
    return list(value) if isinstance(value, tuple) else value


def _race_to_json(race: Race) -> dict[str, object]:
    row: dict[str, object] = {}
    if race.rounds is not None:
        row |= {"rounds": list(race.rounds), "risk": race.risk}
    row |= {
        "tied": _keys_to_json(race.tied),
        "candidates": [_raced_to_json(one) for one in race.candidates],
        "passed_over": _keys_to_json(race.passed_over),
    }
    if race.trial is not None:
        row["trial"] = race.trial
    if race.default is not None:
        row["default"] = key_to_json(race.default)
    if race.default_trial is not None:
        row["default_trial"] = race.default_trial
    return {**row, **race.others}


def _keys_to_json(keys: tuple[str, ...]) -> list[int | str]:
    return [key_to_json(key) for key in keys]


def _raced_to_json(one: RacedCandidate) -> dict[str, object]:
    """Return one that ran: a point of a space by its index, anything else by its key."""
    name = key_to_json(one.key)
    row: dict[str, object] = {"index": name} if isinstance(name, int) else {"key": name}
    if one.seconds is not None:
        row["seconds"] = one.seconds
    if one.medians:
        row["medians"] = list(one.medians)
    if one.ci95:
        row["ci95"] = [list(interval) for interval in one.ci95]
    if one.noise_floor:
        row["noise_floor"] = list(one.noise_floor)
    if one.samples:
        row["samples"] = list(one.samples)
    return row


def _race(given: object) -> Race:
    value = mapping(given)
    rounds, risk = _all(count, value.get("rounds")), value.get("risk")
    return Race(
        candidates=tuple(map(_raced, listed(value.get("candidates", [])))),
        tied=tuple(map(key_from_json, listed(value.get("tied", [])))),
        passed_over=tuple(map(key_from_json, listed(value.get("passed_over", [])))),
        trial=_time(value.get("trial")),
        default=key_from_json(value["default"]) if "default" in value else None,
        default_trial=_time(value.get("default_trial")),
        rounds=rounds if len(rounds) == 2 else None,
        risk=risk if is_number(risk) else None,
        others={key: each for key, each in value.items() if key not in _RACE},
    )


def _raced(given: object) -> RacedCandidate:
    row = mapping(given)
    return RacedCandidate(
        key=key_from_json(row["key"] if "key" in row else count(row["index"])),
        seconds=number(row["seconds"]) if "seconds" in row else None,
        medians=_all(number, row.get("medians")),
        ci95=_all(_interval, row.get("ci95")),
        noise_floor=_all(lambda one: one if one is None else share(one), row.get("noise_floor")),
        samples=_all(count, row.get("samples")),
    )


def _all(form: Callable[[object], Value], values: object) -> tuple[Value, ...]:
    """Return the elements of a list; empty if the value is malformed, since it is optional."""
    try:
        return tuple(map(form, listed(values)))
    except (TypeError, ValueError):
        return ()


def _time(value: object) -> float | None:
    """Return seconds that something may have taken; None of anything else."""
    return float(value) if is_number(value) and value > 0 else None


def _interval(value: object) -> tuple[float, float]:
    if not isinstance(value, (list, tuple)):
        raise TypeError
    low, high = value
    if not (is_number(low) and is_number(high)):
        raise ValueError
    return low, high


def energy_of(value: object) -> Energy:
    """Read the energy of a kernel.

    Raises:
        ValueError, TypeError, KeyError: it has another form.
    """
    row = mapping(value)
    known = {key: share(row[key]) for key in _QUANTITIES if row.get(key) is not None}
    if not {"joules", "at_least"} & known.keys() or not all(known.values()):
        raise ValueError
    runs = None if row.get("runs") is None else count(row["runs"])
    return Energy(**known, runs=runs, meter=text(row.get("meter", "")))


def _roof(value: object) -> tuple[float, ...]:
    flop, moved_bytes, flops, bandwidth = map(share, listed(value))
    return flop, moved_bytes, flops, bandwidth


def _stages(value: object) -> tuple[float, ...]:
    found = tuple(map(share, listed(value)))
    if len(found) not in (3, 4) or list(found) != sorted(found, reverse=True):
        raise ValueError
    return found


def _shared(value: object) -> Mapping[str, Any]:
    """Return a mapping whose keys are the texts that other records have."""
    given = mapping(value)
    return {sys.intern(str(key)): one for key, one in given.items()}


def _report(value: object) -> Mapping[str, float | None]:
    if not isinstance(value, dict):
        raise TypeError
    for one in value.values():
        if one is not None:
            share(one)
    return _shared(value)


def _hash(value: object) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_HASH:
        raise TypeError
    return value


def _name(value: object) -> str:
    return sys.intern(str(text(value)))


_FORMS: Mapping[str, tuple[Callable[[object], object], str]] = {
    "race": (_race, "a race with its candidates"),
    "ci95": (_interval, "two numbers"),
    "median": (share, "a number from 0 on"),
    "noise_floor": (share, "a number from 0 on, or null"),
    "roofline": (share, "a number from 0 on"),
    "min_repeat_ms": (share, "a number from 0 on"),
    "samples": (count, "a whole number from 0 on"),
    "resources": (_report, "a number for each name"),
    "graph": (flag, "true, false or null"),
    "flush": (flag, "true or false"),
    "kernel_hash": (_hash, "a text of hexadecimal digits"),
    # Nobody relied on the form of these at first: what has another one is kept as that of others.
    "calibration": (share, ""),
    "number": (count, ""),
    "dropped": (count, ""),
    "throttled": (flag, ""),
    "device": (count, ""),
    "device_class": (_name, ""),
    "clocks": (_shared, ""),
    "preempted": (count, ""),
    "clock": (text, ""),
    "verified": (flag, ""),
    "cut_short": (flag, ""),
    "verify": (text, ""),
    "roof": (_roof, ""),
    "stages": (_stages, ""),
    "energy": (energy_of, ""),
    "template_key": (text, ""),
    "same_code_as": (key_from_json, ""),
}
# With the one text that the records of a log share; what reads JSON makes others for each.
_READ = {key: (key, form) for key, (form, _) in _FORMS.items()}
