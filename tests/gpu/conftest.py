"""Tests that need an NVIDIA device. `AUTOTUNE_REQUIRE_GPU=1` turns their skipping into failing.

Tests marked `alone` time kernels, or count the free memory of the device: while one of them runs,
no other test of this folder does, in whatever process of pytest-xdist. Other programs on the
device disturb them still.
"""

import fcntl
import os
import tempfile
from pathlib import Path

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


@pytest.fixture(autouse=True)
def share_of_the_device(request):
    """Let tests that bear company run side by side, and those marked `alone` one at a time."""
    alone = request.node.get_closest_marker("alone") is not None
    name = f"autotune-tests-gpu-{os.getuid()}"
    with (
        Path(tempfile.gettempdir(), f"{name}.turn").open("w") as turn,
        Path(tempfile.gettempdir(), f"{name}.lock").open("w") as device,
    ):
        # Who waits to be alone holds the turn, so that those who come later wait behind.
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(device, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield
