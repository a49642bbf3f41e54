import json

import numpy as np
import pytest

from autotune.errors import MeasureError
from autotune.runtime import Clocks, TimeOptions, summarize, take_timing
from autotune.runtime.timing import median_interval


class FakeSampler:
    """Runs take `run_s` each; throttled at the samples listed."""

    input_sets = 1
    alone = False

    def __init__(self, run_s, throttled=()):
        self.run_s = run_s
        self.numbers = []
        self.throttled = throttled

    def sample(self, number):
        self.numbers.append(number)
        return self.run_s * number

    def clocks(self):
        return Clocks(sm_mhz=1000, throttled=len(self.numbers) - 2 in self.throttled)


def test_a_first_run_is_not_counted():
    sampler = FakeSampler(1e-3)
    timing = take_timing(sampler, TimeOptions(number=4, repeat=3))
    assert sampler.numbers == [1, 4, 4, 4]
    assert timing.samples_s == pytest.approx((1e-3,) * 3)
    assert timing.number == 4


def test_number_grows_by_the_rule_and_stays_grown():
    sampler = FakeSampler(1e-3)
    take_timing(sampler, TimeOptions(number=1, repeat=2, min_repeat_ms=10))
    # max(10 ms / 1 ms + 1, 1 x 1.2) runs take 11 ms, enough for both repeats.
    assert sampler.numbers == [1, 1, 11, 11]


def test_number_grows_also_when_a_run_takes_no_time():
    sampler = FakeSampler(0.0)
    timing = take_timing(sampler, TimeOptions(number=1, repeat=1, min_repeat_ms=1))
    assert sampler.numbers[1:5] == [1, 2, 3, 4]
    assert len(timing.samples_s) == 1


def test_a_device_cools_down_after_every_so_many_samples(monkeypatch):
    sampler, slept = FakeSampler(1e-3), []
    monkeypatch.setattr("time.sleep", lambda seconds: slept.append((seconds, sampler.numbers[:])))
    take_timing(
        sampler,
        TimeOptions(number=1, repeat=5, repeats_to_cooldown=2, cooldown_interval_s=0.5),
    )
    # The first run is none of the samples.
    assert slept == [(0.5, [1] * (1 + 2)), (0.5, [1] * (1 + 4))]


def test_a_hopeless_kernel_is_cut_short_after_one_more_run():
    sampler = FakeSampler(2.0)
    timing = take_timing(sampler, TimeOptions(number=100, repeat=10, give_up_after_s=1.0))
    assert sampler.numbers == [1, 1]
    assert timing.cut_short
    assert timing.samples_s == (2.0,)


def test_a_slow_first_run_alone_does_not_cut_short():
    class ColdStart(FakeSampler):
        def sample(self, number):
            first = not self.numbers
            return super().sample(number) + (5.0 if first else 0.0)

    timing = take_timing(ColdStart(0.1), TimeOptions(number=2, repeat=2, give_up_after_s=1.0))
    assert not timing.cut_short
    assert timing.median == pytest.approx(0.1)


def test_throttled_samples_are_dropped_and_taken_again():
    sampler = FakeSampler(1e-3, throttled=(1, 2))
    timing = take_timing(sampler, TimeOptions(number=1, repeat=3))
    assert (len(timing.samples_s), timing.dropped, timing.throttled) == (3, 2, False)
    assert timing.clocks == Clocks(sm_mhz=1000)


def test_a_device_that_always_throttles_keeps_its_samples_and_says_so():
    timing = take_timing(FakeSampler(1e-3, throttled=range(99)), TimeOptions(repeat=3))
    assert timing.throttled
    assert len(timing.samples_s) == 6


class Shared(FakeSampler):
    """On a host that takes a core away at the samples listed."""

    def __init__(self, cpu_time, preempted):
        super().__init__(1e-3)
        self.cpu_time = cpu_time
        self.preempted = preempted

    def clocks(self):
        if len(self.numbers) - 2 not in self.preempted:
            return None
        return Clocks(preempted=True, cpu_time=self.cpu_time)


def test_samples_in_which_one_of_several_threads_lost_its_core_are_taken_again():
    timing = take_timing(Shared(False, (0, 2)), TimeOptions(number=1, repeat=3))
    assert (len(timing.samples_s), timing.dropped, timing.preempted) == (3, 2, 0)
    assert not timing.cpu_time
    busy = take_timing(Shared(False, range(99)), TimeOptions(number=1, repeat=3))
    assert (len(busy.samples_s), busy.dropped, busy.preempted) == (6, 0, 6)
    assert not busy.throttled


def test_samples_of_cpu_time_count():
    timing = take_timing(Shared(True, (0, 2)), TimeOptions(number=1, repeat=3))
    assert (len(timing.samples_s), timing.dropped, timing.preempted) == (3, 0, 2)
    assert timing.cpu_time


def test_statistics_of_known_samples():
    timing = summarize([3.0, 1.0, 2.0, 4.0, 100.0], 7)
    assert (timing.median, timing.mean) == (3.0, 22.0)
    assert timing.noise_floor == pytest.approx(1.4826 / 3)
    assert timing.ci95 == (1.0, 100.0)
    assert json.loads(json.dumps(timing.to_json()))["number"] == 7
    assert summarize([1.0], 1).noise_floor is None


def test_samples_may_be_an_array():
    samples = [3.0, 1.0, 2.0]
    assert summarize(np.array(samples), 7) == summarize(samples, 7)
    for wrong in (
        np.zeros((2, 2)),
        np.array([]),
        np.array(1.0),
        np.array(["a"]),
        np.array([-1.0]),
    ):
        with pytest.raises(MeasureError, match="samples_s"):
            summarize(wrong, 1)


def test_the_interval_of_the_median_has_the_ranks_of_the_tables():
    # Ranks of the 95% sign-test interval for the median: (2, 9) of 10 and (6, 15) of 20.
    assert median_interval(range(1, 11)) == (2, 9)
    assert median_interval(range(1, 21)) == (6, 15)
    assert median_interval([5.0]) == (5.0, 5.0)
    assert median_interval([2.0, 1.0]) == (1.0, 2.0)


@pytest.mark.parametrize("n", [6, 11, 30])
def test_the_interval_covers_the_median_as_often_as_it_says(n):
    rng = np.random.default_rng(n)
    draws = rng.lognormal(size=(4000, n))
    covered = [low <= 1.0 <= high for low, high in map(median_interval, draws.tolist())]
    assert np.mean(covered) >= 0.94
