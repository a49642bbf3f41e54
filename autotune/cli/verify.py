"""``autotune verify``: do the records of a log still hold?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import click

from autotune.cli.log_output import Row, log_or_url, output_options, print_rows
from autotune.cli.modules import import_templates, module_option, parted
from autotune.cli.tables import say
from autotune.errors import RecordError
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.measure.final.recheck import ALWAYS_SAME, Recheck, TimingConditions, recheck
from autotune.measure.types import MeasureErrorNo, MeasureResult, Pair
from autotune.record import best_of_each, load_from_file
from autotune.record.outdated import current_only, task_refusal
from autotune.record.reader import source_name
from autotune.report import is_of, no_such_task
from autotune.tuner.loop.result import title
from autotune.workload import key_to_json

# Of few samples the interval of the median says little.
_SAMPLES = 9


@click.command()
@click.argument("paths", metavar="[FILE.py]... LOG", nargs=-1, required=True, type=log_or_url)
@click.option("--keep-older", is_flag=True, help="Verify records of an older kernel text too.")
@click.option(
    "--every", is_flag=True, help="Verify all successful records, not only the best of each task."
)
@output_options
@module_option
@click.option("--timeout", default=60.0, show_default=True, help="Seconds for building one.")
@click.option(
    "--run-timeout",
    default=60.0,
    show_default=True,
    help="Seconds for loading, timing and checking one.",
)
@click.option("--device", default=0, show_default=True, help="Index of the device to run on.")
def verify(
    paths: tuple[Path | str, ...],
    every: bool,
    keep_older: bool,
    modules: tuple[str, ...],
    timeout: float,
    run_timeout: float,
    device: int,
    task: str | None,
    form: str,
) -> None:
    """Build, check and time the best records of LOG again.

    FILE.py contains the templates of the log. It is imported, so other statements of it should be
    under `if __name__ == "__main__":`. Modules are searched for in the working directory too.

    Records of an older kernel text, and of choices that the template no longer offers, are counted
    and skipped. A task that has no others is outdated: it is to be tuned again.

    The best of a task is the one that `apply_history_best` uses. A record is confirmed if its
    time, measured in the same way, is equal within noise (the larger spread of the two) or 5%, or
    the intervals of both overlap, and its result is correct; a result without a reference is shown
    as unchecked. Both times are medians of timed batches; those of the emulator are not compared.
    Exits with status 1 if a record is slower, wrong, or can no longer be run, or a task is
    outdated, and with 2 if the command is misused.
    """
    files, logs = parted(paths)
    if len(logs) != 1:
        raise click.UsageError(f"expected one LOG, got {len(logs)}")
    (log,) = logs
    import_templates(modules, files)
    runners = []

    def option_for(conditions: TimingConditions) -> Mapping[str, object]:
        runner = LocalRunner(
            run_timeout, repeat=_SAMPLES, device=device, verify="all", **conditions.arguments()
        )
        runners.append(runner)
        return measure_option(LocalBuilder(timeout), runner)

    checks = []
    records, outdated = _records(log, task, every, keep_older)
    for one in chain(recheck(records, option_for), map(_outdated, outdated)):
        checks.append(one)
        if not form:
            say(_line(one))
    for note in dict.fromkeys(runner.host_note for runner in runners):
        if note:
            say(note, err=True)
    if form:
        print_rows([_row(one) for one in checks], form)
    else:
        say(_total(checks))
    if not all(one.holds for one in checks):
        raise SystemExit(1)


def _records(
    log: Path | str, task: str | None, every: bool, keep_older: bool
) -> tuple[Sequence[Pair], Sequence[Pair]]:
    """Return the records of a log that are verified, one at least, and the best of other tasks."""
    # All that worked are the trials; a race is one of them run once more.
    logged = list(load_from_file(log, races=not every))
    given = [pair for pair in logged if is_of(pair[0].task, task)]
    if logged and not given:
        names = {str(inp.task.name) for inp, _ in logged}
        raise RecordError(f"verify: {source_name(log)}: {no_such_task(str(task), names)}")
    pairs = list(current_only(given, f"log {source_name(log)}", keep_older, "--keep-older"))
    records = pairs if every else best_of_each(pairs)
    if not records:
        of = "" if task is None else f"of {task!r} "
        raise RecordError(
            f"verify: {source_name(log)} has no record of a trial {of}that worked, "
            "of kernels as they are now"
        )
    known = {inp.task for inp, result in pairs if result.ok}
    return records, best_of_each(pair for pair in given if pair[0].task not in known)


def _outdated(pair: Pair) -> Recheck:
    """Return what is said of a task that has no record of its kernel as it is now."""
    refusal = task_refusal(pair[0].task)
    said = refusal.why if refusal else "no record is of its kernel as it is now; tune it again"
    none = MeasureResult((), MeasureErrorNo.UNKNOWN_ERROR, 0.0, 0.0, said)
    return Recheck(*pair, none, "outdated")


def _row(one: Recheck) -> Row:
    inp = one.measure_input
    return {
        "task": inp.task.name,
        "args": list(getattr(inp.task, "args", ())),
        "target": str(inp.target),
        "index": key_to_json(inp.key),
        "verdict": one.verdict,
        "holds": one.holds,
        "checked": one.checked,
        "then_seconds": one.then_s,
        "now_seconds": one.now_s if one.measured.ok else None,
        "change": one.change if one.measured.ok else None,
        "noise": one.noise,
        "error": None if one.measured.ok else MeasureErrorNo(one.measured.error_no).name,
        "error_msg": one.measured.error_msg or None,
    }


def _line(one: Recheck) -> str:
    inp, now = one.measure_input, one.measured
    then = f"{one.verdict:10}{one.then_s * 1e6:10.3f} us then"
    task = f"{title(inp.task)} #{inp.key}"
    if not now.ok:
        said = now.error_msg.strip() or MeasureErrorNo(now.error_no).name
        return f"{then}  {said.splitlines()[0]}   {task}"
    answer = "answer checked" if one.checked else "answer unchecked"
    return f"{then} {one.now_s * 1e6:10.3f} us now   {_change(one):28} {answer:16}   {task}"


def _change(one: Recheck) -> str:
    """Return in words the relative change of a time, and what it was compared with."""
    target = one.measure_input.target
    if target is not None and target.emulate:
        return "emulated, not compared"
    noise = max(ALWAYS_SAME, one.noise or 0)
    limit = f"{ALWAYS_SAME:.0%}" if noise == ALWAYS_SAME else f"noise of {noise:.1%}"
    if one.verdict != "confirmed":
        word = f"beyond {limit}"
    else:
        word = f"within {limit}" if abs(one.change) <= noise else "intervals overlap"
    return f"{one.change:+.1%}, {word}"


def _total(checks: Sequence[Recheck]) -> str:
    good = [one for one in checks if one.holds]
    checked = sum(one.checked for one in good)
    return f"{len(good)} of {len(checks)} records hold, {checked} of them with a checked answer"
