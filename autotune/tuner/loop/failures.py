"""Failures of a run, counted by kind and first line."""

from __future__ import annotations

import logging
import re
import tempfile
from collections import Counter
from collections.abc import Iterable

from autotune.errors import InstantiationError
from autotune.measure import MeasureErrorNo, MeasureResult
from autotune.workload import Workload

logger = logging.getLogger("autotvm")

# Rows of the printed table, and characters of a message in it. The end of a message says what was
# expected and what to do, so a few rows have room for it.
ROWS, WIDTH = 8, 120
FEW, WIDE = 2, 500
# Full messages kept for the error file.
KEPT = 100

# Names that belong to one trial, not to what went wrong: processes, files in scratch folders.
_OF_ONE_TRIAL = re.compile(r"\bprocess \d+|(?<![\w.])(?:/[\w.+@~-]+){2,}")
# Values with their sign, fraction and exponent; what stands in a name is only its digits.
_NUMBER = re.compile(
    r"0x[0-9a-fA-F]+|(?<![\w.)\]])[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b|(?:inf|nan)\b)|\d+"
)
# An element, a thread, a shape: as many numbers as there are dimensions.
_PLACE = re.compile(r"[\[(]#(?:, ?#)*,?[\])]")
# What a template or a compiler refuses, it refuses for the numbers of the configuration.
_REFUSALS = (
    MeasureErrorNo.INSTANTIATION_ERROR,
    MeasureErrorNo.COMPILE_HOST,
    MeasureErrorNo.COMPILE_DEVICE,
)

Key = tuple[str, str]


class Failures:
    """A histogram of failed trials.

    Messages that differ in numbers and names of files only are counted together, and the first of
    them is shown.

    Attributes:
        in_a_row: how many trials of this run failed since one that did not.
        alike: how many trials there were, if all failed with one message; else 0. Other numbers in
            the refusal of a template or of a compiler make another message: the next configuration
            may have better ones.
    """

    def __init__(self) -> None:
        self.in_a_row = self.alike = 0
        self._first: Key | None = None
        self._mixed = False
        self._counts: Counter[Key] = Counter()
        self._printed: Counter[Key] = Counter()
        self._lines: dict[Key, str] = {}
        self._messages: dict[Key, str] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, result: MeasureResult) -> None:
        """Count a trial of this run; a success only ends a row of failures."""
        self.recall([result])
        self.in_a_row = 0 if result.ok else self.in_a_row + 1
        cause = None if result.ok else _cause(result)
        self._first = self._first or cause
        self._mixed = self._mixed or cause is None or cause != self._first
        self.alike = 0 if self._mixed else self.alike + 1

    def recall(self, results: Iterable[MeasureResult]) -> None:
        """Count trials of an earlier run; their causes may have been fixed since."""
        for result in results:
            if not result.ok:
                self._count(result)

    def _count(self, result: MeasureResult) -> None:
        kind, line = _cause(result)
        key = (kind, _without_numbers(line))
        self._counts[key] += 1
        self._lines.setdefault(key, _cut(_line(result.error_msg), WIDE))
        if len(self._messages) < KEPT:
            self._messages.setdefault(key, result.error_msg)

    @property
    def kinds(self) -> dict[str, int]:
        """The number of failures of each kind, by the names of `MeasureErrorNo`, most first."""
        counts: Counter[str] = Counter()
        for (kind, _), count in self._counts.items():
            counts[kind] += count
        return dict(counts.most_common())

    @property
    def example(self) -> str:
        """Kind and first line of the most frequent failure; empty where nothing failed."""
        return next((self._row(k, WIDTH) for k, _ in self._counts.most_common(1)), "")

    @property
    def whole_example(self) -> str:
        """The same with its first line in full, which also says what to do."""
        kinds = (
            f"{k[0]}: {_line(self._messages.get(k, self._lines[k]))}"
            for k, _ in self._counts.most_common(1)
        )
        return next(kinds, "")

    def summary(self, trials: int) -> str:
        """Return the table; empty when nothing failed."""
        failed = sum(self._counts.values())
        if not failed:
            return ""
        lines = [f"{failed} of {trials} trials failed:"]
        width = WIDE if len(self._counts) <= FEW else WIDTH
        for key, count in self._counts.most_common(ROWS):
            lines.append(f"  {count:5d}  {self._row(key, width)}")
        if len(self._counts) > ROWS:
            rest = self._counts.most_common()[ROWS:]
            lines.append(f"  {sum(n for _, n in rest):5d}  of {len(rest)} other kinds")
        return "\n".join(lines)

    def _row(self, key: Key, width: int) -> str:
        return f"{key[0]}: {_cut(self._lines[key], width)}"

    def print_summary(self, trials: int, final: bool) -> None:
        """Log the table; at the end only if it says something new."""
        if self._counts and not (final and self._counts == self._printed):
            logger.warning("%s", self.summary(trials))
        self._printed = self._counts.copy()

    def report_all_failed(self, task: Workload) -> None:
        """Write all distinct messages to a file, and say where."""
        text = "\n\n".join(
            f"==== {count} x {key[0]}\n{self._messages.get(key, self._lines[key])}"
            for key, count in self._counts.most_common()
        )
        logger.warning(
            "Could not find any valid schedule for task %s. "
            "The full text of every kind of error %s", task, _put(text),
        )  # fmt: skip


def _put(text: str) -> str:
    """Write text to a file and return where it is; if there is no space, return the text."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="autotune_errors_", suffix=".log", delete=False, encoding="utf-8"
        ) as out:
            out.write(text + "\n")
    except OSError as error:
        return f"follows, no file could be written for it ({error}).\n{text}"
    return f"is in {out.name}."


def _cause(result: MeasureResult) -> Key:
    """Return the kind of a failure and its message without what belongs to the one trial."""
    kind = MeasureErrorNo(result.error_no)
    line = _OF_ONE_TRIAL.sub("...", _line(result.error_msg))
    return kind.name, line if kind in _REFUSALS else _without_numbers(line)


def _without_numbers(line: str) -> str:
    return _PLACE.sub("[#]", _NUMBER.sub("#", line))


def _line(message: str) -> str:
    """Return the first line with text, without the name of the exception that its kind tells."""
    lines = (line.strip() for line in message.splitlines())
    first = next((line for line in lines if line), "(no message)")
    return first.removeprefix(f"{InstantiationError.__name__}: ")


def _cut(line: str, width: int) -> str:
    """Return what fits into a row, cut between words; within one where there is no other place."""
    if len(line) <= width:
        return line
    head = line[: width - 3]
    words, _, _ = head.rpartition(" ")
    return (words if len(words) > width // 2 else head).rstrip(" ,;:") + " ..."
