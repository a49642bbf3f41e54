"""What tests of measuring share."""

import pytest

from autotune.measure.exclusive import devices
from autotune.measure.exclusive.lock import Claim, DeviceLock


@pytest.fixture(autouse=True)
def short_races():
    """Race as users do."""


@pytest.fixture
def lock(tmp_path):
    """A lock in a folder of the test."""
    return DeviceLock(str(tmp_path), (Claim("device"),))


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A folder of locks that nobody else uses."""
    monkeypatch.setenv("AUTOTUNE_DEVICE_LOCKS", str(tmp_path / "locks"))
    devices.say_unlocked.cache_clear()
    return tmp_path / "locks"
