"""Rewriting logs: the best records, one file a workload, no duplicates."""

from __future__ import annotations

import io
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.errors import RecordError
from autotune.measure.types import Pair
from autotune.record.best import best_of
from autotune.record.codec import decode, encode, measure_str_key
from autotune.record.history import ApplyHistoryBest
from autotune.record.locking import locked, unlock
from autotune.record.paths import LogPath, log_path
from autotune.record.reader import LogReader, open_log
from autotune.task import Task
from autotune.utils.check import Check

logger = logging.getLogger("autotvm")

# How long a row may take that another program began to write before a log was replaced.
_STRAGGLERS_S = 0.05


# What stands in logs of other parts: records of the auto-scheduler, what is known beside them, and
# what was chosen for a network.
_OTHERS = re.compile(r'# (?:with|network) |(?:# race )?\s*\{(?!.*"input")(?=.*"i"\s*:\s*\[\s*\[)')


def _of_others(line: str) -> bool:
    return _OTHERS.match(line) is not None


def _template_line(inp: Any, result: Any) -> str:
    return encode(inp, result) + "\n"


@dataclass(frozen=True)
class Lines:
    """What lines of a log may be, by default records of templates and graphs.

    Attributes:
        decode: makes what reads one line, see `LogReader`, told whether the winners of races are
            wanted; None for records of templates.
        encode: the lines of a record, with their newlines.
        keeps: whether a line that is read as no record stays as it is, where others are rewritten.
    """

    decode: Callable[[bool], Callable[[str], Pair | None]] | None = None
    encode: Callable[[Any, Any], str] = _template_line
    keeps: Callable[[str], bool] = _of_others

    def reader(
        self, lines: Iterable[str], name: str, races: bool = True, quiet: bool = False
    ) -> LogReader:
        """Return the records among some lines; see `LogReader`."""
        decode = self.decode(races) if self.decode else None
        return LogReader(lines, name, quiet, races, decode=decode)

    def text(self, pairs: Iterable[Pair], kept: Iterable[str] = ()) -> str:
        """Return records as lines, and other lines behind them."""
        return "".join([*(self.encode(inp, result) for inp, result in pairs), *kept])


TEMPLATES = Lines()


def pick_best(in_file: LogPath, out_file: LogPath, forms: Lines = TEMPLATES) -> int:
    """Write the best record of each workload and target to ``out_file``; return how many.

    Records already in ``out_file`` compete too, so it can collect the best of many logs.

    Args:
        in_file, out_file: the logs.
        forms: what lines may be.
    """
    check = Check(RecordError, "pick_best")
    check.path("in_file", in_file)
    check.path("out_file", out_file)
    with open_log(log_path(in_file)) as file:
        given = file.readlines()
    pairs = list(forms.reader(given, str(in_file)))
    picked: list[Pair] = []

    def best_with(lines: Iterable[str]) -> str:
        held = list(lines)
        picked[:] = _best([*forms.reader(held, str(out)), *pairs])
        return forms.text(picked, filter(forms.keeps, dict.fromkeys([*held, *given])))

    out = log_path(out_file)
    if out.is_file():
        rewrite(out, best_with)
    else:
        _write(out, best_with(()))
    logger.info("Extract %d best records from %s to %s", len(picked), in_file, out_file)
    return len(picked)


def _best(competing: list[Pair]) -> list[Pair]:
    """Return the records that would be replayed, in their order."""
    best = ApplyHistoryBest(pair for pair in competing if isinstance(pair[0].task, Task))
    kept = [*best.best_by_model.values(), *best.best_by_targetkey.values()]
    others: dict[str, list[Pair]] = {}
    for pair in competing:
        if not isinstance(pair[0].task, Task):
            others.setdefault(measure_str_key(pair[0], False), []).append(pair)
    kept += filter(None, map(best_of, others.values()))
    chosen = {id(pair[0]) for pair in kept}
    return [pair for pair in competing if id(pair[0]) in chosen]


