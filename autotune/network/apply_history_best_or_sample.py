"""`ApplyHistoryBestOrSample`: the best records of a log, or states that are drawn and measured."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from autotune.auto_scheduler import (
    ComputeDAG,
    CostModel,
    MeasureInput,
    ProgramMeasurer,
    RandomModel,
    SearchTask,
    SketchPolicy,
    XGBModel,
    record_codec,
)
from autotune.measure import MeasureResult
from autotune.network.apply_history_best import ApplyHistoryBest, add_records
from autotune.record.paths import LogPath
from autotune.target import Target

_log = logging.getLogger("autotune")
# Rounds until one state works, and what TVM sets of the search.
_ROUNDS = 4
_PARAMS: dict[str, int | float | str] = {
    "eps_greedy": 0.01,
    "sample_init_min_population": 64,
    "evolutionary_search_num_iters": 0,
}


class ApplyHistoryBestOrSample(ApplyHistoryBest):
    """Lets networks use the best records of a log, and tries some states where there is none.

    What is measured is kept for as long as the object lives, not written anywhere.

    Args:
        records: as `ApplyHistoryBest` takes them.
        sample_simple_workloads: whether states are drawn of functions without a sum, too.
        cost_model_file: what `XGBModel.save` wrote; without it states are drawn at random.
        num_measure: states that are measured of a function; one if it is not positive.
    """

    def __init__(
        self,
        records: LogPath | Iterable[LogPath | record_codec.RecordedPair] | None,
        sample_simple_workloads: bool = False,
        cost_model_file: str | Path | None = None,
        num_measure: int = -1,
    ) -> None:
        super().__init__(records)
        self.sample_simple_workloads = sample_simple_workloads
        self.num_measure = max(int(num_measure), 1)
        self._sampling = threading.Lock()
        self._model: CostModel = RandomModel()
        if cost_model_file is not None:
            model = XGBModel()
            model.load(cost_model_file)
            self._model = model

    def _made(
        self, dag: ComputeDAG, target: Target, without: Collection[str]
    ) -> MeasureInput | None:
        """Return the best of some states that are measured."""
        if not self.sample_simple_workloads and not _has_sum(dag):
            return None
        with self._sampling:
            if self._known(dag, target, without) is None:  # no other thread made it meanwhile
                self._sample(SearchTask(compute_dag=dag, target=target))
        return self._known(dag, target, without)

    def _has_nothing(self) -> bool:
        """No: what it does not have it makes."""
        return False

    def _sample(self, task: SearchTask) -> None:
        policy = SketchPolicy(task, self._model, _PARAMS, seed=0, verbose=0)
        with ProgramMeasurer(verbose=0, callbacks=[self._keep]) as measurer:
            for _ in range(_ROUNDS):
                _, results = policy.continue_search_one_round(self.num_measure, measurer)
                if not results or any(result.ok for result in results):
                    return
        _log.warning("ApplyHistoryBestOrSample: no state of %s works; it runs untuned", task)

    def _keep(
        self, policy: object, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        del policy
        add_records(zip(inputs, results, strict=True), self.records())


def _has_sum(dag: ComputeDAG) -> bool:
    return any(op.reduce_axis for op in dag.ops)
