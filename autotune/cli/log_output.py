"""Options and output formats that the commands on logs share."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from autotune.cli.tables import as_csv, as_json, say
from autotune.errors import RecordError
from autotune.measure.objective import OBJECTIVES, TIME
from autotune.record.paths import log_source
from autotune.utils.quantities import energy_text, microseconds

LOG = click.Path(dir_okay=False, path_type=Path)
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*(%?)\s*")


def log_or_url(value: str | Path) -> Path | str:
    """Return where records are: a path, or the URL of a database as a text."""
    try:
        return log_source(value)
    except RecordError as error:
        raise click.BadParameter(str(error)) from error


def part(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """Return a part such as ``5%`` or ``0.05`` as a number."""
    if value is None:
        return None
    found = _PART.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"expected a part such as 5% or 0.05, got {value!r}")
    number = float(found[1])
    if not found[2] and number >= 1:
        raise click.BadParameter(f"{value!r} is {number:.0%}; write {value}% or a number below 1")
    return number / 100 if found[2] else number


Row = Mapping[str, Any]
Command = Callable[..., None]


def output_options(command: Command) -> Command:
    """Add the options of all that prints rows; the command is given ``task`` and ``form``."""

    @functools.wraps(command)
    def with_form(*args: Any, json: bool, csv: bool, **kwargs: Any) -> None:
        if json and csv:
            raise click.UsageError("give --json or --csv, not both")
        command(*args, form="json" if json else "csv" if csv else "", **kwargs)

    options: Command = with_form
    for option in (
        click.option("--csv", is_flag=True, help="Print CSV."),
        click.option("--json", is_flag=True, help="Print JSON, times in seconds."),
        click.option("--task", help="Only this task."),
    ):
        options = option(options)
    return options


objective_option = click.option(
    "--objective",
    type=click.Choice(list(OBJECTIVES)),
    default=TIME.name,
    show_default=True,
    help="What is least: the time of a run, its energy, or their product. Records that do not say "
    "their energy do not count for the last two.",
)


def top_option(default: int, text: str) -> Callable[[Command], Command]:
    """Return an option ``--top N`` with a least and default value."""
    least = click.IntRange(min=default)
    return click.option("--top", type=least, default=default, metavar="N", help=text)


paths_argument = click.argument(
    "paths", metavar="LOG...", nargs=-1, required=True, type=log_or_url
)


def refuse_input(out: Path | str, inputs: Iterable[Path | str]) -> None:
    """Refuse to write over one of the files that are read; a URL is no file.

    Raises:
        click.UsageError: the output is one of them.
    """
    for path in inputs:
        files = isinstance(out, Path) and isinstance(path, Path)
        if files and os.path.exists(out) and os.path.exists(path) and os.path.samefile(out, path):
            raise click.UsageError(f"{out} is read, and would be written over; give another name")


def is_stdout(out: Path | str) -> bool:
    """Return whether a file is the standard output, which then must get nothing else."""
    try:
        return isinstance(out, Path) and os.path.samestat(os.stat(out), os.fstat(1))
    except OSError:
        return False


def print_rows(rows: Sequence[Row], form: str) -> None:
    """Print rows as JSON or CSV."""
    say(as_json(rows) if form == "json" else as_csv(rows))


def us_text(seconds: float | None) -> str:
    """Return a time in microseconds without their name."""
    return "-" if seconds is None else microseconds(seconds).removesuffix(" us")


def joules_text(joules: float | None) -> str:
    """Return an energy with its unit."""
    return "-" if joules is None else energy_text(joules)


def spread_text(spread: float | None) -> str:
    """Return a spread in percent."""
    return "" if spread is None else f"+- {spread:.1%}"
