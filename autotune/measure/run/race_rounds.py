"""Timing several candidates in turn, so that drift of the device hits all of them alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from autotune.measure.run.timing import least_batch_s, runs_lasting
from autotune.runtime.timing import (
    Clocks,
    Sampler,
    Timing,
    grown_sample,
    sample_and_duration,
    summarize,
)


def race_rounds(
    samplers: Sequence[Sampler],
    rounds: int,
    least_s: float,
    seed: int,
    rest: Callable[[], object] = lambda: None,
) -> list[Timing]:
    """Take one sample of each candidate a round, in an order drawn anew each round.

    Args:
        samplers: the candidates.
        rounds: samples of each.
        least_s: about how long a sample takes, no less than in a trial; all run for as long.
        seed: of the orders.
        rest: called before each turn. Candidates with threads of their own (a BLAS, another
            OpenMP runtime) need `autotune.measure.run.host.let_threads_rest`.
    """
    numbers = [_runs_for(sampler, max(least_s, least_batch_s(sampler))) for sampler in samplers]
    seconds: list[list[float]] = [[] for _ in samplers]
    clocks: list[list[Clocks | None]] = [[] for _ in samplers]
    rng = random.Random(seed)
    order = list(range(len(samplers)))
    for _ in range(rounds):
        rng.shuffle(order)
        for i in order:
            rest()
            if numbers[i] > 1:  # what ran before has left its own data and threads behind
                samplers[i].sample(1)
            taken_s, numbers[i] = grown_sample(samplers[i], numbers[i], least_batch_s(samplers[i]))
            seconds[i].append(taken_s / numbers[i])
            clocks[i].append(samplers[i].clocks())
    return [
        summarize(seconds[i], numbers[i], clocks[i], input_sets=samplers[i].input_sets)
        for i in range(len(samplers))
    ]


def _runs_for(sampler: Sampler, least_s: float) -> int:
    """Warm up, and find how many runs take ``least_s``."""
    sampler.sample(1)
    _, took_s = sample_and_duration(sampler, 1)
    return max(1, runs_lasting(sampler, least_s, took_s))
