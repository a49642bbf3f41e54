"""The search over sketches as a tuner, for the loop that also tunes templates."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.measure import MeasureInput, MeasureResult
from autotune.tuner.tuner import Tuner

# Proposals that are made together: more of them learn less from each other.
_FEWEST, _MOST = 8, 64


class StateProposer(Protocol):
    """Proposes states of a task; see `SearchPolicy`."""

    @property
    def task(self) -> SearchProblem:
        """The task that is searched."""

    def propose(self, count: int) -> Sequence[RecordedState]:
        """Return up to ``count`` states to try next."""

    def learn(self, pairs: Iterable[tuple[MeasureInput, MeasureResult]]) -> None:
        """Record what was measured."""


class SketchTuner(Tuner):
    """Measures what a policy proposes; all else is the template tuner's.

    Args:
        policy: proposes states of its task, and learns.
        per_round: states that are proposed together at most.
    """

    def __init__(self, policy: StateProposer, per_round: int = _MOST) -> None:
        super().__init__(policy.task)
        self.policy = policy
        self.per_round = max(1, per_round)
        self._queue: deque[RecordedState] = deque()
        self._over = False

    def has_next(self) -> bool:
        """Returns whether the policy may have anything left to propose.

        The policy is not asked here, so that processes that measure start while it looks for its
        first proposals.
        """
        return bool(self._queue) or not self._over

    def _batch(self) -> int:
        """Return how many to propose together: a fair part of the run, so that it can learn.

        With early stopping a run may be as short as the trials without a better one.
        """
        trials = self.n_trial or _MOST
        part = min(trials, self.early_stopping or trials) // 5
        return min(self.per_round, max(_FEWEST, min(part, _MOST)))

    def next_batch(self, batch_size: int) -> Sequence[RecordedState]:
        """Return proposals of the policy; none where it has nothing left."""
        if not self._queue and not self._over:
            self._queue.extend(self.policy.propose(self._batch()))
            self._over = not self._queue
        count = min(batch_size, len(self._queue))
        return [self._queue.popleft() for _ in range(count)]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Let the policy learn."""
        self.policy.learn(zip(inputs, results, strict=True))

    def load_history(
        self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500
    ) -> None:
        """Let the policy learn from earlier trials."""
        self.policy.learn(data_set)
