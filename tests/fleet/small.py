"""One small fleet for all tests of a process: a scheduler and two workers, as threads of it."""

import atexit
import functools

import pytest

FAST = {"number": 1, "repeat": 1, "cooldown_interval": 0}


@functools.cache
def small_cluster():
    """Returns the cluster; it ends with the process."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://",
        dashboard_address=None,
    )  # fmt: skip
    atexit.register(cluster.close)
    return cluster


@functools.cache
def small_fleet():
    """Returns a fleet over it; it ends with the process."""
    from autotune.fleet import Fleet

    fleet = Fleet(small_cluster(), run=FAST, patience_s=20)
    atexit.register(fleet.close)
    fleet.wait(2)
    return fleet


def fleet_builder():
    """Returns the builder of a small fleet."""
    return small_fleet().builder


def fleet_runner():
    """Returns the runner of a small fleet."""
    return small_fleet().runner
