"""The processes that compile for one builder, and the blame for their crashes."""

from __future__ import annotations

import logging
import queue
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from autotune.errors import CompilerMissing
from autotune.measure.batcher import JOIN_S
from autotune.measure.build.job import BuildJob, BuildReply, Compiled, NotCompiled, reply_of
from autotune.measure.process.blame import (
    Attempts,
    OutOfMemoryWatch,
    killed_from_outside,
    means_disk_full,
)
from autotune.measure.process.pending import Pending
from autotune.measure.process.scratch import Scratch
from autotune.measure.process.worker import StartFailed, Worker
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureResult
from autotune.runtime.compile.compilers import GIVE_TIME
from autotune.target.backends import of_language
from autotune.utils import environment
from autotune.utils.children import ChildDied, ChildTimeout
from autotune.workload import Reference

logger = logging.getLogger("autotvm")

_MODULE = "autotune.measure.build.worker"
# Compiling needs neither arrays nor code generation, whose imports take longer than a compilation.
BARE = tuple(
    f"autotune.{name}" for name in ("measure", "runtime", "kernel", "codegen", "emulator")
)

Built = BuildResult | MeasureResult


@dataclass(frozen=True)
class Order:
    """One requested compilation.

    Attributes:
        job: what a worker is sent.
        timeout_s: seconds until the worker is killed over it; neither pauses nor waits for a
            processor count.
        reference: how the right answer comes about; it stays here, and goes into the result.
    """

    job: BuildJob
    timeout_s: float
    reference: Reference


