"""Cubins on a device with little of the package's machinery: nvcc, the driver, CUDA graphs.

Kernels are compiled and launched as `autotune.build` does it: each may begin while the kernel
before it ends, and waits for it (`autotune.kernel.dependent_launch`).
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune.kernel.dependent_launch import waiting
from autotune.runtime.nvidia.launches import launch
from autotune.runtime.nvidia.modules import load_cubin

GRAPH_CALLS = 20


def build(kernel: Any, folder: str, arch: str) -> tuple[Path | None, str]:
    """Compile to a cubin; a failure is the compiler's text."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "kernel.cu"
    path.write_text(waiting(kernel).source, "utf-8")
    named = any(flag.startswith("-arch") for flag in kernel.flags)
    flags = kernel.flags if named else (f"-arch={arch}", *kernel.flags)
    command = ["nvcc", "-cubin", *flags, "-O3", str(path), "-o", str(path) + "bin"]
    done = subprocess.run(command, capture_output=True, text=True)
    return (None, done.stderr) if done.returncode else (Path(str(path) + "bin"), "")


class Loaded:
    """A cubin on the device, its arrays, and the launches of one run."""

    def __init__(self, kernel: Any, cubin: Path, arrays: dict[str, Any]) -> None:
        kernel = waiting(kernel)
        self.module = load_cubin(cubin.read_bytes(), kernel, {})
        self.calls = [
            (function, one.launch, [arrays[name].data_ptr() for name in one.args])
            for function, one in zip(self.module.functions, kernel.calls, strict=True)
        ]

    def run(self) -> None:
        """Launch on the current stream."""
        import torch

        stream = torch.cuda.current_stream().cuda_stream
        for function, how, pointers in self.calls:
            launch(function, how, pointers, stream)

    def unload(self) -> None:
        """Give the module back."""
        self.module.unload()


class Replays:
    """A function captured in a CUDA graph, several calls long, so that launching costs nothing.

    What the function launches is fixed when it is captured: a library's choice of a kernel too.
    """

    def __init__(self, run: Callable[[], Any]) -> None:
        import torch

        self.run = run  # the graph keeps addresses, not the arrays it reads
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
            torch.cuda.synchronize()
            seconds = _least_seconds(run)
        # Of slow kernels fewer are enough to hide the launch of the graph.
        self.calls = max(1, min(GRAPH_CALLS, int(4e-3 / seconds)))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(self.calls):
                run()

    def microseconds(self) -> float:
        """Replay once; return the time of one call."""
        import torch

        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end) * 1e3 / self.calls)


def _least_seconds(run: Callable[[], Any]) -> float:
    """Return what a run takes at least; of one, a host that compiles would make milliseconds."""
    import torch

    taken: list[float] = []
    while len(taken) < 5 and sum(taken) < 20e-3:
        begun = time.perf_counter()
        run()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begun)
    return min(taken)


@dataclass(frozen=True)
class Time:
    """The time of one contender of a race, in microseconds: the median, and the range of 80%."""

    name: str
    median: float
    low: float
    high: float


def graph_microseconds(run: Callable[[], Any]) -> float:
    """Return the median time of one call in replays of a graph of many."""
    replays = Replays(run)
    return float(np.median([replays.microseconds() for _ in range(15)][3:]))


def race(sides: Sequence[dict[str, Replays]], choosing: int = 15, rounds: int = 40) -> list[Time]:
    """Time the contenders of several sides in turn; return the time of each side's best.

    The best of a side is chosen by the first rounds and timed by those that follow, so that none
    is favoured for having more contenders. Every round starts with another one.
    """
    runs = [(side, name, one) for side, every in enumerate(sides) for name, one in every.items()]
    taken: dict[tuple[int, str], list[float]] = {(side, name): [] for side, name, _ in runs}
    for number in range(choosing + rounds):
        first = number % len(runs)
        for side, name, replays in runs[first:] + runs[:first]:
            taken[side, name].append(replays.microseconds())
    best = []
    for side, every in enumerate(sides):
        name = min(every, key=lambda one: float(np.median(taken[side, one][3:choosing])))
        low, median, high = np.percentile(taken[side, name][choosing:], [10, 50, 90])
        best.append(Time(name, float(median), float(low), float(high)))
    return best
