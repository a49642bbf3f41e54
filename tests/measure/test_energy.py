"""The energy of a run beside its time: what is measured, and what is said where nothing can be."""

import json
import time

import pytest

import autotune.task as at
from autotune.errors import DeviceError, MeasureError
from autotune.fleet.encoding import from_plain, to_plain
from autotune.measure import LocalBuilder, LocalRunner, Session, TimingPolicy, measure_option
from autotune.measure.evidence import Energy
from autotune.measure.run import energy as run_energy
from autotune.measure.run.energy import KernelEnergyMeter
from autotune.measure.run.jobs import RunJob
from autotune.measure.run.replies import Ran, reply_of, to_json
from autotune.measure.run.trial import _must_check
from autotune.runtime import summarize
from autotune.tuner import RandomTuner
from tests.energy import FakeMeter, powered, zone
from tests.measure import kernels  # noqa: F401 - registers the templates


class Busy:
    """A sampler whose runs keep a fake meter busy."""

    input_sets, alone = 1, False

    def __init__(self, meter, seconds=1e-3):
        self.meter, self.seconds = meter, seconds
        self.samples = []

    def sample(self, number):
        self.samples.append(number)
        self.meter.busy = True
        time.sleep(number * self.seconds)
        return number * self.seconds

    def clocks(self):
        return None


@pytest.fixture(autouse=True)
def no_limit_of_power(monkeypatch):
    """Nothing here takes long to be steady."""
    monkeypatch.setattr(run_energy, "LEAD_S", 0.05)


def comes_out(measure, wanted):
    """Check that a measurement gives a number; on a busy host it is late, and is made again."""
    found = []
    for _ in range(20):
        found.append(measure())
        if found[-1] == pytest.approx(wanted, rel=0.1):
            return
    pytest.fail(f"expected {wanted}, measured {found}")


def policy(energy_s, energy_near_s=0.01):
    return TimingPolicy(energy_s=energy_s, energy_near_s=energy_near_s)


@pytest.mark.parametrize(("best_joules", "longer"), [(None, True), (0.5, True), (0.01, False)])
def test_what_may_take_the_least_runs_for_longer(best_joules, longer):
    meter = FakeMeter(shared=True)
    energy = KernelEnergyMeter(meter).take(Busy(meter), policy(0.05, 0.3), best_joules)
    assert (energy.seconds >= 0.15) is longer


def test_the_energy_of_a_run_is_mean_power_times_its_time():
    def watts():
        meter = FakeMeter(watts=100)
        energy = KernelEnergyMeter(meter).take(Busy(meter), policy(0.05), None)
        assert energy.joules == pytest.approx(energy.watts * 1e-3)
        assert energy.seconds >= 0.025
        assert energy.meter == "fake"
        return energy.watts

    comes_out(watts, 100)


def test_runs_are_made_in_few_groups():
    meter = FakeMeter()
    sampler = Busy(meter, seconds=1e-5)
    energy = KernelEnergyMeter(meter).take(sampler, policy(0.05), None)
    assert sum(sampler.samples) >= energy.runs > 1000
    assert len(sampler.samples) < 20


def test_a_kernel_that_runs_for_long_runs_once():
    meter = FakeMeter(shared=True)
    sampler = Busy(meter, seconds=0.4)
    assert KernelEnergyMeter(meter).take(sampler, policy(0.1), None).runs == 1


def test_a_counter_that_stops_is_an_error(monkeypatch):
    monkeypatch.setattr(run_energy, "STILL_S", 0.05)
    meter = FakeMeter(shared=True)
    meter.period_s = float("inf")
    with pytest.raises(DeviceError, match="fake: its counter of energy did not move twice"):
        KernelEnergyMeter(meter).take(Busy(meter), policy(0.05), None)


def test_a_counter_that_cannot_be_read_any_more_is_an_error():
    class Gone(FakeMeter):
        def joules(self):
            if self.busy:
                raise DeviceError("it is gone")
            return super().joules()

    meter = Gone()
    with pytest.raises(DeviceError, match="it is gone"):
        KernelEnergyMeter(meter).take(Busy(meter), policy(0.05), None)


def test_what_takes_too_much_at_idle_power_is_not_measured():
    gauge = KernelEnergyMeter(FakeMeter(idle_watts=40))
    assert gauge.out_of_reach(1e-3, None) is None
    assert gauge.out_of_reach(1e-3, 0.1) is None
    beaten = gauge.out_of_reach(1e-2, 0.1)
    assert beaten.joules is None

    def least():
        return KernelEnergyMeter(FakeMeter(idle_watts=40)).out_of_reach(1e-2, 0.1).at_least

    comes_out(least, 0.4)


