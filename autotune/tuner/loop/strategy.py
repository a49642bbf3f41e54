"""The interface of a search strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from autotune.errors import TunerError
from autotune.measure import MeasureInput, MeasureResult
from autotune.measure.types import Pair
from autotune.utils.check import shown
from autotune.workload import Candidate


class Strategy(Protocol):
    """Searches the candidates of one workload; a `Tuner` becomes one by `TunerStrategy`.

    `ask` and `tell` need not alternate: more proposals may be asked for before the results of
    earlier ones are told. Proposals that are refused before they become trials are told at once.

    A strategy that knows how many candidates it has left may define ``count_left(most)``, see
    `Tuner.count_left`.
    """

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing left to propose."""
        ...

    def ask(self, n: int) -> Sequence[Candidate]:
        """Return up to ``n`` candidates that were not proposed before; none when exhausted."""
        ...

    def tell(self, trials: Sequence[Pair]) -> None:
        """Learn from trials, in the order in which they were proposed.

        Also from candidates that were no trials because they cannot run; their results have the
        error `MeasureErrorNo.INSTANTIATION_ERROR`.
        """
        ...


class Proposer(Protocol):
    """The interface of AutoTVM's tuners."""

    def has_next(self) -> bool:
        """Return whether there is anything left to propose."""
        ...

    def count_left(self, most: int) -> int | None:
        """Return how many candidates are left, if at most ``most``."""
        ...

    def next_batch(self, batch_size: int) -> Sequence[Candidate]:
        """Propose up to ``batch_size`` candidates."""
        ...

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from trials."""
        ...


class TunerStrategy:
    """A tuner as a `Strategy`.

    Args:
        tuner: proposes.
    """

    def __init__(self, tuner: Proposer) -> None:
        self._tuner = tuner

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing left to propose."""
        return not self._tuner.has_next()

    def count_left(self, most: int) -> int | None:
        """Return how many candidates the tuner has left, if it knows."""
        return self._tuner.count_left(most)

    def ask(self, n: int) -> Sequence[Candidate]:
        """Return what `next_batch` proposes.

        Raises:
            TunerError: it does not propose candidates.
        """
        proposed = self._tuner.next_batch(n)
        given = proposed if isinstance(proposed, Sequence) else [proposed]
        for each in given:
            if not hasattr(each, "key"):
                raise TunerError(
                    f"{type(self._tuner).__name__}.next_batch() must return a list of "
                    f"configurations, such as self.space.get(index), got {shown(each)}"
                )
        return proposed

    def tell(self, trials: Sequence[Pair]) -> None:
        """Let `update` learn from trials."""
        self._tuner.update([inp for inp, _ in trials], [res for _, res in trials])
