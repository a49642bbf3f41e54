"""The cost of a call on the host, and whether concurrent calls slow each other down.

    python -m benchmarks.calls                 # a GPU with torch: everything
    python -m benchmarks.calls --target llvm   # the CPU, against a call by ctypes
    python -m benchmarks.calls --python        # as it is where no C compiler is found
    python -m benchmarks.calls --calls-only    # without graph, streams, threads and operators

Host time is that of the calling thread from call to return, in batches of calls with a wait for
the device between them: the median of the batches, in microseconds, and their spread. The kernels
do next to nothing. "driver" is the driver's own function, called from C: no call takes less.
Beside it stand torch's products and sums of 64 x 64 matrices, and calls inside `torch.compile`; on
a CPU, operators by name (`autotune.jit`) of 4 x 4 matrices.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import threading
import time
import timeit
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import autotune
from autotune.runtime import array
from autotune.runtime.call.native import why_not
from autotune.runtime.nvidia import libcuda
from autotune.runtime.nvidia.modules import load_cubin

RESULTS = Path(__file__).resolve().parents[1] / "results" / "call.json"
COUNTS = (1, 3, 8)
CALLS = 500
BATCHES = 21
SIZE = 1024
SPIN = 2_000_000
SPINS = 10


def touch(count: int, language: str) -> autotune.SourceKernel:
    """Return a kernel with so many arguments that adds one to the first element of the last."""
    names = [f"a{i}" for i in range(count)]
    params = ", ".join(f"float *{name}" for name in names)
    body = f"{names[-1]}[0] += 1;"
    text = {
        "c": f"void touch({params}) {{ {body} }}",
        "cuda": f'extern "C" __global__ void touch({params}) {{ {body} }}',
    }[language]
    args = [autotune.arg(name, (SIZE,), role="inout") for name in names]
    return autotune.SourceKernel("touch", text, args, grid=1, block=1)


def host_us(
    function: Callable[..., object],
    args: Sequence[Any],
    wait: Callable[[], object],
    calls: int = CALLS,
) -> tuple[float, float]:
    """Return the median microseconds of a call over the batches, and their spread."""
    names = [f"a{i}" for i in range(len(args))]
    known = {"f": function, **dict(zip(names, args, strict=True))}
    timer = timeit.Timer(f"f({', '.join(names)})", globals=known)
    timer.timeit(calls)
    wait()
    taken = []
    for _ in range(BATCHES):
        taken.append(timer.timeit(calls) / calls * 1e6)
        wait()
    quartiles = statistics.quantiles(taken, n=4)
    return statistics.median(taken), quartiles[2] - quartiles[0]


FLOOR = """
#include <stddef.h>
#include <stdint.h>
typedef int (*Launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      void *, void **, void **);
void launches(uint64_t launch, uint64_t function, uint64_t pointer, uint64_t stream, uint64_t args,
              int64_t *n) {
  void *params[8];
  uint64_t values[8];
  size_t bytes = 8 * args;
  for (int i = 0; i < 8; i++) { params[i] = &pointer; values[i] = pointer; }
  void *extra[] = {(void *)1, values, (void *)2, &bytes, (void *)0}; /* a buffer, and its size */
  int whole = *n < 0;
  for (int64_t i = whole ? -*n : *n; i > 0; i--)
    ((Launch)launch)((void *)function, 1, 1, 1, 1, 1, 1, 0, (void *)stream, whole ? NULL : params,
                     whole ? extra : NULL);
}
"""


def driver_us(
    count: int, pointer: int, wait: Callable[[], object], stream: int = 0, whole: bool = False
) -> tuple[float, float]:
    """Return what the driver's own function takes for a launch, called from C.

    Args:
        count: of the kernel's arguments.
        pointer: all of them.
        wait: waits for the device.
        stream: where to.
        whole: whether arguments are given as one piece of memory, not one by one.
    """
    args = [
        autotune.arg(name, (), "uint64")
        for name in ("launch", "function", "pointer", "stream", "args")
    ]
    kernel = autotune.SourceKernel(
        "launches", FLOOR, [*args, autotune.arg("n", (1,), "int64", role="inout")]
    )
    launches = autotune.build(kernel, target="llvm")
    cubin = autotune.build(touch(count, "cuda"), target="cuda")
    with libcuda.entered(libcuda.primary_context(0)):
        loaded = load_cubin(cubin.artifact, cubin.kernel, {})
    given = (
        libcuda.address("cuLaunchKernel"), loaded.functions[0], pointer, stream, count,
        np.array([-CALLS if whole else CALLS]),
    )  # fmt: skip
    median, spread = host_us(launches, given, wait, calls=1)
    return median / CALLS, spread / CALLS


def measure_cpu() -> dict[str, tuple[float, float]]:
    """Return what calls on the CPU cost, and what ctypes does."""
    found: dict[str, tuple[float, float]] = {}
    library = ctypes.CDLL(None)
    for count in COUNTS:
        function = autotune.build(touch(count, "c"), target="llvm")
        values = [np.zeros(SIZE, "float32") for _ in range(count)]
        plain = library.getpid
        plain.argtypes = [ctypes.c_void_p] * count
        addresses = [v.ctypes.data for v in values]
        found[f"{count} arguments, ctypes"] = host_us(plain, addresses, int)
        found[f"{count} arguments, numpy"] = host_us(function, values, int)
        ours = [array(v) for v in values]
        found[f"{count} arguments, ours"] = host_us(function, ours, int)
    for name in ("nn.dense", "add"):
        by_name = autotune.jit(name, key=lambda *_: {}, target="llvm")
        values = [np.ones((4, 4), "float32") for _ in range(3)]
        found[f"{name} by name, numpy"] = host_us(by_name, values, int)
    return found


def measure_gpu(torch: Any) -> dict[str, tuple[float, float]]:
    """Return what calls on a GPU cost, and what torch's product does."""
    found: dict[str, tuple[float, float]] = {}
    wait = torch.cuda.synchronize
    a, b, c = (torch.zeros(64, 64, device="cuda") for _ in range(3))
    found["torch.mm(a, b)"] = host_us(torch.mm, (a, b), wait)
    found["torch.mm(a, b, out=c)"] = host_us(partial(torch.mm, out=c), (a, b), wait)
    found["torch.add(a, b)"] = host_us(torch.add, (a, b), wait)
    for count in COUNTS:
        function = autotune.build(touch(count, "cuda"), target="cuda")
        tensors = [torch.zeros(SIZE, device="cuda") for _ in range(count)]
        found[f"{count} arguments, torch"] = host_us(function, tensors, wait)
        ours = [array(np.zeros(SIZE, "float32"), autotune.cuda()) for _ in range(count)]
        found[f"{count} arguments, ours"] = host_us(function, ours, wait)
        stream, pointer = torch.cuda.Stream(), tensors[0].data_ptr()
        found[f"{count} arguments, driver"] = driver_us(count, pointer, wait)
        found[f"{count} arguments, driver, in one piece"] = driver_us(
            count, pointer, wait, whole=True
        )
        found[f"{count} arguments, driver, side stream"] = driver_us(
            count, pointer, wait, stream.cuda_stream
        )
        with torch.no_grad():
            found[f"{count} arguments, torch, no_grad"] = host_us(function, tensors, wait)
        with torch.cuda.stream(stream):
            found[f"{count} arguments, side stream"] = host_us(function, tensors, wait)
    return found


