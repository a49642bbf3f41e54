import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep the cache of whoever runs the tests out of them, and theirs out of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def hasty(monkeypatch):
    """Try again at once what was killed or could not be started, and a few times only."""
    monkeypatch.setattr("autotune.measure.process.blame.ATTEMPTS", 3)
    monkeypatch.setattr("autotune.measure.process.blame.PAUSES_S", (0.0,) * 7)
