"""The trials of one run as arrays that grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]

# What a trial is known by, as numbers; what is not known is NaN. Times of day are seconds since
# the epoch. `message` is the number of a text.
FIELDS = (
    "line", "seconds", "error", "all_cost", "timestamp", "spread", "ci_low", "ci_high",
    "roofline", "device", "message", "asked", "build_began", "build_ended", "run_began",
    "registers", "shared_bytes", "spill_bytes", "joules",
)  # fmt: skip
_PLACE = {name: place for place, name in enumerate(FIELDS)}
_FIRST = 1024
# Trials that wait to become rows of the arrays; as tuples they take several times the memory.
_MOST_WAITING = 4096
# A log of anybody's may name as many knobs as it likes.
MOST_KNOBS = 256
_MOST_LABELS = 1 << 20
NONE = -1


class Labels:
    """Texts by number, each kept once; all behind the first million share the last number.

    Attributes:
        texts: by number.
        whole: of a text that stands for a longer one, that.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.whole: dict[str, str] = {}
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        """Return the number of a text."""
        known = self._codes.get(text)
        if known is None:
            if len(self.texts) >= _MOST_LABELS:
                return len(self.texts) - 1
            known = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return known


class Trials:
    """Columns of numbers and of choices, one row a trial, in the order of the log.

    Attributes:
        knobs: names of the knobs, in the order in which they were met.
        labels: of each knob the texts of its values.
        keys: of the candidates.
    """

    def __init__(self) -> None:
        self.knobs: dict[str, int] = {}
        self.labels: list[Labels] = []
        self.keys: list[str] = []
        self._count = 0
        self._numbers: Float = np.empty((_FIRST, len(FIELDS)))
        self._codes: Codes = np.full((_FIRST, 0), NONE, np.int32)
        self._new_numbers: list[Sequence[float]] = []
        self._new_codes: list[Sequence[tuple[int, int]]] = []

    def __len__(self) -> int:
        return self._count + len(self._new_numbers)

    def knob(self, name: str) -> int:
        """Return the column of a knob; `NONE` where there are too many."""
        place = self.knobs.get(name)
        if place is None:
            if len(self.knobs) >= MOST_KNOBS:
                return NONE
            place = self.knobs[name] = len(self.knobs)
            self.labels.append(Labels())
        return place

    def append(
        self, key: str, numbers: Sequence[float], choices: Sequence[tuple[int, int]]
    ) -> None:
        """Add a trial: its numbers in the order of `FIELDS`, and pairs of knob and choice."""
        self.keys.append(key)
        self._new_numbers.append(numbers)
        self._new_codes.append(choices)
        if len(self._new_numbers) >= _MOST_WAITING:
            self._flush()

    def column(self, name: str) -> Float:
        """Return all trials' values of a field; nobody may change them."""
        self._flush()
        return self._numbers[: self._count, _PLACE[name]]

    def choices(self, knob: str) -> Codes:
        """Return all trials' choices of a knob, `NONE` where a trial has none."""
        self._flush()
        place = self.knobs.get(knob)
        if place is None:
            return np.full(self._count, NONE, np.int32)
        return self._codes[: self._count, place]

    def _flush(self) -> None:
        if not self._new_numbers:
            return
        count = self._count + len(self._new_numbers)
        self._make_room(count)
        self._numbers[self._count : count] = self._new_numbers
        codes = self._codes
        for row, chosen in enumerate(self._new_codes, start=self._count):
            for place, code in chosen:
                codes[row, place] = code
        self._count = count
        self._new_numbers, self._new_codes = [], []

    def _make_room(self, count: int) -> None:
        rows, knobs = self._codes.shape
        if count > rows or len(self.knobs) > knobs:
            rows = max(rows, 2 * count) if count > rows else rows
            wider = np.full((rows, len(self.knobs)), NONE, np.int32)
            wider[: self._count, :knobs] = self._codes[: self._count]
            self._codes = wider
        if count > len(self._numbers):
            longer = np.empty((rows, len(FIELDS)))
            longer[: self._count] = self._numbers[: self._count]
            self._numbers = longer
