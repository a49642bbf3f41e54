"""Failures by kind, with their counts, and each message in full."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from autotune.dashboard.selection import Selection
from autotune.measure.types import MeasureErrorNo

# Texts shown of each kind, the most frequent first.
MOST_TEXTS = 50


def failures_of(selection: Selection) -> list[dict[str, object]]:
    """Return the kinds of failure among the trials of a view, the most frequent first.

    Each has the texts of compiler, device or checker, how often each occurs, and where first.
    Counts are of all trials, not of those that charts show.
    """
    places = selection.wanted
    error = selection.field("error")[places].astype(int)
    kinds = Counter(error[error != 0].tolist())
    return [
        _kind(selection, places[error == number], number, count)
        for number, count in kinds.most_common()
    ]


def _kind(selection: Selection, places: Any, number: int, count: int) -> dict[str, object]:
    text, first, counts = np.unique(selection.text[places], return_index=True, return_counts=True)
    # Runs count texts for themselves; to a reader equal texts are one.
    merged: dict[str, list[int]] = {}
    for _, at, times in sorted(zip(text, first, counts, strict=True), key=lambda row: row[1]):
        place = int(places[at])
        known = merged.setdefault(_words(selection, place), [0, place])
        known[0] += int(times)
    ranked = sorted(merged.items(), key=lambda item: -item[1][0])
    return {
        "error": number,
        "kind": MeasureErrorNo(number).name,
        "count": count,
        "texts": [
            {"text": words, "count": times, **_where(selection, place)}
            for words, (times, place) in ranked[:MOST_TEXTS]
        ],
        "more": max(0, len(ranked) - MOST_TEXTS),
    }


def _words(selection: Selection, place: int) -> str:
    run = selection.runs[selection.run[place]]
    return message_of(selection, place, run) or "(the log does not say why)"


def message_of(selection: Selection, place: int, run: Any) -> str:
    """Return the message of a trial's failure; empty where it did not fail."""
    row = int(selection.number[place]) - 1
    code = int(run.trials.column("message")[row])
    return run.messages.texts[code] if code >= 0 else ""


def _where(selection: Selection, place: int) -> dict[str, int]:
    run = selection.runs[selection.run[place]]
    row = int(selection.number[place]) - 1
    line = int(run.trials.column("line")[row])
    return {"run": run.number, "trial": row + 1, "line": line}
