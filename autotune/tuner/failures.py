"""What went wrong in a run, counted by kind and first line."""

from __future__ import annotations

import logging
import tempfile
from collections import Counter

from autotune.measure import MeasureErrorNo, MeasureResult
from autotune.task import Task

logger = logging.getLogger("autotvm")

# Rows of the printed table, and characters of a message in it.
ROWS, WIDTH = 8, 120
# Full messages kept for the error file.
KEPT = 100


class Failures:
    """A histogram of failed trials.

    Attributes:
        counts: trials by (error kind, first line of the message).
        alike: how many trials failed with the first message before any did otherwise.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.alike = 0
        self._first: tuple[str, str] | None = None
        self._printed: Counter[tuple[str, str]] = Counter()
        self._messages: dict[tuple[str, str], str] = {}
        self._mixed = False

    def add(self, result: MeasureResult) -> None:
        """Count one trial; a success only ends a row of equal failures."""
        if result.ok:
            self._mixed = True
            return
        key = (MeasureErrorNo(result.error_no).name, first_line(result.error_msg))
        self.counts[key] += 1
        if len(self._messages) < KEPT:
            self._messages.setdefault(key, result.error_msg)
        if self._first is None:
            self._first = key
        self._mixed = self._mixed or key != self._first
        if not self._mixed:
            self.alike += 1

    def summary(self, trials: int) -> str:
        """Return the table; empty when nothing failed."""
        failed = sum(self.counts.values())
        if not failed:
            return ""
        lines = [f"{failed} of {trials} trials failed:"]
        for (kind, line), count in self.counts.most_common(ROWS):
            lines.append(f"  {count:5d}  {kind}: {line}")
        if len(self.counts) > ROWS:
            rest = self.counts.most_common()[ROWS:]
            lines.append(f"  {sum(n for _, n in rest):5d}  of {len(rest)} other kinds")
        return "\n".join(lines)

    def print_summary(self, trials: int, final: bool) -> None:
        """Log the table; at the end only if it says something new."""
        if self.counts and not (final and self.counts == self._printed):
            logger.warning("%s", self.summary(trials))
        self._printed = self.counts.copy()

    def report_all_failed(self, task: Task) -> None:
        """Write all distinct messages to a file, and say where."""
        text = "\n\n".join(
            f"==== {count} x {kind}\n{self._messages.get((kind, line), line)}"
            for (kind, line), count in self.counts.most_common()
        )
        with tempfile.NamedTemporaryFile(
            "w", prefix="autotune_errors_", suffix=".log", delete=False, encoding="utf-8"
        ) as out:
            out.write(text + "\n")
        logger.warning(
            "Could not find any valid schedule for task %s. "
            "The full text of every kind of error is in %s.",
            task, out.name,
        )  # fmt: skip


def first_line(message: str) -> str:
    """Return the first line with text, cut to a readable length."""
    line = next((line.strip() for line in message.splitlines() if line.strip()), "(no message)")
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."
