"""The larger and the smaller of two floats on a device: the claims of the emulator's tests."""

import pytest

from tests.codegen.test_extremes import test_a_nan_on_either_side_is_kept  # noqa: F401

pytestmark = pytest.mark.gpu


@pytest.fixture
def target():
    return "cuda"
