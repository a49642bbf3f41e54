"""``autotune hub``: packs of tuned records."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

from autotune.cli.groups import FullHelpGroup
from autotune.cli.log_output import log_or_url
from autotune.cli.modules import import_templates, module_option, with_logs
from autotune.cli.tables import Table, say
from autotune.hub import log_of, make_pack, of_arch, packs
from autotune.measure.types import Pair
from autotune.record import load_from_file
from autotune.record.outdated import current_only
from autotune.record.reader import source_name
from autotune.utils.quantities import counted


@click.group(cls=FullHelpGroup)
def hub() -> None:
    """List, fetch and make packs of tuned records."""


def _given(source: str | None) -> str | Path:
    if source is not None:
        return source
    return Path(import_module("autotune.templates").TUNED)


@hub.command("list")
@click.argument("source", required=False)
def list_packs(source: str | None) -> None:
    """List the packs of SOURCE, a folder or URL; by default those that ship."""
    rows = [
        (one.file, one.device, one.arch, str(one.records), one.date, ", ".join(one.tasks))
        for one in packs(_given(source))
    ]
    say(Table(("pack", "device", "arch", "records", "date", "tasks"), rows, right=(3,)))


@hub.command()
@click.argument("source", required=False)
def pull(source: str | None) -> None:
    """Fetch the packs of SOURCE, verify their hashes, and print the paths of their logs.

    These can be used wherever a log can: by `apply_history_best`, `tune(resume=)`, `autotune
    log`.
    """
    for pack in packs(_given(source)):
        say(str(log_of(pack)))


@hub.command()
@click.argument("paths", metavar="[FILE.py]... LOG...", nargs=-1, required=True, type=log_or_url)
@click.option(
    "--out", "-o", required=True, type=click.Path(file_okay=False, path_type=Path),
    help="Folder of packs.",
)  # fmt: skip
@click.option("--name", required=True, help="Name of the pack.")
@click.option("--arch", required=True, help="Architecture, such as sm_90.")
@click.option("--device", required=True, help="Name of the measuring device.")
@click.option("--date", required=True, help="Date of the measurement, YYYY-MM-DD.")
@click.option("--command", required=True, help="Command that measured it.")
@click.option(
    "--gain", "least_gain", type=click.FloatRange(min=1), default=1.0, show_default=True,
    help="Minimum speedup of a record over the untuned choice.",
)  # fmt: skip
@module_option
def pack(
    paths: tuple[Path | str, ...],
    out: Path,
    name: str,
    arch: str,
    device: str,
    date: str,
    command: str,
    least_gain: float,
    modules: tuple[str, ...],
) -> None:
    """Make a pack of the best records of LOG.

    It is listed in the folder's index. Records of an older kernel text are left out. FILE.py
    contains the templates.
    """
    files, logs = with_logs(paths)
    import_templates(modules, files)
    pairs: list[Pair] = []
    for log in logs:
        given = of_arch(load_from_file(log, races=True), arch)
        pairs += current_only(given, source_name(log))
    made = make_pack(
        pairs, out, name,
        arch=arch, device=device, date=date, command=command, least_gain=least_gain,
    )  # fmt: skip
    say(f"{counted(made.records, 'record')} in {out / made.file}")


@hub.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@module_option
def trim(folder: Path, modules: tuple[str, ...]) -> None:
    """Remove records of older kernel texts from the packs of FOLDER.

    The other data of the index (device, date, command) does not change.
    """
    import_templates(modules, [])
    for one in packs(folder):
        every = list(load_from_file(log_of(one), races=True))
        kept = list(current_only(every, one.file))
        if len(kept) < len(every):
            made = make_pack(
                kept, folder, one.file.removesuffix(".log"),
                arch=one.arch, device=one.device, date=one.date, command=one.command,
            )  # fmt: skip
            say(f"{made.records} of {len(every)} records stay in {folder / made.file}")
