"""The demonstration behind ``make tune``: tune one real convolution, replay it, verify it.

The layer is the last 3x3 convolution of ResNet-18 at batch 1 (512 channels, 7x7 pixels, 512
filters, padding 1, with bias and ReLU), which is the workload of AutoTVM's CUDA tutorial.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import autotune
from autotune.cli.demo_rivals import libraries, plain_loops
from autotune.cli.tables import Table
from autotune.driver import build
from autotune.errors import RecordError
from autotune.measure.run.host_load import HostMeter, HostWatch, let_threads_rest
from autotune.measure.run.race_rounds import race_rounds
from autotune.record import apply_history_best
from autotune.runtime import Module, Timing, random_inputs
from autotune.runtime.timing import Sampler, TimeOptions
from autotune.target import Target, cuda_device
from autotune.task import ApplyConfig, FallbackConfigEntity, Task, create
from autotune.tuner import AutoTuner, TuneResult, callback
from autotune.tuner.loop.result import BETWEEN_RUNS
from autotune.utils.quantities import microseconds

LAYER = (1, 7, 7, 512, 512, 3, 3, 1, 1, True, True)
Array = npt.NDArray[Any]

DEFAULT, TUNED = "default configuration", "tuned"
_ROUNDS = range(7, 61)
_BUDGET_S = 10.0
_SAMPLE_S = 10e-3


@dataclass(frozen=True)
class Comparison:
    """The layer as the tuned kernel runs it, and as others do.

    Attributes:
        result: what tuning found.
        timings: of each contestant, timed side by side; without the default configuration where
            that is the winner.
        error: largest relative error of the tuned kernel's answer.
        note: what disturbed the timing; empty on an idle host.
    """

    result: TuneResult
    timings: Mapping[str, Timing]
    error: float
    note: str

    @property
    def drift(self) -> str:
        """A warning if the replay is slower than the tuned time by more than noise; else empty."""
        then, now = self.result.seconds, self.timings[TUNED]
        noise = max(now.noise_floor or 0.0, self.result.spread or 0.0, BETWEEN_RUNS)
        if not now.median / then - 1 > noise:
            return ""
        said = (
            f"the replay took {microseconds(now.median)}, tuning measured {microseconds(then)}: "
            f"{now.median / then - 1:+.1%}, more than the noise floor of {noise:.1%}"
        )
        return said + self._slower_machine(now.median / then, noise)

    def _slower_machine(self, factor: float, noise: float) -> str:
        """Returns a note if the default configuration slowed by the same factor; else empty."""
        then, now = self.result.default_seconds, self.timings.get(DEFAULT)
        if then is None or now is None or factor / (now.median / then) - 1 > noise:
            return ""
        slower = f"{now.median / then - 1:+.1%}"
        return f"; the default became slower too, by {slower}, so the whole machine did"


def default_target() -> Target:
    """Return ``cuda`` where a device, nvcc and PyCUDA are, else ``llvm``."""
    has_cuda = cuda_device() and shutil.which("nvcc") and importlib.util.find_spec("pycuda")
    return Target("cuda" if has_cuda else "llvm")


def run(target: Target, trials: int, log: Path, seed: int) -> Comparison:
    """Tune the layer, replay the best of the log, verify it, and time it against others.

    Args:
        target: what to tune for.
        trials: measurements to make; what the log already holds is not measured again.
        log: where records go.
        seed: of the tuner.

    Raises:
        AssertionError: the tuned kernel computes something else than the reference.
    """
    library: Any = importlib.import_module("autotune.templates.source")
    kind = template_suffix(target)
    # Called as a user would: the dispatch context in force picks the configuration.
    template, name = getattr(library, f"conv2d_nchw_{kind}"), f"conv2d_nchw.{kind}"
    task = create(name, LAYER, target)
    print(f"{name} {LAYER}\non {_device_name(target)}: {len(task.config_space)} configurations")
    result = _tune(task, trials, log, seed)
    with ApplyConfig(FallbackConfigEntity()), target:
        untuned = template(*LAYER)
        default = build(untuned, name="default")
    with apply_history_best(str(log)), target:
        tuned = build(template(*LAYER), name="tuned")
    inputs = random_inputs(tuned.kernel.args, seed=seed)
    error = _verify(tuned, inputs, untuned.reference)
    kernels = {"plain loops": plain_loops(tuned.kernel.args, target)}
    untuned_config = task.default()
    if untuned_config is None or untuned_config != result.best_config:
        kernels[DEFAULT] = default
    kernels[TUNED] = tuned
    timings, note = _compare(kernels, target, inputs)
    return Comparison(result, timings, error, note)


def template_suffix(target: Target) -> str:
    """Return how the names of the templates end that serve a target."""
    return "cuda" if target.kind == "cuda" else "cpu"


def _tune(task: Task, trials: int, log: Path, seed: int) -> TuneResult:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot make the folder {log.parent}: {error.strerror}") from error
    option = autotune.measure_option(
        builder=autotune.LocalBuilder(timeout=60),
        runner=autotune.LocalRunner(number=4, repeat=3, min_repeat_ms=10, cooldown_interval=0.0),
    )
    watchers = [callback.progress_bar(trials), callback.log_to_file(str(log))]
    return AutoTuner(task, seed=seed).tune(trials, option, callbacks=watchers, resume=str(log))


def _verify(module: Module, inputs: Sequence[Array], reference: Callable[..., Array]) -> float:
    """Return the largest relative error against the reference; raise if it is not rounding."""
    outputs = [np.full(a.shape, np.nan, a.dtype) for a in module.kernel.outputs]
    module(*inputs, *outputs)
    expected = reference(*inputs)
    error = float(np.max(np.abs(outputs[0] - expected)) / np.max(np.abs(expected)))
    if not error < 1e-4:
        raise AssertionError(f"the tuned kernel is wrong: largest relative error {error}")
    return error


def _compare(
    kernels: Mapping[str, Module], target: Target, inputs: Sequence[Array]
) -> tuple[dict[str, Timing], str]:
    """Time all side by side, as trials are timed; return the timings and what disturbed them."""
    samplers = {name: _sampler(module, inputs) for name, module in kernels.items()}
    samplers |= libraries(target, inputs, samplers[TUNED].input_sets)
    # In turns, so that a change of the machine's load or clock hits all of them. On the host each
    # begins when the threads of the one before have come to rest.
    on_host = target.kind != "cuda"
    rest: Callable[[], object] = let_threads_rest if on_host else lambda: None
    round_s = sum(max(_SAMPLE_S, sampler.sample(1)) for sampler in samplers.values())
    rounds = min(max(int(_BUDGET_S / round_s), _ROUNDS.start), _ROUNDS.stop - 1)
    meter = HostMeter()
    with HostWatch(target.kind != "cuda") as watch:
        timings = race_rounds(list(samplers.values()), rounds, _SAMPLE_S, 0, rest)
    meter.add(watch.use, timings)
    return dict(zip(samplers, timings, strict=True)), meter.note


def _sampler(module: Module, inputs: Sequence[Array]) -> Sampler:
    executable = module.executable
    return executable.sampler(executable.allocate(inputs), TimeOptions())


def _device_name(target: Target) -> str:
    if target.kind != "cuda":
        return f"{target.limits.sm_count} CPU cores"
    device = cuda_device()
    return device.name if device else f"{target}, of which there is no device here"


def table(comparison: Comparison) -> Table:
    """Return the closing table: medians of timed batches, their spread, and the speedup.

    All went round equally many sets of arguments, as in trials. Where the default configuration
    won, it is the tuned kernel, and has one row.
    """
    timings = comparison.timings
    base = timings.get(DEFAULT, timings[TUNED]).median
    label = TUNED if DEFAULT in timings else f"{TUNED}: the {DEFAULT}"
    rows = [
        (
            label if name == TUNED else name,
            f"{one.median * 1e6:.1f}",
            _percent(one),
            f"{base / one.median:.2f}x",
        )
        for name, one in timings.items()
    ]
    return Table(("", "us", "spread", "against default"), rows, right=(1, 2, 3))


def _percent(timing: Timing) -> str:
    return "" if timing.noise_floor is None else f"+- {timing.noise_floor:.1%}"
