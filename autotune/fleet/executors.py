"""The executors of one worker: one that compiles, and one for each device."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from autotune.errors import AutotuneError, CompilerMissing
from autotune.fleet.capabilities import DeviceFacts
from autotune.fleet.fair_queue import FairQueue
from autotune.fleet.headers import unpack_headers
from autotune.fleet.messages import Answer, AnyJob, Build, Built, Done, Run, Sender, Unable
from autotune.measure.build.pool import BuildPool
from autotune.measure.exclusive.devices import device_lock
from autotune.measure.process.scratch import Scratch
from autotune.measure.run.device_process import CoolDown, LocalDeviceProcess
from autotune.measure.run.host_gate import HostGate
from autotune.measure.run.jobs import WorkerSetup
from autotune.measure.run.replies import Ran, to_json
from autotune.measure.types import BuildResult, MeasureResult
from autotune.target import Target
from autotune.utils.child import error_text
from autotune.workload import NoReference

# The time over which the rate of an executor is taken.
_MINUTE_S = 60.0
_JOIN_S = 5.0
# A job is overdue after so many times its timeout, as it may be repeated, and so many seconds for
# processes to start.
_TIMES, _START_S = 2.0, 60.0

Work = Callable[[], Answer]
_Entry = tuple[Work, "Future[Answer]", float]


class Executor(ABC):
    """A queue of jobs and the threads that run them; clients share the time by weight.

    A job that cannot be started is answered by `Unable`: its trial is not to blame.

    Args:
        threads: how many jobs run at once.

    Attributes:
        done, failed: the number of answered jobs, and how many of them failed.
    """

    def __init__(self, threads: int) -> None:
        self._line: FairQueue[_Entry] = FairQueue()
        self.done = self.failed = 0
        self._ends: deque[float] = deque(maxlen=10_000)
        # By thread: when the job that it runs is overdue, on a clock that stops during pauses.
        self._due: dict[int, float] = {}
        self._counting = threading.Lock()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """The number of jobs that wait or run."""
        return len(self._line) + len(self._due)

    @property
    def overdue_s(self) -> float:
        """Seconds by which a job that runs exceeds its limit; 0 if none does."""
        now = time.monotonic() - self._paused_s()
        return max([0.0, *(now - due for due in list(self._due.values()))])

    def _paused_s(self) -> float:
        """Return the seconds so far in which no job could go on; they count for no limit."""
        return 0.0

    @property
    def rate(self) -> float:
        """Recent jobs per second."""
        since = time.monotonic() - _MINUTE_S
        return sum(end > since for end in list(self._ends)) / _MINUTE_S

    def _put(self, sender: Sender, work: Work, timeout_s: float) -> Future[Answer]:
        future: Future[Answer] = Future()
        self._line.put(sender.client, sender.weight, (work, future, timeout_s))
        return future

    def _serve(self) -> None:
        while (taken := self._line.take()) is not None:
            (work, future, timeout_s), charge = taken
            if not future.set_running_or_notify_cancel():
                continue
            started, thread = time.monotonic(), threading.get_ident()
            with self._counting:
                self._due[thread] = started - self._paused_s() + _TIMES * timeout_s + _START_S
            answer = _guarded(work)
            charge(time.monotonic() - started)
            with self._counting:
                del self._due[thread]
                self.done += 1
                self.failed += not _good(answer)
            self._ends.append(time.monotonic())
            with suppress(InvalidStateError):  # the executor was closed meanwhile
                future.set_result(answer)

    def forget(self, client: str) -> None:
        """Drop all waiting jobs of a client."""
        for _, future, _ in self._line.drop(client):
            future.cancel()

    @abstractmethod
    def end(self) -> None:
        """Kill the processes of running jobs."""

    def close(self) -> None:
        """End all threads and processes; waiting jobs are answered by `Unable`."""
        for _, future, _ in self._line.close():
            if future.set_running_or_notify_cancel():
                future.set_result(Unable("the worker is being closed"))
        self.end()
        for thread in self._threads:
            thread.join(_JOIN_S)


def _guarded(work: Work) -> Answer:
    try:
        return work()
    except CancelledError:
        return Unable("the worker is being closed")
    except CompilerMissing as error:
        return Unable(str(error), for_good=True)
    except (AutotuneError, OSError, MemoryError) as error:
        return Unable(f"{type(error).__name__}: {error}")
    except Exception as error:  # a border between hosts: the client sees what happened
        return Unable(error_text(error))


def _good(answer: Answer) -> bool:
    match answer:
        case Done(reply=reply):
            return reply["reply"] not in ("Failed", "Died")
        case Built():
            return not answer.error_no
        case _:
            return False


class BuildExecutor(Executor):
    """Compiles kernels, several at once.

    Args:
        builders: how many processes compile at the same time.

    Attributes:
        pool: the processes.
    """

    def __init__(self, builders: int) -> None:
        self.pool = BuildPool(max(1, builders), None)
        self._headers = Scratch("headers")
        super().__init__(builders)

    def put(self, ask: Build) -> Future[Answer]:
        """Queue a compilation."""
        return self._put(ask.sender, lambda: self._built(ask), ask.timeout_s)

    def _built(self, ask: Build) -> Answer:
        kernel = ask.job.kernel
        if ask.headers:
            kernel = unpack_headers(ask.headers, kernel, self._headers.path)
        job = replace(ask.job, kernel=kernel, out_dir=self.pool.folder)
        promised: Future[BuildResult | MeasureResult] = Future()
        self.pool.put(job, ask.timeout_s, promised, NoReference())
        result = promised.result()
        assert isinstance(result, BuildResult)
        artifact = Path(result.artifact).read_bytes() if result.artifact else b""
        if result.artifact:
            os.unlink(result.artifact)
        return Built(
            artifact=artifact,
            suffix=os.path.splitext(result.artifact)[1],
            resources=result.resources,
            error_no=int(result.error_no),
            error_msg=result.error_msg,
            time_cost=result.time_cost,
            code_hash=result.code_hash,
        )

    def _paused_s(self) -> float:
        """Return the seconds so far in which kernels were timed on the CPU."""
        return self.pool.paused_s()

    def end(self) -> None:
        """Kill the processes that compile."""
        self.pool.close()
        self._headers.remove()


class DeviceExecutor(Executor):
    """Runs jobs on one device, one at a time, in the process that owns the device.

    Args:
        facts: the description of the device.
        gate: pauses the builders of this worker while a kernel is timed on the CPU.
    """

    def __init__(self, facts: DeviceFacts, gate: HostGate | None) -> None:
        self.facts = facts
        self._gate = gate
        self._scratch = Scratch("run")
        self._process: LocalDeviceProcess | None = None
        self._memory_bytes = 0
        self._over = False
        # Seconds that its process waited for other programs until the present job began.
        self._waited_s = 0.0
        # Seconds that the device was used in all and by each client; the client that uses it now.
        self._used_s = 0.0
        self._used_by: defaultdict[str, float] = defaultdict(float)
        self._user: tuple[str, float] | None = None
        super().__init__(1)

    @property
    def pid(self) -> int | None:
        """Process id of the process that owns the device; None while there is no process."""
        return None if self._process is None else self._process.pid

    @property
    def overdue_s(self) -> float:
        """See `Executor.overdue_s`; waiting for other programs is no part of it."""
        process = self._process
        waited_s = 0.0 if process is None else process.waited_s - self._waited_s
        return max(0.0, super().overdue_s - waited_s)

    def put(self, ask: Run, job: AnyJob) -> Future[Answer]:
        """Queue a job whose files are all on this worker."""
        client, arrived = ask.sender.client, time.monotonic()
        before_s = self._others_s(client, arrived)

        def done() -> Answer:
            begins = time.monotonic()
            others_s = max(0.0, self._others_s(client, begins) - before_s)
            self._user = client, begins
            try:
                return self._done(ask, job, others_s, max(0.0, begins - arrived - others_s))
            finally:
                self._user = None
                used_s = time.monotonic() - begins
                self._used_s += used_s
                self._used_by[client] += used_s

        return self._put(ask.sender, done, ask.cooldown_s + job.timeout_s)

    def _others_s(self, client: str, now: float) -> float:
        """Return how many seconds clients other than this one have used the device so far."""
        user = self._user
        present_s = now - user[1] if user is not None and user[0] != client else 0.0
        return self._used_s - self._used_by[client] + present_s

    def forget(self, client: str) -> None:
        """Drop all waiting jobs of a client; see `Executor.forget`."""
        super().forget(client)
        self._used_by.pop(client, None)

    def _done(self, ask: Run, job: AnyJob, others_s: float, queued_s: float) -> Answer:
        process = self._owner(ask)
        process.start()
        before, self._waited_s = process.busy_s, process.waited_s
        reply = process.run(job)
        others_s += process.waited_s - self._waited_s
        rest_s = process.busy_s - before if isinstance(reply, Ran) else 0.0
        CoolDown(ask.cooldown_s).after(rest_s)
        return Done(to_json(reply), others_s, queued_s)

    def _owner(self, ask: Run) -> LocalDeviceProcess:
        """Return the process of the device, with the limit on memory that the client wants."""
        cpu = self.facts.kind == "cpu"
        memory_bytes = ask.memory_bytes if cpu else 0
        if self._process is None or memory_bytes != self._memory_bytes:
            if self._process is not None:
                self._process.close()
            self._process = self._made(memory_bytes)
            self._memory_bytes = memory_bytes
        if self._over:
            self._process.end()
        return self._process

    def _made(self, memory_bytes: int) -> LocalDeviceProcess:
        cpu = self.facts.kind == "cpu"
        target = "c" if cpu else str(Target(f"cuda -arch={self.facts.arch}"))
        index = self.facts.index
        lock = device_lock(Target(target), index)
        setup = WorkerSetup(target, index, cpu, memory_bytes, lock=lock)
        return LocalDeviceProcess(setup, self._gate, str(self._scratch.path))

    def end(self) -> None:
        """Kill the process that owns the device."""
        self._over = True
        if self._process is not None:
            self._process.end()

    def close(self) -> None:
        """End the threads and the device's process; see `Executor.close`."""
        super().close()
        if self._process is not None:
            self._process.close()
        self._scratch.remove()
