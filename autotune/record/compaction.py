"""Rewriting logs: the best records, one file a workload, no duplicates."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import RecordError
from autotune.measure.objective import TIME, Objective, objective_of
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record.best import best_of, of_older_text, older_trials
from autotune.record.codec import encode, is_of_a_later_version, measure_str_key
from autotune.record.history import ApplyHistoryBest
from autotune.record.latest import LatestRecords
from autotune.record.paths import LogPath, log_path, log_source
from autotune.record.reader import AHEAD, LogReader, open_log, source_name
from autotune.record.rewriting import check_replaceable, rewrite, spooled, write_whole
from autotune.record.store import is_store, open_database
from autotune.task import Task
from autotune.task.refusals import left_out
from autotune.utils.check import Check

logger = logging.getLogger("autotvm")


# What logs have of other parts: records of the auto-scheduler, what is known beside them, and
# what was chosen for a network.
_OTHERS = re.compile(
    r'# (?:with|network) |(?:# race )?\s*\{(?!.*"input")(?=.*"i"\s*:\s*\[\s*\[\s*")'
)


def _of_others(line: str) -> bool:
    return _OTHERS.match(line) is not None


def _template_line(inp: MeasureInput, result: MeasureResult) -> str:
    return encode(inp, result) + "\n"


@dataclass(frozen=True)
class Lines:
    """The kinds of lines in a log, by default records of templates and graphs.

    Attributes:
        decode: creates the function that reads one line, see `LogReader`, from whether winners of
            races are wanted; None for records of templates.
        encode: returns the lines of a record, with their newlines.
        keeps: whether a line without a record is kept when a log is rewritten.
    """

    decode: Callable[[bool], Callable[[str], Pair | None]] | None = None
    encode: Callable[[MeasureInput, MeasureResult], str] = _template_line
    keeps: Callable[[str], bool] = _of_others

    def reader(
        self,
        lines: Iterable[str],
        name: str,
        races: bool = True,
        quiet: bool = False,
        others: dict[int, str] | None = None,
    ) -> LogReader:
        """Return the records among lines that need not be waited for; see `LogReader`."""
        decode = self.decode(races) if self.decode else None
        return LogReader(lines, name, quiet, races, AHEAD, decode, others)

    def text(self, pairs: Iterable[Pair], kept: Iterable[str] = ()) -> Iterator[str]:
        """Yield records as lines, and other lines behind them."""
        yield from (self.encode(inp, result) for inp, result in pairs)
        yield from kept


TEMPLATES = Lines()


def pick_best(
    in_file: LogPath,
    out_file: LogPath,
    forms: Lines = TEMPLATES,
    objective: str | Objective = TIME,
) -> int:
    """Write the best record of each workload and target to ``out_file``; return how many.

    Records already in ``out_file`` compete too, so it can collect the best of many logs.

    Args:
        in_file, out_file: the logs.
        forms: what lines may be.
        objective: what is least; see `apply_history_best`.

    Raises:
        RecordError: ``in_file`` is not empty, and none of its lines is a record.
    """
    check = Check(RecordError, "pick_best")
    wanted = objective_of("pick_best", objective, RecordError)
    check.path("in_file", in_file)
    check.path("out_file", out_file)
    given: dict[int, str] = {}
    with open_log(log_source(in_file)) as file:
        reader = forms.reader(file, source_name(log_source(in_file)), quiet=True, others=given)
        pairs = _records(reader, "pick_best")
    picked: list[Pair] = []

    def best_with(lines: Iterable[str]) -> Iterator[str]:
        held: dict[int, str] = {}
        every = [*forms.reader(lines, source_name(source), others=held), *pairs]
        picked[:] = _best(_not_older(every, "pick_best"), wanted)
        others = dict.fromkeys([*held.values(), *given.values()])
        return forms.text(picked, filter(forms.keeps, others))

    source = log_source(out_file)
    if is_store(source):
        with open_database(out_file) as database:
            known = dict.fromkeys(database.lines())
            text = "".join(best_with(known))
            lines = io.StringIO(text)  # splits where logs do, unlike splitlines()
            database.write([line for line in lines if line not in known])
        return len(picked)
    out = log_path(source)
    if out.is_file():
        rewrite(out, best_with)
    else:
        write_whole(out, best_with(()))
    logger.info("Extract %d best records from %s to %s", len(picked), in_file, out_file)
    return len(picked)


def _records(reader: LogReader, caller: str) -> list[Pair]:
    """Return all records of a log; raise an error if it is none."""
    pairs = list(reader)
    if reader.is_no_log:
        raise RecordError(f"{caller}: {reader.report()}")
    if reader.problems:
        logger.warning(reader.report())
    return pairs


def _not_older(pairs: Sequence[Pair], source: str) -> list[Pair]:
    """Return the records without those of an older text; a warning counts the trials of these."""
    older = of_older_text(pairs)
    if trials := older_trials(pairs, older):
        logger.warning(left_out(source, trials))
    return [pair for pair, is_older in zip(pairs, older, strict=True) if not is_older]


def _best(competing: list[Pair], objective: Objective) -> list[Pair]:
    """Return the records that would be replayed, in their order."""
    tasks = (pair for pair in competing if isinstance(pair[0].task, Task))
    best = ApplyHistoryBest(tasks, objective=objective)
    kept = [*best.best_by_model.values(), *best.best_by_targetkey.values()]
    others: dict[str, list[Pair]] = {}
    for pair in competing:
        if not isinstance(pair[0].task, Task):
            others.setdefault(measure_str_key(pair[0], False), []).append(pair)
    kept += filter(None, [best_of(each, objective) for each in others.values()])
    chosen = {id(pair[0]) for pair in kept}
    return [pair for pair in competing if id(pair[0]) in chosen]


def split_workload(in_file: LogPath, clean: bool = True, forms: Lines = TEMPLATES) -> list[Path]:
    """Write one file ``<in_file>.NNN.wkl`` for each workload and target; return their paths.

    Args:
        in_file: the log.
        clean: whether only the first record of each configuration is kept, of its latest kernel
            text.
        forms: what lines may be.

    Raises:
        RecordError: the log is not empty, and none of its lines is a record.
    """
    with open_log(log_path(in_file)) as file:
        reader = forms.reader(file, str(in_file), races=False, quiet=True)
        trials = _records(reader, "split_workload")
    if clean:
        trials = _not_older(trials, str(in_file))
    groups: dict[str, list[Pair]] = {}
    for pair in trials:
        groups.setdefault(measure_str_key(pair[0], False), []).append(pair)
    paths = []
    for number, (key, pairs) in enumerate(groups.items()):
        kept = list({measure_str_key(p[0]): p for p in reversed(pairs)}.values())[::-1]
        path = Path(f"{log_path(in_file)}.{number:03d}.wkl")
        write_whole(path, forms.text(kept if clean else pairs))
        logger.info("Key: %s\tValid: %d\tDup: %d", key, len(kept), len(pairs) - len(kept))
        paths.append(path)
    return paths


def compact(
    in_file: LogPath, out_file: LogPath | None = None, forms: Lines = TEMPLATES
) -> tuple[int, int]:
    """Drop unreadable lines, and all but the last record of each configuration.

    A failure replaces only failures and records of an older kernel text: what worked with the same
    text may have failed later because a compiler or memory was missing. Records of a later version
    are kept, as that version can read them. Other processes may append to the log meanwhile; what
    they write is kept.

    Args:
        in_file: the log.
        out_file: where to write; by default the log is replaced.
        forms: the kinds of lines.

    Raises:
        RecordError: no line is a record; the log is unchanged.

    Returns:
        The number of records kept, and of lines dropped.
    """
    source, counts = log_source(in_file), (0, 0)
    path = source_name(source)
    if out_file is None and is_store(source):
        raise RecordError(f"compact: {path} is no log file; say by out_file where to write")
    out = log_path(source if out_file is None else out_file)
    if out_file is None:
        check_replaceable(out)

    def compacted(lines: Iterable[str]) -> Iterator[str]:
        nonlocal counts
        others: dict[int, str] = {}
        reader = forms.reader(lines, path, quiet=True, others=others)
        with spooled(out) as spool:
            latest = LatestRecords(spool, forms.encode)
            for pair in reader:
                latest.add(pair)
            bad = sum(not stays(others[one.line]) for one in reader.problems)
            if bad and not latest.read:
                raise RecordError(f"compact: {reader.report()} It is unchanged")
            counts = len(latest), latest.read - len(latest) + bad
            yield from latest.lines()
        yield from filter(stays, others.values())

    def stays(line: str) -> bool:
        return forms.keeps(line) or is_of_a_later_version(line)

    with open_log(source) as file:
        if out_file is not None:
            write_whole(out, compacted(file))
            return counts
    rewrite(out, compacted)
    return counts


def write_log(path: LogPath, pairs: Iterable[Pair]) -> None:
    """Write a whole log at once: either all of it is there, or what was there before.

    Args:
        path: of the file.
        pairs: trials with their results, in the order of the lines.

    Raises:
        RecordError: it cannot be written.
    """
    write_whole(log_path(path), TEMPLATES.text(pairs))
