import pytest

from tests.fleet.workers import IMPORTED
from tests.forked import forkserver_with


@pytest.fixture(scope="module")
def scheduler():
    """The address of a scheduler without workers; those of `Worker` start quickly beside it."""
    distributed = pytest.importorskip("distributed")
    with (
        forkserver_with(IMPORTED),
        distributed.LocalCluster(
            n_workers=0, processes=False, protocol="tcp://", dashboard_address=None
        ) as cluster,
    ):
        yield cluster.scheduler_address
