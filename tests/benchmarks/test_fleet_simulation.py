"""The simulated fleet comes to its end, whoever is killed on the way."""

import pytest

from benchmarks.fleet import simulation
from benchmarks.fleet.simulation import Simulation


def test_all_trials_end_though_workers_are_killed(monkeypatch):
    monkeypatch.setattr(simulation, "HOUR_S", 20.0)
    monkeypatch.setattr(simulation, "BACK_S", 2.0)
    run = Simulation(10, 400, 1e-4, "convolution__*", 0)
    said = run.run()
    assert said["trials"] == 400
    assert said["lost"] > 0
    assert 0 < said["devices_at_work"] <= 1
    assert run.queue._policy.waiting == 0


def test_a_slow_client_is_what_limits_a_large_fleet():
    fast, slow = (
        Simulation(200, 600, message_s, "convolution__*", 0).run() for message_s in (1e-5, 1e-2)
    )
    assert slow["client_busy"] == pytest.approx(1, abs=0.1)
    assert slow["trials_per_s"] < 50 < fast["trials_per_s"]  # two messages a trial
