"""Races end early only where more rounds would hardly name another winner."""

from dataclasses import dataclass

import numpy as np
import pytest

from autotune.measure.final.choose import Finalist, choose
from autotune.measure.final.interim_analysis import InterimTimes, is_decided
from autotune.measure.final.race import _looks, _shares
from autotune.runtime import summarize
from autotune.runtime.timing import median_interval, median_rank

RISK = 0.01


@dataclass(frozen=True)
class Field:
    """Candidates with known times, each sample slowed by noise."""

    seconds: tuple[float, ...]
    noise: float

    def heat(self, rng, samples):
        slowed = [s * (1 + self.noise * abs(rng.standard_normal(samples))) for s in self.seconds]
        return [summarize(list(map(float, row)), 1) for row in slowed]


def standing(heats):
    """Return the finalists as they stand after some heats."""
    joined = [
        summarize([s for t in row for s in t.samples_s], 1) for row in zip(*heats, strict=True)
    ]
    return [Finalist(str(i), t.median, *t.ci95, registers=50 - i) for i, t in enumerate(joined)]


def held(field, rng, on_host=False, rounds=60):
    """Hold a race; return its winner if it may end early, that of all rounds, and heats made."""
    heats, shares, early = [], _shares(rounds, on_host), None
    for made, share in enumerate(shares, 1):
        heats.append(field.heat(rng, share))
        if early is None and made in _looks(len(shares), on_host):
            interim = InterimTimes([heats], range(len(field.seconds)), apart=on_host)
            if is_decided(standing(heats), interim, None, RISK / 3):
                early = choose(standing(heats)).key, made
    last = choose(standing(heats)).key
    return *(early or (last, len(shares))), last


def test_a_clear_winner_needs_the_first_heat_only():
    field = Field((1.0, 1.05, 1.07, 1.09), 0.001)
    assert held(field, np.random.default_rng(0))[:2] == ("0", 1)


def test_a_candidate_at_the_edge_of_a_tie_takes_all_rounds():
    # The gaps below and above the second are equal: chance decides on which side the cut is, and
    # as it takes fewer registers it wins where it ties.
    field = Field((1.0, 1.015), 0.01)
    assert held(field, np.random.default_rng(1))[1] == 4


@pytest.mark.parametrize("spread", [0.02, 0.09])
def test_an_early_end_rarely_changes_the_winner(spread):
    rng = np.random.default_rng(7)
    fields = [Field(tuple(1 + spread * rng.random(6)), 0.004) for _ in range(20)]
    races = [held(field, rng) for field in fields]
    assert sum(early != last for early, _, last in races) <= 1
    assert sum(made for _, made, _ in races) < 0.75 * 4 * len(races)


def test_where_processes_differ_many_samples_of_few_of_them_decide_nothing():
    rng = np.random.default_rng(3)
    places = [1.05, 1.05, 0.97, 1.05, 1.05, 1.05]  # of the second, by process
    heats = [Field((1.0, place), 0.0001).heat(rng, 12) for place in places]
    rows = standing(heats)
    assert is_decided(rows, InterimTimes([heats], range(2), apart=False), None, RISK)
    assert not is_decided(rows, InterimTimes([heats], range(2), apart=True), None, RISK)


def test_equal_code_is_never_told_apart():
    heats = [[summarize([1.0, 1.2, 1.1, 1.3, 0.9, 1.0, 1.2], 1)] for _ in range(3)]
    (one,) = standing(heats)
    rows = [one, Finalist("1", one.seconds, one.low, one.high)]
    assert is_decided(rows, InterimTimes([heats], (0, 0), apart=False), None, 0.0)


def test_every_device_has_its_say():
    rng = np.random.default_rng(5)
    quiet, noisy = Field((1.0, 1.02), 0.0005).heat(rng, 15), Field((2.0, 2.0), 0.03).heat(rng, 15)
    rows = [Finalist("0", 1.0, registers=9), Finalist("1", 1.02)]
    assert is_decided(rows, InterimTimes([[quiet]], range(2), apart=False), None, RISK)
    assert not is_decided(
        rows, InterimTimes([[quiet], [noisy]], range(2), apart=False), None, RISK
    )


def test_no_race_is_shortened_that_is_short():
    assert _shares(12, False) == [12]
    assert _shares(30, False) == [15, 15]
    assert list(_looks(len(_shares(12, False)), False)) == []
    assert sum(_shares(59, False)) == sum(_shares(59, True)) == 59
    assert len(_shares(60, True)) == 12


def test_the_rank_of_an_interval_is_where_the_interval_ends():
    for n in range(1, 70):
        rank = median_rank(n)
        assert median_interval(range(n)) == (rank, n - 1 - rank)
