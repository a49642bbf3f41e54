"""``autotune log``: what stands in logs, and smaller logs from larger ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from autotune.measure.types import MeasureErrorNo
from autotune.record.fields import Pair
from autotune.record.reader import LogReader, open_log
from autotune.record.tools import compact as compact_log
from autotune.record.tools import pick_best, split_workload
from autotune.task.workload import Workload

LOG = click.Path(dir_okay=False, path_type=Path)
# Longest text of arguments and of an error in a table.
ARGS_WIDTH, ERROR_WIDTH = 60, 90


@click.group()
def log() -> None:
    """Show and rewrite logs of trials."""


@log.command()
@click.argument("path", type=LOG)
@click.option("--task", help="Only this task.")
@click.option("--limit", default=20, show_default=True, help="Most workloads to list.")
def show(path: Path, task: str | None, limit: int) -> None:
    """Summarise a log: workloads with their best time, and failures by kind."""
    with open_log(path) as file:
        reader = LogReader(file, str(path), quiet=True)
        pairs = [pair for pair in reader if task in (None, pair[0].task.name)]
    groups: dict[tuple[str, Workload], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((str(pair[0].target), pair[0].task.workload), []).append(pair)
    click.echo(f"{path}: {len(pairs)} trials of {len(groups)} workloads")
    for (target, workload), group in list(groups.items())[:limit]:
        click.echo(_summary(target, workload, group))
    if len(groups) > limit:
        click.echo(f"... and {len(groups) - limit} more; see --limit and --task")
    for text, count in _failures(pairs).most_common():
        click.echo(f"{count:6} failed: {text}")
    if reader.problems:
        click.echo(reader.report())


@log.command()
@click.argument("path", type=LOG)
@click.argument("out", type=LOG)
def pick(path: Path, out: Path) -> None:
    """Write the best record of each workload of PATH to OUT; what OUT holds competes."""
    click.echo(f"{pick_best(path, out)} best records in {out}")


@log.command()
@click.argument("path", type=LOG)
@click.option("--clean/--all", default=True, help="Drop repeated configurations, or keep them.")
def split(path: Path, clean: bool) -> None:
    """Write each workload of PATH to a file of its own, PATH.NNN.wkl."""
    for made in split_workload(path, clean):
        click.echo(str(made))


@log.command()
@click.argument("path", type=LOG)
@click.option("--out", type=LOG, help="Where to write; by default PATH is replaced.")
def compact(path: Path, out: Path | None) -> None:
    """Drop unreadable lines, and all but the last record of each configuration."""
    kept, dropped = compact_log(path, out)
    click.echo(f"{kept} records kept, {dropped} lines dropped")


def _summary(target: str, workload: Workload, pairs: Sequence[Pair]) -> str:
    args = str(workload[1:])
    shown = args if len(args) <= ARGS_WIDTH else args[: ARGS_WIDTH - 3] + "..."
    good = [result for _, result in pairs if result.ok]
    best = f"best {min(r.seconds for r in good) * 1e6:.2f} us" if good else "none succeeded"
    return f"{workload[0]} {shown}\n  {target}: {len(pairs)} trials, {len(good)} good, {best}"


def _failures(pairs: Sequence[Pair]) -> Counter[str]:
    """Count failed trials by their kind and the first line of their message."""
    counts: Counter[str] = Counter()
    for _, result in pairs:
        if not result.ok:
            line = result.error_msg.strip().partition("\n")[0][:ERROR_WIDTH]
            counts[f"{MeasureErrorNo(result.error_no).name} {line}".strip()] += 1
    return counts
