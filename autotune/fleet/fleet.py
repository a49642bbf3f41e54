"""A fleet: one tuning over the devices of many hosts."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

from autotune.errors import FleetError, MeasureError
from autotune.fleet.builder import FleetBuilder, Parts
from autotune.fleet.link import Link
from autotune.fleet.members import Members
from autotune.fleet.messages import Sender
from autotune.fleet.queue import FleetQueue
from autotune.fleet.routes import Routes
from autotune.fleet.runner import FleetRunner
from autotune.utils.check import Check

# Workers that are not used and named in an error.
_NAMED = 5


class Fleet(Mapping[str, object]):
    """The workers of a Dask scheduler, as a builder and a runner.

    It is a measure option, and a `Session` can be made of it. Candidates are realised and
    references computed in this process; sources are sent to workers that compile, and the
    artifacts to workers that measure. The work of a lost worker is repeated by another.

    Args:
        where: address of a scheduler (``"tcp://host:8786"``), a `distributed.Client`, or a cluster
            such as `distributed.LocalCluster`. An agent is installed on workers without one.
        build: arguments of the builder: ``timeout``, ``compiler``, ``cache``; see `LocalBuilder`.
        run: arguments of the runner: ``number``, ``repeat``, ``verify``, ...; see `LocalRunner`.
        weight: this client's share of each device's time, relative to other clients.
        patience_s: how many seconds work waits for a suitable worker, or for the scheduler.
        lease_s: seconds after which a silent worker is given up; at least twice Dask's interval of
            heartbeats, which grows with the number of workers from 0.5 to 5 s.
        timeout_s: seconds to find the scheduler.
        security: a `distributed.Security` with the TLS files, if Dask's own configuration does
            not name them.
        install: whether to install agents on workers that have none.

    Raises:
        FleetError: no scheduler answers, or Dask is not installed.
        MeasureError: an argument is out of range.

    Example::

        from distributed import LocalCluster
        with LocalCluster(n_workers=2) as cluster, Fleet(cluster) as fleet:
            XGBTuner(task).tune(200, fleet, callbacks=[log_to_file("gemm.log")])
    """

    def __init__(
        self,
        where: object,
        *,
        build: Mapping[str, Any] | None = None,
        run: Mapping[str, Any] | None = None,
        weight: float = 1.0,
        patience_s: float = 60.0,
        lease_s: float = 15.0,
        timeout_s: float = 10.0,
        security: object = None,
        install: bool = True,
    ) -> None:
        check = Check(MeasureError, "Fleet")
        check.seconds("weight", weight)
        check.seconds("patience_s", patience_s)
        check.seconds("lease_s", lease_s)
        check.seconds("timeout_s", timeout_s)
        self._options = dict(build or {}), dict(run or {})
        self._link = Link(where, timeout_s, security)
        self._queue = FleetQueue(patience_s)
        sender = Sender(secrets.token_hex(8), float(weight))
        give = self._install if install else None
        self._installed = ""
        self._members = Members(self._link, self._queue, sender, lease_s, patience_s, give)
        self._parts = Parts(self._members, self._queue, sender)
        try:
            self._made = self._option(None)
        except BaseException:
            self.close()
            raise

    def _install(self) -> None:
        if self._installed != self._link.scheduler:  # a restarted scheduler has lost the plugin
            self._installed = self._link.scheduler
            from autotune.fleet.serve import AgentPlugin

            self._link.install(AgentPlugin())

    def _option(self, device_class: str | None) -> dict[str, object]:
        routes = Routes(self._queue, device_class)
        build, run = self._options
        return {
            "builder": FleetBuilder(self._parts, routes.build_needs, **build),
            "runner": FleetRunner(self._parts, routes.run_needs, **run),
        }

    # ---- as a measure option

    @property
    def builder(self) -> FleetBuilder:
        """Builds on the workers."""
        made = self._made["builder"]
        assert isinstance(made, FleetBuilder)
        return made

    @property
    def runner(self) -> FleetRunner:
        """Measures on the workers."""
        made = self._made["runner"]
        assert isinstance(made, FleetRunner)
        return made

    def of_class(self, device_class: str) -> dict[str, object]:
        """Return a measure option that uses only one class of devices; see `classes`."""
        return self._option(device_class)

    def classes(self) -> dict[str, int]:
        """Return the number of devices that are available, by class.

        There are none while all work fails, as where the scheduler is gone.
        """
        found: dict[str, int] = {}
        if self._queue.over is not None:
            return found
        for place, _, _ in self._queue.places():
            if place.kind == "run":
                found[place.device_class] = found.get(place.device_class, 0) + 1
        return found

    def __getitem__(self, key: str) -> object:
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    # ---- the workers

    def wait(self, devices: int = 1, timeout_s: float = 60.0) -> None:
        """Wait until the fleet has so many devices.

        Raises:
            FleetError: it has fewer when the time is over.
        """
        deadline = time.monotonic() + timeout_s
        while (here := sum(self.classes().values())) < devices:
            if time.monotonic() > deadline:
                unused = [f"{where}: {why}" for where, why in self._members.unused().items()]
                raise FleetError(
                    f"waited {timeout_s:g} s for {devices} devices, the fleet has {here}"
                    f"{'; not used: ' if unused else ''}{'; '.join(unused[:_NAMED])}"
                )
            time.sleep(0.05)

    def status(self) -> list[dict[str, object]]:
        """Return the state of each worker; see `autotune.fleet.status.status_rows`."""
        return self.runner.fleet_status()

    def close(self) -> None:
        """Cancel all work and leave the fleet; the workers keep running."""
        self._queue.close()
        self._members.close()
        self._link.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
