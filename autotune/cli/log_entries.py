"""Contents of several logs, grouped by workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.dashboard import ALL_LINES, name_of
from autotune.dashboard import choices_of as named_choices
from autotune.errors import RecordError
from autotune.measure.objective import TIME, Objective, objective_of
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record.best import best_of, is_race, of_older_text
from autotune.record.frame import KNOB, choices_of, row_of
from autotune.record.outdated import current_only, refusal_now
from autotune.record.pareto import pareto_front
from autotune.record.reader import RACE_NOTE, load_from_file, open_log, source_name
from autotune.report import is_of, no_such_task
from autotune.task import ConfigEntity, Task
from autotune.task.refusals import OLDER, Refusal, left_out
from autotune.utils.escaping import shorten


@dataclass(frozen=True)
class LogEntry:
    """One record and its position in a log.

    Attributes:
        inp, result: the record.
        path: of the log.
        line: in it, from 1.
        again: whether the line is the note of a race, of what was a trial before.
    """

    inp: MeasureInput
    result: MeasureResult
    path: Path | str
    line: int
    again: bool

    @property
    def where(self) -> str:
        """The place, as compilers and editors write it."""
        return f"{source_name(self.path)}:{self.line}"

    @property
    def knobs(self) -> dict[str, object]:
        """The values of the knobs as the log has them, or named steps of the auto-scheduler."""
        config = self.inp.config
        if isinstance(config, ConfigEntity):
            return choices_of(config)
        return {name: value for name, _, value in named_choices(config)}

    @property
    def row(self) -> dict[str, object]:
        """All of it under fixed names."""
        row = row_of(self.inp, self.result)
        knobs = {key: value for key, value in row.items() if not key.startswith(KNOB)}
        return {
            **knobs,
            "config": choices_of(self.inp.config),
            "raced": is_race(self.result),
            "log": source_name(self.path),
            "line": self.line,
        }


@dataclass(frozen=True)
class Group:
    """The records of one workload on one target, in order.

    Attributes:
        target: the target.
        entries: the records.
        objective: by which they are ranked.
    """

    target: str
    entries: Sequence[LogEntry]
    objective: Objective = TIME

    @property
    def task(self) -> Any:
        """The workload, as the first record has it."""
        return self.entries[0].inp.task

    @property
    def args(self) -> list[object]:
        """The arguments, which distinguish it from others of its name."""
        return list(getattr(self.task, "args", (self.task.key,)))

    @property
    def title(self) -> str:
        """The workload on one line."""
        if isinstance(self.task, Task):
            return f"{self.task.name} {shorten(str(self.task.args))}"
        return shorten(name_of(self.task).title)

    @property
    def trials(self) -> list[LogEntry]:
        """The trials, without the notes of races."""
        return [one for one in self.entries if not one.again]

    @property
    def best(self) -> LogEntry | None:
        """The record that is replayed; None when none succeeded."""
        pairs = {id(one.inp): one for one in self.entries}
        best = best_of(((one.inp, one.result) for one in self.entries), self.objective)
        return None if best is None else pairs[id(best[0])]

    @property
    def front(self) -> list[LogEntry]:
        """The Pareto front of time and energy, the fastest first."""
        trials = [one for one in self.entries if not is_race(one.result)]
        pairs = {id(one.inp): one for one in trials}
        front = pareto_front((one.inp, one.result) for one in trials)
        return [pairs[id(inp)] for inp, _ in front]

    def fastest(self, count: int) -> list[LogEntry]:
        """Return the best, and behind it the next best configurations."""
        good = [one for one in self.entries if self.objective.knows(one.inp, one.result)]
        good.sort(key=lambda one: self.objective.cost(one.inp, one.result))
        best = self.best
        ranked = [*([best] if best else []), *good]
        by_key: dict[str, LogEntry] = {}
        for one in ranked:
            by_key.setdefault(one.inp.key, one)
        return list(by_key.values())[:count]


@dataclass(frozen=True)
class Logs:
    """Several logs.

    Attributes:
        groups: one for each workload and target, in the order in which they appear.
        problems: what was left out, and why.
        is_outdated: whether there are records, but all are of other kernels than now.
    """

    groups: Sequence[Group]
    problems: Sequence[str]
    is_outdated: bool = False

    @property
    def trials(self) -> list[LogEntry]:
        """The trials of all groups."""
        return [one for group in self.groups for one in group.trials]


def _grouped(entries: Iterable[LogEntry], objective: Objective) -> list[Group]:
    """Return entries by workload and target, in the order in which those appear."""
    groups: dict[tuple[str, str, str], list[LogEntry]] = {}
    # Many records share a task. By identity: the entries keep tasks and targets alive.
    known: dict[tuple[int, int], list[LogEntry]] = {}
    for entry in entries:
        task, target = entry.inp.task, entry.inp.target
        group = known.get((id(task), id(target)))
        if group is None:
            name = name_of(task)
            group = groups.setdefault((str(target), name.kind, name.key), [])
            known[id(task), id(target)] = group
        group.append(entry)
    return [Group(key[0], found, objective) for key, found in groups.items()]


def read_logs(
    paths: Sequence[Path | str],
    task: str | None = None,
    objective: str | Objective = TIME,
    ask_templates: bool = False,
) -> Logs:
    """Read logs; lines without a record, and records of other kernels than now, are left out.

    Args:
        paths: the logs.
        task: the only task that is wanted; all by default.
        objective: by which records are ranked.
        ask_templates: whether templates known here tell which records are older, and not only
            later records.

    Raises:
        LogMissingError: one cannot be opened.
        RecordError: one is not empty, and none of its lines is a record; or none is of the task.
    """
    wanted = objective_of("read_logs", objective, RecordError)
    entries, problems = _read(paths, task)
    current, left = _of_kernels_as_now(entries, ask_templates)
    groups = _grouped(current, wanted)
    return Logs(groups, problems + left, is_outdated=bool(entries) and not groups)


def _read(paths: Sequence[Path | str], task: str | None) -> tuple[list[LogEntry], list[str]]:
    """Return the records of a task, or of all, and what could not be read; see `read_logs`."""
    problems: list[str] = []
    others: set[str] = set()
    entries: list[LogEntry] = []
    for path in paths:
        with open_log(path) as file:
            reader = ALL_LINES.reader(file, source_name(path), quiet=True)
            for number, line, (inp, result) in reader.numbered():
                if is_of(inp.task, task):
                    again = line.startswith(RACE_NOTE)
                    entries.append(LogEntry(inp, result, path, number, again))
                else:
                    others.add(str(inp.task.name))
        if reader.is_no_log:
            raise RecordError(reader.report())
        problems += filter(None, [reader.report()])
    if others and not entries:
        raise RecordError(no_such_task(str(task), others))
    return entries, problems


def _of_kernels_as_now(
    entries: Sequence[LogEntry], ask_templates: bool
) -> tuple[list[LogEntry], list[str]]:
    """Return the records of kernels as they are now, and a line a log on those that are not.

    Several logs are as one, in which one's trials may have replaced another's.
    """
    current: list[LogEntry] = []
    refused: dict[str, list[Refusal]] = {}
    pairs = [(one.inp, one.result) for one in entries]
    for entry, pair, is_older in zip(entries, pairs, of_older_text(pairs), strict=True):
        refusal = OLDER if is_older else None
        if ask_templates:
            refusal = refusal_now(pair, otherwise=refusal)
        if refusal is None:
            current.append(entry)
        elif not entry.again:  # a note of a race is no further trial
            refused.setdefault(source_name(entry.path), []).append(refusal)
    problems = []
    for source, ones in refused.items():
        strangers = [one for one in ones if not one.older]
        problems.append(left_out(source, len(ones) - len(strangers), strangers))
    return current, problems


def wanted_records(logs: Sequence[Path | str], tasks: Sequence[str]) -> list[Pair]:
    """Return the records of some tasks, by default of all, that are of their kernels as they are.

    Raises:
        RecordError: a log cannot be read, or none of them has a trial of one of the tasks.
    """
    pairs: list[Pair] = []
    names: set[str] = set()
    for log in logs:
        every = list(load_from_file(log, races=True))
        names.update(str(inp.task.name) for inp, _ in every)
        wanted = (pair for pair in every if not tasks or pair[0].task.name in tasks)
        pairs += current_only(wanted, source_name(log))
    refuse_unknown(tasks, names)
    return pairs


def refuse_unknown(tasks: Iterable[str], names: Iterable[str]) -> None:
    """Refuse the names of tasks of which logs have no trial.

    Args:
        tasks: that are wanted.
        names: of the tasks in the logs.

    Raises:
        RecordError: one of them is unknown.
    """
    known = set(names)
    for task in tasks:
        if task not in known:
            raise RecordError(no_such_task(task, known))
