import pytest

from tests.prestarted import started_anew


@pytest.fixture
def hasty(monkeypatch):
    """Try again at once what was killed or could not be started, and a few times only."""
    monkeypatch.setattr("autotune.measure.process.blame.ATTEMPTS", 3)
    monkeypatch.setattr("autotune.measure.process.blame.PAUSES_S", (0.0,) * 7)


@pytest.fixture(scope="module", autouse=True)
def as_users_start():
    """Start workers as users do: some tests have that fail."""
    with started_anew():
        yield
