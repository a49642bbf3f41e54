"""The workers that suit a target, determined once per workload."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from autotune.errors import FleetError
from autotune.fleet.capabilities import major
from autotune.fleet.policy import Needs, Place
from autotune.fleet.queue import FleetQueue
from autotune.target import Target

logger = logging.getLogger("autotvm")

_LOOK_S = 0.05


class Routes:
    """Decides, at the first trial for a target, which workers measure and compile for it.

    Times can be compared only within one class of devices, and all artifacts must be made by one
    release of the toolkit. So a run uses the class with the most devices, unless one is named, and
    the toolkit of the hosts that measure, if they have any.

    Args:
        queue: the queue of the places.
        device_class: the class of devices to be used; by default the most frequent one.
    """

    def __init__(self, queue: FleetQueue, device_class: str | None = None) -> None:
        self._queue = queue
        self._class = device_class
        self._lock = threading.Lock()
        self._run: dict[str, Needs] = {}
        self._build: dict[str, Needs] = {}

    def run_needs(self, target: Target) -> Needs:
        """Return the needs of runs for a target; wait until there is a worker that meets them.

        Raises:
            FleetError: no such worker joined in time.
        """
        with self._lock:
            key = str(target)
            if key not in self._run:
                self._run[key] = self._measuring(target)
            return self._run[key]

    def build_needs(self, target: Target) -> Needs:
        """Return the needs of builds for a target.

        Raises:
            FleetError: no worker joined in time that measures for it, or compiles.
        """
        run = self.run_needs(target)
        with self._lock:
            key = str(target)
            if key not in self._build:
                self._build[key] = self._compiling(target, run)
            return self._build[key]

    def _measuring(self, target: Target) -> Needs:
        wanted = _wanted(target, self._class)
        places = self._waited_for(lambda: self._queue.able(wanted), wanted, target)
        counted = Counter(place.device_class for place in places).most_common()
        chosen = counted[0][0]
        _say_others(target, counted)
        # Two CPUs of the same name may differ in their instructions.
        archs = Counter(p.arch for p in places if p.device_class == chosen).most_common()
        if len(archs) > 1:
            logger.warning(
                "measuring for %s on %d of %d x %s: C is compiled for one kind of CPU, and the "
                "others have other instructions",
                target, archs[0][1], counted[0][1], chosen,
            )  # fmt: skip
        return replace(wanted, device_class=chosen, arch=archs[0][0])

    def _compiling(self, target: Target, run: Needs) -> Needs:
        if run.device == "cpu":
            one = next(iter(self._queue.able(run)), None)
            cpu = one.cpu if one is not None else run.arch
            needs = Needs("build", cpu=cpu)
            self._waited_for(lambda: self._queue.able(needs), needs, target)
            return needs
        anybody = Needs("build")
        places = self._waited_for(
            lambda: [p for p in self._queue.able(anybody) if p.toolkit], anybody, target
        )
        devices = self._queue.able(run)
        release = self._release(places, devices)
        if devices and all(place.cuda >= major(release) for place in devices):
            # A worker that joins later with an older driver could not load this release's code.
            self._run[str(target)] = replace(run, cuda=major(release))
        return Needs("build", toolkit=release)

    def _release(self, builders: list[Place], devices: list[Place]) -> str:
        """Return the release of the toolkit by which all artifacts are compiled."""
        offered = Counter({p.toolkit: 0 for p in builders})
        for place in builders:
            offered[place.toolkit] += place.lanes
        driver = min((p.cuda for p in devices), default=0)
        fitting = {one for one in offered if not driver or major(one) <= driver} or set(offered)
        there = Counter(p.toolkit for p in devices if p.toolkit in fitting).most_common(1)
        chosen = there[0][0] if there else max(fitting, key=lambda one: (offered[one], one))
        unused = sorted({p.name for p in builders if p.toolkit != chosen})
        if unused:
            logger.warning(
                "kernels are compiled by CUDA %s; not by %s, which have other releases",
                chosen, ", ".join(unused),
            )  # fmt: skip
        return chosen

    def _waited_for(
        self, find: Callable[[], list[Place]], needs: Needs, target: Target
    ) -> list[Place]:
        """Wait until `find` returns places."""
        deadline = time.monotonic() + self._queue.patience_s
        while not (found := find()):
            if (over := self._queue.over) is not None:
                raise over
            if time.monotonic() > deadline:
                raise FleetError(self._nobody(needs, target))
            time.sleep(_LOOK_S)
        return found

    def _nobody(self, needs: Needs, target: Target) -> str:
        what = "compiles" if needs.kind == "build" else "measures"
        there = [p for p, _, _ in self._queue.places() if p.kind == needs.kind]
        known = ", ".join(sorted({f"{p.name} ({p.arch or p.toolkit})" for p in there})) or "nobody"
        hint = ""
        archs = sorted({p.arch for p in there if p.device == "cuda"})
        if needs.device == "cuda" and "arch" not in target.attrs and archs:
            hint = f"; the target names no architecture: add -arch={archs[0]}"
        return (
            f"no worker of the fleet {what} for target {target}; waited "
            f"{self._queue.patience_s:.0f} s, there is {known}{hint}"
        )


def _say_others(target: Target, counted: list[tuple[str, int]]) -> None:
    """Warn about devices of other classes, which are not used."""
    (chosen, most), *left = counted
    if left:
        others = ", ".join(f"{number} x {name}" for name, number in left)
        logger.warning(
            "measuring for %s on %d x %s; %s would do as well and are not used, as times are "
            "compared within one class of devices: see Fleet.of_class",
            target, most, chosen, others,
        )  # fmt: skip


def _wanted(target: Target, device_class: str | None) -> Needs:
    """Return the requirements of a target on the device that runs its kernels."""
    if target.backend.device == "cpu":
        return Needs("run", device="cpu", device_class=device_class)
    arch = target.arch.rstrip("af")
    return Needs("run", device="cuda", arch=arch, device_class=device_class)
