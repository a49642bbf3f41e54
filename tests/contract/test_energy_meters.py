"""What every meter of energy does: it counts joules, and what it counts never falls."""

import time

import pytest

from autotune.runtime import cpu
from autotune.runtime.energy import IntegratedPower, idle_watts
from autotune.runtime.host.rapl import rapl_meter
from autotune.runtime.nvidia import nvml
from autotune.runtime.nvidia.energy import NvmlCounter
from tests.energy import FakeMeter, powered, zone

WATTS = 50.0


@pytest.fixture(params=["RAPL", "NVML energy", "NVML power", "fake"])
def meter(request, tmp_path, monkeypatch):
    """A meter of something that takes 50 watts."""
    if request.param == "RAPL":
        monkeypatch.setenv("AUTOTUNE_POWERCAP", str(tmp_path))
        folder = zone(tmp_path, "intel-rapl:0", "package-0")
        with powered(folder, WATTS):
            yield rapl_meter(cpu())
    elif request.param == "NVML energy":
        monkeypatch.setattr(nvml, "joules", lambda handle: WATTS * time.perf_counter())
        yield NvmlCounter("handle")
    elif request.param == "NVML power":
        yield IntegratedPower("NVML power", lambda: WATTS, 1e-3)
    else:
        yield FakeMeter(idle_watts=WATTS)


def test_it_has_a_name_a_pace_and_says_whether_it_is_shared(meter):
    assert meter.name
    assert 0 < meter.poll_s <= 0.1
    assert isinstance(meter.shared, bool)


def test_it_never_falls(meter):
    seen = []
    for _ in range(20):
        seen.append(meter.joules())
        time.sleep(1e-3)
    assert seen == sorted(seen)
    assert all(isinstance(one, float) for one in seen)


def test_it_counts_joules(meter):
    assert idle_watts(meter, 0.1) == pytest.approx(WATTS, rel=0.3)  # on a busy host, of RAPL
