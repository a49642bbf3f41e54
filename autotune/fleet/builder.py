"""Building on the workers of a fleet."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import FleetError, MeasureError
from autotune.fleet.file_store import content_digest
from autotune.fleet.headers import pack_headers
from autotune.fleet.members import Members
from autotune.fleet.messages import Build, Built, Sender
from autotune.fleet.policy import Needs
from autotune.fleet.queue import FleetQueue, PlaceUnable, Work, with_doubt
from autotune.measure.build.builder import LocalBuilder
from autotune.measure.build.job import BuildJob
from autotune.measure.build.pool import Built as Outcome
from autotune.measure.interfaces import Builder
from autotune.measure.process.pending import forward
from autotune.measure.process.scratch import Scratch
from autotune.measure.types import BuildResult, MeasureErrorNo
from autotune.target import Target
from autotune.target.backends import Compiler, of_language
from autotune.workload import Reference, Workload

if TYPE_CHECKING:
    from autotune.kernel import Kernel

# Failures that a broken compiler, disk or host may have caused.
_DOUBTFUL = (
    MeasureErrorNo.COMPILE_HOST,
    MeasureErrorNo.COMPILE_DEVICE,
    MeasureErrorNo.BUILD_TIMEOUT,
    MeasureErrorNo.UNKNOWN_ERROR,
)

BuildNeeds = Callable[[Target], Needs]


@dataclass(frozen=True)
class Parts:
    """What the builders and runners of one fleet share.

    Attributes:
        members: the workers.
        queue: the queue of their work.
        sender: this client.
    """

    members: Members
    queue: FleetQueue
    sender: Sender


class FleetPool:
    """The builders of a fleet, in place of the processes of a `LocalBuilder`.

    The artifacts that they compile are written to a folder of this client.
    """

    def __init__(self, parts: Parts, needs: BuildNeeds) -> None:
        self._parts = parts
        self._needs = needs
        self._scratch = Scratch("build")
        self._numbers = count()
        self._under_way: set[Future[Outcome]] = set()

    @property
    def folder(self) -> str:
        """The folder for artifacts."""
        return str(self._scratch.path)

    @property
    def pids(self) -> list[int]:
        """Processes of this host: none."""
        return []

    def put(
        self, job: BuildJob, timeout_s: float, future: Future[Outcome], reference: Reference
    ) -> None:
        """Queue a job for a builder of the fleet."""
        target = Target(job.target)
        if target.backend.on_gpu and target.backend.device != "cpu" and "arch" not in target.attrs:
            # Without it the worker would compile for whatever device its own host has.
            job = replace(job, target=f"{job.target} -arch={target.arch}")
        try:
            needs = self._needs(target)
            kernel, headers = pack_headers(job.kernel)
        except FleetError as error:
            future.set_exception(error)
            return
        ask = Build(
            self._parts.sender, replace(job, kernel=kernel, out_dir=""), timeout_s, headers
        )

        def do(number: int) -> BuildResult:
            member, _ = self._parts.members.at(number)
            answer = member.ask(ask)
            if not isinstance(answer, Built):
                raise PlaceUnable(f"it answered a build by {type(answer).__name__}")
            if answer.artifact:
                member.note_sent(content_digest(answer.artifact) + answer.suffix)
            return self._result(job.kernel, answer, reference)

        work = Work(do, _failure, lambda why: _hopeless(job.kernel, why), _unconfirmed)
        promised: Future[Outcome] = self._parts.queue.put(needs, work)
        self._under_way.add(promised)
        promised.add_done_callback(self._under_way.discard)
        forward(promised, future)

    def _result(self, kernel: Kernel, answer: Built, reference: Reference) -> BuildResult:
        artifact = ""
        if answer.artifact:
            path = Path(self.folder) / f"{next(self._numbers)}{answer.suffix}"
            try:
                path.write_bytes(answer.artifact)
            except OSError as error:
                raise MeasureError(
                    f"cannot write {path}: {error}; free space there or set TMPDIR"
                ) from error
            artifact = str(path)
        return BuildResult(
            artifact=artifact,
            kernel=kernel,
            resources=dict(answer.resources),
            error_no=answer.error_no,
            error_msg=answer.error_msg,
            time_cost=answer.time_cost,
            code_hash=answer.code_hash,
            reference=reference,
        )

    def pause(self) -> None:
        """Do nothing: no builder runs on this host."""

    def resume(self) -> None:
        """Do nothing: no builder runs on this host."""

    def close(self) -> None:
        """Cancel pending builds and remove the artifacts."""
        for one in list(self._under_way):
            one.cancel()
        self._scratch.remove()

    def end(self) -> None:
        """Close for good."""
        self.close()
        self._scratch.end()


class FleetBuilder(LocalBuilder):
    """Builds candidates on the workers of a fleet; made by `autotune.fleet.Fleet`.

    The template runs, and is lowered, in this process. The source is sent to a worker that
    compiles for the target and returns the artifact. The arguments are those of `LocalBuilder`.
    """

    def __init__(
        self,
        parts: Parts,
        needs: BuildNeeds,
        timeout: float = 10,
        compiler: Compiler = "nvcc",
        cache: bool = True,
    ) -> None:
        self._parts = parts
        self._needs = needs
        super().__init__(timeout, 1, compiler=compiler, cache=cache)

    def _open_pool(self, tmp_dir: str | None) -> FleetPool:
        return FleetPool(self._parts, self._needs)

    @property
    def mixes_tasks(self) -> bool:
        """Whether builds of several tasks may be under way at once: they may."""
        return True

    @property
    def n_parallel(self) -> int:
        """The number of compilations that the fleet runs at once now; 1 while it has no worker."""
        return max(1, sum(p.lanes for p, _, _ in self._parts.queue.places() if p.kind == "build"))

    @n_parallel.setter
    def n_parallel(self, value: int) -> None:
        """Ignored: the number follows from the workers."""

    def set_task(self, task: Workload, build_kwargs: dict[str, object] | None = None) -> None:
        """Prepare for a task, without requiring a compiler on this host."""
        Builder.set_task(self, task, {**(build_kwargs or {}), **self.user_build_kwargs})


def _failure(outcome: object) -> int:
    if isinstance(outcome, BuildResult) and outcome.error_no in _DOUBTFUL:
        return int(outcome.error_no)
    return 0


def _unconfirmed(outcome: object, why: str) -> object:
    assert isinstance(outcome, BuildResult)
    return replace(outcome, error_msg=with_doubt(outcome.error_msg, why))


def _hopeless(kernel: Kernel, why: str) -> BuildResult:
    on_gpu = of_language(kernel.language).on_gpu
    number = MeasureErrorNo.COMPILE_DEVICE if on_gpu else MeasureErrorNo.COMPILE_HOST
    return BuildResult(artifact="", kernel=kernel, error_no=number, error_msg=why)
