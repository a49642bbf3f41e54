"""Measuring on the workers of a fleet."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from autotune.errors import MeasureError
from autotune.fleet.builder import Parts
from autotune.fleet.policy import Needs, Place
from autotune.fleet.queue import Work as QueuedWork
from autotune.fleet.queue import with_doubt
from autotune.fleet.remote_device import RemoteDeviceProcess
from autotune.fleet.status import status_rows
from autotune.measure.run.devices import AnyDevices
from autotune.measure.run.dispatch import Work
from autotune.measure.run.energy import require_meter
from autotune.measure.run.host_gate import HostGate
from autotune.measure.run.pool import RunPlan, RunPool
from autotune.measure.run.runner import LocalRunner
from autotune.measure.types import MeasureErrorNo, MeasureResult
from autotune.target import Target

# Failures that a broken device, driver or host may have caused.
_DOUBTFUL = (
    MeasureErrorNo.RUNTIME_DEVICE,
    MeasureErrorNo.WRONG_ANSWER,
    MeasureErrorNo.RUN_TIMEOUT,
    MeasureErrorNo.UNKNOWN_ERROR,
)
# A fleet has more than one device, or soon will: results are scaled to one clock.
_SEVERAL = 2

RunNeeds = Callable[[Target], Needs]


class FleetDevices:
    """The devices of a fleet that run kernels for one target.

    Attributes:
        queue: the queue that accepts work, which is this object itself.
    """

    def __init__(self, parts: Parts, needs: Needs, target: Target, plan: RunPlan) -> None:
        self.queue = self
        self._parts = parts
        self._needs = needs
        self._target = str(target)
        self._plan = plan
        self._under_way: set[Future[object]] = set()

    def put(self, work: Work, device: int | None = None) -> Future[object]:
        """Queue work for one device, or for the first that is free."""
        parts, plan = self._parts, self._plan

        def do(number: int) -> object:
            process = RemoteDeviceProcess(
                parts.members,
                number,
                parts.sender,
                self._target,
                plan.seed if plan.ref_input is None else None,
                plan.options.cooldown_s,
                plan.memory_bytes,
            )
            return work(process)

        needs = replace(self._needs, only=device)
        queued = QueuedWork(do, _failure, _hopeless, _unconfirmed)
        future: Future[object] = parts.queue.put(needs, queued)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    @property
    def pids(self) -> list[int]:
        """Processes of this host: none."""
        return []

    @property
    def at_work(self) -> tuple[int, ...]:
        """Numbers of the devices that can be used now."""
        return tuple(place.number for place in self.able)

    @property
    def able(self) -> list[Place]:
        """The devices that can be used now."""
        return self._parts.queue.able(self._needs)

    def close(self) -> None:
        """Cancel waiting work; do not wait for running work."""
        for one in list(self._under_way):
            one.cancel()


class FleetRunPool(RunPool):
    """The processes behind a `LocalRunner`, on devices of other hosts."""

    def __init__(self, parts: Parts, needs: RunNeeds) -> None:
        super().__init__()
        self._parts = parts
        self._needs = needs
        self._clocks: dict[int, float] = {}

    def _devices_for(self, target: Target, plan: RunPlan) -> AnyDevices:
        key = str(target)
        if key not in self._devices:
            if plan.options.energy and target.emulate:
                require_meter(target, 0)  # which says why there is none, on any host
            self._devices[key] = FleetDevices(self._parts, self._needs(target), target, plan)
        return self._devices[key]

    def clocks(self) -> dict[int, float]:
        """Return the factor by which each device's times are multiplied, for the last workload."""
        with self._lock:
            now = self._last[0] if self._last is not None else None
        if now is not None:
            numbers = [place.number for place, _, _ in self._parts.queue.places()]
            known = {number: now.calibration.known(number) for number in numbers}
            self._clocks = {number: one for number, one in known.items() if one is not None}
        return self._clocks

    def close(self) -> None:
        """Cancel waiting work; `clocks` remains available."""
        self.clocks()
        super().close()


class FleetRunner(LocalRunner):
    """Runs candidates on the workers of a fleet; made by `autotune.fleet.Fleet`.

    The arguments are those of `LocalRunner`, except that the devices are those of the fleet.
    References are computed in this process and sent to each worker once.
    """

    def __init__(self, parts: Parts, needs: RunNeeds, timeout: float = 10, **options: Any) -> None:
        wrong = {"device", "devices", "exclusive", "module_loader"} & options.keys()
        if wrong:
            raise MeasureError(
                f"Fleet: run: {wrong.pop()} is the fleet's affair; choose devices where workers "
                "are started (autotune worker --device), or by Fleet.of_class"
            )
        self._parts = parts
        self._places = FleetRunPool(parts, needs)
        # The memory of the workers is not known here.
        super().__init__(timeout, devices=range(_SEVERAL), **{"memory_bytes": 0, **options})

    def _open_pool(self) -> RunPool:
        return self._places

    @property
    def n_parallel(self) -> int:
        """The number of devices that the fleet has now; 1 while it has no worker."""
        return max(1, sum(place.kind == "run" for place, _, _ in self._parts.queue.places()))

    @n_parallel.setter
    def n_parallel(self, value: int) -> None:
        """Ignored: the number follows from the workers."""

    def share_host(self, gate: HostGate | None) -> None:
        """Do nothing: no kernel is timed on this host, and each worker pauses its own builders."""

    def fleet_status(self) -> list[dict[str, object]]:
        """Return the state of the workers; see `autotune.fleet.status.status_rows`."""
        return status_rows(self._parts.members, self._parts.queue, self._places.clocks())

    def race_devices(self) -> Sequence[int | None]:
        """Return the one device on which a race is held, since only its own times are compared."""
        if self.task is None:
            return (None,)
        return self._pool.at_work(self.task, self._plan())[:1] or (None,)


def _failure(outcome: object) -> int:
    if isinstance(outcome, MeasureResult) and outcome.error_no in _DOUBTFUL:
        return int(outcome.error_no)
    return 0


def _unconfirmed(outcome: object, why: str) -> object:
    assert isinstance(outcome, MeasureResult)
    return outcome._replace(error_msg=with_doubt(outcome.error_msg, why))


def _hopeless(why: str) -> MeasureResult:
    return MeasureResult((), MeasureErrorNo.RUNTIME_DEVICE, 0.0, time.time(), why)
