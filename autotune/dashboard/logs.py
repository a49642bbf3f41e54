"""One log that is followed: its runs, and what of it could not be read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autotune.dashboard.lines import LineReader, name_of
from autotune.dashboard.runs import Run
from autotune.dashboard.tail import Tail
from autotune.errors import RecordError
from autotune.record.best import KernelTexts
from autotune.task import Task
from autotune.utils.garbage import collection_paused

# Of a run: target, and kind and key of what was tuned.
_Key = tuple[str, str, str]
# A log is read anew after so many times as long as reading it took.
_REST = 20.0
# Unreadable lines that are named.
_NAMED = 20


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return the names of files, of equal ones with folders that tell each from the others."""
    found = []
    for path in paths:
        whole = path.absolute()
        others = {one.absolute() for one in paths} - {whole}
        for parts in range(1, len(whole.parts)):
            name = whole.parts[-parts:]
            if not any(one.parts[-parts:] == name for one in others):
                break
        found.append("/".join(name))
    return found


class Log:
    """A log and its content.

    Args:
        number: of the log among all.
        path: it need not exist yet.
        name: as the page shows it; by default the file's own name, without its folder.

    Attributes:
        name: as the page shows it.
        runs: by target and workload, in the order in which they appear; while it is read anew,
            as they were before.
        more: whether there was more to read at the last look.

    Once trials were measured again with another kernel text, those with the text before do not
    count, see `KernelTexts`. The log is read anew without them: at once where one was the best, or
    where one that was left out counts again, else when that takes a small part of the time.
    """

    def __init__(self, number: int, path: Path, name: str = "") -> None:
        self.number = number
        self.name = name or path.name
        self._tail = Tail(path)
        self._restarts = 0
        self.more = False
        self._forget()

    def _forget(self) -> None:
        """Begin with another file."""
        self._texts = KernelTexts()
        self._numbers: dict[_Key, int] = {}
        self._known = 0
        self._clear()
        self.runs = self._reading

    def _clear(self) -> None:
        self._reading: dict[_Key, Run] = {}
        self._replaced = self._returned = False
        self._began, self._spent_s = time.monotonic(), 0.0
        self._older: Counter[str | None] = Counter()
        self._reader = LineReader()
        self._line = self._unreadable = 0
        self._problems: list[dict[str, object]] = []
        self._tried = ""
        # By the task of a record, which the records of a template share.
        self._run_of: dict[int, tuple[object, Run]] = {}

    @collection_paused()
    def poll(self, new_number: Callable[[], int]) -> bool:
        """Read new lines, for a limited time; return whether anything changed.

        Args:
            new_number: returns the number for a run that appears for the first time.
        """
        before, began = self._tail.state, time.monotonic()
        news = self._tail.news()
        self.more = news.more
        if news.restarted:
            self._restarts += 1
            self._forget()
        for text in news.lines:
            self._take(text, new_number)
        ended = not news.more and self._finished(new_number)
        ready = time.monotonic()
        self._spent_s += ready - began
        if not news.more:
            self.runs = self._reading
        rested = ready - self._began > _REST * self._spent_s
        if self._replaced and not news.more and (rested or self._is_stale):
            self.read_anew()
        return bool(news.lines) or ended or news.restarted or before != self._tail.state

    def read_anew(self) -> None:
        """Read the log once more if trials that are counted are of an older kernel text."""
        if self._replaced:
            self._tail.rewind()
            self._clear()
            self.more = True

    @property
    def _is_stale(self) -> bool:
        bests = [run.best for run in self.runs.values() if run.best is not None]
        return self._returned or any(map(self._texts.is_older, bests))

    def _finished(self, new_number: Callable[[], int]) -> bool:
        """Take a last line that lacks nothing but its newline; return whether there was one."""
        text = self._tail.fragment
        if not text or text == self._tried:
            return False
        self._tried = text
        try:
            LineReader().read(text)
        except RecordError:
            return False  # its writer is in the middle of it, or was killed there
        self._tail.take_fragment()
        self._take(text, new_number)
        return True

    def _take(self, text: str, new_number: Callable[[], int]) -> None:
        self._line += 1
        try:
            trial = self._reader.read(text)
        except RecordError as error:
            self._unreadable += 1
            if len(self._problems) < _NAMED:
                self._problems.append({"line": self._line, "reason": str(error)[:300]})
            return
        if trial is None:
            return
        pair = trial.inp, trial.result
        if self._line > self._known:  # not when it is read once more
            self._known = self._line
            replaced = self._texts.add(pair)
            self._replaced |= replaced
            self._returned |= replaced and trial.result.evidence.kernel_hash in self._older
        if self._texts.is_older(pair):
            self._older[trial.result.evidence.kernel_hash] += 1
            return
        self._run(trial.inp.task, new_number).add(trial, self._line)

    def _run(self, task: Any, new_number: Callable[[], int]) -> Run:
        known = self._run_of.get(id(task))
        if known is not None:
            return known[1]
        name, target = name_of(task), str(task.target)
        key: _Key = target, name.kind, name.key
        run = self._reading.get(key)
        if run is None:
            if key not in self._numbers:
                self._numbers[key] = new_number()
            run = self._reading[key] = Run(self._numbers[key], self.number, target, name)
        if isinstance(task, Task):
            self._run_of[id(task)] = task, run
        return run

    def summary(self) -> dict[str, object]:
        """Return the state of the log."""
        return {
            "id": self.number,
            "name": self.name,
            "state": self._tail.state,
            "bytes": self._tail.size,
            "read": self._tail.read,
            "lines": self._line,
            "trials": sum(len(run.trials) for run in self.runs.values()),
            "restarts": self._restarts,
            "unreadable": self._unreadable,
            "older": self._older.total(),
            "problems": self._problems,
            "unfinished": bool(self._tail.fragment),
        }
