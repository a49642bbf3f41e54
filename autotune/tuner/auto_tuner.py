"""The tuner for people who choose nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.measure import MeasureInput, MeasureResult
from autotune.task import Task
from autotune.tuner.index_based_tuner import RandomTuner
from autotune.tuner.models.candidates import ENUMERABLE
from autotune.tuner.tuner import Tuner
from autotune.tuner.xgboost_tuner import XGBTuner
from autotune.workload import Candidate

# A space of up to this many configurations is measured before a model could learn anything.
TINY = 24


class AutoTuner(Tuner):
    """Picks its strategy from the size and the constraints of the space.

    - A tiny space is tried whole, in random order.
    - Up to 200,000 valid configurations, a cost model scores every one of them.
    - In a larger space, or one whose constraints are too intricate to count its points, the model
      is asked about what annealing finds.

    Args:
        task: what is tuned.
        seed: makes the proposals repeatable.

    Attributes:
        strategy: the tuner that was picked.
    """

    def __init__(self, task: Task, seed: int | None = None) -> None:
        super().__init__(task, seed)
        tiny = self.space.has_at_most(TINY)
        self.strategy: Tuner = (RandomTuner if tiny else XGBTuner)(task, seed=seed)

    @property
    def reason(self) -> str:
        """Why the strategy was picked, in words."""
        space = self.space
        if isinstance(self.strategy, RandomTuner):
            return f"all {space.rough_count} configurations are tried"
        scored = "every one" if space.has_at_most(ENUMERABLE) else "what annealing finds"
        about = "" if space.count_is_known else "about "
        return f"a model scores {scored} of {about}{space.rough_count} configurations"

    def has_next(self) -> bool:
        """Return whether there is anything left to propose."""
        return self.strategy.has_next()

    def count_left(self, most: int) -> int | None:
        """Return how many configurations the strategy has left to propose, if that is known."""
        return self.strategy.count_left(most)

    def next_batch(self, batch_size: int) -> Sequence[Candidate]:
        """Propose what the strategy proposes."""
        return self.strategy.next_batch(batch_size)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Let the strategy learn."""
        self.strategy.update(inputs, results)

    def load_history(
        self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 8
    ) -> None:
        """Let the strategy learn from earlier records; see `XGBTuner.load_history`."""
        self.strategy.load_history(data_set, min_seed_records)

    def reset(self) -> None:
        """Forget the last run."""
        super().reset()
        self.strategy.reset()
