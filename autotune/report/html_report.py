"""Logs as one HTML file that needs no server: the live page with its data in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import jinja2

from autotune.dashboard import one_file, snapshot
from autotune.record.reader import open_log
from autotune.report.compare import Compared, compare, overall
from autotune.report.reading import read_records
from autotune.utils.escaping import visible
from autotune.utils.quantities import microseconds

# Width of the bar of an interval, and most of a change that it shows to either side.
_WIDTH, _LEAST_SPAN = 160, 0.05
_LONGEST = 200


def html_report(paths: Sequence[Path]) -> str:
    """Return logs as one HTML file; two of them with a comparison above the charts.

    The file is self-contained: it holds styles, scripts and data, and its content security policy
    allows no others.

    Args:
        paths: the logs.

    Raises:
        LogMissingError: a log cannot be opened.
    """
    for path in paths:
        open_log(path).close()
    names = ", ".join(path.name for path in paths)
    above = html_comparison(*paths) if len(paths) == 2 else ""
    return one_file(snapshot(list(paths)), f"{visible(names)} - autotune", above)


def html_comparison(before: Path, after: Path) -> str:
    """Return the HTML of two logs compared, with nothing in it that is not escaped."""
    rows = compare(read_records(before)[0], read_records(after)[0])
    span = _span(rows)
    # Logs of two folders often have one name; a path may reveal too much to readers.
    alike = before.name == after.name
    names = [visible(str(path) if alike else path.name) for path in (before, after)]
    return _template().render(
        before=names[0],
        after=names[1],
        rows=[_row(one, span) for one in rows],
        overall=_overall(rows),
        axis=f"{-span:+.0%} to {span:+.0%}",
        width=_WIDTH,
        middle=_WIDTH / 2,
    )


@cache
def _template() -> jinja2.Template:
    text = (files("autotune.report") / "comparison.html").read_text("utf-8")
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(text)


def _span(rows: Sequence[Compared]) -> float:
    """Return the part to either side that all bars show: all intervals, up to twice as long."""
    ends = [abs(end - 1) for one in rows if one.interval for end in one.interval]
    return min(1.0, max([_LEAST_SPAN, *ends]))


def _row(one: Compared, span: float) -> dict[str, object]:
    arguments = f" {one.args}" if one.args else ""
    changed = ", ".join(f"{name}: {a} -> {b}" for name, (a, b) in one.changed.items())
    return {
        "title": _short(f"{one.name}{arguments}"),
        "target": _short(one.target),
        "before": _us(one.before.seconds if one.before else None),
        "after": _us(one.after.seconds if one.after else None),
        "change": "" if one.ratio is None else f"{one.ratio - 1:+.1%}",
        "range": _range(one.interval),
        "bar": _bar(one, span),
        "verdict": one.verdict,
        "changed": _short(changed),
    }


def _bar(one: Compared, span: float) -> dict[str, float] | None:
    if one.ratio is None or one.interval is None:
        return None
    low, high = one.interval
    return {name: _at(value - 1, span) for name, value in
            (("low", low), ("at", one.ratio), ("high", high))}  # fmt: skip


def _at(change: float, span: float) -> float:
    """Return the position of a change in a bar, limited to the ends of the bar."""
    share = max(-1.0, min(1.0, change / span))
    return round(_WIDTH / 2 * (1 + share), 1)


def _overall(rows: Sequence[Compared]) -> dict[str, object] | None:
    found, both = overall(rows), sum(one.ratio is not None for one in rows)
    if found is None or both < 2:
        return None
    mean, interval = found
    return {"count": both, "change": f"{mean - 1:+.1%}", "range": _range(interval)}


def _range(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else " to ".join(f"{end - 1:+.1%}" for end in interval)


def _us(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds):
        return "-"
    return microseconds(seconds).removesuffix(" us")


def _short(text: str) -> str:
    told = visible(text)
    return told if len(told) <= _LONGEST else f"{told[: _LONGEST - 3]}..."
