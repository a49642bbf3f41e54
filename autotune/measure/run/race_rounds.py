"""Interleaved timing of several candidates, so that drift of the device affects all of them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from autotune.measure.run.timing import least_batch_s, runs_lasting
from autotune.runtime.timing import (
    Clocks,
    Sampler,
    Timing,
    grown_sample,
    sample_and_duration,
    summarize,
)

# Where threads wait for cores samples are so many times shorter, to fit between two waits; there
# are so many times more rounds, as far as they take no longer than this; and of so many samples of
# a candidate the least counts, of more the same share, but two at least, which have a spread.
_SHORTER, _MORE, _LONGEST_S, _LEAST_OF = 8, 8, 1.0, 16


def race_rounds(
    samplers: Sequence[Sampler],
    rounds: int,
    least_s: float,
    seed: int,
    rest: Callable[[], object] = lambda: None,
    is_busy: Callable[[], bool] = lambda: False,
) -> list[Timing]:
    """Take one sample of each candidate per round, in a new random order each round.

    On a busy host a median mostly measures the other programs: the threads of a kernel wait for
    each other, and each of them for a core, so that most samples are several times too long. Then
    more and shorter samples are taken, of which only the smallest count. The others count as
    dropped, and so do the samples from before the load was noticed.

    Args:
        samplers: the candidates.
        rounds: samples of each.
        least_s: approximate duration of a sample, no less than in a trial; equal for all.
        seed: seed of the random orders.
        rest: called before each turn. Candidates with threads of their own (a BLAS, another
            OpenMP runtime) need `autotune.measure.run.host_load.let_threads_rest`.
        is_busy: returns whether samples so far had to wait for cores; called after each round.
    """
    turns = [_Turns(sampler, least_s) for sampler in samplers]
    rng = random.Random(seed)
    order = list(range(len(samplers)))

    def take_round() -> None:
        rng.shuffle(order)
        for i in order:
            rest()
            turns[i].take()

    for _ in range(rounds):
        take_round()
        if is_busy():
            break
    else:
        return [each.timing(each.count) for each in turns]
    for each in turns:
        each.begin_again()
    end, made = time.perf_counter() + _LONGEST_S, 0
    while made < rounds or (made < _MORE * rounds and time.perf_counter() < end):
        take_round()
        made += 1
    return [each.timing(max(2, math.ceil(made / _LEAST_OF))) for each in turns]


class _Turns:
    """The samples of one candidate."""

    def __init__(self, sampler: Sampler, least_s: float) -> None:
        self._sampler = sampler
        self._number = _runs_for(sampler, max(least_s, least_batch_s(sampler)))
        self._samples: list[tuple[float, Clocks | None]] = []
        self._forgotten = 0

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(self._samples)

    def take(self) -> None:
        """Take one sample."""
        if self._number > 1:  # what ran before has left its own data and threads behind
            self._sampler.sample(1)
        least_s = least_batch_s(self._sampler)
        taken_s, self._number = grown_sample(self._sampler, self._number, least_s)
        self._samples.append((taken_s / self._number, self._sampler.clocks()))

    def begin_again(self) -> None:
        """Forget all samples, and take shorter ones."""
        self._forgotten += self.count
        self._samples.clear()
        self._number = max(1, self._number // _SHORTER)

    def timing(self, most: int) -> Timing:
        """Sum up the least of the samples, in the order in which they were taken."""
        ranks = sorted(range(self.count), key=lambda i: self._samples[i][0])[:most]
        seconds, clocks = zip(*(self._samples[i] for i in sorted(ranks)), strict=True)
        sets = self._sampler.input_sets
        found = summarize(seconds, self._number, clocks, input_sets=sets)
        return replace(found, dropped=found.dropped + self._forgotten + self.count - len(ranks))


def _runs_for(sampler: Sampler, least_s: float) -> int:
    """Warm up, and find how many runs take ``least_s``."""
    sampler.sample(1)
    _, took_s = sample_and_duration(sampler, 1)
    return max(1, runs_lasting(sampler, least_s, took_s))
