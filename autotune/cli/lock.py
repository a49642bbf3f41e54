"""``autotune lock``: pin the kernels that a program relies on, and check that they still hold."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import click

from autotune.cli.groups import FullHelpGroup
from autotune.cli.log_entries import wanted_records
from autotune.cli.log_output import log_or_url, part
from autotune.cli.modules import import_templates, module_option, parted, with_logs
from autotune.cli.tables import Table, say
from autotune.errors import LockError
from autotune.lock import (
    LOCK_FILE,
    LockedFunction,
    check_lock,
    lock_records,
    read_functions,
    read_lock,
    write_lock,
)
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.measure.final.recheck import TimingConditions
from autotune.network import check_functions
from autotune.utils.quantities import counted, microseconds

_SAMPLES = 9
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=FullHelpGroup)
def lock() -> None:
    """Pin the best kernels of logs in autotune.lock, and check them.

    With AUTOTUNE_FROZEN=1 in the environment templates run with the locked kernels only, and
    anything else is an error. AUTOTUNE_LOCK names another file than autotune.lock.
    """


@lock.command()
@click.argument("paths", metavar="[FILE.py]... LOG...", nargs=-1, required=True, type=log_or_url)
@click.option(
    "--out", "-o", type=_FILE, default=Path(LOCK_FILE), show_default=True, help="Lock file."
)
@click.option("--task", "tasks", multiple=True, help="Only this task; may be given several times.")
@module_option
def write(
    paths: tuple[Path | str, ...], out: Path, tasks: tuple[str, ...], modules: tuple[str, ...]
) -> None:
    """Pin the best kernel of each workload of LOG.

    It is built by the compiler of this machine. FILE.py contains the templates of the log; it is
    imported.
    """
    files, logs = with_logs(paths)
    import_templates(modules, files)
    pairs = list(wanted_records(logs, tasks))
    entries, problems = lock_records(pairs)
    for problem in problems:
        say(f"not locked: {problem}")
    if not entries:
        raise click.ClickException("there is nothing to lock: no record of a template that worked")
    write_lock(out, entries, _functions_in(out))
    say(
        f"{counted(len(entries), 'kernel')} {'is' if len(entries) == 1 else 'are'} locked in {out}"
    )


def _us(times: tuple[float, ...]) -> str:
    return microseconds(sum(times) * 1e-6).removesuffix(" us") if times else ""


def _functions_in(path: Path) -> list[LockedFunction]:
    """Return the entries of a lock file for functions of networks; none if it is unreadable."""
    try:
        return read_functions(path) if path.exists() else []
    except LockError as error:
        say(f"what {path} had is not kept: {error}")
        return []


@lock.command()
@click.argument("path", type=_FILE, default=Path(LOCK_FILE))
def show(path: Path) -> None:
    """List the locked kernels."""
    rows = [
        (
            each.title, each.device_class, microseconds(each.result.seconds).removesuffix(" us"),
            each.row["evidence"], each.code_sha256[:12],
        )
        for each in read_lock(path)
    ] + [
        (
            f"{each.function}: {each.way}", each.device_class, _us(each.microseconds),
            each.evidence, each.code_sha256[0][:12],
        )
        for each in read_functions(path)
    ]  # fmt: skip
    say(Table(("workload", "device class", "us", "evidence", "machine code"), rows, right=(2,)))


@lock.command()
@click.argument("files", metavar="[FILE.py]... [LOCK]", nargs=-1, type=_FILE)
@module_option
@click.option(
    "--fail-above",
    callback=part,
    default="5%",
    show_default=True,
    help="How much slower a kernel may be, beyond noise.",
)
@click.option("--no-time", is_flag=True, help="Compare texts and machine code only.")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds for building one.")
@click.option("--run-timeout", default=60.0, show_default=True, help="Seconds for running one.")
@click.option("--device", default=0, show_default=True, help="Index of the device to run on.")
def check(
    files: tuple[Path, ...],
    modules: tuple[str, ...],
    fail_above: float,
    no_time: bool,
    timeout: float,
    run_timeout: float,
    device: int,
) -> None:
    """Build, verify and time the locked kernels of this device again.

    Exits with status 1 if a kernel's text or machine code differs from the lock, if it is wrong,
    fails, or is slower than noise and --fail-above allow, and if nothing is locked for this
    device. FILE.py contains the templates; it is imported.
    """
    scripts, locks = parted(files)
    import_templates(modules, scripts)

    def option_for(conditions: TimingConditions) -> Mapping[str, object]:
        runner = LocalRunner(
            run_timeout, repeat=_SAMPLES, device=device, verify="all", **conditions.arguments()
        )
        return measure_option(LocalBuilder(timeout), runner)

    counts: Counter[str] = Counter()
    good = True
    for path in locks or [Path(LOCK_FILE)]:
        how = None if no_time else option_for, fail_above, timeout
        entries, functions = read_lock(path), read_functions(path)
        for one in itertools.chain(
            check_lock(entries, *how), check_functions(functions, *how) if functions else ()
        ):
            counts[one.outcome] += 1
            good = good and one.good
            say(f"{one.outcome:9} {one.title}: {one.why}")
    here = sum(counts.values()) - counts["elsewhere"]
    say(f"{counts['holds'] + counts['faster']} of {here} kernels hold")
    if not here:
        say("nothing is locked for this device")
    if not good or not here:
        raise SystemExit(1)
