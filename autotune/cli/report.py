"""``autotune report``: logs as one HTML file."""

from __future__ import annotations

import os
from pathlib import Path

import click

from autotune.cli.tables import say
from autotune.errors import RecordError
from autotune.utils.files import write_atomically

LOG = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("paths", metavar="LOG...", nargs=-1, required=True, type=LOG)
@click.option(
    "--out", "-o", type=LOG, default=Path("report.html"), show_default=True, help="The file."
)
def report(paths: tuple[Path, ...], out: Path) -> None:
    """Write logs as one HTML file, to look at without a server and to send to others.

    It has the pictures of `autotune serve`: best so far, times by knob, failures with their texts,
    the winner, a table to sort and filter. Two logs are also compared, the first with the second,
    with confidence intervals. What stands in the logs stands in the file, messages and arguments
    too; it loads nothing from elsewhere.
    """
    from autotune.report import html_report

    text = html_report(paths).encode("utf-8", "replace")
    try:
        write_atomically(out, text)
        os.chmod(out, 0o644)
    except OSError as error:
        raise RecordError(f"cannot write {out}: {error.strerror}") from error
    say(f"{out}: {len(text) / 1000:.0f} kB, {', '.join(map(str, paths))}")
