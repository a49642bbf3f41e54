"""The best records of the auto-scheduler, for all networks that are built in a ``with`` block."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextvars import ContextVar, Token
from os import PathLike
from typing import Any

from autotune.auto_scheduler import ComputeDAG
from autotune.auto_scheduler.best_record import load_best_record
from autotune.auto_scheduler.equivalent_keys import equivalent_keys
from autotune.auto_scheduler.measure_input import MeasureInput
from autotune.auto_scheduler.record_file import RecordReader
from autotune.driver import kernel_of
from autotune.errors import AutotuneError
from autotune.graph.fuse import Function
from autotune.kernel import Kernel
from autotune.network.compile import fallback_kernel
from autotune.target import Target

_log = logging.getLogger("autotune")
_current: ContextVar[ApplyHistoryBest | None]


class ApplyHistoryBest:
    """Lets networks that are built in the ``with`` block use the best records of a log.

    A function without a record runs untuned; a log that is missing costs a warning.

    Args:
        records: a log, several, or None for none.
        n_lines: accepted for TVM's scripts; the whole log is read.
        include_compatible: whether records of smaller workloads are used, whose sizes divide
            those of a function.
    """

    def __init__(
        self, records: Any, n_lines: int | None = None, include_compatible: bool = False
    ) -> None:
        del n_lines
        several = isinstance(records, Iterable) and not isinstance(records, str | bytes | PathLike)
        self.logs = list(records) if several else [] if records is None else [records]
        self.include_compatible = include_compatible
        self._tokens: list[Token[ApplyHistoryBest | None]] = []

    @staticmethod
    def current() -> ApplyHistoryBest | None:
        """Return the innermost one that was entered."""
        return _current.get()

    def __enter__(self) -> ApplyHistoryBest:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._tokens.pop())

    def query(self, target: Target, workload_key: str) -> MeasureInput | None:
        """Return the best record of a workload, or None."""
        for log in self.logs:
            try:
                found, _ = load_best_record(log, workload_key, target, self.include_compatible)
            except (AutotuneError, OSError) as error:
                _log.warning("ApplyHistoryBest: %s; what is in it is not used", error)
                self.logs.remove(log)
                return self.query(target, workload_key)
            if found is not None:
                return found
        return None

    def kernel_for(self, function: Function, target: Target) -> Kernel:
        """Return the kernel of the best record of a function; if there is none, an untuned one."""
        tensors = function.tensors()
        dag = ComputeDAG(list(tensors))
        keys = equivalent_keys(dag)
        record = next(filter(None, (self.query(target, key) for key in keys)), None)
        if record is None:
            return fallback_kernel(function, target)
        schedule, arguments = dag.apply_steps_from_state(record.state)
        return kernel_of((schedule, list(arguments)), target, function.name)

    @property
    def is_empty(self) -> bool:
        """Whether no log has any record."""
        for log in self.logs:
            try:
                if next(iter(RecordReader(log)), None) is not None:
                    return False
            except (AutotuneError, OSError) as error:
                _log.warning("ApplyHistoryBest: %s; networks run untuned", error)
        return True


_current = ContextVar("autotune_network_history", default=None)
