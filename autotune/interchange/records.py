"""Converts what other tuners tried to records of autotune."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.errors import AutotuneError, RecordError
from autotune.interchange.trials import Trial, Trials
from autotune.measure.evidence import NOTHING, Evidence
from autotune.measure.run.timing import costs_of, evidence_of
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record.messages import shorten_message, writable
from autotune.runtime.timing import summarize
from autotune.target import Target
from autotune.task import ConfigEntity, OtherOptionEntity, Task
from autotune.task.constraints.radix import Radix
from autotune.task.json_form import json_text
from autotune.utils.check import shown

# The key of a record under which all stands that the other tuner said of the trial.
IMPORTED = "imported"
# How the names of devices begin, or what they contain, by the kind of target.
_KINDS = (
    ("cuda", r"nvidia|geforce|quadro|tesla|\b[rg]tx\b|titan|\b[ahvlp]\d{2,4}\b|\bgb?\d{3}\b|cuda"),
    ("rocm", r"\bamd\b|radeon|instinct|\bmi\d{2,3}x?\b|\bw\d{4}\b|gfx\d|hip"),
    ("opencl", r"opencl"),
    ("vulkan", r"vulkan"),
)  # fmt: skip
_LONGEST_MODEL = 60


def target_of(trials: Trials) -> Target:
    """Return the target that a device's name speaks of; that of a C compiler has no name.

    Raises:
        RecordError: it speaks of none.
    """
    if trials.target:
        return Target(trials.target)
    if trials.device == "":
        return Target("c")
    name = trials.device or ""
    for kind, pattern in _KINDS:
        if re.search(pattern, name, re.IGNORECASE):
            model = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:_LONGEST_MODEL]
            return Target(f"{kind} -model={model}")
    raise RecordError(
        f"nothing says which target the trials of {trials.name or 'this file'!r} are of (device "
        f"{shown(trials.device)}); name it: --target 'cuda -arch=sm_90', or whatever it was"
    )


def records_of(
    trials: Trials,
    *,
    name: str | None = None,
    args: Sequence[object] | None = None,
    target: Target | str | None = None,
    knobs: Mapping[str, Sequence[object]] | None = None,
    end_s: float = 0.0,
) -> list[Pair]:
    """Return trials of another tuner as records.

    The index of a configuration is its place among all combinations of the values, the first knob
    varying fastest, as in the space of a template that defines these knobs in this order. (Where a
    template has others, `resume=` and replay go by the choices.)

    Args:
        trials: what a reader gave.
        name: of the task; by default the kernel's.
        args: of the task; by default the size of the problem.
        target: by default what the device's name speaks of.
        knobs: names and values in the order of the template; by default as the file has them.
        end_s: seconds since the epoch when the last trial ended, where the file has no times of
            day; the trials are then laid end to end by what they took.

    Raises:
        RecordError: nothing says what the task or its target is, or a configuration lacks a knob.
    """
    named = trials.name if name is None else name
    if not named or not named.isprintable():
        raise RecordError(
            f"nothing says which kernel the trials are of (got {named!r}); name it: --task NAME, "
            "or --t1 FILE with its description"
        )
    chosen = target_of(trials) if target is None else Target(target)
    try:
        task = Task(named, trials.args if args is None else args, chosen)
    except AutotuneError as error:
        raise RecordError(f"task {named!r}: {error}; give others: --args '[...]'") from error
    numbered = _Numbered(knobs or trials.knobs, trials.trials)
    ends = _ends(trials.trials, end_s)
    return [
        (MeasureInput(chosen, task, numbered.config(one)), _result(one, end, trials.tool))
        for one, end in zip(trials.trials, ends, strict=True)
    ]


class _Numbered:
    """The space of all combinations of values, those that trials have without being listed too."""

    def __init__(self, knobs: Mapping[str, Sequence[object]], trials: Sequence[Trial]) -> None:
        self._places: dict[str, dict[str, int]] = {}
        for name, values in knobs.items():
            places = self._places[name] = {}
            for value in [*values, *(one.choices[name] for one in trials if name in one.choices)]:
                places.setdefault(json_text(value), len(places))
        self._strides = Radix([len(places) for places in self._places.values()]).strides

    def config(self, trial: Trial) -> ConfigEntity:
        other = trial.choices.keys() ^ self._places.keys()
        if other:
            raise RecordError(
                "a configuration and the listed knobs differ in "
                f"{', '.join(map(shown, sorted(other)))}; is the T1 file of another problem?"
            )
        names = zip(self._places.items(), self._strides, strict=True)
        index = sum(places[json_text(trial.choices[name])] * n for (name, places), n in names)
        entities = {name: OtherOptionEntity(trial.choices[name]) for name in self._places}
        return ConfigEntity(index, None, entities)


def _ends(trials: Sequence[Trial], end_s: float) -> list[float]:
    """Return when each trial ended."""
    total = sum(one.all_cost for one in trials)
    ends, at = [], end_s - total
    for one in trials:
        at += one.all_cost
        ends.append(at if one.timestamp is None else one.timestamp)
    return ends


def _result(trial: Trial, end_s: float, tool: str) -> MeasureResult:
    costs, evidence = _timed(trial)
    told = {IMPORTED: {"from": tool, **trial.entry}}
    message = shorten_message(writable(trial.error_msg))
    known = replace(evidence, others=told)
    return MeasureResult(costs, trial.error_no, trial.all_cost, end_s, message, known)


def _timed(trial: Trial) -> tuple[tuple[float, ...], Evidence]:
    if trial.error_no:
        return (), NOTHING
    if trial.samples_s:
        timing = summarize(trial.samples_s, 1)
        return costs_of(timing), evidence_of(timing)
    assert trial.seconds is not None
    return (trial.seconds,), replace(NOTHING, noise_floor=trial.spread)
