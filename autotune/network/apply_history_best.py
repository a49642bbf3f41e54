"""The best records of the auto-scheduler, for all networks that are built in a ``with`` block."""

from __future__ import annotations

import logging
import threading
from bisect import insort
from collections.abc import Callable, Collection, Iterable
from contextvars import ContextVar, Token
from os import PathLike
from typing import ClassVar, TypeVar

from autotune.auto_scheduler import (
    FAR,
    ComputeDAG,
    MeasureInput,
    RecordedState,
    RecordedTask,
    RecordReader,
    State,
    decode_workload_key,
    equivalent_keys,
    fair,
    record_codec,
    structural_hash,
    workload_distance,
)
from autotune.driver import kernel_of
from autotune.errors import AutotuneError, RecordError
from autotune.graph.fuse import FusedFunction
from autotune.kernel import Kernel
from autotune.network.choice import RULE, BySearch, Choice
from autotune.network.choice_json import search_task
from autotune.network.compile import fallback_kernel
from autotune.record.paths import LogPath
from autotune.target import Target
from autotune.utils.check import Check

_log = logging.getLogger("autotune")
_current: ContextVar[ApplyHistoryBest | None]
_EXPECTED = "a log, a list of logs, or None"
# Workload key, or hash of a graph -> kind of target -> hash of the graph, empty where the record
# does not say -> the fastest records and their results, fastest first.
Records = dict[str, dict[str, dict[str, list[record_codec.RecordedPair]]]]
# Records that are kept of each: the fastest may not fit the graph, as of a log that was edited.
_KEPT = 64
_T = TypeVar("_T")
_Back = Token["ApplyHistoryBest | None"]


class _Current:
    """Class attribute that gives the innermost context that was entered; at least an empty one."""

    __slots__ = ()

    def __get__(self, instance: object, owner: type) -> ApplyHistoryBest:
        return _current.get() or ApplyHistoryBest(None)


