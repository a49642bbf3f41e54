"""The end of a run: the best trials once more, side by side.

Trials are measured minutes apart, so the fastest of them is partly the luckiest. Those within
`CLOSE` of it run again interleaved (`autotune.measure.race`), and among those that noise does not
tell apart a fixed rule chooses.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, MeasureResult
from autotune.measure.race import race
from autotune.measure.timing import CLOSE, recorded

Pair = tuple[MeasureInput, MeasureResult]

_ROUNDS = range(12, 61)
_BUDGET_S = 5.0
_SAMPLE_S = 2e-3


def finalists(pairs: Sequence[Pair], most: int) -> list[Pair]:
    """Return the trials worth another look, the fastest first.

    Where answers were checked at all, only those whose answer was: a race must not crown a kernel
    that nobody looked at.
    """
    good = sorted((pair for pair in pairs if pair[1].ok), key=lambda pair: pair[1].mean)
    checked = [pair for pair in good if pair[1].extra.get("verified")]
    field = checked or good
    return [pair for pair in field if pair[1].mean <= CLOSE * field[0][1].mean][:most]


def can_race(measure_option: Mapping[str, Any]) -> bool:
    """Return whether trials run on a device of this machine, where they can run side by side."""
    return isinstance(measure_option["builder"], LocalBuilder) and isinstance(
        measure_option["runner"], LocalRunner
    )


def run_off(
    field: Sequence[Pair], trials: Sequence[Pair], measure_option: Mapping[str, Any]
) -> Pair:
    """Race finalists; return the winner with its time in the race and the proof of the choice.

    Args:
        field: the finalists.
        trials: all trials; those as fast as the winner that were no finalists, because nobody had
            checked their answer, are named in the proof as passed over.
        measure_option: who builds and runs.

    Raises:
        MeasureError: the race could not be run.
    """
    one_round_s = sum(max(_SAMPLE_S, result.mean) for _, result in field)
    rounds = min(max(int(_BUDGET_S / one_round_s), _ROUNDS.start), _ROUNDS.stop - 1)
    outcome = race([inp for inp, _ in field], measure_option, rounds=rounds, least_s=_SAMPLE_S)
    index = outcome.winner.config.index
    inp, result = next(pair for pair in field if pair[0].config.index == index)
    rows = zip(outcome.candidates, outcome.timings, strict=True)
    seconds, timing = next((one.seconds, t[0]) for one, t in rows if one.index == index)
    raced = {one.index for one in outcome.candidates}
    over = {i.config.index for i, r in trials if r.ok and r.mean <= seconds} - raced
    proof = {**outcome.certificate(), "passed_over": sorted(over)}
    extra = {**result.extra, **recorded(timing), "race": proof}
    return inp, result._replace(costs=(seconds,), timestamp=time.time(), extra=extra)
