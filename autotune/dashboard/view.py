"""A reader's selection: one workload, and some of its trials."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.errors import RecordError

# Points of all charts together, beyond which trials are thinned.
POINTS = 4000
# Bars of the timeline, and rows of the table, that are sent at once.
BARS, ROWS = 400, 100
MOST_ROWS = 500
# What a request may hold at most, so that none costs more than a moment.
_MOST, _LONGEST = 1000, 1000


@dataclass(frozen=True)
class View:
    """One workload, the filters, and the part of the timeline and of the table.

    Attributes:
        workload: its number in the overview.
        runs, devices, errors: only these; all by default. Errors are numbers of `MeasureErrorNo`.
        knobs: of a knob the values, as the log has them, of which a trial must have one.
        without: of a knob the values that a trial must not have.
        seconds: least and most seconds of one run; what failed is not held to it.
        timeline_end: number of trials up to which the timeline reaches; None for the latest.
        sort, descending, offset, rows: the part of the table; a knob is ``knob:NAME``.
        points: most points of the charts.
    """

    workload: int = 0
    runs: frozenset[int] | None = None
    devices: frozenset[int] | None = None
    errors: frozenset[int] | None = None
    knobs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    without: Mapping[str, frozenset[str]] = field(default_factory=dict)
    seconds: tuple[float, float] = (0.0, math.inf)
    timeline_end: int | None = None
    sort: str = "trial"
    descending: bool = True
    offset: int = 0
    rows: int = ROWS
    points: int = POINTS

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> str:
        """A text that is equal for equal views."""
        knobs = sorted((name, sorted(values)) for name, values in self.knobs.items())
        sets = [s if s is None else sorted(s) for s in (self.runs, self.devices, self.errors)]
        rest = self.seconds, self.timeline_end, self.sort, self.descending, self.offset, self.rows
        without = sorted((name, sorted(values)) for name, values in self.without.items())
        return json.dumps([self.workload, sets, knobs, without, rest, self.points])

    @property
    def filtered(self) -> bool:
        """Whether some trials may be left out."""
        chosen = (self.runs, self.devices, self.errors)
        return any(s is not None for s in chosen) or bool(self.knobs or self.without) or self.timed

    @property
    def timed(self) -> bool:
        """Whether trials are left out by their time."""
        return self.seconds != (0.0, math.inf)

    @staticmethod
    def from_json(data: object) -> View:
        """Read what the page asks for.

        Raises:
            RecordError: it is something else; anybody may ask.
        """
        if not isinstance(data, dict):
            raise RecordError("a view is an object")
        try:
            return View(
                workload=_count(data.get("workload", 0)),
                runs=_numbers(data.get("runs")),
                devices=_numbers(data.get("devices")),
                errors=_numbers(data.get("errors")),
                knobs=_knobs(data.get("knobs")),
                without=_knobs(data.get("without")),
                seconds=_seconds(data.get("seconds")),
                timeline_end=None if data.get("timeline_end") is None
                else _count(data["timeline_end"]),
                sort=_text(data.get("sort", "trial")),
                descending=data.get("descending", True) is True,
                offset=_count(data.get("offset", 0)),
                rows=min(_count(data.get("rows", ROWS)), MOST_ROWS),
            )  # fmt: skip
        except (TypeError, ValueError, KeyError) as error:
            raise RecordError(f"not a view: {str(error)[:200]}") from error


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError("a number from 0 on is expected")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ValueError("a short text is expected")
    return value


def _numbers(value: object) -> frozenset[int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > _MOST:
        raise ValueError("a list of numbers is expected")
    return frozenset(map(_count, value))


def _knobs(value: object) -> dict[str, frozenset[str]]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > _MOST:
        raise ValueError("an object of lists is expected")
    known: dict[str, frozenset[str]] = {}
    for name, values in value.items():
        if not isinstance(values, list) or len(values) > _MOST:
            raise ValueError("a list of values is expected")
        known[_text(name)] = frozenset(map(_text, values))
    return known


def _seconds(value: object) -> tuple[float, float]:
    if value is None:
        return 0.0, math.inf
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("the least and the most seconds are expected")
    low, high = (default if one is None else float(one) for one, default in
                 zip(value, (0.0, math.inf), strict=True))  # fmt: skip
    if math.isnan(low) or math.isnan(high):
        raise ValueError("seconds are numbers")
    return low, high
