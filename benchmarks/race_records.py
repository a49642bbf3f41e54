"""Time the records of a log in turn with what templates choose without them, and with PyTorch.

    python -m benchmarks.race_records h200.log [--library] [--keep kept.log]

Of each record, the kernel, that of the template's own choice and, with ``--library``, what PyTorch
calls for the same work run in CUDA graphs, one after the other in turn; their medians are printed.
``--keep`` writes the records that are at least ``--gain`` times as fast as the template's choice,
for `autotune hub pack`. Both kernels are compiled anew, by nvcc. Needs torch and one device.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common_layers import layers
from benchmarks.cubin import Loaded, Replays, Time, build, race
from benchmarks.library_of import library_of

Built = Future[tuple[Path | None, str]]
HEAD = (
    "| layer | record, us | default, us | gain | PyTorch, us | PyTorch / record | by |\n"
    "|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Contender:
    """A kernel on its way to the device."""

    name: str
    kernel: Any
    cubin: Built


@dataclass(frozen=True)
class Entry:
    """A record, and the kernels that race for it: its own, and the template's choice."""

    pair: Any
    contenders: tuple[Contender, ...]

    @property
    def task(self) -> Any:
        """The task of the record."""
        return self.pair[0].task

    @property
    def name(self) -> str:
        """The layer's name where it has one, else the call of the template."""
        known = {called: name for name, called in layers().items()}
        called = self.task.name, self.task.args
        return known.get(called, f"{self.task.name} {self.task.args}")


def entries(log: Path, pool: ThreadPoolExecutor, folder: str) -> list[Entry]:
    """Return the winners of a log's races, the fastest of each task, and begin to build them."""
    from autotune.record import best_of_each, is_race, load_from_file

    found = []
    for pair in best_of_each(each for each in load_from_file(log, True) if is_race(each[1])):
        task, config = pair[0].task, pair[0].config
        default = task.default()
        same = default is None or default.index == config.index
        contenders = []
        for name, each in (("record", config), *(() if same else (("default", default),))):
            kernel = task.instantiate(each).kernel("cuda")
            built = pool.submit(build, kernel, folder, "sm_90")
            contenders.append(Contender(name, kernel, built))
        found.append(Entry(pair, tuple(contenders)))
    return found


def raced(entry: Entry, library: bool) -> list[Time]:
    """Return what each side takes: the record, the default if it is another, the library."""
    sides, tensors = [], list[Any]()
    for each in entry.contenders:
        cubin, text = each.cubin.result()
        if cubin is None:
            raise RuntimeError(text)
        arrays = drawn(each.kernel)
        tensors = [arrays[one.name] for one in each.kernel.args]
        loaded = Loaded(each.kernel, cubin, arrays)
        sides.append({each.name: Replays(partial(_run, loaded, arrays))})
    if library:
        rivals = library_of(entry.task.name, entry.task.args, tensors)
        # Each is captured before the next is asked for: benchmark mode picks anew then.
        captured = {name: Replays(run) for name, run in rivals}
        sides += [captured] if captured else []
    return race(sides)


def drawn(kernel: Any) -> dict[str, Any]:
    """Return arrays on the device for a kernel: floats are normal, all else is zero."""
    import torch

    arrays = {}
    for each in (*kernel.args, *kernel.workspace):
        array = torch.zeros(each.shape, dtype=getattr(torch, each.dtype), device="cuda")
        arrays[each.name] = array.normal_() if array.dtype.is_floating_point else array
    return arrays


def _run(loaded: Loaded, _arrays: dict[str, Any]) -> None:
    """Launch; the arrays come along, as graphs keep addresses only."""
    loaded.run()


def row(name: str, times: Sequence[Time]) -> str:
    """Return a row of the table."""
    record, by_name = times[0], {each.name: each for each in times[1:]}
    default = by_name.pop("default", None)
    library = next(iter(by_name.values()), None)
    cells = [f"{record.median:.2f} ({record.low:.2f} to {record.high:.2f})"]
    for other in (default, library):
        both = ("-", "-")
        if other is not None:
            both = f"{other.median:.2f}", f"{other.median / record.median:.2f}"
        cells += both
    return " | ".join([name, *cells, library.name if library else "-"])


def main(argv: Sequence[str] | None = None) -> None:
    """Race the records of a log, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--library", action="store_true", help="race PyTorch, too")
    parser.add_argument("--keep", type=Path, help="a log for the records that gain")
    parser.add_argument("--gain", type=float, default=1.03, help="what they must gain")
    parser.add_argument("--only", default=[""], nargs="*", help="parts of names")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which none is begun")
    given = parser.parse_args(argv)
    import autotune.templates  # noqa: F401 - registers the tasks

    from autotune.record import write_log

    until, kept = time.monotonic() + given.seconds, list[Any]()
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        for entry in entries(given.log, pool, folder):
            if time.monotonic() > until:
                pool.shutdown(cancel_futures=True)
                break
            if not any(part in entry.name for part in given.only):
                continue
            times = raced(entry, given.library)
            print(f"| {row(entry.name, times)} |", flush=True)
            others = [each.median for each in times if each.name == "default"]
            if others and others[0] >= given.gain * times[0].median:
                kept.append(entry.pair)
                if given.keep:
                    write_log(given.keep, kept)


if __name__ == "__main__":
    main()
