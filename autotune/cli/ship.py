"""``autotune export --to c``: the best kernels of logs as a stand-alone project."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from autotune.cli.log_entries import wanted_records
from autotune.cli.tables import Table, say
from autotune.record.origin import as_measured
from autotune.ship import gather, library_name, write_project
from autotune.target import Target
from autotune.tuner.loop.result import title
from autotune.utils.quantities import counted, microseconds


def ship(
    logs: Sequence[Path | str],
    out: Path,
    tasks: Sequence[str],
    name: str | None,
    archs: Sequence[str],
) -> None:
    """Write a project of the best kernels of logs, and list its contents."""
    for arch in archs:
        Target({"kind": "cuda", "arch": arch})  # raises for what names no architecture
    called = library_name(re.sub(r"\W", "_", out.resolve().name) if name is None else name)
    pairs = map(as_measured, wanted_records(logs, tasks))
    shipment = gather(pairs, called, archs)
    write_project(shipment, out)
    rows = [
        (
            title(one.measure_input.task),
            ", ".join(sorted({f"{i.arch} {i.kind}" for i in one.images})),
            microseconds(one.result.seconds).removesuffix(" us"),
            one.name,
        )
        for function in shipment.functions
        for one in function.workloads
    ]
    say(Table(("workload", "for", "best us", "function"), rows, right=(2,)))
    for line in shipment.left_out:
        say(f"left out: {line}")
    say(f"{counted(len(rows), 'kernel')} in {out}; see {out / 'README.md'}")
