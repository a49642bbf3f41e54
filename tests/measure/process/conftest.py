"""What tests of the processes of builders and runners share."""

import pytest

from tests.prestarted import started_anew


@pytest.fixture(scope="module", autouse=True)
def as_users_start():
    """Start workers as users do: that is what these tests are of."""
    with started_anew():
        yield
