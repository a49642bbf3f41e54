"""Figures of a workload for papers and documents: PNG, SVG and PDF by matplotlib.

They are drawn from the same data as the live page (`autotune.dashboard`), so both show the same.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.errors import RecordError
from autotune.utils.escaping import visible
from autotune.utils.files import publish
from autotune.utils.math import ceil_div
from autotune.utils.quantities import microseconds

View = Mapping[str, Any]

# Panels of knobs in a row, values of a knob that are named (of more, every k-th is), and lines of
# the parallel coordinates.
_COLUMNS, _NAMED, _LINES = 3, 12, 300
_LABEL_WIDTH, _TEXT_WIDTH = 14, 60
_ROW_INCHES, _WIDTH_INCHES = 3.2, 11
_RACED = "; circles: winners of the final race, with their time there"
_US = 1e6


def draw(view: View, title: str, names: Sequence[str], path: Path, panels: Sequence[str]) -> None:
    """Draw the trials of one workload into a file, whose suffix says in which format.

    Args:
        view: what `autotune.dashboard.Model.view` gives.
        title: of the figure.
        names: of the runs, in their order.
        path: of the file.
        panels: names of `PANELS`; those that have nothing to show are left out.

    Raises:
        RecordError: matplotlib is not installed, or cannot write the file.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RecordError(
            "log plot needs matplotlib; install it: pip install 'autotune[plot]'"
        ) from error
    # A dollar sign in a log is no formula.
    with rc_context({"text.parse_math": False}):
        figure: Any = Figure(layout="constrained")
        figure.suptitle(_cut(visible(title), 110))
        rows = [row for panel in PANELS if panel in panels for row in PANELS[panel](view, names)]
        if not rows:
            raise RecordError(f"{path}: there is nothing to draw of {', '.join(panels)}")
        figure.set_size_inches(_WIDTH_INCHES, _ROW_INCHES * len(rows))
        grid = figure.add_gridspec(len(rows), 1)
        for place, row in zip(grid, rows, strict=True):
            cells = place.subgridspec(1, _COLUMNS if len(row) > 1 else 1)
            for cell, paint in zip(cells, row, strict=False):
                paint(figure.add_subplot(cell))
        try:
            picture = io.BytesIO()
            figure.savefig(picture, format=path.suffix[1:])
            publish(path, picture.getvalue())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise RecordError(f"cannot draw {path}: {why}") from error


Paint = Callable[[Any], None]


def _best_rows(along: str) -> Callable[[View, Sequence[str]], list[list[Paint]]]:
    return lambda view, names: [[lambda axes: _best(axes, view, names, along)]]


def _best(axes: Any, view: View, names: Sequence[str], along: str) -> None:
    """Draw the best time so far, and each trial."""
    points = view["points"]
    steps = {one["run"]: one for one in view["best"]}
    raced = {one["run"]: one for one in view["winners"] if one["race"]}
    for at, (run, name) in enumerate(zip(view["runs"], names, strict=True)):
        color = f"C{at % 10}"
        mine = [i for i, number in enumerate(points["run"]) if number == run["id"]]
        times = [_us(points["seconds"][i]) for i in mine]
        axes.plot([points[along][i] for i in mine], times, ".", markersize=3, alpha=0.4,
                  color=color)  # fmt: skip
        best = steps.get(run["id"])
        if best and best["seconds"]:
            x = [*best[along], best[f"last_{along}"]]
            y = [_us(one) for one in [*best["seconds"], best["seconds"][-1]]]
            axes.step(x, y, where="post", label=visible(name), color=color)
            if run["id"] in raced:
                axes.plot(x[-1], _us(raced[run["id"]]["seconds"]), "o", markersize=7, color=color,
                          markerfacecolor="none")  # fmt: skip
    label = "trial" if along == "trial" else "seconds since the first trial began"
    axes.set(
        xlabel=label,
        ylabel="us",
        yscale="log",
        title=f"best so far, and each trial{_RACED if raced else ''}",
    )
    _plain(axes.yaxis)
    if along == "trial":
        axes.xaxis.get_major_locator().set_params(integer=True)
    if view["best"]:
        axes.legend()


