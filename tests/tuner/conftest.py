import pytest


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path, monkeypatch):
    """Keep the files of failed runs out of everyone's folder."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture(autouse=True)
def short_races():
    """Race as users do."""
