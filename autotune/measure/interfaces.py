"""The interfaces of a builder and a runner, and their base classes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from autotune.errors import MeasureError
from autotune.measure.batcher import Batcher
from autotune.measure.run.host_gate import HostGate
from autotune.measure.types import BuildResult, MeasureInput, MeasureResult
from autotune.runtime.timing import Timing, summarize
from autotune.target import Target
from autotune.utils.environment import processors
from autotune.workload import Workload


def target_of(task: Workload) -> Target:
    """Return what a workload is built for.

    Raises:
        MeasureError: it has no target.
    """
    if task.target is None:
        raise MeasureError(
            f"task {task.name!r} has no target, so it cannot be measured; pass target= to "
            "task.create"
        )
    return task.target


def takes_batches(part: object, own: type, method: str) -> bool:
    """Return whether a user's class derived from ours has a ``build`` or ``run`` of its own.

    As in AutoTVM, that is what trials then go through. A ``submit`` of its own comes before it.
    """
    kind = type(part)
    changed = getattr(kind, method) is not getattr(own, method)
    return changed and getattr(kind, "submit") is getattr(own, "submit")  # noqa: B009


def runs_on_host(target: Target) -> bool:
    """Whether kernels for ``target`` run on this machine's CPU: C, or emulated CUDA."""
    return target.backend.device == "cpu"


class Builder:
    """Turns measure inputs into something a runner can run.

    A subclass defines `build`; one that can work on several inputs independently overrides
    `submit` as well. A `build` may return a `MeasureResult` in place of a `BuildResult`: that
    trial then ends there.

    Args:
        timeout: seconds one build may take.
        n_parallel: builds at the same time; by default one a core.
    """

    timeout: float = 10
    n_parallel: int = 1
    build_kwargs: dict[str, object] = {}  # noqa: RUF012 - replaced, never changed in place
    task: Workload | None = None
    _batcher: Batcher[MeasureInput, BuildResult | MeasureResult] | None = None

    def __init__(self, timeout: float = 10, n_parallel: int | None = None) -> None:
        self.timeout = timeout
        self.n_parallel = n_parallel or processors()

    @property
    def mixes_tasks(self) -> bool:
        """Whether trials of several tasks may be under way at once; here not.

        A session then ends those of one task before it calls `set_task` with the next.
        """
        return False

    def set_task(self, task: Workload, build_kwargs: dict[str, object] | None = None) -> None:
        """Called before a task is measured; ``build_kwargs`` comes from the runner."""
        self.task = task
        self.build_kwargs = dict(build_kwargs or {})

    def build(
        self, measure_inputs: Sequence[MeasureInput]
    ) -> Sequence[BuildResult | MeasureResult]:
        """Build a batch.

        Args:
            measure_inputs: the trials.

        Returns:
            For each of them, in order, what was built, or the result of a trial that failed.
        """
        raise NotImplementedError(f"{type(self).__name__} must define build(measure_inputs)")

    def refusal(self, measure_input: MeasureInput) -> BuildResult | None:
        """Return how an input fails that need not be built to know that it cannot run, else None.

        Called before `submit` for proposals of a tuner; what is refused becomes no trial. Here
        nothing is refused.
        """
        return None

    def submit(self, measure_input: MeasureInput) -> Future[BuildResult | MeasureResult]:
        """Start to build one input."""
        if self._batcher is None:
            self._batcher = Batcher(self.build, self.n_parallel, f"{type(self).__name__}.build")
        return self._batcher.submit(measure_input)

    def discard(self, build_result: BuildResult) -> None:
        """Called when a build result will not be used again; here nothing happens."""

    def pause(self) -> None:
        """Let no work be done on this host until `resume`; a CPU kernel is about to be timed."""

    def resume(self) -> None:
        """End a `pause`."""

    def close(self) -> None:
        """End all processes and threads; the builder can be used again."""
        if self._batcher is not None:
            self._batcher.close()
            self._batcher = None