def _knob_rows(view: View, names: Sequence[str]) -> list[list[Paint]]:
    paints: list[Paint] = [
        _value_paint(view, at) for at, knob in enumerate(view["knobs"]) if len(knob["labels"]) > 1
    ]
    return [_filled(paints[i : i + _COLUMNS]) for i in range(0, len(paints), _COLUMNS)]


def _value_paint(view: View, at: int) -> Paint:
    return lambda axes: _by_value(axes, view, at)


def _filled(paints: list[Paint]) -> list[Paint]:
    """Return a row with empty axes at its end, so that panels of knobs have one width."""
    return paints + [lambda axes: axes.set_axis_off()] * (_COLUMNS - len(paints))


def _by_value(axes: Any, view: View, at: int) -> None:
    """Draw the times under each value of a knob, and the best of each."""
    knob, codes = view["knobs"][at], view["points"]["knobs"][at]
    costs: dict[int, list[float]] = {}
    for code, seconds in zip(codes, view["points"]["seconds"], strict=True):
        if seconds is not None and code >= 0:
            costs.setdefault(code, []).append(_us(seconds))
    for code, times in costs.items():
        axes.plot([code] * len(times), times, ".", markersize=3, alpha=0.4, color="C0")
    known = sorted(costs)
    axes.plot(known, [min(costs[code]) for code in known], "-", color="C1", label="best")
    labels = knob["labels"]
    step = ceil_div(len(labels), _NAMED)
    axes.set(yscale="log", ylabel="us", title=_cut(visible(knob["name"]), 30))
    _plain(axes.yaxis)
    axes.set_xticks(range(0, len(labels), step), [_label(one) for one in labels[::step]],
                    rotation=60, fontsize=7)  # fmt: skip


def _parallel_rows(view: View, names: Sequence[str]) -> list[list[Paint]]:
    knobs = [at for at, knob in enumerate(view["knobs"]) if len(knob["labels"]) > 1]
    good = [i for i, seconds in enumerate(view["points"]["seconds"]) if seconds is not None]
    if len(knobs) < 2 or len(good) < 2:
        return []
    return [[lambda axes: _parallel(axes, view, knobs, good)]]


