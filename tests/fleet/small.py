"""One small fleet for all tests of a module: a scheduler and two workers, as threads of it."""

import contextlib

import pytest

FAST = {"number": 1, "repeat": 1, "cooldown_interval": 0}
_open = contextlib.ExitStack()
_made = {}


@pytest.fixture(scope="module", autouse=True)
def no_fleet_stays():
    """End what the module has started: Dask's threads are no company for other tests."""
    yield
    _made.clear()
    _open.close()


def small_cluster():
    """Returns the cluster."""
    if "cluster" not in _made:
        distributed = pytest.importorskip("distributed")
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://",
            dashboard_address=None,
        )  # fmt: skip
        _made["cluster"] = _open.enter_context(cluster)
    return _made["cluster"]


def small_fleet():
    """Returns a fleet over it."""
    if "fleet" not in _made:
        from autotune.fleet import Fleet

        _made["fleet"] = _open.enter_context(Fleet(small_cluster(), run=FAST, patience_s=20))
        _made["fleet"].wait(2)
    return _made["fleet"]


def fleet_builder():
    """Returns the builder of a small fleet."""
    return small_fleet().builder


def fleet_runner():
    """Returns the runner of a small fleet."""
    return small_fleet().runner
