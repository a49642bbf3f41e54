"""The final race: the best candidates are timed again, interleaved, so that drift affects all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autotune.errors import MeasureError
from autotune.measure.evidence import Race, RacedCandidate
from autotune.measure.final.choose import Finalist, choose, tie_set
from autotune.measure.final.interim_analysis import InterimTimes, is_decided
from autotune.measure.interfaces import Runner, runs_on_host, target_of
from autotune.measure.option_arguments import chosen_builder, chosen_runner
from autotune.measure.run.timing import scale_timing
from autotune.measure.types import BuildResult, MeasureInput
from autotune.runtime.timing import Timing, summarize
from autotune.utils.check import Check

BuiltTrial = tuple[MeasureInput, BuildResult]

# A race on a CPU is run in so many processes. Where a process finds its memory makes one candidate
# faster or slower than in the next by a percent, however often it is timed there.
_HEATS = 12
# Elsewhere a heat has at least so many rounds.
_LEAST_HEAT = 15
# Most often that it is asked, between heats, whether the race is decided; on a CPU after these.
_LOOKS, _HOST_LOOKS = 3, (6, 8, 10)


@dataclass(frozen=True)
class RaceResult:
    """The result of a race.

    Attributes:
        winner: the input chosen by the fixed rule of `autotune.measure.final.choose`.
        candidates: what every finalist did, in the order given; those that failed to build are
            missing.
        tied: keys of the candidates that are as fast as the fastest.
        timings: for each candidate, its timing on each device.
        rounds: that were made, and that would have been made at most.
        risk: share of races like this one that may name another winner for ending early.
    """

    winner: MeasureInput
    candidates: tuple[Finalist, ...]
    tied: tuple[str, ...]
    timings: tuple[tuple[Timing, ...], ...]
    rounds: tuple[int, int] = (0, 0)
    risk: float = 0.0

    def certificate(self) -> Race:
        """Return the proof of the choice, for the winner's record."""
        early = self.rounds[0] < self.rounds[1]
        return Race(
            candidates=tuple(
                RacedCandidate(
                    key=one.key,
                    seconds=one.seconds,
                    medians=tuple(t.median for t in timings),
                    ci95=tuple((t.ci95[0], t.ci95[1]) for t in timings),
                    noise_floor=tuple(t.noise_floor for t in timings),
                    samples=tuple(len(t.samples_s) for t in timings),
                )
                for one, timings in zip(self.candidates, self.timings, strict=True)
            ),
            tied=self.tied,
            rounds=self.rounds if early else None,
            risk=self.risk if early else None,
        )


def race(
    measure_inputs: Sequence[MeasureInput],
    measure_option: Mapping[str, object],
    *,
    rounds: int = 60,
    least_s: float = 2e-3,
    incumbent: str | None = None,
    risk: float = 0.01,
) -> RaceResult:
    """Time finalists interleaved, on every device of the runner, and choose the winner.

    Each round times every finalist once, in a new random order, so that a drifting clock or a
    warming chip favours none. On a CPU the rounds are spread over several processes. The race ends
    early once it is decided; see `autotune.measure.final.interim_analysis`.

    Args:
        measure_inputs: the finalists, of one workload.
        measure_option: the builder and the runner.
        rounds: the most samples of each finalist.
        least_s: the least duration of one sample.
        incumbent: key of an earlier winner, which stays the winner as long as it ties.
        risk: the share of races that may have another winner because they end early; 0 for never
            ending early.

    Raises:
        MeasureError: no finalist could be built, or the race could not be run.
    """
    if not measure_inputs:
        raise MeasureError("race: there are no finalists")
    check = Check(MeasureError, "race")
    check.whole("rounds", rounds, least=1)
    check.number("risk", risk, least=0, most=1)
    pairs = _build(measure_inputs, measure_option)
    place, starters = _starters(pairs)
    runner = _runner(measure_option)
    on_host = runs_on_host(target_of(measure_inputs[0].task))
    devices = runner.race_devices()
    shares = _shares(rounds, on_host)
    looks = _looks(len(shares), on_host) if risk else ()
    heats: list[list[list[Timing]]] = [[] for _ in devices]
    for made, share in enumerate(shares, 1):
        for timed, device in zip(heats, devices, strict=True):
            timed.append(runner.race(starters, share, least_s, device))
        timings = [_place(timed, place) for timed in heats]
        candidates = _join(pairs, timings)
        interim = InterimTimes(heats, place, apart=on_host)
        if made in looks and is_decided(candidates, interim, incumbent, risk / _LOOKS):
            break
    winner = choose(candidates, incumbent)
    return RaceResult(
        winner=pairs[candidates.index(winner)][0],
        candidates=tuple(candidates),
        tied=tuple(c.key for c in tie_set(candidates)),
        timings=tuple(zip(*timings, strict=True)),
        rounds=(sum(shares[:made]), rounds),
        risk=risk,
    )


