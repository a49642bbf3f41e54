"""Cubins on a device without any of the package's machinery: nvcc, the driver, CUDA graphs."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

GRAPH_CALLS = 20


def build(kernel: Any, folder: str, arch: str) -> tuple[Path | None, str]:
    """Compile to a cubin; a failure is the compiler's text."""
    path = Path(tempfile.mkdtemp(dir=folder)) / "kernel.cu"
    path.write_text(kernel.source, "utf-8")
    flags = kernel.flags or (f"-arch={arch}",)
    command = ["nvcc", "-cubin", *flags, "-O3", str(path), "-o", str(path) + "bin"]
    done = subprocess.run(command, capture_output=True, text=True)
    return (None, done.stderr) if done.returncode else (Path(str(path) + "bin"), "")


class Loaded:
    """A cubin on the device, its arrays, and the launches of one run."""

    def __init__(self, kernel: Any, cubin: Path, arrays: dict[str, Any]) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.module = ctypes.c_void_p()
        self.check(
            "load", self.driver.cuModuleLoad(ctypes.byref(self.module), str(cubin).encode())
        )
        self.calls = [self.prepare(one, arrays) for one in kernel.calls]

    def check(self, what: str, status: int) -> None:
        """Raise what the driver says of a failure."""
        if status:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"{what}: {(text.value or b'?').decode()}")

    def prepare(self, one: Any, arrays: dict[str, Any]) -> tuple[Any, ...]:
        """Return one launch, ready to be made."""
        function = ctypes.c_void_p()
        status = self.driver.cuModuleGetFunction(
            ctypes.byref(function), self.module, one.entry.encode()
        )
        self.check(one.entry, status)
        if one.launch.shared_bytes > 48 * 1024:
            status = self.driver.cuFuncSetAttribute(function, 8, one.launch.shared_bytes)
            self.check("shared bytes", status)
        pointers = [ctypes.c_void_p(arrays[name].data_ptr()) for name in one.args]
        array = (ctypes.c_void_p * len(pointers))(*(ctypes.addressof(p) for p in pointers))
        return function, one.launch, array, pointers

    def run(self) -> None:
        """Launch on the current stream."""
        import torch

        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for function, launch, array, _ in self.calls:
            status = self.driver.cuLaunchKernel(
                function, *launch.grid, *launch.block, launch.shared_bytes, stream, array, None
            )
            self.check("launch", status)

    def unload(self) -> None:
        """Give the module back."""
        self.driver.cuModuleUnload(self.module)


def graph_microseconds(run: Callable[[], Any]) -> float:
    """Return the median time of one call in replays of a graph of many."""
    import torch

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        run()
        torch.cuda.synchronize()
    # Of slow kernels fewer are enough to hide the launch of the graph.
    calls = max(1, min(GRAPH_CALLS, int(4e-3 / (time.perf_counter() - begun))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    times = []
    for _ in range(15):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / calls)
    return float(np.median(times[3:]))
