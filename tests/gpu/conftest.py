"""Tests that need an NVIDIA device. `AUTOTUNE_REQUIRE_GPU=1` turns their skipping into failing."""

import os

import pytest

from autotune.runtime.nvidia import driver as cuda_driver
from autotune.target.query import cuda_device_count


def _missing():
    if not cuda_device_count():
        return "no NVIDIA device or no driver"
    if not cuda_driver.has_pycuda():
        return "PyCUDA cannot be imported"
    return ""


@pytest.fixture(scope="session", autouse=True)
def device_needed():
    missing = _missing()
    if missing and os.environ.get("AUTOTUNE_REQUIRE_GPU") == "1":
        pytest.fail(f"AUTOTUNE_REQUIRE_GPU=1, but there is {missing}")
    if missing:
        pytest.skip(missing)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep the cache of whoever runs the tests out of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