def _parallel(axes: Any, view: View, knobs: Sequence[int], good: Sequence[int]) -> None:
    """Draw each configuration as a line over its knobs to its time, fast ones dark and on top."""
    points = view["points"]
    # The fastest, and of the others as many as can be told apart.
    ordered = sorted(good, key=lambda i: points["seconds"][i])
    rest = ordered[_LINES // 2 :]
    shown = ordered[: _LINES // 2] + rest[:: max(1, len(rest) * 2 // _LINES)]
    low, high = (math.log(points["seconds"][i]) for i in (ordered[0], ordered[-1]))
    span = (high - low) or 1.0
    for rank, i in enumerate(reversed(shown)):
        slow = (math.log(points["seconds"][i]) - low) / span
        codes = [points["knobs"][at][i] for at in knobs]
        heights = [_height(code, view["knobs"][at]) for code, at in zip(codes, knobs, strict=True)]
        axes.plot(range(len(knobs) + 1), [*heights, slow], color=_shade(slow), alpha=0.6,
                  linewidth=2 if rank == len(shown) - 1 else 0.8)  # fmt: skip
    heads = [_cut(visible(view["knobs"][at]["name"]), _LABEL_WIDTH) for at in knobs]
    axes.set_xticks(range(len(knobs) + 1), [*heads, "time"], fontsize=8)
    axes.set_yticks([])
    for place, at in enumerate(knobs):
        labels = view["knobs"][at]["labels"]
        for code in range(0, len(labels), max(1, ceil_div(len(labels), _NAMED))):
            axes.text(place, _height(code, view["knobs"][at]), f" {_label(labels[code])}",
                      fontsize=6, va="center")  # fmt: skip
    for height, i in ((0.0, ordered[0]), (1.0, ordered[-1])):
        text = f" {microseconds(points['seconds'][i])}"
        axes.text(len(knobs), height, text, fontsize=6, va="center")
    axes.set(title="parallel coordinates: dark is fast")


def _height(code: int, knob: Mapping[str, Any]) -> float:
    """Return the position of a value on the axis of its knob; below the axis without a value."""
    return -0.1 if code < 0 else code / max(1, len(knob["labels"]) - 1)


def _shade(slow: float) -> tuple[float, float, float]:
    """Return a colour between dark blue (fast) and light grey."""
    fast, other = (0.05, 0.2, 0.55), (0.82, 0.84, 0.86)
    share = min(1.0, max(0.0, slow)) ** 0.5
    first, second, third = (a + (b - a) * share for a, b in zip(fast, other, strict=True))
    return first, second, third


def _failure_rows(view: View, names: Sequence[str]) -> list[list[Paint]]:
    return [[lambda axes: _failures(axes, view)]] if view["failures"] else []


def _failures(axes: Any, view: View) -> None:
    """Draw how often each failure occurred, with the beginning of its most frequent text."""
    kinds = view["failures"][::-1]
    axes.barh(range(len(kinds)), [one["count"] for one in kinds], height=0.6, color="#f0b3ae")
    axes.set_ylim(-1, len(kinds))
    axes.set_yticks(range(len(kinds)), [one["kind"] for one in kinds], fontsize=7)
    for at, one in enumerate(kinds):
        axes.text(0, at, f" {_told(one)}", fontsize=7, va="center")
    axes.set(xlabel="trials", title="failures by kind, and the most frequent text of each")
    axes.xaxis.get_major_locator().set_params(integer=True)


def _told(kind: Mapping[str, Any]) -> str:
    """Return how often a kind of failure occurred, and its most frequent text with its count."""
    if not kind["texts"]:
        return str(kind["count"])
    first = kind["texts"][0]
    text = _cut(visible(first["text"].strip().partition("\n")[0]), _TEXT_WIDTH)
    if first["count"] == kind["count"]:
        return f"{kind['count']}: {text}"
    return f"{kind['count']}; most frequent ({first['count']}): {text}"


def _roofline_rows(view: View, names: Sequence[str]) -> list[list[Paint]]:
    roofs = [one for one in view["roofline"]["roofs"] if _is_roof(one)]
    return [[lambda axes: _roofline(axes, view, roofs)]] if roofs else []


def _is_roof(roof: Mapping[str, Any]) -> bool:
    return all(roof[name] and roof[name] > 0 for name in ("flop", "bytes", "flops", "bandwidth"))


def _roofline(axes: Any, view: View, roofs: Sequence[Mapping[str, Any]]) -> None:
    """Draw operations a second against operations a byte, under the ceilings of the device.

    Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009.
    """
    points = view["points"]
    for at, roof in enumerate(roofs):
        color, intensity = f"C{at % 10}", roof["flop"] / roof["bytes"]
        rates = [
            roof["flop"] / seconds
            for run, seconds in zip(points["run"], points["seconds"], strict=True)
            if run == roof["run"] and seconds
        ]
        axes.plot([intensity] * len(rates), rates, ".", markersize=4, alpha=0.5, color=color)
        ridge = roof["flops"] / roof["bandwidth"]
        ends = min(ridge, intensity) / 10, ridge, max(ridge, intensity) * 10
        axes.plot(ends, [ends[0] * roof["bandwidth"], roof["flops"], roof["flops"]], color=color,
                  label=f"{roof['flops']:.3g} FLOP/s, {roof['bandwidth']:.3g} B/s")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="operations a byte", ylabel="FLOP/s",
             title="roofline, and each trial")  # fmt: skip
    _plain(axes.xaxis)
    _plain(axes.yaxis)
    axes.legend()


def _plain(axis: Any) -> None:
    """Label a logarithmic axis without formulas, which are switched off for what logs say."""
    from matplotlib.ticker import LogFormatter

    axis.set_major_formatter(LogFormatter())
    axis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))


def _us(seconds: float | None) -> float:
    return math.nan if seconds is None else seconds * _US


def _label(text: str) -> str:
    """Return a short text of a value in its JSON form; a text without its quotes."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return _cut(visible(value if isinstance(value, str) else text), _LABEL_WIDTH)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


PANELS: Mapping[str, Callable[[View, Sequence[str]], list[list[Paint]]]] = {
    "trials": _best_rows("trial"),
    "time": _best_rows("time"),
    "knobs": _knob_rows,
    "parallel": _parallel_rows,
    "failures": _failure_rows,
    "roofline": _roofline_rows,
}
