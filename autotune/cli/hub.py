"""``autotune hub``: packs of tuned records."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

from autotune.cli.log_output import log_or_url
from autotune.cli.modules import import_templates, module_option, parted
from autotune.cli.tables import Table, say
from autotune.hub import log_of, make_pack, of_arch, packs
from autotune.measure.types import Pair
from autotune.record import load_from_file
from autotune.record.current import current_only
from autotune.record.reader import source_name
from autotune.utils.quantities import counted


@click.group()
def hub() -> None:
    """List, fetch and make packs of tuned records."""


def _given(source: str | None) -> str | Path:
    if source is not None:
        return source
    return Path(import_module("autotune.templates").TUNED)


@hub.command("list")
@click.argument("source", required=False)
def list_packs(source: str | None) -> None:
    """List the packs of SOURCE: a folder or its URL; by default those that ship."""
    rows = [
        (one.file, one.device, one.arch, str(one.records), one.date, ", ".join(one.tasks))
        for one in packs(_given(source))
    ]
    say(Table(("pack", "device", "arch", "records", "date", "tasks"), rows, right=(3,)))


@hub.command()
@click.argument("source", required=False)
def pull(source: str | None) -> None:
    """Fetch the packs of SOURCE, compare their hashes, and print where their logs are.

    The logs can be given wherever a log can: to `apply_history_best`, `tune(resume=)`, `autotune
    log`.
    """
    for pack in packs(_given(source)):
        say(str(log_of(pack)))


@hub.command()
@click.argument("paths", metavar="[FILE.py]... LOG...", nargs=-1, required=True, type=log_or_url)
@click.option(
    "--out", "-o", required=True, type=click.Path(file_okay=False, path_type=Path),
    help="The folder of packs.",
)  # fmt: skip
@click.option("--name", required=True, help="Name of the pack.")
@click.option("--arch", required=True, help="Its architecture, such as sm_90.")
@click.option("--device", required=True, help="Name of the device that was measured on.")
@click.option("--date", required=True, help="When, YYYY-MM-DD.")
@click.option("--command", required=True, help="What measured it.")
@click.option(
    "--gain", "least_gain", type=click.FloatRange(min=1), default=1.0, show_default=True,
    help="How many times as fast as the untuned choice records must be.",
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
    """Make a pack of the best record of each workload of LOG, and list it in the folder's index.

    Records of an older kernel text are left out. FILE.py is where the templates are.
    """
    files, logs = parted(paths)
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
    """Take the records of older kernel texts out of the packs of FOLDER.

    What else the index says of a pack stays: device, date, what measured it.
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
