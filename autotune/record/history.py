"""`ApplyHistoryBest`: the best configuration that a log has for each workload."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import IO, Any, Literal

from autotune.errors import RecordError, TargetError
from autotune.measure.objective import TIME, Objective, objective_of
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record.best import beats, best_of
from autotune.record.database import Database
from autotune.record.origin import arch_of, differ, is_from_elsewhere, plain_arch
from autotune.record.outdated import differs
from autotune.record.paths import without_password
from autotune.record.reader import load_from_buffer, load_from_file
from autotune.target import Target, arch_here
from autotune.task import ConfigEntity, Task
from autotune.task.dispatcher import Config, DispatchContext, Query, check_config, warn_once
from autotune.task.refusals import Attempt, Refusal, ignored
from autotune.task.workload import Workload
from autotune.utils.quantities import counted

# Other shapes or targets named in an explanation.
NAMED = 3
UNKNOWN_MODEL = "unknown"

RecordSource = str | bytes | os.PathLike[str] | IO[str] | Database | Iterable[object] | None
Key = tuple[str, Workload]
# Where records are kept, the most specific first.
Place = Literal["model", "arch", "key"]


class NoTargetError(TargetError, RuntimeError):
    """A configuration was requested without a target."""


class ApplyHistoryBest(DispatchContext):
    """Gives each workload the configuration that was measured best, by default the fastest.

    Args:
        records: a path, a folder or URL that `open_database` accepts, a database, an open text
            file, pairs of `MeasureInput` and `MeasureResult`, or a list of any of these; None to
            load later.
        keep_older: whether records count whose kernel had another text than now.
        objective: what is least: ``"time"``, ``"energy"``, ``"edp"`` (the product of both) or an
            `Objective`; records without energy do not count where that is part of it.

    The winner of a final race (see `Tuner.tune`) precedes the candidates that it beat. A workload
    is looked up by the target's model, then by its architecture (by default that of the present
    device), then by each of its keys. Failed trials are skipped, and so are records that do not
    belong to the requesting template as it is now, because they are not in its space or its kernel
    had another text; a warning says how many. A record of another kind of device has no cost.

    Attributes:
        best_by_targetkey: best pair by (key of the target, workload).
        best_by_model: best pair by (model, workload).
    """

    def __init__(
        self,
        records: RecordSource = None,
        *,
        keep_older: bool = False,
        objective: str | Objective = TIME,
    ) -> None:
        self._keep_older = keep_older
        self._objective = objective_of("apply_history_best", objective, RecordError)
        self.best_by_targetkey: dict[Key, Pair] = {}
        self.best_by_model: dict[Key, Pair] = {}
        self._best: dict[Place, dict[Key, Pair]] = {
            "model": self.best_by_model, "arch": {}, "key": self.best_by_targetkey,
        }  # fmt: skip
        self._all: dict[tuple[Place, Key], list[Pair]] = {}
        self._chosen: dict[Key, Config] = {}
        self._failed: Counter[Workload] = Counter()
        self._unknown: Counter[Workload] = Counter()
        self._sources: list[str] = []
        if records is not None:
            self.load(records)

    def load(self, records: RecordSource) -> None:
        """Take in more records; the better one of a workload stays.

        Raises:
            RecordError: this is nothing records can be read from.
        """
        self.revision += 1
        for inp, result in self._pairs(records):
            if not isinstance(inp.task, Task):
                continue
            if result.error_no != 0 or not result.costs:
                self._failed[inp.task.workload] += 1
                continue
            if not self._objective.knows(inp, result):
                self._unknown[inp.task.workload] += 1
                continue
            for place, name in _places(inp.target, arch_of((inp, result))):
                key = (name, inp.task.workload)
                _keep_better(self._best[place], key, (inp, result), self._objective)
                self._all.setdefault((place, key), []).append((inp, result))

    def update(self, target: Target | None, workload: Workload, cfg: Config) -> None:
        """Use ``cfg`` for this workload from now on, whatever was measured."""
        check_config("ApplyHistoryBest.update", "cfg", cfg)
        target = _given(target)
        for _, key in _places(target, arch_here(target)):
            self._chosen[key, workload] = cfg
        self.revision += 1

    def explain_miss(self, target: Target | None, workload: Workload | None) -> str:
        """Say what the log holds instead."""
        if workload is None:
            return ""
        source = self._source()
        held = [*self.best_by_targetkey.values(), *self.best_by_model.values()]
        same = {str(inp.target) for inp, _ in held if Task.of(inp.task).workload == workload}
        if same:
            return (
                f"{source} holds this workload for another target ({'; '.join(sorted(same))}); "
                f"enter that target, or tune for {target}."
            )
        if unknown := self._unknown[workload]:
            return (
                f"{source} has {counted(unknown, 'trial')} of this workload that succeeded, none "
                f"of which says its {self._objective.name}; tune with LocalRunner(energy=True)."
            )
        if failed := self._failed[workload]:
            return (
                f"{source} has {counted(failed, 'trial')} of this workload, none of which "
                "succeeded; 'autotune log show' says why."
            )
        workloads = dict.fromkeys(Task.of(inp.task).workload for inp, _ in held)
        shapes = [w for w in workloads if w[0] == workload[0]]
        if shapes:
            some = "; ".join(str(w[1:]) for w in shapes[:NAMED])
            return (
                f"{source} holds no record for these arguments of {workload[0]!r}; it has "
                f"{counted(len(shapes), 'other workload')} of it: {some}"
                f"{'; ...' if len(shapes) > NAMED else '.'}"
            )
        names = Counter(name for name, *_ in workloads)
        some = ", ".join(f"{name} ({count})" for name, count in names.most_common())
        return f"there is no record for {workload[0]!r} in {source}; it holds {some or 'nothing'}."

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        return self._found(target, workload, [], None)

    def _answer(self, query: Query) -> Config | None:
        """Return the configuration; or None, after adding the reason to its misses."""
        said: list[str] = []
        target, workload = query.target, query.workload
        config = self._found(target, workload, said, query.attempt)
        if config is None:
            query.misses.extend(said or filter(None, [self.explain_miss(target, workload)]))
        else:
            for message in said:
                warn_once(message)
        return config

    def _found(
        self,
        target: Target | None,
        workload: Workload | None,
        said: list[str],
        attempt: Attempt | None,
    ) -> Config | None:
        if workload is None:
            return None
        target = _given(target)
        for place, name in _places(target, arch_here(target)):
            key = (name, workload)
            if key in self._chosen:
                return self._chosen[key]
            if key not in self._best[place]:
                continue
            best, refusals = self._usable(place, key, attempt)
            why = f"{self._source()}: of {workload[0]!r}, {ignored(refusals)}." if refusals else ""
            if why and why not in said:  # a record has several places
                said.append(why)
            if best is not None:
                _note_other_arch(best, target, workload)
                config = ConfigEntity.of(best[0].config)
                # A time on another device says nothing of which kernel is the faster one here.
                return config.with_cost(None) if is_from_elsewhere(best, target) else config
        return None

    def _usable(
        self, place: Place, key: Key, attempt: Attempt | None
    ) -> tuple[Pair | None, Sequence[Refusal]]:
        """Return the best record that may be used, and why better ones may not.

        If the best of all may be used, no other is examined.
        """
        best = self._best[place][key]
        if attempt is None or self._refusal(best, attempt) is None:
            return best, ()
        outcomes = [(pair, self._refusal(pair, attempt)) for pair in self._all[place, key]]
        refusals = [refusal for _, refusal in outcomes if refusal is not None]
        usable = (pair for pair, refusal in outcomes if refusal is None)
        return best_of(usable, self._objective), refusals

    def _refusal(self, pair: Pair, attempt: Attempt) -> Refusal | None:
        (target, _, config), result = pair
        try:
            output = attempt(ConfigEntity.of(config))
            return None if self._keep_older else differs(config, result, output, target)
        except Exception as error:  # the template is the user's; what fails now did not then
            return Refusal(str(error) or repr(error))

    def _source(self) -> str:
        return ", ".join(self._sources) or "the history"

    def _pairs(self, records: Any) -> Iterable[Pair]:
        if isinstance(records, bytes):
            records = os.fsdecode(records)
        if isinstance(records, (str, os.PathLike)):
            self._sources.append(without_password(os.fsdecode(records)))
            yield from load_from_file(records, races=True)
        elif isinstance(records, Database):
            self._sources.append(records.url or type(records).__name__)
            yield from records.records(races=True)
        elif hasattr(records, "read"):
            if not isinstance(records, io.TextIOBase) and hasattr(records, "mode"):
                raise RecordError("the log was opened as bytes; open it as text, or pass its path")
            self._sources.append(str(getattr(records, "name", "the given file")))
            yield from load_from_buffer(records, races=True)
        elif _is_pair(records):
            yield records
        elif isinstance(records, Iterable):
            for one in records:
                yield from self._pairs(one)
        else:
            raise RecordError(
                f"records: expected a path, a file, pairs of (MeasureInput, MeasureResult) or a "
                f"list of these, got {type(records).__name__}"
            )


def _places(target: Target, arch: str | None) -> list[tuple[Place, str]]:
    """Return the keys under which records for a target are stored, the most specific first.

    Args:
        target: the target.
        arch: its architecture, if known.
    """
    places: list[tuple[Place, str]] = []
    if target.model != UNKNOWN_MODEL:
        places.append(("model", target.model))
    if arch is not None:
        places.append(("arch", plain_arch(arch)))
    return places + [("key", key) for key in target.keys]


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and isinstance(value[0], MeasureInput)
        and isinstance(value[1], MeasureResult)
    )


def _keep_better(table: dict[Key, Pair], key: Key, pair: Pair, objective: Objective) -> None:
    if key not in table or beats(pair, table[key], objective):
        table[key] = pair


def _given(target: Target | None) -> Target:
    if target is None:
        raise NoTargetError(
            "Need a target context to find the history best: wrap the call in "
            "`with Target('cuda'):` inside `with apply_history_best(log):`"
        )
    return target if isinstance(target, Target) else Target(target)


def _note_other_arch(found: Pair, asked: Target, workload: Workload) -> None:
    measured, wanted = arch_of(found), arch_here(asked)
    if differ(measured, wanted):
        warn_once(
            f"{workload[0]!r} is not tuned for {wanted}; the best configuration of {measured} is "
            f"used, workload={workload}"
        )
