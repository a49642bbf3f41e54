"""The best of each run: its choices, its resources, the race that it won, and its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autotune.dashboard.json_arrays import real, reals
from autotune.dashboard.lines import is_recorded
from autotune.dashboard.runs import Run
from autotune.measure.evidence import Race
from autotune.measure.types import Pair
from autotune.record.frame import choices_of
from autotune.record.origin import as_measured
from autotune.record.outdated import differs, task_refusal

# The text of the kernel of a record, or nothing and why.
SourceOf = Callable[[Pair], tuple[str, str]]
# Samples of which there is an interval.
LEAST_SAMPLES = 3
_NOT_LOADED = "it comes when the run ends, or with `autotune serve FILE.py LOG`"


def winner_of(run: Run, source: tuple[str, str]) -> dict[str, object] | None:
    """Return the record of a run that is replayed; None where nothing succeeded.

    Args:
        run: see there.
        source: the text of its kernel, or nothing and why.
    """
    if run.best is None:
        return None
    inp, result = run.best
    known = result.evidence
    text, why = source
    enough = known.samples is None or known.samples >= LEAST_SAMPLES
    return {
        "run": run.number,
        "line": run.best_line,
        "key": inp.key,
        "target": run.target,
        "seconds": real(result.seconds),
        "spread": real(result.spread),
        "ci95": reals(known.ci95) if known.ci95 and enough else None,
        "samples": known.samples,
        "joules": real(result.joules),
        "watts": real(result.watts, 4),
        "verified": known.verified,
        "roofline": real(known.roofline, 4),
        "clocks": dict(known.clocks or {}),
        "config": choices_of(inp.config),
        "resources": dict(known.resources or {}),
        "race": _race(known.race) if known.race and len(known.race.candidates) != 1 else None,
        "source": text,
        "source_note": why,
        "language": inp.target.language if text else "",
    }


def _race(race: Race) -> dict[str, object]:
    ran = sorted(race.candidates, key=lambda one: one.seconds or float("inf"))
    return {
        "default": race.default,
        "tied": list(race.tied),
        "trial": race.trial,
        "rounds": list(race.rounds) if race.rounds else None,
        "candidates": [
            {
                "key": one.key,
                "seconds": one.seconds,
                "medians": list(one.medians),
                "ci95": [list(interval) for interval in one.ci95],
                "noise_floor": list(one.noise_floor),
                "samples": list(one.samples),
            }
            for one in ran
        ],
    }


def source_of(pair: Pair) -> tuple[str, str]:
    """Return the text of the kernel of a record; or nothing, and why.

    The template, or the function of the workload, is run in this process, with arguments that are
    numbers and names only.
    """
    from autotune.driver import kernel_of  # most pages show no source, and it takes long to load

    inp, result = as_measured(pair)
    task: Any = inp.task
    refused = task_refusal(task)
    if refused is not None:
        return "", refused.why
    try:
        if is_recorded(task):
            from autotune.auto_scheduler import SearchTask

            task = task.recovered(SearchTask)
        made = task.realise(inp.config).what
        if differs(inp.config, result, made, inp.target) is not None:
            return "", "the template makes another kernel now than the one that was measured"
        return kernel_of(made, inp.target).source, ""
    except Exception as error:  # the template is the user's: whatever it raises is told
        return "", str(error) or type(error).__name__


class Sources:
    """Texts of kernels, each made once.

    Args:
        make: how; None where no templates are known here.
    """

    def __init__(self, make: SourceOf | None = source_of) -> None:
        self._make = make
        self._known: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._given: dict[tuple[str, str], str] = {}

    def given(self, target: str, key: str, text: str) -> None:
        """Keep a text that somebody else made, of a candidate on a target."""
        self._given[target, key] = text

    def of(self, run: Run) -> tuple[str, str]:
        """Return the text of the kernel of the best of a run; or nothing, and why."""
        if run.best is None:
            return "", ""
        given = self._given.get((run.target, run.best[0].key))
        if given is not None:
            return given, ""
        name = run.target, run.name.key, run.best[0].key
        if name not in self._known:
            self._known[name] = self._make(run.best) if self._make else ("", _NOT_LOADED)
        return self._known[name]


def winners_of(runs: Sequence[Run], sources: Sources) -> list[dict[str, object]]:
    """Return the winner of each run that has one."""
    found = [winner_of(one, sources.of(one)) for one in runs]
    return [one for one in found if one is not None]