class ApplyHistoryBest:
    """Lets networks that are built in the ``with`` block use the best records of a log.

    What it has no record of, the one around it is asked for; a function without any runs untuned.
    A log that is missing costs a warning. Logs are read once, when the first network is built.

    Args:
        records: a log, several logs or records (pairs of input and result), or None for none.
        n_lines: accepted for TVM's scripts; the whole log is read.
        include_compatible: whether records of smaller workloads are used, whose sizes divide
            those of a function.

    Raises:
        RecordError: ``records`` is something else.
    """

    current: ClassVar[_Current] = _Current()
    # Messages that were logged, so that each is logged once in a process.
    warning_messages: ClassVar[set[str]] = set()

    def __init__(
        self,
        records: LogPath | Iterable[LogPath | record_codec.RecordedPair] | None,
        n_lines: int | None = None,
        include_compatible: bool = False,
    ) -> None:
        del n_lines
        self.logs: list[LogPath | record_codec.RecordedPair] = []
        if isinstance(records, str | bytes | PathLike):
            self.logs.append(records)
        elif isinstance(records, Iterable):
            self.logs.extend(records)
        elif records is not None:
            Check(RecordError, "ApplyHistoryBest").refuse("records", _EXPECTED, records)
        for log in self.logs:
            if not isinstance(log, tuple):
                Check(RecordError, "ApplyHistoryBest").path("records", log)
        self.include_compatible = include_compatible
        self._best: Records | None = None
        self._reading = threading.Lock()
        # The contexts around, innermost first; and what to go back to, once for each entry.
        self._around: tuple[ApplyHistoryBest, ...] = ()
        self._entries: list[tuple[_Back, tuple[ApplyHistoryBest, ...]]] = []
        # What `update` was given, by kind of target and workload key.
        self._given: dict[tuple[str, str], MeasureInput] = {}

    def __enter__(self) -> ApplyHistoryBest:
        last = _current.get()
        around = () if last is None else (last, *last._around)
        self._entries.append((_current.set(self), self._around))
        self._around = tuple([each for each in around if each is not self])
        return self

    def __exit__(self, *_: object) -> None:
        back, self._around = self._entries.pop()
        _current.reset(back)

    def query(
        self,
        target: Target | str,
        workload_key: str,
        has_complex_op: bool = False,
        dag: ComputeDAG | None = None,
        func_name: str = "",
    ) -> RecordedState | None:
        """Return the best known state of a workload, or None, like TVM's method.

        Args:
            target: the target; records of its kind count.
            workload_key: key of the workload.
            has_complex_op: whether a miss is warned of, once for each function.
            dag: the graph; if given, the keys that it had in older versions are tried as well.
            func_name: name of the function in the warning.
        """
        target = Target(target)

        def state(record: MeasureInput) -> RecordedState:
            if dag is not None:
                dag.apply_steps_from_state(record.state)
            return record.config

        found = self._first_that_fits(state, func_name, dag, target, workload_key)
        if found is None and has_complex_op:
            self._warn_of_miss(target, workload_key, dag, func_name)
        return found

    def update(
        self, target: Target | str, workload_key: str, state: RecordedState | State
    ) -> None:
        """Use a state for a workload from now on, whatever records say."""
        task = RecordedTask(workload_key, str(target))
        self._given[Target(target).kind.name, workload_key] = MeasureInput(task, state)

    def _warn_of_miss(
        self, target: Target, workload_key: str, dag: ComputeDAG | None, func_name: str
    ) -> None:
        message = (
            f"{'-' * 35}\n{func_name}\nCannot find tuned schedules for target={target}, "
            f"workload_key={workload_key}. A schedule by rule is used, which may be slower."
        )
        message += "" if dag is None else f" Compute DAG info:\n{dag}"
        if message not in self.warning_messages:
            self.warning_messages.add(message)
            _log.warning(message)

    def best(
        self,
        target: Target,
        workload_key: str,
        graph: str | None = None,
        without: Collection[str] = (),
    ) -> MeasureInput | None:
        """Return the best record of a workload, or None.

        Args:
            target: of its kind records count.
            workload_key: of the workload.
            graph: the structural hash of its graph, where it is known: records that say that
                theirs was another do not count.
            without: keys of states that do not count either.
        """
        given = self._given.get((target.kind.name, workload_key))
        if given is not None and given.key not in without:
            return given
        wanted = decode_workload_key(workload_key)
        found: list[tuple[float, MeasureInput]] = []
        for key, kinds in self.records().items():
            same = key == workload_key
            if not (same or self.include_compatible):
                continue
            for hashed, pairs in kinds.get(target.kind.name, {}).items():
                if graph is not None and same and hashed not in ("", graph):
                    continue
                factor = 1.0 if same else workload_distance(wanted, decode_workload_key(key))
                fitting = (pair for pair in pairs if pair[0].key not in without)
                first = next(fitting, None)
                if first is not None and factor < FAR:
                    found.append((first[1].seconds * factor, first[0]))
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def choose(self, function: FusedFunction, target: Target) -> Choice:
        """Return how the best record computes a function; by rule if no record can be used."""

        def choice(record: MeasureInput) -> Choice:
            task = search_task(function, target)
            task.realise(record.config)
            return BySearch(task, record.config)

        dag = ComputeDAG(list(function.tensors()))
        return self._first_that_fits(choice, function.name, dag, target) or RULE

    def kernel_for(self, function: FusedFunction, target: Target) -> Kernel:
        """Return the kernel of the best record of a function, or an untuned one without records.

        If there are records but none can be used, a warning says so.
        """
        dag = ComputeDAG(list(function.tensors()))

        def kernel(record: MeasureInput) -> Kernel:
            schedule, arguments = dag.apply_steps_from_state(record.state)
            return kernel_of((schedule, list(arguments)), target, function.name)

        found = self._first_that_fits(kernel, function.name, dag, target)
        return found or fallback_kernel(function, target)

    def _first_that_fits(
        self,
        use: Callable[[MeasureInput], _T],
        name: str,
        dag: ComputeDAG | None,
        target: Target,
        key: str | None = None,
    ) -> _T | None:
        """Apply a function to the fastest record that it accepts; None if it accepts none.

        Args:
            use: the function; records for which it raises an error are skipped.
            name: name of the network's function in the warning.
        """
        refused = dict[str, AutotuneError]()
        made = None
        while (record := self._found(dag, target, key, refused)) is not None:
            try:
                made = use(record)
                break
            except AutotuneError as error:
                refused[record.key] = error
        if refused:
            how = "a slower one is used" if record is not None else "it runs untuned"
            message = "ApplyHistoryBest: %d of the records of %s cannot be used: %s; %s"
            _log.warning(message, len(refused), name or key, next(iter(refused.values())), how)
        return made

    def _found(
        self,
        dag: ComputeDAG | None,
        target: Target,
        key: str | None,
        without: Collection[str],
    ) -> MeasureInput | None:
        """Return the best record that this context or one around it knows, else makes."""
        contexts = (self, *self._around)
        for each in contexts:
            found = None if key is None else each.best(target, key, without=without)
            found = found or (None if dag is None else each._known(dag, target, without))
            if found is not None:
                return found
        made = (None if dag is None else each._made(dag, target, without) for each in contexts)
        return next(filter(None, made), None)

    def _known(
        self, dag: ComputeDAG, target: Target, without: Collection[str] = ()
    ) -> MeasureInput | None:
        graph = structural_hash(dag)
        found = (self.best(target, key, graph, without) for key in equivalent_keys(dag))
        return next(filter(None, found), None) or self.best(target, graph, None, without)

    def _made(
        self, dag: ComputeDAG, target: Target, without: Collection[str]
    ) -> MeasureInput | None:
        """Return a record that is made of a graph that nobody knows."""
        del dag, target, without
        return None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of any workload, in the contexts around neither."""
        return all(each._has_nothing() for each in (self, *self._around))

    def _has_nothing(self) -> bool:
        return not self._given and not self.records()

    def records(self) -> Records:
        """Return the best records of each workload and kind of target; logs are read once."""
        with self._reading:
            if self._best is None:
                self._best = {}
                given = [log for log in self.logs if isinstance(log, tuple)]
                for log in self.logs:
                    if not isinstance(log, tuple):
                        add_records(_read(log), self._best)
                add_records(given, self._best)
            return self._best


def _read(log: LogPath) -> list[record_codec.RecordedPair]:
    try:
        return fair(RecordReader(log, races=True))
    except (AutotuneError, OSError) as error:
        _log.warning("ApplyHistoryBest: %s; networks run untuned", error)
        return []


def add_records(pairs: Iterable[record_codec.RecordedPair], best: Records) -> None:
    """Keep the fastest records of each workload, graph and kind of target."""
    for record, result in pairs:
        if not result.ok:
            continue
        said = result.extra.get(record_codec.GRAPH_HASH)
        graph = said if isinstance(said, str) else ""
        for key in filter(None, (record.task.workload_key, graph)):
            graphs = best.setdefault(key, {}).setdefault(record.target.kind.name, {})
            known = graphs.setdefault(graph, [])
            insort(known, (record, result), key=lambda pair: pair[1].seconds)
            del known[_KEPT:]


_current = ContextVar("autotune_network_history", default=None)
