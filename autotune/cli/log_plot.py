"""``autotune log plot``: figures of logs as PNG, SVG or PDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from autotune.cli.log_output import LOG, refuse_input
from autotune.cli.tables import say
from autotune.utils.escaping import visible

FORMATS = (".png", ".svg", ".pdf")
_ENDS = ", ".join(FORMATS)
# As `autotune.report.PANELS` has them, which is loaded when it is used.
_PANELS = ("trials", "time", "knobs", "parallel", "failures", "roofline")


@click.command()
@click.argument("paths", metavar="LOG...", nargs=-1, required=True, type=LOG)
@click.option("--task", help="Only this task.")
@click.option(
    "--out",
    "-o",
    type=LOG,
    default=Path("tuning.svg"),
    show_default=True,
    help="PNG, SVG or PDF.",
)
@click.option(
    "--panel",
    "panels",
    multiple=True,
    type=click.Choice(_PANELS),
    help="Only this chart; may be given several times. By default all that have something to "
    "show.",
)
def plot(paths: tuple[Path, ...], task: str | None, out: Path, panels: tuple[str, ...]) -> None:
    """Draw the charts of the live page into a file.

    These are the best time so far against trials and against time, times by the values of each
    knob, parallel coordinates, failures by kind, and the roofline if the log has it. Each log is a
    line. Each of several workloads gets a figure of its own, OUT with a number.
    """
    from autotune.dashboard import Model, View
    from autotune.report import draw, read_records

    if out.suffix.lower() not in FORMATS:
        raise click.ClickException(f"cannot draw {out}: its name ends in none of {_ENDS}")
    for path in paths:
        if path.suffix.lower() in FORMATS and not path.exists():
            raise click.ClickException(f"there is no log {path}; to draw that file: --out {path}")
    refuse_input(out, paths)
    for problem in filter(None, [read_records(path, task)[1] for path in paths]):
        say(problem, err=True)
    model = Model(paths)
    model.read()
    known = [one for one in model.overview()["workloads"] if one["ok"] and _is_of(one, task)]
    if not known:
        raise click.ClickException("there is nothing to draw: no trial succeeded")
    for number, one in enumerate(known):
        path = out if len(known) == 1 else out.with_suffix(f".{number:03d}{out.suffix}")
        title = visible(f"{one['title']} on {', '.join(one['targets'])}")
        view = model.view(View(workload=one["id"], rows=0))
        draw(view, title, _names(view["runs"], paths), path, panels or _PANELS)
        say(f"{path}: {title}")


def _is_of(workload: Mapping[str, Any], task: str | None) -> bool:
    title = workload["title"]
    return task is None or title == task or title.startswith(f"{task} ")


def _names(runs: Sequence[Mapping[str, Any]], paths: Sequence[Path]) -> list[str]:
    """Return the log of each run, with its target where a log has several."""
    logs = [run["log"] for run in runs]
    names = [str(paths[log]) for log in logs]
    return [
        f"{name}, {run['target']}" if logs.count(run["log"]) > 1 else name
        for name, run in zip(names, runs, strict=True)
    ]
