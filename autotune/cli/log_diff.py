"""``autotune log diff``: what became faster or slower between two logs, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from autotune.cli.log_output import log_or_url, output_options, part, print_rows, us_text
from autotune.cli.tables import Table, say
from autotune.report import Compared, Side, compare, overall, read_records
from autotune.utils.escaping import shorten

_CHANGED_WIDTH = 60
# Verdicts on workloads of one log.
_ALONE = ("only before", "only after")


@click.command()
@click.argument("before", type=log_or_url)
@click.argument("after", type=log_or_url)
@output_options
@click.option(
    "--fail-above",
    callback=part,
    metavar="PART",
    help="Exit with status 1 if a workload is slower by more than this, such as 5%, beyond the "
    "noise, or all its trials fail; or if no workload has times in both logs.",
)
@click.option(
    "--fail-missing", is_flag=True, help="Exit with status 1 if AFTER lacks a workload of BEFORE."
)
def diff(
    before: Path | str,
    after: Path | str,
    task: str | None,
    form: str,
    fail_above: float | None,
    fail_missing: bool,
) -> None:
    """Compare the best of each workload in two logs.

    Change is the relative change of the best time, with its 95% confidence interval, which
    combines the intervals of both times and allows for 2% between two runs of one program. If it
    includes 0%, the verdict is "same".
    """
    (old, problem), (new, other) = read_records(before, task), read_records(after, task)
    if task and not old and not new and (problem or other):
        raise click.ClickException("\n".join(filter(None, [problem, other])))
    rows = compare(old, new)
    gate = _Gate(before, after, fail_above, fail_missing)
    if not rows and gate.asks:
        raise click.ClickException(f"there is no trial in {before} or {after}: nothing to compare")
    if form:
        print_rows([_row(one, gate.is_regression(one)) for one in rows], form)
    else:
        say(_table(rows))
        _say_all(rows)
    causes = gate.causes(rows)
    for text in filter(None, [problem, other, *causes]):
        say(text, err=True)
    if causes:
        raise SystemExit(1)
    if why := gate.why_undecided(rows):
        raise click.ClickException(why)


@dataclass(frozen=True)
class _Gate:
    """What the command is to fail for, as a step of a pipeline."""

    before: Path | str
    after: Path | str
    fail_above: float | None
    fail_missing: bool

    @property
    def asks(self) -> bool:
        """Whether anything may make it fail."""
        return self.fail_above is not None or self.fail_missing

    def is_regression(self, one: Compared) -> bool:
        """Return whether a workload became too slow."""
        return self.fail_above is not None and one.regressed(self.fail_above)

    def causes(self, rows: Sequence[Compared]) -> list[str]:
        """Return why it fails, a line for each workload."""
        slower = [
            f"regression: {_named(one)} on {one.target}: {_why(one)}"
            for one in rows
            if self.is_regression(one)
        ]
        missing = [
            f"missing: {_named(one)} on {one.target}: {self.after} has no trial of it"
            for one in rows
            if self.fail_missing and one.verdict == "only before"
        ]
        return slower + missing

    def why_undecided(self, rows: Sequence[Compared]) -> str:
        """Return why there is no answer to what was asked, where nothing fails; else nothing."""
        if self.fail_above is not None and all(one.ratio is None for one in rows):
            if all(one.verdict in _ALONE for one in rows):
                return f"{self.after} has no workload of {self.before}: nothing was compared"
            return f"{self.after} and {self.before} have no times of one: nothing was compared"
        if self.fail_missing and all(one.verdict == "only after" for one in rows):
            return f"{self.before} has no time of any workload: nothing can be missing"
        return ""


def _named(one: Compared) -> str:
    return shorten(f"{one.name} {one.args}" if one.args else one.name)


def _why(one: Compared) -> str:
    if one.verdict == "lost":
        return "all its trials fail"
    return f"slower by {_change(one)} ({_range(one)})"


def _change(one: Compared) -> str:
    return "" if one.ratio is None else f"{one.ratio - 1:+.1%}"


def _range(one: Compared) -> str:
    return "" if one.interval is None else " to ".join(f"{end - 1:+.1%}" for end in one.interval)


def _table(rows: Sequence[Compared]) -> Table:
    cells = [
        (
            _named(one), one.target, _seconds(one.before), _seconds(one.after), _change(one),
            _range(one), _speedup(one), one.verdict,
            shorten(", ".join(f"{k}: {a} -> {b}" for k, (a, b) in one.changed.items()),
                      _CHANGED_WIDTH),
        )
        for one in rows
    ]  # fmt: skip
    heads = (
        "workload", "target", "before us", "after us", "change", "95% interval", "speedup",
        "verdict", "changed",
    )  # fmt: skip
    return Table(heads, cells, right=(2, 3, 4, 5, 6))


def _seconds(side: Side | None) -> str:
    return us_text(None if side is None else side.seconds)


def _speedup(one: Compared) -> str:
    return "" if one.ratio is None else f"{1 / one.ratio:.2f}x"


def _say_all(rows: Sequence[Compared]) -> None:
    """Print the geometric mean of the changes of all workloads that both logs have."""
    found, both = overall(rows), sum(one.ratio is not None for one in rows)
    if found is None or both < 2:
        return
    mean, interval = found
    ends = interval and " to ".join(f"{end - 1:+.1%}" for end in interval)
    say(f"\ngeometric mean of {both} workloads: {mean - 1:+.1%}" + (f" ({ends})" if ends else ""))


def _row(one: Compared, regression: bool) -> dict[str, object]:
    before, after = one.before, one.after
    ends = one.interval
    return {
        "task": one.name,
        "args": list(one.args),
        "target": one.target,
        "before_seconds": before and before.seconds,
        "after_seconds": after and after.seconds,
        "before_ci95": before and before.interval and list(before.interval),
        "after_ci95": after and after.interval and list(after.interval),
        "ratio": 1 / one.ratio if one.ratio else None,
        "change": one.ratio - 1 if one.ratio else None,
        "change_ci95": ends and [end - 1 for end in ends],
        "verdict": one.verdict,
        "regression": regression,
        "changed": one.changed,
    }
