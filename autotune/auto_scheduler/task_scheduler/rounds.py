"""Rounds of several tasks on one session: while one is measured, the next is proposed."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from autotune.auto_scheduler.measuring.measure_options import MeasureCallback
from autotune.auto_scheduler.records.file import RecordToFile, as_input
from autotune.auto_scheduler.task_scheduler.progress import TaskProgress
from autotune.measure import MeasureInput, MeasureResult, Session
from autotune.measure.session import wait_for
from autotune.measure.types import Pair

# Proposals in a row of which none can be lowered, after which a round is as long as it is.
_DRY = 3


@dataclass(eq=False)
class Round:
    """One round under way.

    Attributes:
        index: which task it is of.
        trials: what is measured, with what will hold the results.
        started: when it was proposed, in seconds of `time.monotonic`.
    """

    index: int
    trials: deque[tuple[MeasureInput, Future[MeasureResult]]] = field(default_factory=deque)
    started: float = field(default_factory=time.monotonic)


class TaskRounds:
    """Measures rounds of tasks, in the order in which they were begun.

    Args:
        session: builds and runs.
        callbacks: those of the tuning options; one that logs sees each trial as it ends, the
            others see whole rounds.
    """

    def __init__(self, session: Session, callbacks: Sequence[MeasureCallback]) -> None:
        self._session = session
        self._at_once = [each for each in callbacks if isinstance(each, RecordToFile)]
        self._in_turn = [
            getattr(each, "callback", each)
            for each in callbacks
            if not isinstance(each, RecordToFile)
        ]
        self._logging = threading.Lock()
        self._under_way: deque[Round] = deque()

    @property
    def logs(self) -> bool:
        """Whether a callback logs."""
        return bool(self._at_once)

    @property
    def busy(self) -> set[int]:
        """Tasks of which a round is under way."""
        return {each.index for each in self._under_way}

    def begin(self, index: int, progress: TaskProgress, count: int) -> int:
        """Propose a round of a task, start to measure it, and return how many trials it has.

        States that cannot be lowered are no trials: the policy is told, and others are proposed.
        """
        policy, task = progress.policy, progress.task
        new = Round(index)
        for _ in range(_DRY):
            with self._session.host_work(task):
                states = policy.propose(count - len(new.trials))
            if not states:
                break
            refused = []
            for inp in (MeasureInput(task.target, task, state) for state in states):
                refusal = self._session.refusal(inp)
                if refusal is not None:
                    refused.append((inp, refusal))
                else:
                    new.trials.append((inp, self._session.start(inp, self._log)))
            if not refused:
                break
            policy.learn(refused)
        if new.trials:
            self._under_way.append(new)
        return len(new.trials)

    def end(self, tasks: Sequence[TaskProgress]) -> int:
        """Wait for the oldest round, let its policy learn, and return which task it is of."""
        oldest = self._under_way[0]
        pairs: list[Pair] = []
        while oldest.trials:
            pairs.append(wait_for(*oldest.trials[0]))
            oldest.trials.popleft()
        self._under_way.popleft()
        progress = tasks[oldest.index]
        progress.add(pairs, time.monotonic() - oldest.started)
        with self._session.host_work(progress.task):
            progress.policy.learn(pairs)
        inputs, results = [as_input(inp) for inp, _ in pairs], [result for _, result in pairs]
        for callback in self._in_turn:
            callback(progress.policy, inputs, results)
        return oldest.index

    def raced(self, progress: TaskProgress, winner: Pair) -> None:
        """Show the winner of a final race to those who log."""
        for log in self._at_once:
            log.raced(progress.policy, *winner)

    def give_up(self) -> None:
        """Cancel what is under way: it is no trial."""
        for each in self._under_way:
            for _, future in each.trials:
                future.cancel()
        self._under_way.clear()

    def _log(self, measure_input: MeasureInput, result: MeasureResult) -> None:
        with self._logging:
            for log in self._at_once:
                log(None, [measure_input], [result])
