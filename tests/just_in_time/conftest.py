"""What tests of functions that choose by shape share."""

import pytest

from autotune.just_in_time import background, store


@pytest.fixture
def log(tmp_path):
    """A store of records that is not there yet."""
    return tmp_path / "store.log"


@pytest.fixture
def here(monkeypatch, tmp_path):
    """Locks and the usual store lie in a folder of the test; what is compiled does not."""
    monkeypatch.setattr(store.environment, "cache_dir", lambda: tmp_path / "cache")
    yield
    assert background.WORKER.join(60)
