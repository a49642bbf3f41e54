"""Rewriting logs: the best records, one file a workload, no duplicates."""

from __future__ import annotations

import io
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.errors import RecordError
from autotune.measure.types import Pair
from autotune.record.codec import decode, encode, measure_str_key
from autotune.record.history import ApplyHistoryBest
from autotune.record.locking import locked, unlock
from autotune.record.paths import LogPath, log_path
from autotune.record.reader import LogReader, load_from_file, open_log
from autotune.utils.check import Check

logger = logging.getLogger("autotvm")

# How long a row may take that another program began to write before a log was replaced.
_STRAGGLERS_S = 0.05


def pick_best(in_file: LogPath, out_file: LogPath) -> int:
    """Write the best record of each workload and target to ``out_file``; return how many.

    Records already in ``out_file`` compete too, so it can collect the best of many logs.
    """
    check = Check(RecordError, "pick_best")
    check.path("in_file", in_file)
    check.path("out_file", out_file)
    pairs = list(load_from_file(in_file, races=True))
    picked: list[Pair] = []

    def best_with(held: Iterable[Pair]) -> list[Pair]:
        competing = [*held, *pairs]
        best = ApplyHistoryBest(competing)
        kept = [*best.best_by_model.values(), *best.best_by_targetkey.values()]
        chosen = {id(pair[0]) for pair in kept}
        picked[:] = [pair for pair in competing if id(pair[0]) in chosen]
        return picked

    out = log_path(out_file)
    if out.is_file():
        rewrite(out, lambda lines: _rows(best_with(LogReader(lines, str(out)))))
    else:
        write_log(out, best_with(()))
    logger.info("Extract %d best records from %s to %s", len(picked), in_file, out_file)
    return len(picked)


def split_workload(in_file: LogPath, clean: bool = True) -> list[Path]:
    """Write one file ``<in_file>.NNN.wkl`` for each workload and target; return their paths.

    Args:
        in_file: the log.
        clean: whether only the first record of each configuration is kept.
    """
    groups: dict[str, list[Pair]] = {}
    for pair in load_from_file(in_file):
        groups.setdefault(measure_str_key(pair[0], False), []).append(pair)
    paths = []
    for number, (key, pairs) in enumerate(groups.items()):
        kept = list({measure_str_key(p[0]): p for p in reversed(pairs)}.values())[::-1]
        path = Path(f"{log_path(in_file)}.{number:03d}.wkl")
        write_log(path, kept if clean else pairs)
        logger.info("Key: %s\tValid: %d\tDup: %d", key, len(kept), len(pairs) - len(kept))
        paths.append(path)
    return paths


def compact(in_file: LogPath, out_file: LogPath | None = None) -> tuple[int, int]:
    """Drop unreadable lines, and all but the last record of each configuration.

    Others may append to the log meanwhile: what they write is kept as it is.

    Args:
        in_file: the log.
        out_file: where to write; by default the log is replaced.

    Returns:
        The number of records kept, and of lines dropped.
    """
    path, counts = log_path(in_file), (0, 0)

    def compacted(lines: Iterable[str]) -> str:
        nonlocal counts
        reader = LogReader(lines, str(path), races=True)
        pairs = list(reader)
        last = {measure_str_key(pair[0]): pair for pair in pairs}
        counts = len(last), len(pairs) - len(last) + len(reader.problems)
        return _rows(last.values())

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
    _write(log_path(path), _rows(pairs))


def _rows(pairs: Iterable[Pair]) -> str:
    return "".join(encode(inp, result) + "\n" for inp, result in pairs)


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
