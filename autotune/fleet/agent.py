"""The agent on each host of a fleet, which compiles and measures for clients.

The agent does not know how messages are carried: `autotune.fleet.serve` passes them to it. Kernels
are compiled and run by the same classes as on one host, `BuildPool` and `LocalDeviceProcess`.
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
from autotune.fleet.capabilities import AgentFacts, devices_here, look_around
from autotune.fleet.executors import BuildExecutor, DeviceExecutor
from autotune.fleet.file_store import FileStore, content_digest
from autotune.fleet.messages import (
    Answer,
    Build,
    Built,
    Data,
    Facts,
    FileChunk,
    Forget,
    Missing,
    Received,
    Run,
    Unable,
    answer_to_plain,
    ask_of,
    file_name,
)
from autotune.fleet.relocate import files_of, relocate, runs_of
from autotune.kernel.kernel import Argument
from autotune.kernel.layout import natural_args
from autotune.measure.process.pending import forward
from autotune.measure.run.host_gate import HostGate
from autotune.runtime import random_inputs
from autotune.utils.child import error_text
from autotune.utils.environment import processors

logger = logging.getLogger("autotvm")


class Agent:
    """One worker: its builders, its devices, and the files that it was sent.

    Args:
        name: the name that is shown to people.
        devices: keys such as ``"cuda:0"`` and ``"cpu"``; by default all GPUs, or the CPU if there
            are none. With an empty list the worker only compiles.
        builders: how many compilations run at once, by default one per core; 0 for none.

    Raises:
        FleetError: a device does not exist.
    """

    def __init__(
        self, name: str, devices: Sequence[str] | None = None, builders: int | None = None
    ) -> None:
        slots = processors() if builders is None else builders
        self.facts: AgentFacts = look_around(name, devices_here(devices), slots)
        self._store = FileStore()
        self._started = time.monotonic()
        self._builders = BuildExecutor(slots)
        # Builders of this worker are paused while a kernel is timed on the CPU.
        self._gate = HostGate(self._builders.pool)
        self._devices = {
            one.key: DeviceExecutor(one, self._gate if one.kind == "cpu" else None)
            for one in self.facts.devices
        }
        self._intake = ThreadPoolExecutor(2, "autotune-intake")

    def answer(self, message: Mapping[str, object]) -> Future[dict[str, object]]:
        """Start what a message requests; the answer is a message as well."""
        replied: Future[dict[str, object]] = Future()

        def tell(done: Future[Answer]) -> None:
            answer: Answer = Unable("its client has cancelled it")
            if not done.cancelled():
                answer = done.result()
            with suppress(InvalidStateError):  # the client is gone
                replied.set_result(answer_to_plain(answer))

        try:
            ask = ask_of(message)
            promised = self._done(ask)
        except Exception as error:  # a border between hosts: the client sees what happened
            promised = _now(_unable(error))
        promised.add_done_callback(tell)
        return replied

    def _done(self, ask: object) -> Future[Answer]:
        match ask:
            case Build():
                return self._build(ask)
            case Run():
                return self._run(ask)
            case FileChunk():
                self._store.add_chunk(ask.transfer, ask.name, ask.start, ask.total, ask.data)
                return _now(Received())
            case Facts():
                return _now(Data({"facts": self.facts.to_json(), **self.state()}))
            case Forget():
                for executor in (self._builders, *self._devices.values()):
                    executor.forget(ask.client)
                return _now(Received())
        raise FleetError(f"nothing to be done: {ask!r}")

    def _build(self, ask: Build) -> Future[Answer]:
        if not self.facts.builders:
            return _now(Unable("this worker has no builders", for_good=True))
        promised = self._builders.put(ask)
        if self._devices:
            promised.add_done_callback(self._keep)
        return promised

    def _keep(self, ended: Future[Answer]) -> None:
        """Store an artifact that was compiled here, since it may run here next."""
        if ended.cancelled():
            return
        match ended.result():
            case Built(artifact=data, suffix=suffix) if data:
                try:
                    self._store.add(content_digest(data) + suffix, data)
                except OSError as error:
                    logger.warning("what was compiled is not kept here: %s", error)

    def _run(self, ask: Run) -> Future[Answer]:
        executor = self._devices.get(ask.device)
        if executor is None:
            known = ", ".join(self._devices) or "none"
            reason = f"there is no device {ask.device} here; devices: {known}"
            return _now(Unable(reason, for_good=True))
        wanted = [file_name(name) for name in files_of(ask.job)]
        self._store.hold(wanted)
        try:
            for name, data in ask.files.items():
                self._store.add(name, data)
            if any(self._store.path(name) is None for name in wanted):
                return self._after_intake(ask, executor, wanted)
            return self._queued(ask, executor, wanted)
        except BaseException:
            self._store.release(wanted)
            raise

    def _queued(self, ask: Run, executor: DeviceExecutor, wanted: list[str]) -> Future[Answer]:
        """Queue a job whose files are held, and release them when it has run."""
        promised = executor.put(ask, relocate(ask.job, self._found))
        promised.add_done_callback(lambda _: self._store.release(wanted))
        return promised

    def _found(self, name: str) -> str:
        path = self._store.path(name)
        if path is None:
            raise FleetError(f"file {name[:16]} is gone")
        return path

    def _after_intake(
        self, ask: Run, executor: DeviceExecutor, wanted: list[str]
    ) -> Future[Answer]:
        """Create the input files that can be created here, in a thread, then run the job."""
        promised: Future[Answer] = Future()

        def go_on(taken: Future[tuple[str, ...]]) -> None:
            try:
                missing = taken.result()
                if not missing:
                    forward(self._queued(ask, executor, wanted), promised)
                    return
                answer: Answer = Missing(missing)
            except (Exception, CancelledError) as error:  # the client must get an answer
                answer = _unable(error)
            self._store.release(wanted)
            promised.set_result(answer)

        self._intake.submit(self._taken_in, ask, executor, wanted).add_done_callback(go_on)
        return promised

    def _taken_in(self, ask: Run, executor: DeviceExecutor, wanted: list[str]) -> tuple[str, ...]:
        """Create the input files that can be created here; return the names of missing files."""
        with self._work(executor):
            self._make_inputs(ask)
        return tuple(name for name in wanted if self._store.path(name) is None)

    def _work(self, executor: DeviceExecutor) -> AbstractContextManager[object]:
        return self._gate.work() if executor.facts.kind == "cpu" else nullcontext()

    def _make_inputs(self, ask: Run) -> None:
        """Draw random inputs from their seed; store only those equal to the client's."""
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
                    except FleetError:  # another version of numpy: the client will send its own
                        return

    def state(self) -> dict[str, object]:
        """Return the current state: waiting and ended jobs of each executor, rates, failures."""
        executors = {"builders": self._builders, **self._devices}
        return {
            "up_s": time.monotonic() - self._started,
            "stored_bytes": self._store.bytes,
            "places": {
                key: {
                    "waiting": executor.waiting,
                    "done": executor.done,
                    "failed": executor.failed,
                    "rate": executor.rate,
                    "overdue_s": executor.overdue_s,
                }
                for key, executor in executors.items()
            },
        }

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes that compile and that own devices."""
        owned = [pid for executor in self._devices.values() if (pid := executor.pid) is not None]
        return [*self._builders.pool.pids, *owned]

    def close(self) -> None:
        """End all processes, answer waiting jobs by `Unable`, and remove all files."""
        for executor in (*self._devices.values(), self._builders):
            executor.close()
        self._intake.shutdown(wait=False, cancel_futures=True)
        self._store.close()


def _unable(error: BaseException) -> Unable:
    """Return the answer to a request that failed through no fault of the trial."""
    if isinstance(error, (AutotuneError, OSError, MemoryError, CancelledError)):
        return Unable(f"{type(error).__name__}: {error}")
    return Unable(error_text(error))


def _now(answer: Answer) -> Future[Answer]:
    future: Future[Answer] = Future()
    future.set_result(answer)
    return future
