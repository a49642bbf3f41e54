"""Building on this machine, in processes that can be killed."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import get_args

from autotune.errors import MeasureError
from autotune.measure.build.job import BuildJob
from autotune.measure.build.pool import AnyBuildPool, BuildPool
from autotune.measure.build.realise import Realised, realise
from autotune.measure.interfaces import Builder, runs_on_host, takes_batches, target_of
from autotune.measure.types import (
    BuildResult,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    NamesTrial,
    as_trial,
)
from autotune.runtime.compile.cpu_flags import cpu_flags
from autotune.runtime.compile.toolchain import host_toolchain, nvcc_toolchain
from autotune.target.backends import Compiler
from autotune.utils import environment
from autotune.utils.check import Check
from autotune.workload import Workload

logger = logging.getLogger("autotvm")

# A compiler is killed by its worker; the worker itself is killed when it does not manage that.
_GRACE_S = 2.0
# Pauses do not count as compiling, but the worker's own clock does not know of them.
_PAUSE_SLACK = 4.0


class LocalBuilder(Builder):
    """Builds candidates on this machine.

    The template runs, and is lowered, in the caller's process and thread. Kernels are compiled in
    ``n_parallel`` worker processes, which are started on first use and kept. A kernel that was
    compiled before is taken from the cache on disk.

    Args:
        timeout: seconds that one compilation may take, at work or hanging; then it is killed with
            its subprocesses. On a busy host, seconds in which it is ready to run but gets no
            processor count a thirtieth (on Linux, where this is known).
        n_parallel: worker processes; by default one per core.
        build_kwargs: accepted for AutoTVM scripts; limits are read from the target itself.
        build_func: ``"default"``.
        do_fork: accepted for AutoTVM scripts; workers are never forked.
        runtime: accepted for AutoTVM scripts.
        compiler: of CUDA kernels, ``"nvcc"`` or ``"nvrtc"``.
        cache: whether the cache on disk is used.
        tmp_dir: folder for artifacts while they are measured; by default a new folder of the
            system's for temporary files, which `close` removes.

    Raises:
        MeasureError: an argument is out of range.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: dict[str, object] | None = None,
        build_func: str = "default",
        do_fork: bool = False,
        runtime: object = None,
        compiler: Compiler = "nvcc",
        cache: bool = True,
        tmp_dir: str | None = None,
    ) -> None:
        check = Check(MeasureError, "LocalBuilder")
        check.seconds("timeout", timeout, endless=True)
        if n_parallel is not None:
            check.whole("n_parallel", n_parallel, least=1)
        if build_func != "default":
            why = "; kernels are built as shared objects or cubins only"
            check.refuse("build_func", "'default'", build_func, why)
        check.one_of("compiler", compiler, get_args(Compiler))
        check.kind("build_kwargs", build_kwargs or {}, Mapping, "a dict")
        check.flag("cache", cache)
        if tmp_dir is not None:
            check.path("tmp_dir", tmp_dir)
        super().__init__(timeout, n_parallel)
        self.user_build_kwargs = dict(build_kwargs or {})
        self.compiler = compiler
        self.cache = cache
        # What the input gave that `refusal` was asked about last.
        self._realised: tuple[MeasureInput, Realised | BuildResult] | None = None
        self._pool = self._open_pool(tmp_dir)
        # Scripts never close builders; the pool must then end with the builder, or the program.
        weakref.finalize(self, self._pool.end)

    def _open_pool(self, tmp_dir: str | None) -> AnyBuildPool:
        """Return what compiles for this builder."""
        return BuildPool(self.n_parallel, tmp_dir)

    @property
    def mixes_tasks(self) -> bool:
        """Whether builds of several tasks may be under way at once: unless a script forbids it.

        A subclass with a `set_task` or `build` of its own may rely on what the former was called
        with last.
        """
        own = takes_batches(self, LocalBuilder, "build")
        return type(self).set_task is LocalBuilder.set_task and not own

    def set_task(self, task: Workload, build_kwargs: dict[str, object] | None = None) -> None:
        """Prepare for a task.

        Raises:
            CompilerMissing: nothing here compiles for the task's target.
            TargetError: it names a CPU whose code does not run here.
        """
        super().set_task(task, {**(build_kwargs or {}), **self.user_build_kwargs})
        if self.cache and (refused := environment.refused_cache()):
            _warn(refused)
        if runs_on_host(target_of(task)):
            cpu_flags(host_toolchain(), target_of(task))
        elif self.compiler == "nvcc":
            nvcc_toolchain()

    def refusal(self, measure_input: MeasureInput) -> BuildResult | None:
        """Run the template now; a following `submit` of the same input does not run it again."""
        outcome = realise(measure_input)
        self._realised = (measure_input, outcome)
        if isinstance(outcome, BuildResult) and (
            outcome.error_no == MeasureErrorNo.INSTANTIATION_ERROR
        ):
            return outcome
        return None

    def submit(self, measure_input: MeasureInput) -> Future[BuildResult | MeasureResult]:
        """Run the template now, and queue what it gives for compiling.

        Where a subclass has a `build` of its own, that is called with it instead.
        """
        if takes_batches(self, LocalBuilder, "build"):
            return super().submit(measure_input)
        return self._start(measure_input)

    def _start(self, measure_input: MeasureInput) -> Future[BuildResult | MeasureResult]:
        known, self._realised = self._realised, None
        made = known[1] if known and known[0] is measure_input else realise(measure_input)
        future: Future[BuildResult | MeasureResult] = Future()
        if isinstance(made, BuildResult):
            future.set_result(made)
        else:
            pausable = runs_on_host(measure_input.target)
            job = BuildJob(
                kernel=made.kernel,
                target=str(measure_input.target),
                timeout_s=self.timeout * (_PAUSE_SLACK if pausable else 1),
                compiler=self.compiler,
                out_dir=self._pool.folder,
                use_cache=self.cache,
            )
            timeout_s = self.timeout + (0 if pausable else _GRACE_S)
            self._pool.put(job, timeout_s, future, made.reference)
        return future

    def build(
        self, measure_inputs: Sequence[MeasureInput | NamesTrial], verbose: int = 1
    ) -> Sequence[BuildResult | MeasureResult]:
        """Build a batch and wait for it; ``verbose`` is kept for scripts of the auto-scheduler.

        The artifacts are removed with the builder: hold it as long as they are run.
        """
        del verbose
        # What the `build` of a subclass hands on must not come back to it.
        start = self._start if takes_batches(self, LocalBuilder, "build") else self.submit
        return [future.result() for future in [start(as_trial(inp)) for inp in measure_inputs]]

    def discard(self, build_result: BuildResult) -> None:
        """Remove an artifact; a long run would fill the disk otherwise."""
        with contextlib.suppress(OSError):
            os.unlink(build_result.artifact)

    def pause(self) -> None:
        """Suspend all compiling."""
        self._pool.pause()

    def resume(self) -> None:
        """Go on compiling."""
        self._pool.resume()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers that live; each leads a process group."""
        return self._pool.pids

    def close(self) -> None:
        """Kill the workers and remove the artifacts; the next `submit` starts new workers."""
        if self._batcher is not None:
            self._batcher.stop()  # the batch at work ends with the workers
        self._pool.close()
        super().close()


@functools.cache
def _warn(message: str) -> None:
    """Say something once."""
    logger.warning("%s", message)