class Runner:
    """Runs what a builder built, and times it.

    A subclass defines `run`; one that can run inputs one by one overrides `submit` as well.

    Args:
        timeout: seconds one run may take.
        n_parallel: runs at the same time.
    """

    # Whether `race` times candidates close enough together to tell near ties apart: the best
    # trials of a run race at its end where it is true.
    can_race: bool = False
    # Whether results have the energy of a run (`Evidence.energy`), for objectives that need it.
    energy: bool = False
    timeout: float = 10
    n_parallel: int = 1
    task: Workload | None = None
    _batcher: Batcher[tuple[MeasureInput, BuildResult], MeasureResult] | None = None

    def __init__(self, timeout: float = 10, n_parallel: int | None = None) -> None:
        self.timeout = timeout
        self.n_parallel = n_parallel or 1

    @property
    def host_note(self) -> str:
        """Known disturbances of the timing on this host, in words; empty if there are none."""
        return ""

    @property
    def mixes_tasks(self) -> bool:
        """Whether trials of several tasks may be under way at once; see `Builder.mixes_tasks`."""
        return False

    def host_note_of(self, task: Workload) -> str:
        """Return what disturbed the timing of one task; here, `host_note`."""
        return self.host_note

    def fleet_status(self) -> list[dict[str, object]]:
        """Return a row for each worker on another host; empty by default."""
        return []

    def set_task(self, task: Workload) -> None:
        """Called before a task is measured."""
        self.task = task

    def share_host(self, gate: HostGate | None) -> None:
        """Called after `set_task`: what is timed on this host must be timed in ``gate.quiet()``.

        None when building does not disturb what is timed.
        """

    def start(self) -> None:
        """Called before the first trial of a task: what takes time to get ready may begin.

        Here nothing happens; a runner must be able to run without it.
        """

    def get_build_kwargs(self) -> dict[str, object]:
        """Return what the builder must know of the device; called after `set_task`."""
        return {}

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult]
    ) -> Sequence[MeasureResult]:
        """Run a batch.

        Args:
            measure_inputs: the trials.
            build_results: what the builder gave for each of them.

        Returns:
            One result for each input, in order; the failure of a trial is a result too.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define run(measure_inputs, build_results)"
        )

    def submit(
        self, measure_input: MeasureInput, build_result: BuildResult
    ) -> Future[MeasureResult]:
        """Start to run what was built for a trial; its result comes by the future."""
        if self._batcher is None:
            self._batcher = Batcher(self._run_pairs, self.n_parallel, f"{type(self).__name__}.run")
        return self._batcher.submit((measure_input, build_result))

    def _run_pairs(self, pairs: list[tuple[MeasureInput, BuildResult]]) -> Sequence[MeasureResult]:
        return self.run([i for i, _ in pairs], [b for _, b in pairs])

    def race_devices(self) -> Sequence[int | None]:
        """Return the devices a race is run on, one after another; None is the runner's choice."""
        return (None,)

    def race(
        self,
        candidates: Sequence[tuple[MeasureInput, BuildResult]],
        rounds: int,
        least_s: float,
        device: int | None = None,
    ) -> list[Timing]:
        """Time built candidates against each other; here, one batch a round.

        A runner that can time them closer together overrides this.

        Args:
            candidates: each trial with what was built for it.
            rounds: samples of each.
            least_s: least seconds of one sample; ignored here.
            device: which of `race_devices`; ignored here.

        Raises:
            MeasureError: a candidate failed.
        """
        seconds: list[list[float]] = [[] for _ in candidates]
        for _ in range(rounds):
            results = self.run([i for i, _ in candidates], [b for _, b in candidates])
            for kept, result in zip(seconds, results, strict=True):
                if result.error_no:
                    raise MeasureError(f"the race failed: {result}")
                kept.append(result.seconds)
        return [summarize(one, 1) for one in seconds]

    def close(self) -> None:
        """End all processes and threads; the runner can be used again."""
        if self._batcher is not None:
            self._batcher.close()
            self._batcher = None
