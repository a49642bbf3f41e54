"""Logs reduced to the best record of each workload."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from autotune.auto_scheduler.records.best import Workload, decode_workload_key, fair
from autotune.auto_scheduler.records.codec import RecordedPair
from autotune.auto_scheduler.records.file import RecordReader, lines_of
from autotune.errors import RecordError
from autotune.record.paths import LogPath, log_path
from autotune.utils.files import publish

logger = logging.getLogger("auto_scheduler")


def distill_record_file(in_file: LogPath, out_file: LogPath) -> int:
    """Write the best record of each workload for each key of its target; returns how many.

    Records that stand in ``out_file`` already compete too, so it can collect the best of many
    logs. It is replaced in one step.

    Raises:
        LogMissingError: ``in_file`` cannot be opened.
        RecordError: ``out_file`` cannot be written.
    """
    out = log_path(out_file)
    pairs = fair(RecordReader(in_file, races=True))
    held = list(RecordReader(out)) if out.is_file() else []
    kept = best_of_each([*held, *pairs])
    text = "".join(lines_of(kept))
    try:
        publish(out, text.encode())
    except OSError as error:
        raise RecordError(f"cannot write {out}: {error.strerror}") from error
    logger.info("Extract %d best records from %s to %s", len(kept), in_file, out_file)
    return len(kept)


def best_of_each(pairs: Iterable[RecordedPair]) -> list[RecordedPair]:
    """Returns the fastest record of each workload and key of a target, in their order."""
    best: dict[tuple[str, Workload], RecordedPair] = {}
    for inp, result in pairs:
        if not result.ok:
            continue
        workload = decode_workload_key(inp.task.workload_key)
        for key in (*inp.target.keys, f"-model={inp.target.model}"):
            held = best.get((key, workload))
            if held is None or result.seconds < held[1].seconds:
                best[key, workload] = inp, result
    kept = {(inp.key, inp.task): (inp, result) for inp, result in best.values()}
    return list(kept.values())
