"""Building on this machine, in processes that can be killed."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal

from autotune.errors import CompilerMissing, MeasureError
from autotune.kernel import Kernel
from autotune.measure.arguments import check_number, check_timeout
from autotune.measure.base import Builder, runs_on_host, target_of
from autotune.measure.build_job import BuildJob
from autotune.measure.realise import realise
from autotune.measure.scratch import Scratch
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult
from autotune.measure.worker import Worker
from autotune.runtime.toolchain import host_toolchain, nvcc_toolchain
from autotune.task import Task
from autotune.utils.children import ChildDied, ChildTimeout

_MODULE = "autotune.measure.build_worker"
# Compiling needs neither arrays nor code generation, whose imports take longer than a compilation.
_BARE = tuple(
    f"autotune.{name}" for name in ("measure", "runtime", "kernel", "codegen", "codegen.emulator")
)
# A compiler is killed by its worker; the worker itself is killed when it does not manage that.
_GRACE_S = 2.0
# Pauses do not count as compiling, but the worker's own clock does not know of them.
_PAUSE_SLACK = 4.0

_Job = tuple[Kernel, str, "Future[BuildResult | MeasureResult]"]


class LocalBuilder(Builder):
    """Builds candidates on this machine.

    The template runs and is lowered in the caller's process and thread; compiling happens in
    ``n_parallel`` worker processes, started on first use and kept. What compiled once is found in
    the cache on disk.

    Args:
        timeout: seconds one compilation may take; it is then killed with all it started.
        n_parallel: worker processes; by default one a core.
        build_kwargs: accepted for AutoTVM scripts; limits are read from the target itself.
        build_func: ``"default"``.
        do_fork: accepted for AutoTVM scripts; workers are never forked.
        runtime: accepted for AutoTVM scripts.
        compiler: of CUDA kernels, ``"nvcc"`` or ``"nvrtc"``.
        cache: False compiles everything anew and remembers nothing.
        tmp_dir: where artifacts are kept while they are measured; by default a new folder where
            the system keeps such, removed by `close`.

    Raises:
        MeasureError: an argument is out of range.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: dict[str, Any] | None = None,
        build_func: str = "default",
        do_fork: bool = False,
        runtime: object = None,
        compiler: Literal["nvcc", "nvrtc"] = "nvcc",
        cache: bool = True,
        tmp_dir: str | None = None,
    ) -> None:
        _check(timeout, n_parallel, build_func, compiler)
        super().__init__(timeout, n_parallel)
        self.user_build_kwargs = dict(build_kwargs or {})
        self.compiler = compiler
        self.cache = cache
        self._pool = _Pool(self.n_parallel, tmp_dir)
        # Scripts never close builders; the pool must then end with the builder.
        weakref.finalize(self, self._pool.close)

    def set_task(self, task: Task, build_kwargs: dict[str, Any] | None = None) -> None:
        """Prepare for a task.

        Raises:
            CompilerMissing: nothing here compiles for the task's target.
        """
        super().set_task(task, {**(build_kwargs or {}), **self.user_build_kwargs})
        if runs_on_host(target_of(task)):
            host_toolchain()
        elif self.compiler == "nvcc":
            nvcc_toolchain()

    def submit(self, measure_input: MeasureInput) -> Future[BuildResult | MeasureResult]:
        """Run the template now, and queue what it gives for compiling."""
        kernel = realise(measure_input)
        future: Future[BuildResult | MeasureResult] = Future()
        if isinstance(kernel, BuildResult):
            future.set_result(kernel)
        else:
            pausable = runs_on_host(measure_input.target)
            job = BuildJob(
                kernel=kernel,
                target=str(measure_input.target),
                timeout_s=self.timeout * (_PAUSE_SLACK if pausable else 1),
                compiler=self.compiler,
                out_dir=self._pool.folder,
                use_cache=self.cache,
            )
            self._pool.put(job, self.timeout + (0 if pausable else _GRACE_S), future)
        return future

    def build(
        self, measure_inputs: Sequence[MeasureInput]
    ) -> Sequence[BuildResult | MeasureResult]:
        """Build a batch and wait for it."""
        return [future.result() for future in [self.submit(inp) for inp in measure_inputs]]

    def discard(self, build_result: BuildResult) -> None:
        """Remove an artifact; a long run would fill the disk otherwise."""
        with contextlib.suppress(OSError):
            os.unlink(build_result.artifact)

    def pause(self) -> None:
        """Stop all compiling where it stands."""
        self._pool.pause()

    def resume(self) -> None:
        """Go on compiling."""
        self._pool.resume()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that live; each leads a process group."""
        return self._pool.pids

    def close(self) -> None:
        """Kill the workers and remove the artifacts; the next `submit` starts anew."""
        super().close()
        self._pool.close()


def _check(timeout: float, n_parallel: int | None, build_func: str, compiler: str) -> None:
    check_timeout("LocalBuilder", timeout)
    if n_parallel is not None:
        check_number("LocalBuilder", "n_parallel", n_parallel, 1, whole=True)
    if build_func != "default":
        raise MeasureError(
            f"LocalBuilder: build_func must be 'default', got {build_func!r}; kernels are built "
            "as shared objects or cubins only"
        )
    if compiler not in ("nvcc", "nvrtc"):
        raise MeasureError(f"LocalBuilder: compiler must be nvcc or nvrtc, got {compiler!r}")


class _Pool:
    """The worker processes of one builder, a thread each, and the folder of its artifacts."""

    def __init__(self, size: int, tmp_dir: str | None) -> None:
        self._size = size
        self._scratch = Scratch("build", tmp_dir)
        self._jobs: queue.SimpleQueue[tuple[BuildJob, float, Any] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._workers: list[Worker] = []
        # Held by whoever starts a process and, from another thread, during a pause.
        self._starting = threading.Lock()
        self._paused_at = 0.0
        self._paused_s = 0.0

    @property
    def folder(self) -> str:
        """The folder for artifacts and for the compilers' own temporary files."""
        return str(self._scratch.path)

    @property
    def pids(self) -> list[int]:
        return [pid for worker in self._workers if (pid := worker.pid) is not None]

    def put(
        self, job: BuildJob, timeout_s: float, future: Future[BuildResult | MeasureResult]
    ) -> None:
        """Queue a job, and start one more worker if there is room for one."""
        self._jobs.put((job, timeout_s, future))
        if len(self._threads) < self._size:
            scratch = str(Path(self.folder, "tmp"))
            Path(scratch).mkdir(exist_ok=True)
            worker = Worker(_MODULE, {}, self._starting, {"TMPDIR": scratch}, _BARE)
            thread = threading.Thread(target=self._serve, args=(worker,), daemon=True)
            self._workers.append(worker)
            self._threads.append(thread)
            thread.start()

    def _serve(self, worker: Worker) -> None:
        while (entry := self._jobs.get()) is not None:
            job, timeout_s, future = entry
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._built(worker, job, timeout_s))
            except BaseException as error:  # handed to whoever waits for the result
                future.set_exception(error)
        worker.close()

    def _built(self, worker: Worker, job: BuildJob, timeout_s: float) -> BuildResult:
        started = time.perf_counter() - self._paused()
        try:
            worker.start()
            started = time.perf_counter() - self._paused()
            reply = self._asked(worker, job, timeout_s)
        except ChildTimeout:
            message = f"compiling took longer than {timeout_s:g} s and was killed"
            reply = {"error": "timeout", "message": message}
        except ChildDied as error:
            reply = {"error": "compile", "message": f"the process that compiled died: {error}"}
        return _result(job, reply, time.perf_counter() - self._paused() - started)

    def _asked(self, worker: Worker, job: BuildJob, timeout_s: float) -> dict[str, Any]:
        """Ask a worker; compilers run beside it, so when it dies the job is rarely to blame."""
        try:
            return worker.ask(job, timeout_s, paused_s=self._paused)
        except ChildDied:
            return worker.ask(job, timeout_s, paused_s=self._paused)

    def _paused(self) -> float:
        """Seconds of pauses so far; a running one counts as it goes."""
        at = self._paused_at
        return self._paused_s + (time.perf_counter() - at if at else 0.0)

    def pause(self) -> None:
        self._starting.acquire()
        for worker in self._workers:
            worker.pause()
        self._paused_at = time.perf_counter()

    def resume(self) -> None:
        self._paused_s += time.perf_counter() - self._paused_at
        self._paused_at = 0.0
        for worker in self._workers:
            worker.resume()
        self._starting.release()

    def close(self) -> None:
        threads, self._threads = self._threads, []
        workers, self._workers = self._workers, []
        self._cancel_waiting()
        for _ in threads:
            self._jobs.put(None)
        for worker in workers:
            worker.end()
        for thread in threads:
            thread.join()
        self._jobs = queue.SimpleQueue()
        self._scratch.remove()

    def _cancel_waiting(self) -> None:
        while True:
            try:
                entry = self._jobs.get_nowait()
            except queue.Empty:
                return
            if entry is not None:
                entry[2].cancel()


def _result(job: BuildJob, reply: dict[str, Any], seconds: float) -> BuildResult:
    kind = reply.get("error")
    if kind is None:
        return BuildResult(
            artifact=str(reply["artifact"]),
            kernel=job.kernel,
            resources=dict(reply["resources"]),
            time_cost=seconds,
            code_hash=str(reply["code_hash"]),
        )
    if kind == "missing":
        raise CompilerMissing(reply["message"])
    cuda = job.kernel.language == "cuda"
    numbers = {
        "timeout": MeasureErrorNo.BUILD_TIMEOUT,
        "compile": MeasureErrorNo.COMPILE_DEVICE if cuda else MeasureErrorNo.COMPILE_HOST,
    }
    return BuildResult(
        artifact="",
        kernel=job.kernel,
        error_no=numbers.get(kind, MeasureErrorNo.UNKNOWN_ERROR),
        error_msg=str(reply["message"]),
        time_cost=seconds,
    )
