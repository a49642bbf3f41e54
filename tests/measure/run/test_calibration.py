"""Devices of one host are compared by a common anchor, timed again now and then."""

from pathlib import Path

import pytest

from autotune.measure.run.calibration import EVERY, EVERY_S, FEW, Calibration
from autotune.measure.run.jobs import RunJob
from autotune.measure.run.timing import TimingPolicy


def job(artifact):
    return RunJob(str(artifact), None, 1.0, TimingPolicy(), (), (), "best", best_s=1.0)


def test_devices_are_calibrated_by_a_common_anchor(tmp_path):
    artifact = tmp_path / "k.so"
    artifact.write_bytes(b"code")
    calibration = Calibration(devices=3)
    asked = []

    def twice_as_slow(anchor):
        asked.append(anchor)
        return 4e-3

    def never(anchor):
        raise AssertionError("the anchor's own device needs no calibration")

    assert calibration.factor(0, job(artifact), 2e-3, never) == 1.0
    artifact.unlink()
    assert calibration.factor(1, job("other.so"), 9.0, twice_as_slow) == 0.5
    assert calibration.factor(1, job("third.so"), 9.0, twice_as_slow) == 0.5
    assert calibration.factor(0, job("third.so"), 9.0, never) == 1.0
    (anchor,) = asked
    assert Path(anchor.artifact).read_bytes() == b"code"
    assert (anchor.best_s, anchor.check) == (None, "never")
    # A device that cannot run the anchor counts as it is.
    assert calibration.factor(2, job("other.so"), 9.0, lambda anchor: None) == 1.0


def test_an_anchor_that_finds_no_room_is_left_to_a_later_trial(tmp_path):
    calibration = Calibration(devices=2)
    assert calibration.factor(0, job(tmp_path / "gone.so"), 2e-3, lambda anchor: 1 / 0) == 1.0
    artifact = tmp_path / "k.so"
    artifact.write_bytes(b"code")
    assert calibration.factor(0, job(artifact), 2e-3, lambda anchor: 1 / 0) == 1.0
    assert calibration.factor(1, job("other.so"), 9.0, lambda anchor: 4e-3) == 0.5


class Drifting:
    """Two devices and a clock: the anchor takes what `seconds` says of a device."""

    def __init__(self, folder, **options):
        self.seconds, self.now, self.told, self.asked = [1e-3, 2e-3], 0.0, [], []
        self.calibration = Calibration(2, self.told.append, lambda: self.now)
        artifact = folder / "k.so"
        artifact.write_bytes(b"code")
        self.job = job(artifact)

    def trials(self, device, count):
        """Returns the factors of so many trials of a device."""

        def time(anchor):
            self.asked.append(device)
            said = self.seconds[device]
            return said.pop(0) if isinstance(said, list) else said

        factors = []
        for _ in range(count):
            factors.append(self.calibration.factor(device, self.job, 1e-3, time))
        return factors


def test_the_anchor_is_timed_again_now_and_then_and_drift_is_corrected_and_said(tmp_path):
    devices = Drifting(tmp_path)
    assert devices.trials(0, 1) == [1.0]
    assert set(devices.trials(1, EVERY + 1)) == {0.5}
    assert devices.asked == [1, 1]
    devices.seconds[1] = 2.2e-3  # a tenth slower than it was
    late = devices.trials(1, EVERY)
    assert late[-2:] == [0.5, pytest.approx(1 / 2.2)]
    assert devices.calibration.known(1) == pytest.approx(1 / 2.2)
    (said,) = devices.told
    assert said.startswith("device 1 is 10% slower than at the beginning of the run (the anchor")
    # The device whose clock is the common one may drift too.
    devices.seconds[0] = 0.9e-3
    assert devices.trials(0, EVERY)[-1] == pytest.approx(1 / 0.9)
    assert "device 0 is 10% faster" in devices.told[1]
    devices.trials(1, EVERY)
    assert len(devices.told) == 2


def test_one_late_sample_of_the_anchor_is_no_drift(tmp_path):
    devices = Drifting(tmp_path)
    devices.trials(0, 1)
    devices.trials(1, 1)
    for seconds in ([2.6e-3, 2.01e-3], [2.03e-3], [None], [3e-3, None]):
        devices.seconds[1] = seconds
        assert set(devices.trials(1, EVERY)) == {0.5}
        assert not seconds
    assert devices.told == []


def test_a_slow_device_is_looked_at_by_the_clock(tmp_path):
    devices = Drifting(tmp_path)
    devices.trials(0, 1)
    devices.trials(1, 1 + FEW)
    assert devices.asked == [1]
    devices.now = EVERY_S
    devices.trials(1, 1)
    assert devices.asked == [1, 1]


def test_one_device_needs_no_calibration():
    assert Calibration(devices=1).factor(0, job("k.so"), 1.0, lambda anchor: 1 / 0) == 1.0
