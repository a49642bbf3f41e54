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
from autotune.templates.products.gemm_wgmma import has_wgmma

from autotune.runtime.nvidia import driver as cuda_driver
from autotune.target import Target
from autotune.target.query import cuda_device_count

# Not in the folder that each process of tests has for its own files: they share the device.
_DEVICE = Path(tempfile.gettempdir(), f"autotune-tests-gpu-{os.getuid()}.lock")


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


@pytest.fixture(scope="module")
def torch():
    """Return PyTorch, if it has CUDA."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA")
    return torch


@pytest.fixture(scope="session")
def hopper(device_needed):
    """Skip what needs the instructions of a warpgroup where the device has none."""
    if not has_wgmma(Target("cuda")):
        pytest.skip("no wgmma")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Run what needs the device alone at the end, when hardly anybody must wait for it."""
    items.sort(key=_needs_the_device_alone)


@pytest.fixture(autouse=True)
def share_of_the_device(request):
    """Let tests that bear company run side by side, and those marked `alone` one at a time."""
    alone = _needs_the_device_alone(request.node)
    with _DEVICE.open("w") as device:
        fcntl.flock(device, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def _needs_the_device_alone(test):
    return test.get_closest_marker("alone") is not None
