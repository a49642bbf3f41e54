"""Detection of the tool that wrote a file, and reading of several files as records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import RecordError
from autotune.interchange import kernel_tuner, t4, triton
from autotune.interchange.foreign_files import ForeignFileError, parse, read_text
from autotune.interchange.records import records_of, target_of
from autotune.interchange.t1 import Problem
from autotune.interchange.trials import Trials
from autotune.measure.types import Pair
from autotune.record.paths import LogPath, log_path
from autotune.target import Target
from autotune.utils.check import shown

READERS: Mapping[str, Callable[[LogPath], Trials]] = {
    "kernel-tuner": kernel_tuner.read_kernel_tuner,
    "t4": t4.read_t4,
    "triton": triton.read_triton,
}
_FROM_JSON: Mapping[str, Callable[[object, Path], Trials]] = {
    "kernel-tuner": kernel_tuner.trials_of,
    "t4": t4.trials_of,
    "triton": triton.trials_of,
}
# The keys by which a file is known; all of them have to be there.
_MARKS: Mapping[str, tuple[str, ...]] = {
    "kernel-tuner": ("cache", "tune_params_keys"),
    "t4": ("results",),
    "triton": ("configs_timings", "key"),
}
_T1 = ("ConfigurationSpace", "KernelSpecification")


@dataclass(frozen=True)
class Imported:
    """The records of one file.

    Attributes:
        path: of the file.
        tool: who wrote it.
        unit: of its times, which are seconds in records.
        records: what it holds, in order.
        target: that they are of.
        problems: why entries were left out, one line each.
        undated: whether it says when its trials were made.
    """

    path: Path
    tool: str
    unit: str
    records: Sequence[Pair]
    target: Target
    problems: Sequence[str]
    undated: bool


def read_foreign(path: LogPath, form: str | None = None) -> Trials:
    """Read a file of another tuner.

    Args:
        path: of the file.
        form: one of `READERS`; by default it is told by what the file says.

    Raises:
        ForeignFileError: it cannot be read, or nobody knows what it is.
    """
    if form is not None:
        return READERS[form](path)
    where = log_path(path)
    text = read_text(where)
    try:
        data = parse(text, where)
    except ForeignFileError:
        # Only Kernel Tuner leaves files open.
        if '"tune_params_keys"' in text:
            return kernel_tuner.read_kernel_tuner(path)
        raise
    keys = data.keys() if isinstance(data, dict) else ()
    for name, marks in _MARKS.items():
        if all(mark in keys for mark in marks):
            return _FROM_JSON[name](data, where)
    if all(mark in keys for mark in _T1):
        raise ForeignFileError(
            f"{where} is a T1 file, which describes a problem and holds no trials; give it beside "
            "its results: autotune import RESULTS --t1 THIS"
        )
    raise ForeignFileError(
        f"{where}: expected a cache of Kernel Tuner, results in T4, or a *.autotune.json of "
        f"Triton; it has the keys {shown(sorted(map(str, keys)))}"
    )


def import_files(
    paths: Sequence[LogPath],
    *,
    form: str | None = None,
    name: str | None = None,
    args: Sequence[object] | None = None,
    target: Target | str | None = None,
    t1: Problem | None = None,
) -> Iterator[Imported]:
    """Read files of other tuners as records; see `autotune.interchange.records_of`.

    Args:
        paths: files, or folders with files of Triton's autotuner.
        form: one of `READERS`; by default each file tells.
        name: of the task.
        args: of the task.
        target: of the records.
        t1: the description of the problem, where the files do not say it.

    Raises:
        RecordError: a file cannot be read, or lacks what has to be given then.
    """
    for path in (one for given in paths for one in triton.triton_files(given)):
        trials = read_foreign(path, form)
        known = t1 or _NO_PROBLEM
        try:
            chosen = target_of(trials) if target is None else Target(target)
        except RecordError as error:
            raise RecordError(f"{path}: {error}") from error
        records = records_of(
            trials,
            name=name or trials.name or known.name,
            args=args if args is not None else trials.args or known.args,
            target=chosen,
            knobs=known.knobs or None,
            end_s=path.stat().st_mtime,
        )
        undated = any(one.timestamp is None for one in trials.trials)
        yield Imported(path, trials.tool, trials.unit, records, chosen, trials.problems, undated)


_NO_PROBLEM = Problem("", (), {}, (), "", "")
