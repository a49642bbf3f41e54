"""The end of a run: the best trials once more, side by side.

Trials are measured minutes apart, so the fastest of them is partly the luckiest. Those within
`CLOSE` of it run again interleaved (`autotune.measure.final.race`), together with the default
configuration, and among those that noise does not tell apart a fixed rule chooses.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from autotune.measure import BuildResult, MeasureInput, Session
from autotune.measure.evidence import Race, RacedCandidate
from autotune.measure.final.race import race
from autotune.measure.run.timing import CLOSE, costs_of, evidence_of
from autotune.measure.types import MeasureResult, Pair
from autotune.workload import Workload, key_order

_ROUNDS = range(12, 61)
_BUDGET_S = 5.0
_SAMPLE_S = 2e-3
# A default this many times slower than the best trial does not race, unless a run of it takes so
# little that racing costs less than a second: on a busy host threads of a kernel wait for each
# other and for cores, and a trial may take a thousand times too long.
_HOPELESS, _CHEAP_S = 4.0, 20e-3


def finalists(pairs: Sequence[Pair], most: int) -> list[Pair]:
    """Return the trials that take part in the race, the fastest first.

    If any answers were checked, only trials with a checked answer take part, so that an unverified
    kernel cannot win.
    """
    good = sorted((pair for pair in pairs if pair[1].ok), key=lambda pair: pair[1].seconds)
    checked = [pair for pair in good if pair[1].evidence.verified]
    field = checked or good
    return [pair for pair in field if pair[1].seconds <= CLOSE * field[0][1].seconds][:most]


def measured_default(task: Workload, trials: Sequence[Pair], session: Session) -> Pair | None:
    """Return the default configuration and its time; None if it does not run.

    The summary compares the result with the default, whose single trial may have met a busy
    machine. So the default takes part in the race or, if that would take long, is measured once
    more, and the faster of its two trials counts.

    Args:
        task: the task to be tuned.
        trials: the trials that succeeded; if the default is among them and fast enough to race, it
            is not measured again.
        session: builds and runs.
    """
    config = task.default()
    if config is None or task.target is None:
        return None
    inp = MeasureInput(task.target, task, config)
    tried = tried_default(task, trials)
    known = [tried] if tried else _measured(inp, session)
    best_s = min((result.seconds for _, result in trials), default=math.inf)
    if known and _is_beyond_hope(known[0][1], best_s):
        known += _measured(inp, session)
    return min(known, key=lambda pair: pair[1].seconds, default=None)


def tried_default(task: Workload, trials: Sequence[Pair]) -> Pair | None:
    """Return the first trial of the default configuration; None if none of these is."""
    config = task.default() if trials else None
    return next((pair for pair in trials if config and pair[0].key == config.key), None)


def _measured(inp: MeasureInput, session: Session) -> list[Pair]:
    """Return one trial, or none where it fails."""
    (built,) = session.builder.build([inp])
    if not isinstance(built, BuildResult) or not built.ok:
        return []
    (result,) = session.runner.run([inp], [built])
    session.builder.discard(built)
    return [(inp, built.mark(result))] if result.ok else []


def _is_beyond_hope(result: MeasureResult, best_s: float) -> bool:
    """Return whether a default is far behind, or was cut short, and slow to run again."""
    far = bool(result.evidence.cut_short) or result.seconds > _HOPELESS * best_s
    return far and result.seconds > _CHEAP_S


def with_default(field: Sequence[Pair], default: Pair | None) -> list[Pair]:
    """Return the finalists with the default, so that the winner is not slower than the default.

    A default that is far too slow to win is left out.
    """
    if default is None or not field:
        return list(field)
    inp, result = default
    known = any(one.key == inp.key for one, _ in field)
    checked = result.evidence.verified or not field[0][1].evidence.verified
    hopeless = _is_beyond_hope(result, field[0][1].seconds)
    return [*field, *([] if known or hopeless or not checked else [default])]


def unopposed(trial: Pair, default: Pair) -> Pair:
    """Return the only finalist as the winner, with the time of the default in the proof."""
    (inp, result), (untuned, of_default) = trial, default
    proof = Race(
        candidates=(RacedCandidate(inp.key, result.seconds),),
        trial=result.seconds,
        default=untuned.key,
        default_trial=None if untuned.key == inp.key else of_default.seconds,
    )
    evidence = replace(result.evidence, race=proof)
    return inp, result._replace(timestamp=time.time(), evidence=evidence)


def race_finalists(
    field: Sequence[Pair],
    trials: Sequence[Pair],
    session: Session,
    default: Pair | None = None,
) -> Pair:
    """Race finalists; return the winner with its time in the race and the proof of the choice.

    Args:
        field: the trials that take part.
        trials: all trials; those as fast as the winner that did not take part, because their
            answers had not been checked, are named in the proof as passed over.
        session: builds and runs.
        default: the default configuration and its time; it wins as long as it ties, and is named
            in the proof.

    Raises:
        MeasureError: the race could not be run.
    """
    one_round_s = sum(max(_SAMPLE_S, result.seconds) for _, result in field)
    rounds = min(max(int(_BUDGET_S / one_round_s), _ROUNDS.start), _ROUNDS.stop - 1)
    inputs = [inp for inp, _ in field]
    untuned = default[0].key if default else None
    outcome = race(inputs, session, rounds=rounds, least_s=_SAMPLE_S, incumbent=untuned)
    key = outcome.winner.key
    inp, result = next(pair for pair in field if pair[0].key == key)
    rows = zip(outcome.candidates, outcome.timings, strict=True)
    one, timing = next((one, t[0]) for one, t in rows if one.key == key)
    raced = {one.key for one in outcome.candidates}
    over = {i.key for i, r in trials if r.ok and r.seconds <= one.seconds} - raced
    proof = replace(
        outcome.certificate(),
        passed_over=tuple(sorted(over, key=key_order)),
        trial=result.seconds,
        default=untuned,
        default_trial=default[1].seconds if default and untuned not in raced else None,
    )
    costs = costs_of(timing) if len(outcome.timings[0]) == 1 else (one.seconds,)
    evidence = replace(result.evidence & evidence_of(timing), race=proof)
    return inp, result._replace(costs=costs, timestamp=time.time(), evidence=evidence)
