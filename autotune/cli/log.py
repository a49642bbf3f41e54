"""``autotune log``: shows, compares, filters and compacts logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from autotune.cli.groups import FullHelpGroup
from autotune.cli.log_diff import diff
from autotune.cli.log_entries import Group, LogEntry, Logs, read_logs
from autotune.cli.log_output import (
    LOG,
    Row,
    is_stdout,
    joules_text,
    log_or_url,
    objective_option,
    output_options,
    paths_argument,
    print_rows,
    refuse_input,
    spread_text,
    top_option,
    us_text,
)
from autotune.cli.log_plot import plot
from autotune.cli.modules import import_templates, module_option, with_logs
from autotune.cli.tables import Table, say
from autotune.dashboard import ALL_LINES, source_of
from autotune.errors import RecordError
from autotune.measure.objective import TIME
from autotune.measure.types import MeasureErrorNo
from autotune.record.compaction import compact as compact_log
from autotune.record.compaction import pick_best, split_workload
from autotune.record.reader import open_log, source_name
from autotune.record.store import open_database
from autotune.tuner.loop.result import default_of, title
from autotune.utils.escaping import shorten, visible
from autotune.utils.quantities import counted, microseconds
from autotune.workload import key_to_json

# Longest text of an error and of all knobs in a table.
ERROR_WIDTH, KNOBS_WIDTH = 90, 100


@click.group(cls=FullHelpGroup)
def log() -> None:
    """Show, compare, plot and rewrite logs of trials."""


log.add_command(diff)
log.add_command(plot)


@log.command()
@paths_argument
@output_options
@top_option(0, "Also the N best configurations of each workload.")
@objective_option
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Maximum number of workloads to list.",
)
def show(
    paths: tuple[Path | str, ...],
    task: str | None,
    form: str,
    top: int,
    objective: str,
    limit: int,
) -> None:
    """Summarise logs: workloads with their best time, and failures by kind.

    Times are medians of timed batches; the spread is that of one batch. Energy is that of one run,
    where it was measured.
    """
    logs = read_logs(paths, task, objective)
    if form:
        best = [one.row for group in logs.groups for one in group.fastest(top)]
        print_rows(best if top else [_summary(group) for group in logs.groups], form)
        _say_problems(logs)
        return
    names = ", ".join(map(source_name, paths))
    trials, workloads = counted(len(logs.trials), "trial"), counted(len(logs.groups), "workload")
    say(f"{names}: {trials} of {workloads}\n")
    if logs.groups:
        say(f"{_workloads(logs.groups[:limit])}\n")
    if len(logs.groups) > limit:
        say(f"... and {len(logs.groups) - limit} more; see --limit and --task\n")
    for group in logs.groups[:limit] if top else ():
        say(f"{group.title} on {group.target}\n{ranking(group.fastest(top))}\n")
    _say_what_is_wrong(logs)


def _summary(group: Group) -> Row:
    best = group.best
    good = [one for one in group.trials if one.result.ok]
    return {
        "task": group.task.name,
        "args": group.args,
        "target": group.target,
        "trials": len(group.trials),
        "good": len(good),
        "seconds": best and best.result.seconds,
        "spread": best and best.result.spread,
        "joules": best and best.result.joules,
        "watts": best and best.result.watts,
        "default_seconds": best and default_of(best.result),
        "index": best and key_to_json(best.inp.key),
        "where": best and best.where,
    }


def _workloads(groups: Sequence[Group]) -> Table:
    rows = []
    for group in groups:
        one = _summary(group)
        rows.append(
            (
                group.title, group.target, str(one["trials"]), str(one["good"]),
                us_text(one["seconds"]), spread_text(one["spread"]),
                us_text(one["default_seconds"]), joules_text(one["joules"]),
            )
        )  # fmt: skip
    heads = ("workload", "target", "trials", "good", "best us", "spread", "default us", "energy")
    known = any(row[-1] != joules_text(None) for row in rows)
    shown = len(heads) if known else len(heads) - 1
    return Table(heads[:shown], [row[:shown] for row in rows], right=range(2, shown))


def ranking(entries: Sequence[LogEntry]) -> Table:
    """Return records as a table; with energy and power if one has them."""
    known = any(one.result.joules is not None for one in entries)
    rows = [
        (
            us_text(one.result.seconds), spread_text(one.result.spread), *_power(one, known),
            one.inp.key, shorten(_knobs(one), KNOBS_WIDTH), one.where,
        )
        for one in entries
    ]  # fmt: skip
    heads = ("us", "spread", *(("energy", "W") if known else ()), "index")
    right = range(len(heads))
    return Table((*heads, "configuration", "where"), rows, right=right)


def _power(entry: LogEntry, known: bool) -> tuple[str, ...]:
    if not known:
        return ()
    watts = entry.result.watts
    return joules_text(entry.result.joules), "-" if watts is None else f"{watts:.0f}"


def _knobs(entry: LogEntry) -> str:
    return ", ".join(visible(f"{name}={value}") for name, value in entry.knobs.items())


def _say_what_is_wrong(logs: Logs) -> None:
    counts: Counter[str] = Counter()
    for one in logs.trials:
        if not one.result.ok:
            line = visible(one.result.error_msg.strip().partition("\n")[0])
            kind = MeasureErrorNo(one.result.error_no).name
            counts[shorten(f"{kind} {line}".strip(), ERROR_WIDTH)] += 1
    for text, count in counts.most_common():
        say(f"{count:6} failed: {text}")
    _say_problems(logs)


def _say_problems(logs: Logs) -> None:
    """Print the lines that could not be read, to standard error."""
    for problem in logs.problems:
        say(problem, err=True)


@log.command()
@click.argument("paths", metavar="[FILE.py]... LOG...", nargs=-1, required=True, type=log_or_url)
@output_options
@top_option(1, "The N best configurations of each workload.")
@objective_option
@module_option
@click.option("--source/--no-source", default=True, help="Print the source of the kernel.")
def best(
    paths: tuple[Path | str, ...],
    task: str | None,
    form: str,
    top: int,
    objective: str,
    modules: tuple[str, ...],
    source: bool,
) -> None:
    """Print the best configuration and kernel of each workload.

    The best is the one that `apply_history_best` uses: the winner of a race precedes the trials
    that it was raced with. FILE.py contains the templates of the log; it is imported, and tells
    which records are of kernels as they are now.
    """
    files, given = with_logs(paths)
    if source or files:
        import_templates(modules if source else (), files)
    logs = read_logs(given, task, objective, ask_templates=bool(files))
    found = [one for group in logs.groups for one in group.fastest(top)]
    if form:
        rows = [{**one.row, **({"source": _source(one)[0]} if source else {})} for one in found]
        print_rows(rows, form)
    else:
        _say_best(found, source)
    _say_problems(logs)
    if logs.is_outdated:
        raise click.ClickException(
            f"no trial of {task or 'any task'} is of its kernel as it is now: tune it again"
        )
    if not (form or found or logs.problems):
        lacking = "" if objective == TIME.name else ", with its energy measured"
        say(f"no trial of {task or 'any task'} succeeded{lacking}")


def _say_best(entries: Sequence[LogEntry], source: bool) -> None:
    for one in entries:
        say(_described(one))
        if source:
            text, why = _source(one)
            say(f"\n{text.rstrip()}\n" if text else f"  source   not shown: {why}")


def _described(entry: LogEntry) -> str:
    result, task = entry.result, entry.inp.task
    default = default_of(result)
    rows = [("best", microseconds(result.seconds, result.spread))]
    if result.joules is not None:
        at = "" if result.watts is None else f", at {result.watts:.0f} W"
        rows.append(("energy", f"{joules_text(result.joules)}{at}"))
    if default is not None:
        ratio = f"the best is {default / result.seconds:.2f}x as fast"
        rows.append(("default", f"{microseconds(default)}; {ratio}"))
    race = result.evidence.race
    how = f", winner of a race of {len(race.candidates)}" if race and race.candidates[1:] else ""
    rows.append(("where", f"{entry.where}{how}"))
    rows.append(("index", entry.inp.key))
    rows += [(visible(name), visible(str(value))) for name, value in entry.knobs.items()]
    width = max(len(name) for name, _ in rows)
    lines = [f"{title(task)} on {entry.inp.target}"]
    return "\n".join(lines + [f"  {name:{width}} {value}" for name, value in rows])


def _source(entry: LogEntry) -> tuple[str, str]:
    """Return the text of the kernel of a record; or nothing, and why."""
    return source_of((entry.inp, entry.result))


@log.command()
@paths_argument
@output_options
def pareto(paths: tuple[Path | str, ...], task: str | None, form: str) -> None:
    """Print the Pareto front of time and energy of each workload.

    These are the configurations than which no other is faster and takes less energy, the fastest
    first. Only records with energy count: see LocalRunner(energy=True).
    """
    logs = read_logs(paths, task)
    fronts = [(group, group.front) for group in logs.groups]
    if form:
        print_rows([one.row for _, front in fronts for one in front], form)
        _say_problems(logs)
        return
    for group, front in fronts:
        if front:
            say(f"{group.title} on {group.target}\n{ranking(front)}\n")
    _say_problems(logs)
    if not any(front for _, front in fronts):
        say("no record has its energy: tune with LocalRunner(energy=True)", err=True)


@log.command()
@click.argument("path", type=log_or_url)
@click.argument("out", type=log_or_url)
@objective_option
def pick(path: Path | str, out: Path | str, objective: str) -> None:
    """Write the best record of each workload of PATH to OUT.

    Records in OUT compete too. If OUT is a database, the best are added to it.
    """
    refuse_input(out, [path])
    best = counted(pick_best(path, out, ALL_LINES, objective), "best record")
    say(f"{best} in {source_name(out)}", err=is_stdout(out))


@log.command()
@click.argument("paths", metavar="FROM... TO", nargs=-1, required=True, type=log_or_url)
def copy(paths: tuple[Path | str, ...]) -> None:
    """Add all lines of logs or databases to another one.

    Lines that TO already contains are not added again. If one of FROM is no log, none is copied.
    If TO is a pipe or a device, or /dev/stdout, counts go to standard error.
    """
    *sources, out = paths
    if not sources:
        raise click.UsageError("give at least one log to copy from, and where to")
    copied = [_lines_of(source) for source in sources]
    with open_database(out) as database:
        # A device or a pipe is written to, and holds nothing that could be read.
        held = not isinstance(out, Path) or not out.exists() or out.is_file() or out.is_dir()
        known = set(database.lines()) if held else set()
        for source, lines in zip(sources, copied, strict=True):
            new = [line for line in lines if line not in known]
            known.update(new)
            database.write(new)
            name, into = source_name(source), source_name(out)
            say(
                f"{name}: {len(new)} of {len(lines)} lines are new in {into}",
                err=not held or is_stdout(out),
            )


def _lines_of(source: Path | str) -> dict[str, None]:
    """Return the lines of a log, each once; refuse what has none that could be a record's."""
    with open_log(source) as file:
        lines = dict.fromkeys(line.rstrip("\n") + "\n" for line in file if line.strip())
    reader = ALL_LINES.reader(lines, source_name(source), quiet=True)
    if next(iter(reader), None) is None and reader.is_no_log:
        raise RecordError(f"log copy: {reader.report()}")
    return lines


@log.command()
@click.argument("path", type=LOG)
@click.option(
    "--clean/--all", default=True, show_default=True, help="Drop repeated configurations."
)
def split(path: Path, clean: bool) -> None:
    """Write each workload of PATH to a file of its own, PATH.NNN.wkl."""
    for made in split_workload(path, clean, ALL_LINES):
        say(str(made))


@log.command()
@click.argument("path", type=log_or_url)
@click.option("--out", "-o", type=LOG, help="Output. [default: PATH is replaced]")
def compact(path: Path | str, out: Path | None) -> None:
    """Drop unreadable lines, and all but the last record of each configuration.

    A failure does not take the place of a record that worked, unless the kernel was edited since.
    """
    kept, dropped = compact_log(path, out, ALL_LINES)
    say(f"{counted(kept, 'record')} kept, {counted(dropped, 'line')} dropped")
