"""``autotune import`` and ``autotune export``: logs from and for other tuners."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from autotune.cli.log_entries import Group, read_logs, refuse_unknown
from autotune.cli.log_output import log_or_url, refuse_input
from autotune.cli.modules import import_templates, with_logs
from autotune.cli.ship import ship
from autotune.cli.tables import Table, say
from autotune.interchange import READERS, Imported, import_files, read_t1, write_t4
from autotune.record import LogWriter, best_of, write_log
from autotune.task import Task
from autotune.tuner.loop.result import title
from autotune.utils.quantities import counted, microseconds

FILE = click.Path(dir_okay=False, path_type=Path)
# Left-out entries that are named.
_NAMED = 5


def _arguments(
    context: click.Context, option: click.Parameter, value: str | None
) -> list[object] | None:
    """Return the JSON array that was given."""
    if value is None:
        return None
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise click.BadParameter(
            f"expected a JSON array such as '[1024, \"float32\"]', got {value!r}"
        )
    return found


@click.command("import")
@click.argument(
    "paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--out", "-o", required=True, type=FILE, help="The log to write.")
@click.option("--append", is_flag=True, help="Append to an existing log.")
@click.option(
    "--format", "form", type=click.Choice(list(READERS)), help="By default detected from the file."
)
@click.option("--task", help="Name of the task; by default the kernel's.")
@click.option(
    "--args", callback=_arguments, help="Arguments of the task; by default the problem's size."
)
@click.option("--target", help="Target of the records; by default from the device's name.")
@click.option("--t1", type=FILE, help="Description of the problem, for results in T4.")
def import_(
    paths: tuple[Path, ...],
    out: Path,
    append: bool,
    form: str | None,
    task: str | None,
    args: list[object] | None,
    target: str | None,
    t1: Path | None,
) -> None:
    """Make a log of what another tuner measured.

    FILE is a cache of Kernel Tuner, complete or not, results in T4 (of Kernel Tuner, KTT, BAT), a
    *.autotune.json of Triton, or a folder of these such as TRITON_CACHE_DIR; also compressed with
    gzip.

    With --task, --args and --target as in your template, `tune(resume=LOG)` starts from these
    trials. Times are converted to seconds; all other data of a trial is kept in its record under
    "imported".
    """
    if out.exists() and not append:
        raise click.UsageError(f"{out} exists; give another name, or --append to add to it")
    problem = None if t1 is None else read_t1(t1)
    found = list(import_files(paths, form=form, name=task, args=args, target=target, t1=problem))
    records = [pair for one in found for pair in one.records]
    if not records:
        raise click.ClickException("there is no trial in " + ", ".join(map(str, paths)))
    if append:
        LogWriter(out).extend(records)
    else:
        write_log(out, records)
    say(_table(found))
    for one in found:
        _say_of(one, target is None)
    units = " and ".join(sorted({one.unit for one in found}))
    say(f"\n{counted(len(records), 'record')} in {out}; times were {units} and are seconds there")


def _table(found: Sequence[Imported]) -> Table:
    rows = []
    for one in found:
        best = best_of(one.records)
        good = sum(result.ok for _, result in one.records)
        name = title(one.records[0][0].task) if one.records else "-"
        us = "-" if best is None else microseconds(best[1].seconds).removesuffix(" us")
        rows.append(
            (str(one.path), one.tool, name, str(one.target), str(len(one.records)), str(good), us)
        )
    heads = ("file", "from", "workload", "target", "trials", "good", "best us")
    return Table(heads, rows, right=(4, 5, 6))


def _say_of(one: Imported, guessed: bool) -> None:
    """Print what a file does not state (device, time), and the entries left out."""
    if guessed and one.tool == "Triton":
        say(f"{one.path}: does not say for which device; --target names another than cuda")
    if one.undated:
        say(f"{one.path}: does not say when; its trials end with the file's last change")
    for problem in one.problems[:_NAMED]:
        say(f"{one.path}: {problem}")
    if len(one.problems) > _NAMED:
        say(f"{one.path}: and {len(one.problems) - _NAMED} more such entries were left out")


@click.command("export")
@click.argument("paths", metavar="[FILE.py]... LOG...", nargs=-1, required=True, type=log_or_url)
@click.option(
    "--out",
    "-o",
    required=True,
    type=click.Path(path_type=Path),
    help="The file to write, or with --to c the folder.",
)
@click.option("--task", "tasks", multiple=True, help="Only this task; may be given several times.")
@click.option(
    "--to",
    "--format",
    "form",
    type=click.Choice(["t4", "c"]),
    default="t4",
    show_default=True,
    help="t4: results as the FAIR auto-tuning community exchanges them. c: the best kernels as a "
    "C library with CMake, and a Python package around it.",
)
@click.option("--name", help="With --to c: name of the library; by default the folder's.")
@click.option(
    "--arch",
    "archs",
    multiple=True,
    help="With --to c: also for this architecture, such as sm_80; may be given several times.",
)
@click.option(
    "--module",
    "modules",
    multiple=True,
    default=["autotune.templates"],
    show_default=True,
    help="With --to c: module that registers the templates; may be given several times.",
)
def export(
    paths: tuple[Path | str, ...],
    out: Path,
    tasks: tuple[str, ...],
    form: str,
    name: str | None,
    archs: tuple[str, ...],
    modules: tuple[str, ...],
) -> None:
    """Write the trials of a log for other tools, or its best kernels for C, C++ and Python.

    Without --to, the trials in T4, which the tools of Kernel Tuner read; each of several workloads
    gets a file of its own, OUT with a number.

    With --to c the best kernel of each workload, as `apply_history_best` uses it: C code, or
    cubins and PTX with a launcher, selected by the shapes of the arrays. FILE.py contains the
    templates of the log; it is imported. The project does not depend on autotune.
    """
    files, logs = with_logs(paths)
    if form == "c":
        import_templates(modules, files)
        ship(logs, out, tasks, name, archs)
    else:
        refuse_input(out, [path for path in logs if isinstance(path, Path)])
        _write_t4(logs, out, tasks)


def _write_t4(paths: Sequence[Path | str], out: Path, tasks: Sequence[str]) -> None:
    """Write a file a workload."""
    logs = read_logs(paths)
    if tasks:
        refuse_unknown(tasks, (str(one.task.name) for one in logs.groups))
        kept = [one for one in logs.groups if one.entries[0].inp.task.name in tasks]
        logs = replace(logs, groups=kept)
    groups = [one for one in logs.groups if isinstance(one.entries[0].inp.task, Task)]
    if not groups:
        raise click.ClickException("there is nothing to write: no trial of a template")
    if len(groups) > 1 and out.exists() and not out.is_file():
        raise click.ClickException(
            f"{out} is no file, and each of {len(groups)} workloads is written to one of its own; "
            "choose one by --task, or name a file"
        )
    for number, group in enumerate(groups):
        path = out if len(groups) == 1 else out.with_suffix(f".{number:03d}{out.suffix}")
        write_t4(_trials(group), path)
        say(f"{path}: {group.title} on {group.target}, {counted(len(group.trials), 'result')}")
    if len(groups) < len(logs.groups):
        left = counted(len(logs.groups) - len(groups), "workload")
        say(f"left out, without a template: {left}")
    for problem in logs.problems:
        say(problem)


def _trials(group: Group) -> list[Any]:
    return [(one.inp, one.result) for one in group.trials]
