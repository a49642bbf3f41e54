"""The log of a network: trials of templates and of the auto-scheduler, and what was chosen.

Trials are in it as in the logs of the two, line by line, so that readers of either take theirs.
What is known of the network itself is in lines ``# network {...}``, comments to both.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.auto_scheduler import MeasureInput as StateInput
from autotune.auto_scheduler import record_codec
from autotune.errors import RecordError
from autotune.measure import MeasureInput, MeasureResult
from autotune.record.paths import LogPath, log_path
from autotune.record.reader import NETWORK_NOTE, RACE_NOTE, LogReader, open_log
from autotune.record.writer import LogWriter
from autotune.target import Target
from autotune.utils.check import Check

logger = logging.getLogger("autotune")

# No one spends more seconds than this (a century) on a network: a record that says so is wrong.
_LONGEST_S = 3e9


@dataclass
class NetworkLog:
    """The contents of a log, read once.

    Attributes:
        path: the log, which need not exist.
        templates: trials of templates, and winners of their races.
        states: trials of the auto-scheduler, and winners of their races.
        notes: the contents of lines about networks, in order.
        unreadable: the lines that are none of these.
    """

    path: Path
    templates: list[tuple[MeasureInput, MeasureResult]] = field(default_factory=list)
    states: list[tuple[StateInput, MeasureResult]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    unreadable: int = 0

    @staticmethod
    def read(path: LogPath) -> NetworkLog:
        """Read a log; one that does not exist holds nothing.

        Raises:
            RecordError: it cannot be opened.
        """
        Check(RecordError, "network log").path("log", path)
        log = NetworkLog(log_path(path))
        if log.path.exists():
            with open_log(log.path) as file:
                log._take(file)
        if log.unreadable:
            logger.warning("%s: %d lines are no records", log.path, log.unreadable)
        return log

    def _take(self, lines: Iterable[str]) -> None:
        templates: list[str] = []
        note = ""
        for line in lines:
            text = line.removeprefix(RACE_NOTE)
            if line.startswith(NETWORK_NOTE):
                self._note(line)
            elif not text.startswith("#") and record_codec.holds_state(text):
                self._state(text, note)
            elif text.strip() and not text.startswith("#"):
                templates.append(text)
            note = line if line.startswith(record_codec.NOTE) else ""
        reader = LogReader(templates, str(self.path), quiet=True, ahead=len(templates) + 1)
        self.templates = list(reader)
        self.unreadable += len(reader.problems)

    def _state(self, text: str, note: str) -> None:
        try:
            pair = record_codec.decode(text, note)
        except RecordError:
            self.unreadable += 1
            return
        if pair is not None:
            self.states.append(pair)

    def _note(self, line: str) -> None:
        try:
            note = json.loads(line.removeprefix(NETWORK_NOTE))
        except (ValueError, RecursionError):
            self.unreadable += 1
            return
        if isinstance(note, dict):
            self.notes.append(note)

    def spent_s(self, network: str, target: Target | None = None) -> float:
        """Return the seconds that were spent on tuning a network.

        Impossible values, such as infinity, are ignored.

        Args:
            network: digest of the network.
            target: the target, by default any; seconds that were logged without a target count
                for all.
        """
        counts = (None, str(target))
        told = [
            note.get("spent_s")
            for note in self.notes
            if note.get("network") == network and (target is None or note.get("target") in counts)
        ]
        return max(map(_spent_s, told), default=0.0)


def _spent_s(told: object) -> float:
    if not isinstance(told, (int, float)) or isinstance(told, bool):
        return 0.0
    return float(told) if 0 < told < _LONGEST_S else 0.0


def write_note(path: LogPath, note: Mapping[str, object]) -> None:
    """Append a line of a network.

    Raises:
        RecordError: the log cannot be written.
    """
    LogWriter(path).write([NETWORK_NOTE + json.dumps(note) + "\n"])
