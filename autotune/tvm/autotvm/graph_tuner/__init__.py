"""AutoTVM's `graph_tuner`, for scripts that call it between tuning and compiling.

TVM's weighs the times of convolutions in blocked layouts against those of changes of layout
between them. Here layouts are chosen when a network is compiled, and measured there by
`tune_network`; so what is left is to keep the best record of each layer.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from autotune.errors import TunerError
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.record import encode, load_from_file, pick_best, write_log
from autotune.tvm.relay.function import graph_of
from autotune.utils.check import Check

__all__ = ["BaseGraphTuner", "DPTuner", "PBQPTuner"]

Pair = tuple[MeasureInput, MeasureResult]


class BaseGraphTuner:
    """Keeps the best records of the layers of a network.

    Args:
        graph: the network, as relay has it.
        input_shapes: shapes of inputs by name; those of the network are known.
        records: a log of tuned layers, or its trials.
        target_ops: accepted: the records say what was tuned.
        target: accepted: records of other targets stay, and are not replayed.
        options: of TVM's search, such as ``max_sch_num`` and ``dtype``; accepted.

    Raises:
        GraphError: it is no network.
        TunerError: they are neither a log nor trials.
    """

    def __init__(
        self,
        graph: object,
        input_shapes: Mapping[str, Sequence[int]],
        records: str | os.PathLike[str] | Iterable[Pair],
        target_ops: Sequence[object] = (),
        target: object = None,
        **options: object,
    ) -> None:
        del input_shapes, target_ops, target, options
        graph_of(graph)
        self._records = _checked(records)

    def benchmark_layout_transform(self, *args: object, **options: object) -> None:
        """Measure nothing: no layout changes between kernels. Arguments are TVM's."""

    def run(self, **options: object) -> None:
        """Choose nothing yet: `write_opt_sch2record_file` does."""

    def get_optimal_records(self) -> list[Pair]:
        """Return the best record of each layer."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "best.log")
            self.write_opt_sch2record_file(path)
            return list(load_from_file(path))

    def write_opt_sch2record_file(
        self, record_file: str | os.PathLike[str] = "graph_opt_schedule.log"
    ) -> None:
        """Write the best record of each layer to a log.

        `apply_graph_best` replays it, and so does `apply_history_best`, which it is here.

        Raises:
            TunerError: it is the log of the layers, whose other records would be lost.
            RecordError: the records cannot be read; what was there before is left.
        """
        check = Check(TunerError, "graph_tuner")
        out = Path(check.path("record_file", record_file))
        if isinstance(self._records, str) and _is_same(out, Path(self._records)):
            check.refuse("record_file", "another file than that of the records", out)
        with tempfile.TemporaryDirectory() as folder:
            log, best = Path(folder, "records.log"), Path(folder, "best.log")
            if isinstance(self._records, str):
                pick_best(self._records, best)
            else:
                log.write_text("".join(f"{encode(*pair)}\n" for pair in self._records), "utf-8")
                pick_best(log, best)
            write_log(out, load_from_file(best))


class DPTuner(BaseGraphTuner):
    """TVM's tuner by dynamic programming."""


class PBQPTuner(BaseGraphTuner):
    """TVM's tuner by partitioned boolean quadratic programming."""


def _checked(records: object) -> str | list[Pair]:
    """Return the path of a log, or trials."""
    if isinstance(records, str | os.PathLike):
        return os.fspath(records)
    if not isinstance(records, Iterable):
        Check(TunerError, "graph_tuner").refuse("records", "a log, or a list of trials", records)
    return [_pair(each) for each in records]


def _pair(record: object) -> Pair:
    match record:
        case (MeasureInput() as inp, MeasureResult() as result):
            return inp, result
    expected = "a log, or a list of trials, each a MeasureInput and a MeasureResult"
    Check(TunerError, "graph_tuner").refuse("records", expected, record)


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
