"""What the tests of the page share."""

from pathlib import Path

import pytest


@pytest.fixture
def data():
    """The folder of recorded logs."""
    return Path(__file__).parent.parent / "data"
