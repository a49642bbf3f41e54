"""``autotune report``: logs as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.cli.log_output import refuse_input
from autotune.cli.modules import import_templates, module_option, with_logs
from autotune.cli.tables import say
from autotune.errors import RecordError
from autotune.utils.files import publish

LOG = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("paths", metavar="[FILE.py]... LOG...", nargs=-1, required=True, type=LOG)
@click.option(
    "--out", "-o", type=LOG, default=Path("report.html"), show_default=True, help="File to write."
)
@module_option
def report(paths: tuple[Path, ...], out: Path, modules: tuple[str, ...]) -> None:
    """Write logs as one HTML file.

    It has the charts of `autotune serve`: best so far, times by knob, failures with their texts,
    the winner, a table to sort and filter. Two logs are also compared, with confidence intervals.
    The file contains everything in the logs, messages and arguments included, and loads nothing
    from other sites. FILE.py contains the templates of the logs; it is imported to show the source
    of the winner.
    """
    from autotune.report import html_report, read_records

    files, logs = with_logs(paths)
    refuse_input(out, paths)
    problems = [read_records(path)[1] for path in logs]
    import_templates(modules, files)
    text = html_report(logs).encode("utf-8", "replace")
    try:
        publish(out, text)
    except OSError as error:
        raise RecordError(f"cannot write {out}: {error.strerror}") from error
    say(f"{out}: {len(text) / 1000:.0f} kB, {', '.join(map(str, logs))}")
    for problem in filter(None, problems):
        say(problem, err=True)
