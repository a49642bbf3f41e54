"""Trials as CSV and JSON, piece by piece."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from autotune.dashboard.json_arrays import to_text
from autotune.dashboard.model import Model
from autotune.dashboard.view import View
from autotune.utils.spreadsheet import cell

FORMATS = {"csv": "text/csv", "json": "application/json"}
# Trials of one piece.
_PIECE = 500


def pieces(model: Model, view: View, kind: str) -> Iterator[str]:
    """Yield all trials of a view, in its order; what is appended meanwhile is not among them.

    Args:
        model: the logs.
        view: which trials, and sorted by what.
        kind: one of `FORMATS`.
    """
    rows = model.rows(view, _PIECE)
    return _csv(rows, model.knob_names(view)) if kind == "csv" else _json(rows)


def _json(parts: Iterator[list[dict[str, object]]]) -> Iterator[str]:
    before = "[\n"
    for part in parts:
        yield before + ",\n".join(map(to_text, part))
        before = ",\n"
    yield "\n]\n" if before == ",\n" else "[]\n"


def _csv(parts: Iterator[list[dict[str, object]]], knobs: list[str]) -> Iterator[str]:
    fields = ["log", "target", "trial", "line", "key", "seconds", "spread", "error", "error_msg",
              "all_cost", "time", "timestamp", "device", "roofline", "joules"]  # fmt: skip
    yield _lines([[*fields, *(f"config.{name}" for name in knobs)]])
    for part in parts:
        yield _lines([_values(row, fields, knobs) for row in part])


def _values(row: Mapping[str, Any], fields: list[str], knobs: list[str]) -> list[object]:
    return [*(row[name] for name in fields), *(row["config"].get(name) for name in knobs)]


def _lines(rows: list[list[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([[cell(value) for value in row] for row in rows])
    return out.getvalue()