def split_workload(in_file: LogPath, clean: bool = True, forms: Lines = TEMPLATES) -> list[Path]:
    """Write one file ``<in_file>.NNN.wkl`` for each workload and target; return their paths.

    Args:
        in_file: the log.
        clean: whether only the first record of each configuration is kept.
        forms: what lines may be.
    """
    with open_log(log_path(in_file)) as file:
        trials = list(forms.reader(file, str(in_file), races=False))
    groups: dict[str, list[Pair]] = {}
    for pair in trials:
        groups.setdefault(measure_str_key(pair[0], False), []).append(pair)
    paths = []
    for number, (key, pairs) in enumerate(groups.items()):
        kept = list({measure_str_key(p[0]): p for p in reversed(pairs)}.values())[::-1]
        path = Path(f"{log_path(in_file)}.{number:03d}.wkl")
        _write(path, forms.text(kept if clean else pairs))
        logger.info("Key: %s\tValid: %d\tDup: %d", key, len(kept), len(pairs) - len(kept))
        paths.append(path)
    return paths


def compact(
    in_file: LogPath, out_file: LogPath | None = None, forms: Lines = TEMPLATES
) -> tuple[int, int]:
    """Drop unreadable lines, and all but the last record of each configuration.

    Others may append to the log meanwhile: what they write is kept as it is.

    Args:
        in_file: the log.
        out_file: where to write; by default the log is replaced.
        forms: what lines may be.

    Raises:
        RecordError: none of its lines is a record; it is unchanged then.

    Returns:
        The number of records kept, and of lines dropped.
    """
    path, counts = log_path(in_file), (0, 0)

    def compacted(lines: Iterable[str]) -> str:
        nonlocal counts
        held = list(lines)
        reader = forms.reader(held, str(path))
        pairs = list(reader)
        bad = sum(not forms.keeps(held[one.line - 1]) for one in reader.problems)
        if bad and not pairs:
            raise RecordError(f"compact: {reader.report()}; it is unchanged")
        last = {measure_str_key(pair[0]): pair for pair in pairs}
        counts = len(last), len(pairs) - len(last) + bad
        return forms.text(last.values(), filter(forms.keeps, held))

    with open_log(path) as file:
        if out_file is not None:
            _write(log_path(out_file), compacted(file))
            return counts
    rewrite(path, compacted)
    return counts


def rewrite(path: Path, change: Callable[[Iterable[str]], str]) -> None:
    """Replace a log by what ``change`` makes of its lines; what is appended meanwhile follows it.

    Raises:
        RecordError: it cannot be written; it is unchanged then.
    """
    path = Path(os.path.realpath(path))
    with _reported(path), locked(path) as descriptor:
        content = _read(descriptor, 0)
        _write(path, change(io.StringIO(content.decode("utf-8", "replace"))))
        unlock(descriptor)
        # A writer that knows no lock may be in the middle of a row, or have opened the old file
        # before it was replaced.
        ended = content.rfind(b"\n") + 1
        done = len(content) if _is_record(content[ended:]) else ended
        for pause_s in (0, _STRAGGLERS_S):
            time.sleep(pause_s)
            late = _read(descriptor, done)
            late = late[: late.rfind(b"\n") + 1]
            done += len(late)
            _append_bytes(path, late)


def write_log(path: LogPath, pairs: Iterable[Pair]) -> None:
    """Write a whole log at once: either all of it stands there, or what was there before.

    Raises:
        RecordError: it cannot be written.
    """
    _write(log_path(path), TEMPLATES.text(pairs))


def _write(path: Path, text: str) -> None:
    temporary = None
    with _reported(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, path.stat().st_mode if path.exists() else 0o644)
            os.replace(temporary, path)
        except OSError:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)
            raise


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"cannot write the log {path}: {error.strerror}; it is unchanged"
        ) from error


def _read(descriptor: int, start: int) -> bytes:
    parts = []
    while part := os.pread(descriptor, 1 << 24, start):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _is_record(line: bytes) -> bool:
    try:
        return decode(line.decode("utf-8", "replace")) is not None
    except RecordError:
        return False


def _append_bytes(path: Path, data: bytes) -> None:
    if data:
        with path.open("ab", buffering=0) as file:
            file.write(data)
