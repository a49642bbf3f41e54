"""Adapts optimisers of other libraries, by `ask` and `tell`, to the interface of a tuner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from autotune.task import Task
from autotune.tuner.point_tuner import FloatArray, PointTuner

# Proposals of an optimiser that are invalid or repeated before a random point is taken instead.
PATIENCE = 200


class Optimiser(Protocol):
    """The interface of an external optimiser. Choices are positions in each knob's values."""

    def ask(self, knobs: Mapping[str, int]) -> tuple[object, Mapping[str, int]]:
        """Propose a point.

        Args:
            knobs: number of values of each knob.

        Returns:
            Anything that identifies the proposal, and the position of each knob's value.
        """

    def tell(self, token: object, seconds: float | None) -> None:
        """Take the result of a proposal; None when it is invalid, repeated, or failed."""


class AskTellTuner(PointTuner):
    """Lets an outside optimiser propose.

    Invalid and repeated proposals are answered with None at once, without a trial.

    Args:
        task: what is tuned.
        optimiser: see `Optimiser`.
        seed: of the random points taken when the optimiser keeps proposing nothing new.

    Example, with Optuna::

        class Optuna:
            def __init__(self, study):
                self.study = study

            def ask(self, knobs):
                trial = self.study.ask()
                return trial, {k: trial.suggest_int(k, 0, n - 1) for k, n in knobs.items()}

            def tell(self, trial, seconds):
                if seconds is None:
                    self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
                else:
                    self.study.tell(trial, seconds)

        tuner = AskTellTuner(task, Optuna(optuna.create_study()))
    """

    def __init__(self, task: Task, optimiser: Optimiser, seed: int | None = None) -> None:
        super().__init__(task, seed)
        self.optimiser = optimiser
        self._knobs = dict(zip(self.space.names, self.space.dims, strict=True))
        self._tokens: dict[int, object] = {}

    def propose(self, n: int) -> Iterable[int]:
        """Ask until there are ``n`` new valid points, or patience is at an end."""
        chosen: list[int] = []
        misses = 0
        while len(chosen) < n and misses < PATIENCE:
            token, choices = self.optimiser.ask(self._knobs)
            index = self._index(choices)
            if index is None or index in self.visited or index in chosen:
                self.optimiser.tell(token, None)
                misses += 1
                continue
            self._tokens[index] = token
            chosen.append(index)
        return chosen

    def _index(self, choices: Mapping[str, int]) -> int | None:
        digits = [int(choices.get(name, -1)) for name in self._knobs]
        inside = all(0 <= d < n for d, n in zip(digits, self._knobs.values(), strict=True))
        index = self.space.knob2point(digits) if inside else -1
        return index if self.space.is_index_valid(index) else None

    def learn(self, indices: Sequence[int], rates: FloatArray) -> None:
        """Tell the optimiser the results of its proposals."""
        for index, rate in zip(indices, rates.tolist(), strict=True):
            if index in self._tokens:
                self.optimiser.tell(self._tokens.pop(index), 1 / rate if rate > 0 else None)
