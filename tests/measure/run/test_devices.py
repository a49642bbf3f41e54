"""Several devices of one host: one queue, one clock, and nobody waits for one that is lost."""

import logging
import random
import threading
import time

import pytest

from autotune.errors import MeasureError
from autotune.measure import VerifyPolicy, measure_option
from autotune.measure.final.race import race
from autotune.tuner import GridSearchTuner
from tests.measure.devices import (
    StatedBuilder,
    StatedDeviceProcess,
    StatedRunner,
    ready,
    stated_inputs,
)

SAME = [(1e-3, 1e-3)] * 12


class Together(StatedDeviceProcess):
    """Waits for the other device before each kernel but the anchor."""

    both = threading.Barrier(2)

    def run(self, job):
        if "anchor" not in job.artifact:
            self.both.wait(timeout=10)
        return super().run(job)


class Slow(StatedDeviceProcess):
    """Takes its time to come."""

    def __init__(self, *args):
        time.sleep(0.05)
        super().__init__(*args)


@pytest.fixture
def runners():
    """Close what a test puts here."""
    made = []
    yield made
    for runner in made:
        runner.close()


@pytest.fixture
def runner(runners):
    runners.append(StatedRunner(2))
    return runners[0]


def test_all_devices_do_the_work_of_one_that_is_lost(tmp_path, runner, caplog):
    inputs, built = ready(tmp_path, SAME, runner)
    results = list(runner.run(inputs[:4], built[:4]))
    runner.device_process.lost.add(1)
    with caplog.at_level(logging.WARNING, "autotvm"):
        while not caplog.records:
            results += runner.run(inputs[4:], built[4:])
    assert all(r.ok for r in results)
    assert "goes on without device 1: cuda:1 fell off the bus" in caplog.text
    assert {r.extra["device"] for r in runner.run(inputs, built)} == {0}
    assert tuple(runner.race_devices()) == (0,)
    with pytest.raises(MeasureError, match="fell off the bus"):
        runner.race(list(zip(inputs, built, strict=True)), 3, 1e-3, device=1)


def test_measuring_ends_when_no_device_is_left(tmp_path, runner):
    inputs, built = ready(tmp_path, SAME, runner)
    assert runner.run(inputs[:1], built[:1])[0].ok
    runner.device_process.lost |= {0, 1}
    futures = [runner.submit(i, b) for i, b in zip(inputs, built, strict=True)]
    for future in futures:
        with pytest.raises(MeasureError, match="fell off the bus"):
            future.result(timeout=10)
    with pytest.raises(MeasureError, match="fell off the bus"):
        runner.submit(inputs[0], built[0]).result(timeout=10)
    runner.device_process.lost.clear()
    runner.close()
    assert runner.run(inputs[:1], built[:1])[0].ok


def test_devices_of_different_pace_are_joined_by_one_clock(tmp_path, runners):
    # The second device takes twice as long. What it measures is the best time and again.
    seconds = [(s * 1e-3, 2 * s * 1e-3) for s in (9, 8, 7, 6.5, 6, 5, 4.5, 9, 4, 20, 3, 2.5)]
    runners.append(runner := StatedRunner(2, Together, verify=VerifyPolicy(sample=0)))
    inputs, built = ready(tmp_path, seconds, runner)
    devices = set()
    best = float("inf")
    clock = None
    for pair in (slice(i, i + 2) for i in range(0, len(inputs), 2)):
        results = runner.run(inputs[pair], built[pair])
        # The device that came first gives the clock: all times are either its own or scaled.
        clock = clock or (1 if results[0].mean == pytest.approx(seconds[0][0]) else 2)
        for result, stated in zip(results, seconds[pair], strict=True):
            assert result.mean == pytest.approx(clock * stated[0])
            assert result.extra["verified"] == (result.mean < best) or best == float("inf")
            devices.add(result.extra["device"])
        best = min(best, *(result.mean for result in results))
    assert devices == {0, 1}


def test_a_device_knows_the_best_so_far_by_its_own_clock(tmp_path, runners):
    runners.append(runner := StatedRunner(2, Together))
    inputs, built = ready(tmp_path, [(1e-3, 2e-3)] * 6, runner)
    for i in (0, 2, 4):
        runner.run(inputs[i : i + 2], built[i : i + 2])
    first, second = (process.jobs for process in runner.device_process.made)
    assert [job.best_s for job in first][-1] == pytest.approx(1e-3)
    assert [job.best_s for job in second][-1] == pytest.approx(2e-3)
    assert {job.best_s for job in (first[0], second[0])} == {None}


def test_a_race_on_a_device_that_does_not_take_part_is_refused(tmp_path, runner):
    inputs, built = ready(tmp_path, SAME, runner)
    with pytest.raises(MeasureError, match="device 5 is not one of those that measure"):
        runner.race(list(zip(inputs, built, strict=True)), 3, 1e-3, device=5)


