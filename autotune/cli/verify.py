"""``autotune verify``: do the records of a log still hold?"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

from autotune.errors import TemplateError
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.measure.recheck import Recheck, recheck
from autotune.record import load_from_file

_GOOD = ("confirmed", "faster")


@click.command()
@click.argument("log", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--every", is_flag=True, help="All records that worked, not the best of each task.")
@click.option(
    "--module",
    "modules",
    multiple=True,
    default=["autotune.templates"],
    show_default=True,
    help="Module that registers the templates; may be given several times.",
)
@click.option("--timeout", default=60.0, show_default=True, help="Seconds for building one.")
def verify(log: Path, every: bool, modules: tuple[str, ...], timeout: float) -> None:
    """Build, check and time the best records of LOG again.

    A record is confirmed when its time still lies within noise or 5%, and its answer is right.
    Ends with status 1 when a record is slower, wrong, or cannot be run any more.
    """
    for name in modules:
        _import(name)
    option = measure_option(LocalBuilder(timeout=timeout), LocalRunner(verify="all"))
    checks = []
    for one in recheck(load_from_file(log, races=True), option, every=every):
        checks.append(one)
        click.echo(_line(one))
    bad = sum(one.verdict not in _GOOD for one in checks)
    click.echo(f"{len(checks) - bad} of {len(checks)} records hold")
    if bad or not checks:
        raise SystemExit(1)


def _import(name: str) -> None:
    try:
        import_module(name)
    except ImportError as error:
        raise TemplateError(f"--module {name}: {error}") from error


def _line(one: Recheck) -> str:
    inp, before, now = one.measure_input, one.recorded, one.measured
    times = f"{before.mean * 1e6:10.1f} us then"
    times += f" {now.mean * 1e6:10.1f} us now" if now.ok else f"  {now.error_msg.splitlines()[0]}"
    return f"{one.verdict:10}{times}   {inp.task.name} {inp.task.args} #{inp.config.index}"
