"""The choice between candidates that are equally fast: a fixed rule, for reproducibility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.errors import MeasureError
from autotune.workload import key_order

# Candidates this near to the fastest are equal. Up to the second bound the widest gap parts them:
# where candidates are close together, noise decides on which side of a fixed bound they fall, and
# with them the winner. Beyond, only those count as equal that noise does not tell apart, and those
# beyond the third bound never.
LEAST_TIE = 0.01
MOST_TIE = 0.03
MOST_NOISE = 0.10


@dataclass(frozen=True)
class Finalist:
    """A candidate of the choice.

    Attributes:
        key: unique key within the workload.
        seconds: seconds of one run, by which candidates are compared.
        low, high: confidence interval; 0 if unknown.
        registers, shared_bytes: what the kernel uses of the device; 0 if unknown.
    """

    key: str
    seconds: float
    low: float = 0.0
    high: float = 0.0
    registers: int = 0
    shared_bytes: int = 0

    @property
    def rank(self) -> tuple[int, int, tuple[int, str]]:
        """The fixed rule: fewer registers, less shared memory, lower index or key."""
        return self.registers, self.shared_bytes, key_order(self.key)


def tie_set(candidates: Sequence[Finalist]) -> list[Finalist]:
    """Return the candidates that are as fast as the fastest, fastest first.

    Raises:
        MeasureError: there are no candidates.
    """
    if not candidates:
        raise MeasureError("choose: there is no candidate; all trials failed or none was given")
    ordered = sorted(candidates, key=lambda c: (c.seconds, key_order(c.key)))
    best = ordered[0]
    excess = [c.seconds / best.seconds - 1 for c in ordered]
    certain = sum(e <= LEAST_TIE for e in excess)
    possible = sum(e <= MOST_TIE for e in excess)
    # The gap above candidate k - 1 is what a cut at k would use.
    bounded = [*excess[:possible], max(MOST_TIE, excess[possible - 1])]
    cut = max(range(certain, possible + 1), key=lambda k: (bounded[k] - bounded[k - 1], -k))
    unclear = [
        c
        for c, e in zip(ordered[cut:], excess[cut:], strict=True)
        if e <= MOST_NOISE and 0 < c.low <= best.high
    ]
    return ordered[:cut] + unclear


def choose(candidates: Sequence[Finalist], incumbent: str | None = None) -> Finalist:
    """Return the winner.

    Args:
        candidates: what to choose from, in any order.
        incumbent: key of the winner of an earlier choice, which stays as long as it ties.
            Without one the first of the tie set by `Finalist.rank` wins.
    """
    tied = tie_set(candidates)
    kept = [c for c in tied if c.key == incumbent]
    return kept[0] if kept else min(tied, key=lambda c: c.rank)
