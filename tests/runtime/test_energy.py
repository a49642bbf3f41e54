"""Meters of energy: what they count, and what is said where there is nothing to count."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import DeviceError
from autotune.runtime import cpu, cuda
from autotune.runtime.energy import IntegratedPower, idle_watts, meter_of
from autotune.runtime.host.rapl import Zone, rapl_meter
from autotune.runtime.nvidia import energy as nvidia_energy
from autotune.runtime.nvidia import nvml
from autotune.target import Target
from tests.energy import FakeMeter, write, zone


@pytest.fixture
def powercap(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_POWERCAP", str(tmp_path))
    return tmp_path


def test_packages_and_their_memory_are_counted_and_what_is_part_of_them_is_not(powercap):
    package = zone(powercap, "intel-rapl:0", "package-0")
    cores = zone(powercap, "intel-rapl:0:0", "core")
    memory = zone(powercap, "intel-rapl:0:1", "dram")
    other = zone(powercap, "intel-rapl:1", "package-1")
    machine = zone(powercap, "intel-rapl:2", "psys")
    again = zone(powercap, "intel-rapl-mmio:0", "package-0")
    meter = rapl_meter(cpu())
    for folder, joules in zip(
        (package, cores, memory, other, machine, again), (1, 10, 2, 4, 100, 1000), strict=True
    ):
        write(folder, joules)
    assert meter.joules() == pytest.approx(7)
    assert meter.shared


@given(st.lists(st.floats(0, 0.99), min_size=1, max_size=20), st.floats(0, 0.99))
def test_a_counter_that_wraps_never_falls(tmp_path_factory, steps, start):
    """Each step is less than the whole range, in which the counter starts anywhere."""
    most = 250.0
    folder = zone(tmp_path_factory.mktemp("rapl"), "z", "package-0", start * most, most)
    counted, at = Zone(folder), start * most
    total = last = 0.0
    for step in steps:
        total += step * most
        at = (at + step * most) % most
        write(folder, at)
        now = counted.joules()
        assert now >= last
        assert now == pytest.approx(total, abs=1e-4)
        last = now


def test_a_host_without_counters_says_what_shows_them(powercap):
    with pytest.raises(DeviceError, match=r"has no package of intel-rapl.*intel_rapl_msr"):
        meter_of(Target("c"), 0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_counter_for_root_alone_says_how_to_read_it(powercap):
    folder = zone(powercap, "intel-rapl:0", "package-0")
    (folder / "energy_uj").chmod(0)
    with pytest.raises(DeviceError, match=r"only root.*sudo chmod a\+r .*energy_uj"):
        rapl_meter(cpu())


def test_whoever_may_not_read_a_counter_is_told_how(powercap, monkeypatch):
    zone(powercap, "intel-rapl:0", "package-0")

    def refuse(self, *args, **more):
        if self.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read(self, *args, **more)

    path = type(powercap)
    read = path.read_text
    monkeypatch.setattr(path, "read_text", refuse)
    with pytest.raises(DeviceError, match=r"only root.*sudo chmod a\+r .*energy_uj"):
        rapl_meter(cpu())


def test_what_is_no_number_is_no_counter(powercap):
    folder = zone(powercap, "intel-rapl:0", "package-0")
    (folder / "energy_uj").write_text("lots\n")
    with pytest.raises(DeviceError, match="energy_uj cannot be read"):
        rapl_meter(cpu())


class FakeTime:
    """A clock that only sleeping moves."""

    now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize("least_s", [0.0, 0.02, 1.0])
def test_idle_power_is_that_between_two_moves(least_s):
    clock = FakeTime()
    meter = FakeMeter(idle_watts=40, period_s=0.007, clock=clock)
    assert idle_watts(meter, least_s, clock, clock.sleep) == pytest.approx(40)
    assert least_s <= clock.now <= least_s + 0.1


def test_a_counter_that_does_not_move_is_none():
    clock = FakeTime()
    with pytest.raises(DeviceError, match="fake: its counter of energy does not move"):
        idle_watts(FakeMeter(period_s=float("inf"), clock=clock), 0.0, clock, clock.sleep)
    assert clock.now < 1.1


def test_power_is_integrated_by_trapezoids():
    times, watts = iter([0.0, 1.0, 3.0]), iter([10.0, 20.0, 0.0])
    meter = IntegratedPower("power", lambda: next(watts), 0.0, lambda: next(times))
    assert meter.joules() == pytest.approx(15)
    assert meter.joules() == pytest.approx(15 + 20)


def test_emulated_kernels_have_no_energy():
    with pytest.raises(DeviceError, match=r"emulated kernels .* says nothing of a GPU"):
        meter_of(Target("cuda -emulate"), 0)


@pytest.fixture
def board(monkeypatch):
    """An NVIDIA device of which NVML tells what stands in the dict."""
    told = {"joules": 5.0, "watts": 100.0, "divided": False, "handle": "handle"}
    monkeypatch.setattr(nvidia_energy, "pci_bus_id", lambda where: "0000:00:00.0")
    monkeypatch.setattr(nvml, "handle", lambda bus: told["handle"])
    monkeypatch.setattr(nvml, "joules", lambda handle: told["joules"])
    monkeypatch.setattr(nvml, "watts", lambda handle: told["watts"])
    monkeypatch.setattr(nvml, "is_divided", lambda handle: told["divided"])
    return told


def test_a_device_with_a_counter_is_measured_by_it(board):
    meter = nvidia_energy.nvml_meter(cuda())
    assert (meter.name, meter.joules()) == ("NVML energy", 5.0)
    board["joules"] = None
    with pytest.raises(DeviceError, match="does not tell the energy of the device any more"):
        meter.joules()


def test_a_device_without_one_is_measured_by_its_power(board):
    board["joules"] = None
    assert nvidia_energy.nvml_meter(cuda()).name == "NVML power"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"handle": None}, "NVML, which tells it, is missing .* pip install nvidia-ml-py"),
        ({"divided": True}, r"is divided \(MIG\)"),
        ({"joules": None, "watts": None}, "tells neither its energy nor its power"),
    ],
)
def test_a_device_that_cannot_be_measured_says_why(board, told, message):
    board.update(told)
    with pytest.raises(DeviceError, match=f"the energy of cuda:0 cannot be measured: .*{message}"):
        nvidia_energy.nvml_meter(cuda())


class FakeNvml:
    """pynvml as far as power is asked for; `instant` is a field that devices have or lack."""

    NVML_FI_DEV_POWER_INSTANT = 186

    class NVMLError(Exception):
        pass

    def __init__(self, instant):
        self.instant = instant

    def nvmlDeviceGetFieldValues(self, handle, fields):
        value = type("Value", (), {"uiVal": self.instant or 0})
        return [type("Field", (), {"nvmlReturn": 0 if self.instant else 3, "value": value})]

    def nvmlDeviceGetPowerUsage(self, handle):
        return 90_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        raise self.NVMLError

    def nvmlDeviceGetMigMode(self, handle):
        raise self.NVMLError


@pytest.mark.parametrize(("instant", "watts"), [(120_000, 120.0), (None, 90.0)])
def test_power_is_that_of_now_where_the_device_tells_it(monkeypatch, instant, watts):
    monkeypatch.setattr(nvml, "pynvml", FakeNvml(instant))
    assert nvml.watts("handle") == watts
    assert nvml.joules("handle") is None
    assert not nvml.is_divided("handle")
