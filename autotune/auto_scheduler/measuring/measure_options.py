"""TVM's builders and runners of the auto-scheduler, as adapters of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune import measure
from autotune.auto_scheduler.errors import TuningOptionError
from autotune.auto_scheduler.measuring.measure_input import MeasureInput
from autotune.measure import Builder, Runner
from autotune.utils.check import Check

MeasureCallback = Callable[..., object]


class PythonBasedMeasureCallback:
    """Base of callbacks that scripts define as classes; a function does as well."""

    def callback(
        self,
        policy: object,
        inputs: Sequence[MeasureInput],
        results: Sequence[measure.MeasureResult],
    ) -> None:
        """Hear of a batch that was measured.

        Args:
            policy: the search policy that proposed it.
            inputs: what was measured.
            results: what came of each.
        """
        raise NotImplementedError(f"{type(self).__name__} must define callback")

    def __call__(
        self,
        policy: object,
        inputs: Sequence[MeasureInput],
        results: Sequence[measure.MeasureResult],
    ) -> None:
        """Do what `callback` does."""
        self.callback(policy, inputs, results)


_READY = "Get devices for measurement successfully!"


class LocalBuilder(measure.LocalBuilder):
    """Builds on this machine; see `autotune.measure.LocalBuilder`.

    Args:
        timeout: seconds that one compilation may take.
        n_parallel: worker processes; by default one a core.
        build_func: ``"default"``.
    """

    def __init__(
        self,
        timeout: float = 15,
        n_parallel: int | None = None,
        build_func: str = "default",
        **more: Any,
    ) -> None:
        super().__init__(timeout, n_parallel, build_func=build_func, **more)


class LocalRunner(measure.LocalRunner):
    """Runs, times and verifies on this machine; see `autotune.measure.LocalRunner`.

    Args:
        timeout: seconds that one trial may take.
        number: runs of one sample; by default as many as a good sample needs.
        repeat: samples at least; candidates near the best get more.
        min_repeat_ms: least duration of a sample.
        cooldown_interval: seconds of rest after a trial.
        enable_cpu_cache_flush: time with cold caches on a CPU.
        device: index of the device.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int | None = None,
        repeat: int | None = None,
        min_repeat_ms: float | None = None,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
        **more: Any,
    ) -> None:
        if enable_cpu_cache_flush:
            number, min_repeat_ms = 1, 0
        super().__init__(
            timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush,
            device=device, **more,
        )  # fmt: skip


class RPCRunner(LocalRunner):
    """Runs on this machine what TVM's scripts ask a tracker's devices for.

    Args:
        key: of the device in the tracker; not used.
        host: of the tracker; not used.
        port: of the tracker; not used.
        priority: of the request; not used.
        n_parallel: not used: each device has one process.
        more: as `LocalRunner` takes them.
    """

    def __init__(
        self,
        key: str = "",
        host: str = "",
        port: int = 0,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int | None = None,
        repeat: int | None = None,
        min_repeat_ms: float | None = None,
        **more: Any,
    ) -> None:
        del key, host, port, priority, n_parallel
        super().__init__(timeout, number, repeat, min_repeat_ms, **more)
        print(_READY)


class LocalRPCMeasureContext:
    """A runner on this machine, as TVM's tutorials make it; ``del`` ends its processes.

    Args:
        priority: not used.
        n_parallel: not used.
        more: as `LocalRunner` takes them.

    Attributes:
        runner: measures trials.
        tracker: None; there is no tracker.
        server: None; there is no server.
    """

    def __init__(
        self, priority: int = 1, n_parallel: int = 1, *more: object, **named: Any
    ) -> None:
        del priority, n_parallel
        names = ("timeout", "number", "repeat", "min_repeat_ms", "cooldown_interval")
        given = {**dict(zip(names, more, strict=False)), **named}
        self.runner = RPCRunner(**given)
        self.tracker = None
        self.server = None

    def __del__(self) -> None:
        runner = getattr(self, "runner", None)
        if runner is not None:
            runner.close()


@dataclass(frozen=True)
class TuningOptions:
    """Options of tuning a task.

    Attributes:
        num_measure_trials: candidates that are measured; with 0 or 1 none is, and the one that is
            predicted to be best is taken.
        early_stopping: stop after so many trials without a better one; None, 0 or -1 for never.
        num_measures_per_round: candidates that are proposed together at most.
        verbose: 0 says nothing, 1 shows the progress, 2 each trial.
        builder: ``"local"`` or a builder.
        runner: ``"local"`` or a runner.
        measure_callbacks: called with the search, the inputs and the results of what was measured.

    Raises:
        TuningOptionError: a builder, runner or callback is something else, or a number is
            negative.
    """

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: Builder | str = "local"
    runner: Runner | str = "local"
    measure_callbacks: Sequence[MeasureCallback] | None = field(default=None)

    def __post_init__(self) -> None:
        for name, kind in (("builder", Builder), ("runner", Runner)):
            value = getattr(self, name)
            if value != "local" and not isinstance(value, kind):
                raise TuningOptionError(
                    f"TuningOptions: Invalid {name}: expected 'local' or a {name}, got {value!r}"
                )
        check = Check(TuningOptionError, "TuningOptions")
        for name in ("num_measure_trials", "num_measures_per_round", "verbose"):
            object.__setattr__(self, name, check.whole(name, getattr(self, name), 0))
        for each in check.sequence("measure_callbacks", self.measure_callbacks or (), "a list"):
            known = getattr(each, "callback", each)
            check.function("measure_callbacks", known, "the search, inputs and results")
        if self.early_stopping is not None:
            count = check.whole("early_stopping", self.early_stopping, -1)
            object.__setattr__(self, "early_stopping", count if count > 0 else None)

    def measure_option(self) -> dict[str, object]:
        """Return builder and runner as objects, new ones where none were given."""
        builder = LocalBuilder() if self.builder == "local" else self.builder
        runner = LocalRunner() if self.runner == "local" else self.runner
        return {"builder": builder, "runner": runner}