def _build(
    inputs: Sequence[MeasureInput], measure_option: Mapping[str, object]
) -> list[BuiltTrial]:
    """Build the finalists; return those that could be built."""
    builder = chosen_builder("race", measure_option["builder"], named=False)
    runner = _runner(measure_option)
    task = inputs[0].task
    if runner.task is not task:
        runner.set_task(task)
        builder.set_task(task, runner.get_build_kwargs())
    built = builder.build(inputs)
    pairs = [
        (inp, result)
        for inp, result in zip(inputs, built, strict=True)
        if isinstance(result, BuildResult) and result.ok
    ]
    if not pairs:
        raise MeasureError(f"race: no finalist could be built; the first says: {built[0]}")
    return pairs


def _runner(measure_option: Mapping[str, object]) -> Runner:
    return chosen_runner("race", measure_option["runner"], named=False)


def _shares(rounds: int, on_host: bool) -> list[int]:
    """Return the rounds of each heat."""
    heats = min(_HEATS, rounds) if on_host else max(1, min(_LOOKS + 1, rounds // _LEAST_HEAT))
    return [rounds // heats + (i < rounds % heats) for i in range(heats)]


def _looks(heats: int, on_host: bool) -> Sequence[int]:
    """Return the heats after which it is asked whether the race is decided; not the last."""
    if not on_host:
        return range(1, heats)
    return [made for made in _HOST_LOOKS if made < heats]


def _place(heats: Sequence[Sequence[Timing]], place: Sequence[int]) -> list[Timing]:
    """Return what all heats on one device say of each finalist."""
    together = [_together(timings) for timings in zip(*heats, strict=True)]
    return [together[i] for i in place]


def _starters(pairs: Sequence[BuiltTrial]) -> tuple[list[int], list[BuiltTrial]]:
    """Return the finalists that run, and for each finalist the one that runs its code.

    Equal code under different knobs runs only once, as only noise could distinguish it.
    """
    runs: dict[object, int] = {}
    place: list[int] = []
    starters: list[BuiltTrial] = []
    for inp, built in pairs:
        args = built.kernel.args if built.kernel is not None else ()
        key = (built.code_hash, args) if built.code_hash else object()
        if key not in runs:
            runs[key] = len(starters)
            starters.append((inp, built))
        place.append(runs[key])
    return place, starters


def _together(heats: Sequence[Timing]) -> Timing:
    """Return what several heats say of one candidate."""
    if len(heats) == 1:
        return heats[0]
    samples = [sample for one in heats for sample in one.samples_s]
    return replace(
        summarize(samples, heats[0].number, input_sets=heats[0].input_sets),
        dropped=sum(one.dropped for one in heats),
        preempted=sum(one.preempted for one in heats),
        cpu_time=any(one.cpu_time for one in heats),
    )


def _join(pairs: Sequence[BuiltTrial], timings: Sequence[Sequence[Timing]]) -> list[Finalist]:
    """Join what all devices say: each counts by its own ratios, by the clock of the first."""
    best = [min(t.median for t in one) for one in timings]
    scales = [best[0] / one for one in best]
    candidates = []
    for i, (inp, built) in enumerate(pairs):
        row = [scale_timing(one[i], scale) for one, scale in zip(timings, scales, strict=True)]
        candidates.append(
            Finalist(
                key=inp.key,
                seconds=_mean([t.median for t in row]),
                low=_mean([t.ci95[0] for t in row]),
                high=_mean([t.ci95[1] for t in row]),
                registers=built.resources.get("registers", 0),
                shared_bytes=built.resources.get("shared_bytes", 0),
            )
        )
    return candidates


def _mean(values: Sequence[float]) -> float:
    """Return the geometric mean; 0 when a value is unknown."""
    if len(values) == 1 or min(values) <= 0:
        return min(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values))