def test_where_others_take_energy_too_idle_power_bounds_nothing():
    assert KernelEnergyMeter(FakeMeter(shared=True)).out_of_reach(1e9, 1e-9) is None


def job(check, best_s=1.0, best_joules=1.0):
    return RunJob(
        "a", None, 1.0, TimingPolicy(), (), (), check, best_s, energy=True, best_joules=best_joules
    )


@pytest.mark.parametrize(
    ("check", "seconds", "joules", "compared"),
    [
        ("best", 3.0, 0.9, True), ("best", 3.0, 2.0, False), ("best", 0.9, 2.0, True),
        ("best", 3.0, None, False), ("never", 0.9, 0.9, False), ("always", 3.0, 2.0, True),
    ],
)  # fmt: skip
def test_what_takes_less_energy_than_the_others_is_compared(check, seconds, joules, compared):
    timing = summarize([seconds], 1)
    assert _must_check(job(check), timing, Energy(joules=joules)) is compared


def test_jobs_and_replies_keep_what_they_say_of_energy():
    energy = Energy(0.5, 250.0, 100, 0.2, meter="NVML energy")
    ran = Ran(summarize([1.0, 2.0], 1), energy=energy)
    assert reply_of(json.loads(json.dumps(to_json(ran)))).energy == energy
    unknown = json.dumps(to_json(Ran(summarize([1.0], 1))))
    assert reply_of(json.loads(unknown)).energy is None
    asked = job("best")
    assert from_plain(RunJob, to_plain(asked)) == asked


@pytest.fixture
def powercap(tmp_path, monkeypatch):
    root = tmp_path / "powercap"
    root.mkdir()
    monkeypatch.setenv("AUTOTUNE_POWERCAP", str(root))
    return root


@pytest.fixture
def task():
    return at.create("measure_test.scale", (64, 8), target="c")


def option(energy_s=0.05, **more):
    runner = LocalRunner(cooldown_interval=0, timing=policy(energy_s), energy=True, **more)
    return measure_option(LocalBuilder(n_parallel=1), runner)


def test_a_trial_on_a_cpu_has_its_energy(powercap, task):
    with powered(zone(powercap, "intel-rapl:0", "package-0"), 50), Session(option()) as session:

        def watts():
            (result,) = session.measure(task, [task.config_space.get(0)])
            assert result.ok, result
            assert result.joules > 0
            assert result.extra["energy"]["meter"] == "RAPL"
            return result.watts

        comes_out(watts, 50)


def test_a_counter_that_stops_during_a_trial_fails_it(powercap, task):
    folder = zone(powercap, "intel-rapl:0", "package-0")
    with Session(option()) as session:
        with powered(folder, 50):
            session.prepare(task)
        (result,) = session.measure(task, [task.config_space.get(0)])
    assert "did not move twice" in result.error_msg


def test_where_nothing_is_counted_nothing_is_tuned(powercap, task):
    with pytest.raises(DeviceError, match="the energy of cpu:0 cannot be measured"):
        RandomTuner(task).tune(4, option())


def test_a_counter_that_stands_still_is_found_before_anything_is_tuned(powercap, task):
    zone(powercap, "intel-rapl:0", "package-0")
    with pytest.raises(DeviceError, match="RAPL: its counter of energy does not move"):
        RandomTuner(task).tune(4, option())


def test_emulated_kernels_are_not_measured(powercap):
    task = at.create("measure_test.scale", (64, 8), target="cuda -emulate")
    with pytest.raises(DeviceError, match="says nothing of a GPU"):
        RandomTuner(task).tune(4, option())


@pytest.mark.parametrize("cold", ["flush_l2", "enable_cpu_cache_flush"])
def test_cold_caches_and_energy_do_not_go_together(cold):
    with pytest.raises(MeasureError, match="energy=True measures runs behind each other"):
        LocalRunner(energy=True, **{cold: True})


def test_energy_is_on_or_off():
    with pytest.raises(MeasureError, match="energy must be True or False, got 'yes'"):
        LocalRunner(energy="yes")


def test_a_duration_is_positive():
    with pytest.raises(MeasureError, match="energy_s must be positive seconds"):
        TimingPolicy(energy_s=0)
    with pytest.raises(MeasureError, match="energy_near_s must be positive seconds"):
        TimingPolicy(energy_near_s=-1)
