"""What the tests of the page share."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def data():
    """The folder of recorded logs."""
    return Path(__file__).parent.parent / "data"
