import pytest


@pytest.fixture(autouse=True)
def short_races():
    """Race as users do."""
