"""Figures of a log: how the best time fell, and what each value of a knob cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.cli.log_entries import Entry, Group
from autotune.errors import RecordError
from autotune.utils.visible import visible

# Panels of knobs in a row, and values of a knob that are named; of more, every k-th is.
_COLUMNS, _NAMED = 3, 12
_LABEL_WIDTH = 14


def draw(group: Group, path: Path) -> None:
    """Draw the trials of one workload into a file, whose suffix says in which format.

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
        figure = Figure(layout="constrained")
        _panels(figure, group)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path)
        except (OSError, ValueError) as error:
            raise RecordError(f"cannot draw {path}: {error}") from error


def _panels(figure: Any, group: Group) -> None:
    knobs = _varied(group.trials)
    rows = 1 + -(-len(knobs) // _COLUMNS)
    figure.set_size_inches(11, 3.2 * rows)
    grid = figure.add_gridspec(rows, _COLUMNS)
    figure.suptitle(f"{group.title} on {group.target}")
    _best_so_far(figure.add_subplot(grid[0, :]), _by_log(group.trials))
    for i, (name, costs) in enumerate(knobs.items()):
        axes = figure.add_subplot(grid[1 + i // _COLUMNS, i % _COLUMNS])
        _by_value(axes, visible(name), costs)


def _by_log(trials: Sequence[Entry]) -> dict[Path, list[Entry]]:
    logs: dict[Path, list[Entry]] = {}
    for one in trials:
        logs.setdefault(one.path, []).append(one)
    return logs


def _best_so_far(axes: Any, logs: Mapping[Path, Sequence[Entry]]) -> None:
    for path, trials in logs.items():
        best = curve(trials)
        (line,) = axes.step(range(1, len(best) + 1), best, where="post", label=str(path))
        each = [one.result.seconds * 1e6 if one.result.ok else float("nan") for one in trials]
        x = range(1, len(each) + 1)
        axes.plot(x, each, ".", markersize=3, alpha=0.4, color=line.get_color())
    axes.set(xlabel="trial", ylabel="us", yscale="log", title="best so far, and each trial")
    axes.xaxis.get_major_locator().set_params(integer=True)
    if logs:
        axes.legend()


def curve(trials: Sequence[Entry]) -> list[float]:
    """Return the best time in microseconds after each trial; NaN before the first success."""
    best, found = float("nan"), []
    for one in trials:
        us = one.result.seconds * 1e6
        best = us if one.result.ok and not best <= us else best
        found.append(best)
    return found


def _varied(trials: Sequence[Entry]) -> dict[str, dict[str, list[float]]]:
    """Return, for each knob with more than one value, the times under each value."""
    knobs: dict[str, dict[str, list[float]]] = {}
    for one in trials:
        if one.result.ok:
            for name, value in one.knobs.items():
                costs = knobs.setdefault(name, {})
                costs.setdefault(json.dumps(value), []).append(one.result.seconds * 1e6)
    return {
        name: {value: costs[value] for value in sorted(costs, key=_order)}
        for name, costs in knobs.items()
        if len(costs) > 1
    }


def _order(value: str) -> tuple[int, Any]:
    """Sort numbers and lists of numbers by size, and anything else as text."""
    data = json.loads(value)
    numbers = data if isinstance(data, list) else [data]
    plain = all(isinstance(one, (int, float)) for one in numbers)
    return (0, numbers) if plain else (1, value)


def _by_value(axes: Any, name: str, costs: Mapping[str, Sequence[float]]) -> None:
    for x, times in enumerate(costs.values()):
        axes.plot([x] * len(times), times, ".", markersize=3, alpha=0.4, color="C0")
    axes.plot([min(times) for times in costs.values()], "-", color="C1", label="best")
    step = -(-len(costs) // _NAMED)
    labels = [value[:_LABEL_WIDTH] for value in costs]
    axes.set(yscale="log", ylabel="us", title=name)
    axes.set_xticks(range(0, len(costs), step), labels[::step], rotation=60, fontsize=7)
