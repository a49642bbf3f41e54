"""Tables of the command line: for people, for programs, and for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import click
import rich.table
from rich import box
from rich.console import Console

from autotune.utils.escaping import visible
from autotune.utils.spreadsheet import cell

# Wide enough that nothing is cut where nobody knows how wide the reader's screen is.
_UNKNOWN_WIDTH = 200


@dataclass(frozen=True)
class Table:
    """Rows of text under headings.

    Attributes:
        heads: the headings.
        rows: the cells.
        right: columns that are aligned to the right.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int] = field(default=())

    def __str__(self) -> str:
        drawn = rich.table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for i, head in enumerate(self.heads):
            drawn.add_column(head, justify="right" if i in self.right else "left", overflow="fold")
        for row in self.rows:
            drawn.add_row(*(rich.markup.escape(visible(cell)) for cell in row))
        console = Console(file=io.StringIO(), width=_width(), color_system=None, highlight=False)
        with console.capture() as captured:
            console.print(drawn)
        return "\n".join(filter(None, map(str.rstrip, captured.get().splitlines())))


def say(message: object, err: bool = False) -> None:
    """Print a text that may quote a log, without any power over the terminal."""
    click.echo(visible(str(message), lines=True), err=err)


def _width() -> int:
    console = Console()
    return console.width if console.is_terminal else _UNKNOWN_WIDTH


def as_json(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as a JSON array of objects, one a line; JSON has no infinity: it is null."""
    lines = [json.dumps(_finite(row), allow_nan=False, default=str) for row in rows]
    return "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"


def as_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as CSV under all the keys they have; see `cell`."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([cell(key) for key in keys])
    for row in rows:
        writer.writerow([cell(row.get(key)) for key in keys])
    return out.getvalue().rstrip("\n")


def _finite(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {str(key): _finite(one) for key, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
        case _:
            return value
