"""The demonstration behind ``make tune``: tune one real convolution, replay it, verify it.

The layer is the last 3x3 convolution of ResNet-18 at batch 1 (512 channels, 7x7 pixels, 512
filters, padding 1, with bias and ReLU), which is the workload of AutoTVM's CUDA tutorial.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

import autotune
from autotune.driver import build
from autotune.record import apply_history_best
from autotune.runtime import Module, random_inputs
from autotune.target import Target
from autotune.target.query import cuda_device
from autotune.task import ApplyConfig, FallbackConfigEntity, Task, create
from autotune.tuner import AutoTuner, callback

LAYER = (1, 7, 7, 512, 512, 3, 3, 1, 1, True, True)
Array = npt.NDArray[Any]
_TURNS = 5


@dataclass(frozen=True)
class Row:
    """One line of the closing table: who ran the layer, and in how many microseconds."""

    name: str
    microseconds: float


def default_target() -> Target:
    """Return ``cuda`` where a device, nvcc and PyCUDA are, else ``llvm``."""
    has_cuda = cuda_device() and shutil.which("nvcc") and importlib.util.find_spec("pycuda")
    return Target("cuda" if has_cuda else "llvm")


def run(target: Target, trials: int, log: Path, seed: int) -> list[Row]:
    """Tune the layer, replay the best of the log, verify it, and time it against others.

    Args:
        target: what to tune for.
        trials: measurements to make; what the log already holds is not measured again.
        log: where records go.
        seed: of the tuner.

    Returns:
        The default configuration, the tuned one, and a library, in microseconds a run.

    Raises:
        AssertionError: the tuned kernel computes something else than the reference.
    """
    library: Any = importlib.import_module("autotune.templates.source")
    kind = "cuda" if target.kind == "cuda" else "cpu"
    # Called as a user would: the dispatch context in force picks the configuration.
    template, name = getattr(library, f"conv2d_nchw_{kind}"), f"conv2d_nchw.{kind}"
    task = create(name, LAYER, target)
    print(f"{name} {LAYER}\non {_device_name(target)}: {len(task.config_space)} configurations")
    _tune(task, trials, log, seed)
    with ApplyConfig(FallbackConfigEntity()), target:
        untuned = template(*LAYER)
        default = build(untuned, name="default")
    with apply_history_best(str(log)), target:
        tuned = build(template(*LAYER), name="tuned")
    inputs = random_inputs(tuned.kernel.args, seed=seed)
    error = _verify(tuned, inputs, untuned.reference)
    print(f"\nlargest error of the replayed kernel: {error:.1e} (relative)")
    rivals = {
        "default configuration": lambda: _time(default, inputs),
        "tuned": lambda: _time(tuned, inputs),
        **_library(target, inputs),
    }
    # In turns, so that a change of the machine's load or clock hits all of them.
    turns = [[time() for time in rivals.values()] for _ in range(_TURNS)]
    medians = np.median(turns, axis=0)
    return [Row(name, float(us)) for name, us in zip(rivals, medians, strict=True)]


def _tune(task: Task, trials: int, log: Path, seed: int) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    option = autotune.measure_option(
        builder=autotune.LocalBuilder(timeout=60),
        runner=autotune.LocalRunner(number=4, repeat=3, min_repeat_ms=10, cooldown_interval=0.0),
    )
    watchers = [callback.progress_bar(trials), callback.log_to_file(str(log))]
    AutoTuner(task, seed=seed).tune(trials, option, callbacks=watchers, resume=str(log))


def _verify(module: Module, inputs: Sequence[Array], reference: Callable[..., Array]) -> float:
    """Return the largest relative error against the reference; raise if it is not rounding."""
    outputs = [np.full(a.shape, np.nan, a.dtype) for a in module.kernel.outputs]
    module(*inputs, *outputs)
    expected = reference(*inputs)
    error = float(np.max(np.abs(outputs[0] - expected)) / np.max(np.abs(expected)))
    if not error < 1e-4:
        raise AssertionError(f"the tuned kernel is wrong: largest relative error {error}")
    return error


def _time(module: Module, inputs: Sequence[Array]) -> float:
    outputs = [np.empty(a.shape, a.dtype) for a in module.kernel.outputs]
    arrays = [autotune.nd.array(a, module.device) for a in (*inputs, *outputs)]
    evaluator = module.time_evaluator(
        module.entry_name, module.device, number=10, repeat=5, min_repeat_ms=10
    )
    return evaluator(*arrays).median * 1e6


def _library(target: Target, inputs: Sequence[Array]) -> dict[str, Callable[[], float]]:
    """Return how to time the library a user would call instead, on the same arrays."""
    if target.kind != "cuda":
        return {"numpy (unfold + BLAS)": lambda: _time_numpy(inputs)}
    if importlib.util.find_spec("torch") is None:
        print("no library baseline: torch is not installed")
        return {}
    return {"cuDNN through torch": lambda: _time_cudnn(inputs)}


def _time_numpy(inputs: Sequence[Array]) -> float:
    data, weight, bias = inputs
    matrix = weight.reshape(weight.shape[0], -1)

    def conv() -> Array:
        padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], (2, 3))
        columns = windows.transpose(1, 4, 5, 0, 2, 3).reshape(matrix.shape[1], -1)
        out: Array = np.maximum(matrix @ columns + bias.reshape(-1, 1), 0.0)
        return out

    return _median_microseconds(conv)


def _median_microseconds(work: Callable[[], object], repeats: int = 5) -> float:

    work()
    samples = []
    for _ in range(repeats):
        start = perf_counter()
        work()
        samples.append(perf_counter() - start)
    return float(np.median(samples) * 1e6)


def _time_cudnn(inputs: Sequence[Array]) -> float:
    """Median of CUDA graph replays, so that no launch overhead of torch is counted."""
    torch: Any = importlib.import_module("torch")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    data, weight, bias = (torch.from_numpy(a).cuda() for a in inputs)
    bias = bias.reshape(-1)
    layer = torch.nn.functional.conv2d

    def conv() -> Any:
        return torch.relu(layer(data, weight, bias, padding=1))

    side = torch.cuda.Stream()
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            conv()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(20):
                conv()
    samples = []
    for _ in range(21):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end) / 20 * 1e3)
    return float(np.median(samples))


def _device_name(target: Target) -> str:
    device = cuda_device() if target.kind == "cuda" else None
    return device.name if device else f"{target.limits.sm_count} CPU cores"


def table(rows: Sequence[Row]) -> str:
    """Return the closing table, with speedups over the default configuration."""
    base = rows[0].microseconds
    lines = [f"{'':24}{'us':>12}{'speedup':>10}"]
    lines += [
        f"{row.name:24}{row.microseconds:12.1f}{base / row.microseconds:9.2f}x" for row in rows
    ]
    return "\n".join(lines)