def test_a_runner_has_one_process_for_each_device_however_many_ask(tmp_path, runners):
    runners.append(runner := StatedRunner(2, Slow))
    ready(tmp_path, SAME, runner)
    threads = [threading.Thread(target=runner.start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(process.device for process in runner.device_process.made) == [0, 1]


def test_a_closed_runner_has_no_process_left_however_long_that_takes(
    tmp_path, runners, monkeypatch
):
    monkeypatch.setattr("autotune.measure.run.dispatch._JOIN_S", 0.1)

    class Lasting(StatedDeviceProcess):
        """Its process takes longer to die than a thread is waited for."""

        def end(self):
            self.pid = 1

        def close(self):
            time.sleep(0.5)
            self.pid = None

    runners.append(runner := StatedRunner(1, Lasting))
    inputs, built = ready(tmp_path, SAME, runner)
    assert runner.run(inputs[:1], built[:1])[0].ok
    runner.close()
    assert [process.pid for process in runner.device_process.made] == [None]


def test_what_is_submitted_while_a_runner_closes_starts_nothing(tmp_path, runners):
    ending, may_end = threading.Event(), threading.Event()

    class Lasting(StatedDeviceProcess):
        """Ends when the test says so."""

        def end(self):
            ending.set()
            assert may_end.wait(30)

    runners.append(runner := StatedRunner(1, Lasting))
    inputs, built = ready(tmp_path, SAME, runner)
    assert runner.run(inputs[:1], built[:1])[0].ok
    closing = threading.Thread(target=runner.close)
    closing.start()
    assert ending.wait(30)
    futures = [runner.submit(inputs[0], built[0]) for _ in range(6)]
    assert closing.is_alive()
    assert all(future.cancelled() for future in futures)
    may_end.set()
    closing.join(30)
    assert len(runner.device_process.made) == 1
    assert runner.run(inputs[:1], built[:1])[0].ok


def extra_of(folder, runner):
    inputs, built = ready(folder, SAME, runner)
    try:
        (result,) = runner.run(inputs[:1], built[:1])
    finally:
        runner.close()
    return result.extra


def test_a_record_says_how_it_was_timed_where_that_is_not_as_usual(tmp_path):
    keys = {"flush", "graph", "min_repeat_ms"}
    assert not keys & set(extra_of(tmp_path, StatedRunner(1)))
    asked = extra_of(tmp_path, StatedRunner(1, flush_l2=True, use_graph=False, min_repeat_ms=20))
    assert {key: asked[key] for key in keys} == {
        "flush": True,
        "graph": False,
        "min_repeat_ms": 20,
    }
    assert extra_of(tmp_path, StatedRunner(1, enable_cpu_cache_flush=True))["flush"] is True


def test_a_record_keeps_the_clocks_of_the_device(tmp_path):
    clocks = extra_of(tmp_path, StatedRunner(1))["clocks"]
    assert clocks == {"sm_mhz": 1500, "memory_mhz": 2600, "temperature_c": 40}


def raced(folder, seconds, runner):
    inputs = stated_inputs(len(seconds))
    option = measure_option(StatedBuilder(folder, seconds), runner)
    return race(inputs, option, rounds=3)


def test_a_race_is_run_by_the_device_asked_for(tmp_path, runner):
    inputs, built = ready(tmp_path, [(1e-3, 3e-3)], runner)
    for device in (0, 1, 1, 1, 0, 0, 0, 1):
        (timing,) = runner.race([(inputs[0], built[0])], 3, 1e-3, device)
        assert timing.median == (1e-3, 3e-3)[device]


def test_a_winner_must_win_on_all_devices_together(tmp_path, runner):
    # The first candidate is a little faster here and much slower there; the pace there is half.
    result = raced(tmp_path, [(1.0e-3, 6.0e-3), (1.2e-3, 2.0e-3), (4e-3, 8e-3)], runner)
    assert result.winner.config.index == 1
    assert [[t.median for t in timings] for timings in result.timings] == [
        [1.0e-3, 6.0e-3],
        [1.2e-3, 2.0e-3],
        [4e-3, 8e-3],
    ]
    # Geometric means at the pace of the first device.
    joined = [(1.0 * 3.0) ** 0.5, (1.2 * 1.0) ** 0.5, 4.0]
    assert [1e3 * c.seconds for c in result.candidates] == pytest.approx(joined)
    assert result.certificate().candidates[0].medians == (1.0e-3, 6.0e-3)


def test_a_race_goes_on_without_a_device_that_left(tmp_path, runner):
    inputs, built = ready(tmp_path, SAME, runner)
    runner.device_process.lost.add(1)
    while tuple(runner.race_devices()) != (0,):
        assert all(r.ok for r in runner.run(inputs[:2], built[:2]))
    option = measure_option(StatedBuilder(tmp_path, SAME), runner)
    result = race(inputs[:2], option, rounds=3)
    assert [len(timings) for timings in result.timings] == [1, 1]


def test_a_run_on_two_devices_finds_what_is_fastest_on_both(tmp_path, runners):
    # The second device takes twice as long, and far longer for what is fastest on the first.
    rng = random.Random(0)
    seconds = [(s, 2 * s) for s in (rng.uniform(2e-3, 9e-3) for _ in range(24))]
    trap, best = 17, 5
    seconds[trap], seconds[best] = (1.0e-3, 6.0e-3), (1.02e-3, 2.04e-3)
    runners.append(runner := StatedRunner(2))
    option = measure_option(StatedBuilder(tmp_path, seconds), runner)
    results = {}

    def note(tuner, inputs, batch):
        results.update({i.config.index: r for i, r in zip(inputs, batch, strict=True)})

    tuner = GridSearchTuner(stated_inputs(24)[0].task)
    tuner.tune(24, option, callbacks=[note])
    assert sorted(results) == list(range(24))
    assert {round(results[i].mean / seconds[i][0], 6) for i in range(24) if i != trap} in (
        {1.0},
        {2.0},
    )
    assert tuner.best_config.index == best
