"""Tuning on the devices of many hosts, by Dask; ``pip install 'autotune[fleet]'``.

Example::

    from autotune.fleet import Fleet

    with Fleet("tcp://scheduler:8786") as fleet:
        tuner.tune(1000, fleet, callbacks=[log_to_file("postgresql://tuner@db/kernels")])
"""

from autotune.errors import FleetError
from autotune.fleet.fleet import Fleet

__all__ = ["Fleet", "FleetError"]