def captured(torch: Any, calls: int = 20) -> dict[str, Any]:
    """Capture some calls in a graph; return whether replays are right, and their time."""
    function = autotune.build(touch(3, "cuda"), target="cuda")
    tensors = [torch.zeros(SIZE, device="cuda") for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            function(*tensors)
    replays = 50
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return {
        "calls": calls,
        "right": tensors[-1][0].item() == calls * replays,
        "us a replay": start.elapsed_time(end) / replays * 1e3,
    }


SPINNING = """
__device__ long long now() {
  long long ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}
extern "C" __global__ void spin(long long *times) {
  times[0] = now();
  long long start = clock64();
  while (clock64() - start < CYCLES) {}
  times[1] = now();
}
"""


def compiled(torch: Any, calls: int = 20) -> dict[str, Any]:
    """Return microseconds a call as an operator: eager, and of a compiled chain of them."""
    text = 'extern "C" __global__ void next(const float *a, float *b) { b[0] = a[0] + 1; }'
    args = [autotune.arg("a", (SIZE,)), autotune.arg("b", (SIZE,), role="out")]
    kernel = autotune.SourceKernel("next", text, args, grid=1, block=1)
    op = autotune.torch.as_op(autotune.build(kernel, target="cuda"), "autotune_benchmarks::next")

    def chain(x: Any) -> Any:
        for _ in range(calls):
            x = op(x)
        return x

    x = torch.zeros(SIZE, device="cuda")
    a = torch.zeros(64, 64, device="cuda")

    def products(y: Any) -> Any:
        for _ in range(calls):
            y = torch.mm(y, a)
        return y

    found: dict[str, Any] = {}
    chains = (("operator", chain, x), ("torch.mm", products, a))
    with torch.no_grad():
        for name, function, value in chains:
            for how, made in (
                ("eager", function),
                ("compiled", torch.compile(function, fullgraph=True)),
            ):
                started = time.perf_counter()
                result = made(value)
                torch.cuda.synchronize()
                found[f"{name}, {how}, first s"] = round(time.perf_counter() - started, 2)
                us, _ = host_us(made, [value], torch.cuda.synchronize, CALLS // calls)
                found[f"{name}, {how}, us a call"] = round(us / calls, 2)
                if function is chain:
                    found[f"{name}, {how}, right"] = result[0].item() == calls
    return found


def overlap(torch: Any) -> dict[str, Any]:
    """Run long kernels one after another, and on two streams.

    Returns:
        milliseconds of both, the part of its time for which the kernels of one stream ran beside
        those of the other, and when each began and ended by the device's own clock.
    """
    args = [autotune.arg("times", (2,), "int64", role="out")]
    kernel = autotune.SourceKernel("spin", SPINNING, args, {"CYCLES": SPIN}, grid=1, block=1)
    function = autotune.build(kernel, target="cuda")
    streams = [torch.cuda.Stream() for _ in range(2)]

    def timeline(used: Sequence[Any]) -> Any:
        times = torch.zeros(2, SPINS, 2, dtype=torch.int64, device="cuda")
        torch.cuda.synchronize()
        for turn in range(SPINS):
            for lane, stream in enumerate(used):
                with torch.cuda.stream(stream):
                    function(times[lane, turn])
        torch.cuda.synchronize()
        found = times.cpu().numpy()
        return (found - found.min()) * 1e-6

    timeline(streams)
    one, two = timeline([streams[0]] * 2), timeline(streams)
    both = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in two[0] for b in two[1])
    for lane, spans in zip("ab", two, strict=True):
        print(f"stream {lane}, ms:", " ".join(f"{b:.2f}-{e:.2f}" for b, e in spans))
    return {
        "one stream, ms": float(one.max()),
        "two streams, ms": float(two.max()),
        "beside the other": both / float((two[0, :, 1] - two[0, :, 0]).sum()),
        "timeline, ms": two.tolist(),
    }


def threads(torch: Any, count: int = 8, calls: int = 10_000) -> dict[str, Any]:
    """Call one function from several threads, each on a stream and a tensor of its own."""
    function = autotune.build(touch(3, "cuda"), target="cuda")
    tensors = [[torch.zeros(SIZE, device="cuda") for _ in range(3)] for _ in range(count)]
    torch.cuda.synchronize()

    def work(mine: Sequence[Any]) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(calls):
                function(*mine)

    workers = [threading.Thread(target=work, args=(mine,)) for mine in tensors]
    started = time.perf_counter()
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    right = all(mine[-1][0].item() == calls for mine in tensors)
    return {"threads": count, "calls each": calls, "right": right, "seconds": seconds}


def show(result: dict[str, Any]) -> None:
    """Print what calls cost the host."""
    print("launcher:", result["launcher"])
    for name, (median, spread) in result["host us"].items():
        print(f"{name:36} {median:8.2f} us  +- {spread:.2f}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", choices=("cuda", "llvm"), default="cuda")
    parser.add_argument("--python", action="store_true", help="without the launcher in C")
    parser.add_argument("--calls-only", action="store_true", help="host time of calls alone")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    if options.python:
        import autotune.runtime.call.native as native

        native._found.append((None, "asked for"))
    result: dict[str, Any] = {"launcher": why_not() or "C"}
    if options.target == "llvm":
        result["host us"] = measure_cpu()
        show(result)
    else:
        import torch

        result["host us"] = measure_gpu(torch)
        show(result)
        for name, part in () if options.calls_only else PARTS:
            try:
                result[name] = part(torch)
            except Exception as error:  # the other parts are worth having
                result[name] = f"failed: {type(error).__name__}: {error}"
            print(name, result[name], flush=True)
            _write(options.json, result)
    _write(options.json, result)


PARTS: tuple[tuple[str, Callable[[Any], object]], ...] = (
    ("graph", captured),
    ("streams", overlap),
    ("threads", threads),
    ("operator", compiled),
)


def _write(path: Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