class AnyBuildPool(Protocol):
    """The processes that compile for a builder: of this host (`BuildPool`), or of others."""

    @property
    def folder(self) -> str:
        """The folder for artifacts."""

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers of this host that live."""

    def put(
        self, job: BuildJob, timeout_s: float, future: Future[Built], reference: Reference
    ) -> None:
        """Queue a job."""

    def pause(self) -> None:
        """Let no work be done on this host."""

    def resume(self) -> None:
        """End a pause."""

    def close(self) -> None:
        """Cancel what was not done, and remove the folder."""

    def end(self) -> None:
        """Close for good."""


class BuildPool:
    """The worker processes of one builder, a thread each, and the folder of its artifacts.

    A worker that cannot be started leaves, and the others do its work. When the last one left, all
    work fails with the reason.

    Args:
        size: most workers.
        tmp_dir: where the folder is made; by default where the system keeps such.
    """

    def __init__(self, size: int, tmp_dir: str | None) -> None:
        self._size = size
        self._scratch = Scratch("build", tmp_dir)
        self._orders: queue.SimpleQueue[Pending[Order] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._workers: list[Worker[BuildReply]] = []
        # Held while a process is started and, from another thread, during a pause.
        self._starting = threading.Lock()
        self._paused_at = 0.0
        self._paused_s = 0.0
        self._memory = OutOfMemoryWatch()
        self._changing = threading.Lock()
        self._serving = 0
        self._lost: StartFailed | None = None
        self._over = False

    @property
    def folder(self) -> str:
        """The folder for artifacts and for the compilers' own temporary files."""
        return str(self._scratch.path)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that live."""
        return [pid for worker in self._workers if (pid := worker.pid) is not None]

    def put(
        self, job: BuildJob, timeout_s: float, future: Future[Built], reference: Reference
    ) -> None:
        """Queue a job, and start one more worker if fewer than the limit run."""
        pending = Pending(Order(job, timeout_s, reference), future)
        with self._changing:
            if self._over:
                pending.drop()
                return
            if self._lost is not None:
                pending.fail(self._lost)
                return
            self._orders.put(pending)
            if len(self._threads) < self._size:
                self._add_worker()

    def _add_worker(self) -> None:
        # The folder of temporary files goes with the run; a cache that is among them must not.
        cache, temporary = environment.cache_dir(), self._scratch.folder("tmp")
        variables = {"TMPDIR": str(temporary), "AUTOTUNE_CACHE_DIR": str(cache)}
        worker = Worker(_MODULE, {}, reply_of, self._starting, variables, BARE)
        thread = threading.Thread(target=self._serve, args=(worker,), daemon=True)
        self._workers.append(worker)
        self._threads.append(thread)
        self._serving += 1
        thread.start()

    def _serve(self, worker: Worker[BuildReply]) -> None:
        while (pending := self._orders.get()) is not None:
            lost = pending.run(partial(self._built, worker))
            if lost is not None:
                self._leave(pending, lost)
            # Who waited for it may be the last to know of this pool, which then ends.
            del pending
            if lost is not None:
                break
        worker.close()

    def _leave(self, pending: Pending[Order], error: StartFailed) -> None:
        """Go without a worker, or without any."""
        with self._changing:
            self._serving -= 1
            if self._serving:
                self._orders.put(pending)
                some = f"{self._serving} worker{'s' if self._serving > 1 else ''}"
                logger.warning("compiling goes on with %s: %s", some, error)
                return
            self._lost = error
        pending.fail(error)
        for waiting in self._take_waiting():
            waiting.fail(error)

    def _built(self, worker: Worker[BuildReply], order: Order) -> BuildResult:
        """Compile; repeat a compilation that was killed or had no space.

        Compilers are child processes of a worker. If either dies for another reason than the
        source, the job is rarely to blame; see `autotune.measure.process.blame`.

        Raises:
            StartFailed: no worker could be started.
            WorkerEnded: the pool is being closed.
            MeasureError: the disk stays full.
        """
        attempts = Attempts(self._memory)
        while True:
            worker.start()
            started = time.perf_counter() - self.paused_s()
            reply = self._ask(worker, order)
            if isinstance(reply, Compiled) or reply.reason != "crashed":
                break
            if self._is_to_blame(attempts, reply):
                reply = replace(reply, message=attempts.verdict(reply.message))
                break
            worker.rest(attempts.pause_s)
        seconds = time.perf_counter() - self.paused_s() - started
        return _result(order, reply, seconds)

    def _is_to_blame(self, attempts: Attempts, crash: NotCompiled) -> bool:
        """Record a crash; return whether the job is to blame for it.

        Raises:
            MeasureError: the disk stays full.
        """
        full = self._scratch.lacks_room()
        if full is None and not means_disk_full(crash.message):
            return attempts.record_kill() if crash.killed else attempts.record_crash()
        if not attempts.record_shortage():
            return False
        if full is not None:
            raise full
        return True  # it alone takes more than there is

    def _ask(self, worker: Worker[BuildReply], order: Order) -> BuildReply:
        try:
            return worker.ask(order.job, order.timeout_s, paused_s=self.paused_s)
        except ChildTimeout:
            limit = f"{order.timeout_s:g} s"
            message = f"compiling took longer than {limit} and was killed; {GIVE_TIME}"
            return NotCompiled("timeout", message)
        except ChildDied as error:
            message = f"the process that compiled died: {error}"
            return NotCompiled("crashed", message, killed_from_outside(error.exit_code))

    def paused_s(self) -> float:
        """Return the seconds of pauses so far; a running one counts as it goes."""
        at = self._paused_at
        return self._paused_s + (time.perf_counter() - at if at else 0.0)

    def pause(self) -> None:
        """Suspend all workers and compilers."""
        self._starting.acquire()
        for worker in self._workers:
            worker.pause()
        self._paused_at = time.perf_counter()

    def resume(self) -> None:
        """Let them go on."""
        self._paused_s += time.perf_counter() - self._paused_at
        self._paused_at = 0.0
        for worker in self._workers:
            worker.resume()
        self._starting.release()

    def close(self) -> None:
        """Kill the workers, cancel what was not done, and remove the folder."""
        threads, self._threads = self._threads, []
        workers, self._workers = self._workers, []
        for waiting in self._take_waiting():
            waiting.drop()
        for _ in threads:
            self._orders.put(None)
        for worker in workers:
            worker.end()
        deadline = time.monotonic() + JOIN_S
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        # What was put back meanwhile.
        for waiting in self._take_waiting():
            waiting.drop()
        self._orders = queue.SimpleQueue()
        self._serving, self._lost = 0, None
        self._scratch.remove()

    def end(self) -> None:
        """Close for good: what is put from now on is cancelled, and starts nothing.

        Takes no lock: a thread that holds one may be the one that collects the garbage.
        """
        self._over = True
        self.close()
        self._scratch.end()

    def _take_waiting(self) -> list[Pending[Order]]:
        """Remove all work from the queue that has not begun, and return it."""
        taken: list[Pending[Order]] = []
        while True:
            try:
                pending = self._orders.get_nowait()
            except queue.Empty:
                return taken
            if pending is not None:
                taken.append(pending)


def _result(order: Order, reply: BuildReply, seconds: float) -> BuildResult:
    kernel = order.job.kernel
    if isinstance(reply, Compiled):
        return BuildResult(
            artifact=reply.artifact,
            kernel=kernel,
            resources=dict(reply.resources),
            time_cost=seconds,
            code_hash=reply.code_hash,
            reference=order.reference,
        )
    if reply.reason == "missing":
        raise CompilerMissing(reply.message)
    on_gpu = of_language(kernel.language).on_gpu
    refused = MeasureErrorNo.COMPILE_DEVICE if on_gpu else MeasureErrorNo.COMPILE_HOST
    numbers = {
        "timeout": MeasureErrorNo.BUILD_TIMEOUT,
        "refused": refused,
        "crashed": refused,
    }
    return BuildResult(
        artifact="",
        kernel=kernel,
        error_no=numbers.get(reply.reason, MeasureErrorNo.UNKNOWN_ERROR),
        error_msg=reply.message,
        time_cost=seconds,
        reference=order.reference,
    )
