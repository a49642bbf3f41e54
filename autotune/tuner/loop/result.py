"""The result of a run, and why it ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autotune.measure import MeasureResult
from autotune.measure.evidence import Energy
from autotune.task import ConfigEntity
from autotune.utils.quantities import counted, duration, energy_text, flops_rate, microseconds
from autotune.workload import Candidate, Workload

# Part of a time by which two runs of a program differ, however little samples of one run do:
# clocks, placement in memory.
BETWEEN_RUNS = 0.02
# Characters of a workload's name and arguments that stand in a message.
_LONGEST_TITLE = 200


class PrettyPrinter(Protocol):
    """What IPython prints values with."""

    def text(self, text: str) -> None:
        """Add text to what is shown."""


@dataclass(frozen=True)
class TuneResult:
    """The result of `Tuner.tune`; printed, it is the summary that a run ends with.

    Attributes:
        task: what was tuned.
        best_config: the best configuration, the fastest by the final race where one was held; None
            when no trial succeeded.
        seconds: of one run with it, the median of timed batches; infinite when none succeeded.
        spread: of one such batch, relative to `seconds`; None where it is unknown.
        default_seconds: of one run with the configuration that an untuned template uses; None
            where it was not measured, or does not run.
        trials: how many were made, those of ``resume`` included.
        resumed: how many of them came from an earlier run.
        failures: how many of them failed, by kind; the names are those of `MeasureErrorNo`.
        stop_reason: why no more were made, in words.
        log: the file they were logged to by `callback.log_to_file` or `log_to_database`, or the
            folder or database by its URL; None without one.
        wall_s: seconds this run took.
        trial_seconds: what the best configuration took in its own trial, where a race measured
            it again.
        notes: what else a reader must know, such as that the host was busy.
        filtered: proposals of this run that were no trials because they cannot run.
        filtered_why: the most frequent reason, in words.
        objective: name of what was minimised.
        energy: of one run with the best configuration; None where it was not measured.
        default_joules: energy of one run with the default configuration; None where unknown.
    """

    task: Workload
    best_config: Candidate | None
    seconds: float
    spread: float | None
    default_seconds: float | None
    trials: int
    resumed: int
    failures: Mapping[str, int]
    stop_reason: str
    log: Path | str | None
    wall_s: float
    trial_seconds: float | None = None
    notes: tuple[str, ...] = ()
    filtered: int = 0
    filtered_why: str = ""
    objective: str = "time"
    energy: Energy | None = None
    default_joules: float | None = None

    @property
    def joules(self) -> float | None:
        """Energy of one run with the best configuration; None if unknown."""
        return None if self.energy is None else self.energy.joules

    @property
    def watts(self) -> float | None:
        """Mean power while the best configuration runs; None if unknown."""
        return None if self.energy is None else self.energy.watts

    @property
    def flops(self) -> float | None:
        """Operations per second of the best; None where the task declares none or nothing ran."""
        return self.task.flop / self.seconds if self.task.flop and self.best_config else None

    @property
    def speedup(self) -> float | None:
        """The speedup of the best over the default configuration; None if unknown."""
        if self.default_seconds is None or not self.seconds < math.inf:
            return None
        return self.default_seconds / self.seconds

    def _repr_pretty_(self, printer: PrettyPrinter, cycle: bool) -> None:
        """Show the summary as the value of a notebook's cell."""
        printer.text(str(self))

    def __str__(self) -> str:
        rows = [
            ("trials", self._trials()),
            *([("filtered", self._filtered())] if self.filtered else []),
            ("stopped", self.stop_reason),
            ("best", self._best()),
            *([("energy", self._energy())] if self.joules is not None else []),
            *([("config", _knobs(self.best_config))] if self.best_config else []),
            *([("default", self._default())] if self.best_config else []),
            ("log", str(self.log) if self.log else "none; keep trials with callback.log_to_file"),
            *(("note", note) for note in self.notes),
        ]
        head = f"{title(self.task)} on {self.task.target}"
        return "\n".join([head, *(f"  {name:8} {text}" for name, text in rows)])

    def _trials(self) -> str:
        count = f"{self.trials} in {duration(self.wall_s)}"
        if self.resumed:
            count += f", {self.resumed} of them taken over from an earlier run"
        kinds = ", ".join(f"{n} {kind}" for kind, n in self.failures.items())
        return f"{count}; {sum(self.failures.values())} failed{f' ({kinds})' if kinds else ''}"

    def _filtered(self) -> str:
        return (
            f"{counted(self.filtered, 'proposal')} that cannot run, most for {self.filtered_why}"
        )

    def _best(self) -> str:
        if self.best_config is None:
            return "none: no trial succeeded"
        text = microseconds(self.seconds, self.spread)
        if self.objective != "time":
            text = f"by {self.objective}: {text}"
        if self.flops is not None:
            text += f", {flops_rate(self.flops)}"
        before = self.trial_seconds
        noise = max(self.spread or 0.0, BETWEEN_RUNS)
        if before and abs(before / self.seconds - 1) > noise:
            text += f" in the final race; {microseconds(before)} in its trial"
        return text

    def _energy(self) -> str:
        assert self.joules is not None
        text = energy_text(self.joules)
        return text if self.watts is None else f"{text} a run, at {self.watts:.0f} W"

    def _default(self) -> str:
        if self.default_seconds is None or self.speedup is None:
            return "not measured"
        text = f"{microseconds(self.default_seconds)}; the best is {self.speedup:.2f}x as fast"
        if self.joules is None or self.default_joules is None:
            return text
        share = self.joules / self.default_joules
        return f"{text}, and takes {share:.2f}x its {energy_text(self.default_joules)}"


def _knobs(config: Candidate) -> str:
    if not isinstance(config, ConfigEntity):
        return config.key
    knobs = ", ".join(f"{name}={config[name]}" for name in config)
    return f"{knobs} (index {config.index})"


def title(workload: Workload) -> str:
    """Return a workload in a few words: a template's name and arguments, or a name alone."""
    text = f"{workload.name}{args_of(workload)}"
    return text if len(text) <= _LONGEST_TITLE else f"{text[:_LONGEST_TITLE]}..."


def args_of(workload: Workload) -> str:
    """Return the arguments of a template's task after a blank; nothing for other workloads."""
    args = getattr(workload, "args", None)
    return "" if args is None else f" {args}"


def default_of(result: MeasureResult) -> float | None:
    """Return the seconds of the default configuration, as the record of a race's winner says."""
    race = result.evidence.race
    return _time(race.default_seconds) if race else None


def trial_of(result: MeasureResult) -> float | None:
    """Return the seconds of a race's winner in its own trial; None of any other record."""
    race = result.evidence.race
    return _time(race.trial) if race else None


def _time(seconds: float | None) -> float | None:
    return seconds if seconds is not None and 0 < seconds < math.inf else None


def continued_by(workload: Workload) -> str:
    """Return how a user continues a run from a log: for templates, the argument of `tune`."""
    return str(getattr(workload, "continued_by", "resume="))


def ended_by(error: BaseException, goes_on: str) -> str:
    """Return why a run was interrupted.

    Args:
        error: the exception that ended it.
        goes_on: how a user continues from its log; empty if there is no log.
    """
    if isinstance(error, KeyboardInterrupt):
        return f"interrupted; continue with {goes_on}" if goes_on else "interrupted"
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
