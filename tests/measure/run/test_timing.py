"""How often a candidate is run: little when hopeless, more near the best, never on hot samples."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.measure import MeasureResult
from autotune.measure.run.race_rounds import race_rounds
from autotune.measure.run.timing import (
    TimingPolicy,
    costs_of,
    evidence_of,
    half_width,
    scale_timing,
    take_samples,
)
from autotune.runtime.timing import Clocks, summarize


class Clockwork:
    """A sampler that takes the given seconds a run, one after another, and then the last."""

    input_sets = 1
    alone = False

    def __init__(self, *seconds, hot=()):
        self.seconds = itertools.chain(seconds, itertools.repeat(seconds[-1]))
        self.hot = set(hot)
        self.numbers = []

    def sample(self, number):
        self.numbers.append(number)
        return next(self.seconds) * number

    def clocks(self):
        return Clocks(throttled=len(self.numbers) in self.hot) if self.hot else None


def test_an_ordinary_candidate_gets_its_repeats():
    sampler = Clockwork(1e-3)
    timing = take_samples(sampler, TimingPolicy(number=4, repeat=3), None)
    assert sampler.numbers == [1, 1, 4, 4, 4]
    assert timing.samples_s == pytest.approx((1e-3,) * 3)
    assert not timing.cut_short


def test_number_grows_until_a_sample_is_long_enough():
    sampler = Clockwork(1e-3, 1e-3, 1e-4)
    timing = take_samples(sampler, TimingPolicy(number=1, repeat=2, min_repeat_ms=10), None)
    assert timing.number * 1e-4 >= 10e-3
    assert sampler.numbers[-2:] == [timing.number] * 2


def test_a_long_sample_is_taken_once_though_single_runs_are_slower():
    sampler = Clockwork(10e-6, 10e-6, 4e-6)
    timing = take_samples(sampler, TimingPolicy(number=1, repeat=1, min_repeat_ms=300), None)
    assert 0.3 <= timing.number * 4e-6 < 0.32
    assert sampler.numbers == [1, 1, 3000, timing.number]


class Shared(Clockwork):
    """On a host that takes a core away in the samples from the third on that are listed."""

    def __init__(self, cpu_time, preempted):
        super().__init__(1e-3)
        self.state = Clocks(preempted=True, cpu_time=cpu_time)
        self.preempted = set(preempted)

    def clocks(self):
        return self.state if len(self.numbers) - 2 in self.preempted else None


def test_a_trial_says_by_which_clock_it_was_timed():
    timing = take_samples(Shared(True, (1, 3)), TimingPolicy(repeat=3), None)
    known = evidence_of(timing)
    assert (known.clock, known.preempted, known.samples, known.dropped) == ("cpu", 2, 3, None)
    assert evidence_of(take_samples(Clockwork(1e-3), TimingPolicy(), None)).clock is None
    assert known.clocks is None


def test_a_trial_of_several_threads_gets_its_samples_without_those_that_lost_a_core():
    timing = take_samples(Shared(False, (1, 3)), TimingPolicy(repeat=3), None)
    known = evidence_of(timing)
    assert (known.clock, known.preempted, known.samples, known.dropped) == (None, None, 3, 2)


def test_a_busy_host_keeps_no_trial_for_long():
    sampler = Shared(False, range(99))
    known = evidence_of(take_samples(sampler, TimingPolicy(repeat=3), None))
    assert (known.preempted, known.samples, known.throttled) == (9, 9, None)


class Overhead(Clockwork):
    """A sampler whose clock takes its own time, however many the runs."""

    def sample(self, number):
        return super().sample(number) + 60e-9


@pytest.mark.parametrize("best_s", [None, 6e-9])
def test_the_clock_shows_in_no_trial_of_a_kernel_of_nanoseconds(best_s):
    sampler = Overhead(6e-9)
    timing = take_samples(sampler, TimingPolicy(number=1, repeat=3), best_s)
    assert timing.median == pytest.approx(6e-9, rel=0.01)
    assert timing.number * timing.median >= 50e-6
    assert not timing.cut_short
    [raced] = race_rounds([Overhead(6e-9)], 3, 0.0, seed=0)
    assert raced.median == pytest.approx(timing.median, rel=0.01)


def test_a_hopeless_kernel_of_nanoseconds_is_told_without_the_clock():
    timing = take_samples(Overhead(30e-9), TimingPolicy(), best_s=6e-9)
    assert timing.cut_short
    assert timing.median == pytest.approx(30e-9, rel=0.01)


def test_a_sample_too_short_for_the_clock_is_lengthened_in_a_race():
    # A time slice hits the run that the number of runs is reckoned from.
    sampler = Clockwork(1e-6, 4e-3, 1e-6)
    [raced] = race_rounds([sampler], 3, 2e-3, seed=0)
    assert raced.number * 1e-6 >= 50e-6


def test_long_runs_are_made_no_more_often_for_the_clock():
    sampler = Clockwork(20e-6)
    take_samples(sampler, TimingPolicy(number=4, repeat=3), None)
    assert sampler.numbers == [1, 1, 4, 4, 4]


def test_where_threads_wait_for_cores_the_least_samples_of_a_race_count():
    def waits(seconds):
        late = [*[20 * seconds] * 9, seconds]
        return Clockwork(*[t for _ in range(80) for t in late])

    samplers = [waits(1e-3), waits(1.2e-3)]
    timings = race_rounds(samplers, 5, 2e-3, seed=0, is_busy=lambda: True)
    assert [t.median for t in timings] == [pytest.approx(1e-3), pytest.approx(1.2e-3)]
    # One before the host was known to be busy, and of eight times as many a sixteenth counts.
    assert [(len(t.samples_s), t.dropped) for t in timings] == [(3, 38), (3, 38)]


def test_on_an_idle_host_all_samples_of_a_race_count():
    [timing] = race_rounds([Clockwork(1e-3, 3e-3, 1e-3)], 5, 2e-3, seed=0)
    assert (len(timing.samples_s), timing.dropped) == (5, 0)


@pytest.fixture
def clock(monkeypatch):
    """The time that passes, which stands still but for what a sampler says it takes."""
    passed = SimpleNamespace(now=0.0)
    frozen = SimpleNamespace(perf_counter=lambda: passed.now)
    for module in ("measure.run.timing", "measure.run.race_rounds", "runtime.timing"):
        monkeypatch.setattr(f"autotune.{module}.time", frozen)
    return passed


class Restoring(Clockwork):
    """A sampler that spends two milliseconds before each run, and tells of the run."""

    alone = True

    def __init__(self, clock, *seconds):
        super().__init__(*seconds)
        self.clock = clock

    def sample(self, number):
        self.clock.now += 2e-3 * number
        return super().sample(number)


def test_two_samples_count_at_least_on_a_busy_host_so_that_there_is_a_spread(monkeypatch):
    # No more rounds than were asked for, as of kernels that take long.
    monkeypatch.setattr("autotune.measure.run.race_rounds._LONGEST_S", 0.0)
    [timing] = race_rounds([Clockwork(1e-3)], 5, 2e-3, seed=0, is_busy=lambda: True)
    assert len(timing.samples_s) == 2
    assert timing.dropped == 4  # the other three, and the one from before it was known
    assert timing.noise_floor is not None


def test_of_runs_timed_one_by_one_counts_how_long_all_of_it_takes(clock):
    sampler = Restoring(clock, 1e-9)
    take_samples(sampler, TimingPolicy(number=4, repeat=3), None)
    assert sampler.numbers == [1, 1, 4, 4, 4]
    [raced] = race_rounds([Restoring(clock, 1e-9)], 3, 5e-3, seed=0)
    assert raced.number == 3
    policy = TimingPolicy(number=1, repeat=1, min_repeat_ms=5)
    timing = take_samples(Restoring(clock, 1e-9), policy, None)
    assert 1 < timing.number <= 4


def test_a_hopeless_candidate_is_run_once_after_warming_up():
    sampler = Clockwork(30e-3, 20e-3)
    timing = take_samples(sampler, TimingPolicy(hopeless=4), best_s=4e-3)
    assert sampler.numbers == [1, 1]
    assert timing.cut_short
    assert timing.median == pytest.approx(20e-3)


def test_one_short_run_condemns_nobody():
    sampler = Clockwork(9e-6, 4e-3, 40e-6, 1e-6)  # a time slice, then an interrupt
    timing = take_samples(sampler, TimingPolicy(hopeless=4), best_s=1e-6)
    assert not timing.cut_short
    assert timing.median == pytest.approx(1e-6)


def test_short_runs_that_stay_long_are_hopeless_before_long():
    sampler = Clockwork(9e-6, 60e-6, 50e-6)
    timing = take_samples(sampler, TimingPolicy(hopeless=4), best_s=1e-6)
    assert timing.cut_short
    assert timing.median == pytest.approx(50e-6)
    assert sum(sampler.numbers) * 50e-6 < 20e-3


def test_a_sample_that_takes_longer_than_it_tells_is_not_repeated_for_long(clock):
    class Rotating(Clockwork):
        """Runs all its sets of inputs, and tells of one run."""

        def sample(self, number):
            clock.now += 3e-3
            return super().sample(number)

    sampler = Rotating(9e-6, 60e-6, 50e-6)
    timing = take_samples(sampler, TimingPolicy(hopeless=4), best_s=1e-6)
    assert timing.cut_short
    assert 2 <= len(sampler.numbers) <= 6


@pytest.mark.parametrize("seconds", [5e-3, 1.0])
def test_a_hopeless_sample_of_a_throttled_device_is_marked(seconds):
    sampler = Clockwork(seconds, hot=range(9))
    timing = take_samples(sampler, TimingPolicy(hopeless=4), best_s=1e-3)
    assert timing.cut_short
    assert timing.throttled
    assert timing.clocks is not None


def test_a_timing_says_how_many_input_sets_it_used():
    for best_s in (None, 1e-6, 1e-4):  # an ordinary one, and both kinds of hopeless ones
        sampler = Clockwork(1e-3)
        sampler.input_sets = 3
        assert take_samples(sampler, TimingPolicy(), best_s).input_sets == 3


def test_a_candidate_beyond_hope_is_not_even_warmed_up():
    sampler = Clockwork(1.0)
    assert take_samples(sampler, TimingPolicy(hopeless=4), best_s=1e-3).cut_short
    assert sampler.numbers == [1]


def test_a_short_first_run_proves_nothing():
    sampler = Clockwork(50e-3, 1e-3)
    assert not take_samples(sampler, TimingPolicy(hopeless=4), best_s=1e-3).cut_short


def test_cutting_short_can_be_turned_off():
    sampler = Clockwork(1.0)
    assert not take_samples(sampler, TimingPolicy(hopeless=0), best_s=1e-3).cut_short


def test_near_the_best_samples_are_added_until_the_interval_is_small():
    noisy = [1.00e-3, 1.05e-3, 0.95e-3] * 3
    sampler = Clockwork(1e-3, 1e-3, *noisy, *[1e-3] * 40)
    policy = TimingPolicy(repeat=3, interval=0.01, max_repeats=40, budget_s=10)
    timing = take_samples(sampler, policy, best_s=1e-3)
    assert 9 < len(timing.samples_s) < 40
    assert half_width(timing) <= 0.01


def test_far_from_the_best_no_samples_are_added():
    sampler = Clockwork(2e-3, 2e-3, 2.0e-3, 2.4e-3, 1.6e-3)
    timing = take_samples(sampler, TimingPolicy(repeat=3), best_s=1e-3)
    assert len(timing.samples_s) == 3


def test_added_samples_are_bounded():
    endless = [1e-3, 1.5e-3, 0.5e-3] * 100
    sampler = Clockwork(1e-3, 1e-3, *endless)
    timing = take_samples(sampler, TimingPolicy(max_repeats=11), best_s=1e-3)
    assert len(timing.samples_s) == 11


def test_samples_of_a_throttled_device_are_dropped():
    sampler = Clockwork(1e-3, 1e-3, 5e-3, 1e-3, hot=[3])
    timing = take_samples(sampler, TimingPolicy(number=1, repeat=3), None)
    assert timing.dropped == 1
    assert timing.samples_s == pytest.approx((1e-3,) * 3)


def test_a_device_that_always_throttles_is_believed_in_the_end():
    sampler = Clockwork(1e-3, hot=range(1000))
    timing = take_samples(sampler, TimingPolicy(repeat=3, max_repeats=5), None)
    assert timing.throttled
    assert len(sampler.numbers) < 20


def test_a_record_keeps_all_samples_but_the_least_and_the_greatest():
    timing = take_samples(Clockwork(1, 1, 3.0, 1.0, 2.0), TimingPolicy(number=1, repeat=3), None)
    assert costs_of(timing) == (2.0,)
    timing = take_samples(Clockwork(1, 1, 3.0, 1.0), TimingPolicy(number=1, repeat=2), None)
    assert costs_of(timing) == (1.0, 3.0)
    samples = [3.0, 1.0, 2.0, 9.0, 2.5, 2.25]
    timing = take_samples(Clockwork(1, 1, *samples), TimingPolicy(number=1, repeat=6), None)
    assert costs_of(timing) == (2.0, 2.25, 2.5, 3.0)


def test_a_race_takes_turns_and_runs_all_for_as_long():
    order = []

    class Turn(Clockwork):
        def __init__(self, name, seconds):
            super().__init__(seconds)
            self.name = name

        def sample(self, number):
            order.append(self.name)
            return super().sample(number)

    samplers = [Turn("a", 1e-4), Turn("b", 1e-3)]
    rests = []
    timings = race_rounds(samplers, 6, 5e-3, seed=0, rest=lambda: rests.append(len(order)))
    assert rests == list(range(4, 28, 2))
    assert [t.number for t in timings] == [50, 5]
    # Each sample comes after a run that is not counted.
    assert order[4::2] == order[5::2]
    rounds = [order[i : i + 4 : 2] for i in range(4, len(order), 4)]
    assert len(rounds) == 6
    assert all(sorted(one) == ["a", "b"] for one in rounds)
    assert {"".join(one) for one in rounds} == {"ab", "ba"}


@given(st.lists(st.floats(1e-9, 10), min_size=1, max_size=30))
def test_the_median_of_the_costs_of_a_record_is_that_of_all_samples(samples):
    timing = summarize(samples, 1)
    result = MeasureResult(costs_of(timing), 0, 0.1, 1.0, "", evidence_of(timing))
    assert result.seconds == pytest.approx(np.median(samples), rel=1e-12)
    assert np.median(result.costs) == pytest.approx(result.seconds, rel=1e-12)
    assert result.spread == timing.noise_floor


def test_one_sample_that_was_disturbed_is_not_in_the_mean_of_the_costs():
    result = MeasureResult(costs_of(summarize([1.0, 1.1, 50.0, 1.2, 0.9], 1)), 0, 0.1, 1.0)
    assert result.mean == np.mean(result.costs) == pytest.approx(1.1)


def test_scaling_a_timing_scales_all_its_times():
    twice = scale_timing(summarize([1.0, 2.0, 4.0], 3), 2.0)
    assert twice == summarize([2.0, 4.0, 8.0], 3)
