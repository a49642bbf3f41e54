"""The agent on each host of a fleet, which compiles and measures for clients.

Nothing here knows how messages travel; `autotune.fleet.serve` hands them in. What is done with a
kernel is done by the builder's and the runner's own parts: `BuildPool` and `Station`.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress

import numpy as np

from autotune.errors import AutotuneError, FleetError
from autotune.fleet.desks import BuildDesk, DeviceDesk
from autotune.fleet.facts import AgentFacts, devices_here, look_around
from autotune.fleet.messages import (
    Answer,
    Build,
    Built,
    Facts,
    Forget,
    Missing,
    Parcel,
    Run,
    Taken,
    Told,
    Unable,
    answer_to_plain,
    ask_of,
    file_name,
)
from autotune.fleet.parcels import Store, digest_of
from autotune.fleet.relocate import files_of, relocate, runs_of
from autotune.kernel.kernel import Argument
from autotune.kernel.layout import natural_args
from autotune.measure.process.pending import forward
from autotune.measure.run.gate import HostGate
from autotune.runtime import random_inputs
from autotune.utils.child import error_text
from autotune.utils.environment import processors

logger = logging.getLogger("autotvm")


class Agent:
    """The worker of one host: its builders, its devices, and the files that it was sent.

    Args:
        name: by which people know it.
        devices: keys such as ``"cuda:0"`` and ``"cpu"``; by default all GPUs, or without any the
            CPU. An empty list makes a worker that only compiles.
        builders: how many compilations at once; by default one a core; 0 for none.

    Raises:
        FleetError: there is no such device.
    """

    def __init__(
        self, name: str, devices: Sequence[str] | None = None, builders: int | None = None
    ) -> None:
        slots = processors() if builders is None else builders
        self.facts: AgentFacts = look_around(name, devices_here(devices), slots)
        self._store = Store()
        self._started = time.monotonic()
        self._builders = BuildDesk(slots)
        # What times on the CPU pauses the builders beside it.
        self._gate = HostGate(self._builders.pool)
        self._devices = {
            one.key: DeviceDesk(one, self._gate if one.kind == "cpu" else None)
            for one in self.facts.devices
        }
        self._intake = ThreadPoolExecutor(2, "autotune-intake")

    def answer(self, message: Mapping[str, object]) -> Future[dict[str, object]]:
        """Begin to do what a message asks for; its answer is a message, too."""
        told: Future[dict[str, object]] = Future()

        def tell(done: Future[Answer]) -> None:
            answer: Answer = Unable("its client wanted no more of it")
            if not done.cancelled():
                answer = done.result()
            with suppress(InvalidStateError):  # who asked is gone
                told.set_result(answer_to_plain(answer))

        try:
            ask = ask_of(message)
            promised = self._done(ask)
        except Exception as error:  # a border between hosts: the client sees what happened
            promised = _now(_unable(error))
        promised.add_done_callback(tell)
        return told

    def _done(self, ask: object) -> Future[Answer]:
        match ask:
            case Build():
                return self._build(ask)
            case Run():
                return self._run(ask)
            case Parcel():
                self._store.add_chunk(ask.transfer, ask.name, ask.start, ask.total, ask.data)
                return _now(Taken())
            case Facts():
                return _now(Told({"facts": self.facts.to_json(), **self.state()}))
            case Forget():
                for desk in (self._builders, *self._devices.values()):
                    desk.forget(ask.client)
                return _now(Taken())
        raise FleetError(f"nothing to be done: {ask!r}")

    def _build(self, ask: Build) -> Future[Answer]:
        if not self.facts.builders:
            return _now(Unable("this worker has no builders", for_good=True))
        promised = self._builders.put(ask)
        if self._devices:
            promised.add_done_callback(self._keep)
        return promised

    def _keep(self, ended: Future[Answer]) -> None:
        """Keep what was compiled here: it may be about to run here as well."""
        if ended.cancelled():
            return
        match ended.result():
            case Built(artifact=data, suffix=suffix) if data:
                try:
                    self._store.add(digest_of(data) + suffix, data)
                except OSError as error:
                    logger.warning("what was compiled is not kept here: %s", error)

    def _run(self, ask: Run) -> Future[Answer]:
        desk = self._devices.get(ask.device)
        if desk is None:
            known = ", ".join(self._devices) or "none"
            reason = f"there is no device {ask.device} here; devices: {known}"
            return _now(Unable(reason, for_good=True))
        wanted = [file_name(name) for name in files_of(ask.job)]
        self._store.hold(wanted)
        try:
            for name, data in ask.files.items():
                self._store.add(name, data)
            if any(self._store.path(name) is None for name in wanted):
                return self._after_intake(ask, desk, wanted)
            return self._queued(ask, desk, wanted)
        except BaseException:
            self._store.release(wanted)
            raise

    def _queued(self, ask: Run, desk: DeviceDesk, wanted: list[str]) -> Future[Answer]:
        """Queue a job whose files are held here, until it has been done."""
        promised = desk.put(ask, relocate(ask.job, self._found))
        promised.add_done_callback(lambda _: self._store.release(wanted))
        return promised

    def _found(self, name: str) -> str:
        path = self._store.path(name)
        if path is None:
            raise FleetError(f"file {name[:16]} is gone")
        return path

    def _after_intake(self, ask: Run, desk: DeviceDesk, wanted: list[str]) -> Future[Answer]:
        """Make what can be made of the files of a job, in a thread, and then do it."""
        promised: Future[Answer] = Future()

        def go_on(taken: Future[tuple[str, ...]]) -> None:
            try:
                missing = taken.result()
                if not missing:
                    forward(self._queued(ask, desk, wanted), promised)
                    return
                answer: Answer = Missing(missing)
            except (Exception, CancelledError) as error:  # else nobody would ever be answered
                answer = _unable(error)
            self._store.release(wanted)
            promised.set_result(answer)

        self._intake.submit(self._taken_in, ask, desk, wanted).add_done_callback(go_on)
        return promised

    def _taken_in(self, ask: Run, desk: DeviceDesk, wanted: list[str]) -> tuple[str, ...]:
        """Make what can be made of the files of a job; return those that are missing."""
        with self._work(desk):
            self._make_inputs(ask)
        return tuple(name for name in wanted if self._store.path(name) is None)

    def _work(self, desk: DeviceDesk) -> AbstractContextManager[object]:
        return self._gate.work() if desk.facts.kind == "cpu" else nullcontext()

    def _make_inputs(self, ask: Run) -> None:
        """Make random inputs of their seed; other values than the client's are not kept."""
        if ask.seed is None:
            return
        seen: set[tuple[Argument, ...]] = set()
        for run in runs_of(ask.job):
            absent = [name for name in run.inputs if self._store.path(name) is None]
            args = natural_args(run.kernel.args)
            if not absent or args in seen:
                continue
            seen.add(args)
            for name, values in zip(run.inputs, random_inputs(args, ask.seed), strict=True):
                if name in absent:
                    made = self._store.place(f"made-{secrets.token_hex(4)}.npy")
                    with self._store.written(made):
                        np.save(made, values, allow_pickle=False)
                    try:
                        self._store.adopt(name, made)
                    except FleetError:  # another numpy, other numbers: the client sends its own
                        return

    def state(self) -> dict[str, object]:
        """Return what changes: lines, rates, failures, by place."""
        desks = {"builders": self._builders, **self._devices}
        return {
            "up_s": time.monotonic() - self._started,
            "stored_bytes": self._store.bytes,
            "places": {
                key: {
                    "waiting": desk.waiting,
                    "done": desk.done,
                    "failed": desk.failed,
                    "rate": desk.rate,
                }
                for key, desk in desks.items()
            },
        }

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes that compile and that own devices."""
        owned = [pid for desk in self._devices.values() if (pid := desk.pid) is not None]
        return [*self._builders.pool.pids, *owned]

    def close(self) -> None:
        """End all processes, answer what waits, and remove all files."""
        for desk in (*self._devices.values(), self._builders):
            desk.close()
        self._intake.shutdown(wait=False, cancel_futures=True)
        self._store.close()


def _unable(error: BaseException) -> Unable:
    """Return what is answered where something went wrong that is not the trial's fault."""
    if isinstance(error, (AutotuneError, OSError, MemoryError, CancelledError)):
        return Unable(f"{type(error).__name__}: {error}")
    return Unable(error_text(error))


def _now(answer: Answer) -> Future[Answer]:
    future: Future[Answer] = Future()
    future.set_result(answer)
    return future
