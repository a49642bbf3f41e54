"""Rewriting logs: the best records, one file a workload, no duplicates."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from autotune.errors import RecordError
from autotune.record.codec import encode, measure_str_key
from autotune.record.fields import Pair
from autotune.record.history import ApplyHistoryBest
from autotune.record.reader import LogReader, load_from_file, open_log

logger = logging.getLogger("autotvm")


def pick_best(in_file: str | Path, out_file: str | Path) -> int:
    """Write the best record of each workload and target to ``out_file``; return how many.

    Records already in ``out_file`` compete too, so it can collect the best of many logs.
    """
    pairs = list(load_from_file(in_file, races=True))
    if Path(out_file).is_file():
        pairs = [*load_from_file(out_file), *pairs]
    best = ApplyHistoryBest(pairs)
    kept = [*best.best_by_model.values(), *best.best_by_targetkey.values()]
    chosen = {id(pair[0]) for pair in kept}
    picked = [pair for pair in pairs if id(pair[0]) in chosen]
    write_log(out_file, picked)
    logger.info("Extract %d best records from %s to %s", len(picked), in_file, out_file)
    return len(picked)


def split_workload(in_file: str | Path, clean: bool = True) -> list[Path]:
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
        path = Path(f"{in_file}.{number:03d}.wkl")
        write_log(path, kept if clean else pairs)
        logger.info("Key: %s\tValid: %d\tDup: %d", key, len(kept), len(pairs) - len(kept))
        paths.append(path)
    return paths


def compact(in_file: str | Path, out_file: str | Path | None = None) -> tuple[int, int]:
    """Drop unreadable lines, and all but the last record of each configuration.

    Args:
        in_file: the log.
        out_file: where to write; by default the log is replaced.

    Returns:
        The number of records kept, and of lines dropped.
    """
    with open_log(Path(in_file)) as file:
        reader = LogReader(file, str(in_file), races=True)
        pairs = list(reader)
    last = {measure_str_key(pair[0]): pair for pair in pairs}
    write_log(in_file if out_file is None else out_file, last.values())
    return len(last), len(pairs) - len(last) + len(reader.problems)


def write_log(path: str | Path, pairs: Iterable[Pair]) -> None:
    """Write a whole log at once: either all of it stands there, or what was there before.

    Raises:
        RecordError: it cannot be written.
    """
    path = Path(path)
    text = "".join(encode(inp, result) + "\n" for inp, result in pairs)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, path.stat().st_mode if path.exists() else 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise RecordError(
            f"cannot write the log {path}: {error.strerror}; it is unchanged"
        ) from error
