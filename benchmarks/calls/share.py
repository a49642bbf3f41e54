"""The library's own share of a call, measured with a CUDA driver that does nothing.

    python -m benchmarks.calls.share              # CPU time
    python -m benchmarks.calls.share --count      # and instructions, which valgrind counts
    python -m benchmarks.calls.share --torch      # and tensors of torch

Kernels of the CPU are empty functions. Each row is a call in a loop, less the loop: the least CPU
time of several batches, which a busy machine hardly changes, and instructions of the process,
which no other process changes. Calls of an empty C function by ctypes stand beside them. To what a
CUDA launch takes here the driver's own part is added on a device: `python -m benchmarks.calls`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import autotune
from autotune.kernel import Kernel, KernelCall
from autotune.runtime import Device, Module, NDArray, array
from autotune.runtime.arrays.memory import Block
from autotune.runtime.call.native import why_not
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.runtime.nvidia import libcuda
from autotune.target import Target

RESULTS = Path(__file__).resolve().parents[1] / "results" / "call_share.json"
COUNTS = (1, 3, 8)
SIZE = 1024
BATCHES, CALLS = 9, 50_000
FEW, MANY = 200, 1200
STREAM = 0x50


@dataclass(frozen=True)
class Case:
    """A call to look at."""

    name: str
    function: Callable[..., object]
    args: Sequence[object] = ()
    options: str = ""

    @property
    def timer(self) -> timeit.Timer:
        """Runs it in a loop; an empty loop where there are no arguments."""
        names = [f"a{i}" for i in range(len(self.args))]
        known = {"f": self.function, **dict(zip(names, self.args, strict=True))}
        text = f"f({', '.join(names)}{self.options})" if names else "pass"
        return timeit.Timer(text, globals=known, timer=time.process_time)


def idle_driver(folder: str) -> ctypes.CDLL:
    """Compile the driver that does nothing."""
    source = Path(__file__).with_name("idle_driver.c").read_text("utf-8")
    kernel = Kernel("idle_driver", "c", source, args=(), calls=(KernelCall("idle_driver", ()),))
    built = compile_kernel(kernel, Target("c"), timeout_s=60, out_dir=folder)
    return ctypes.CDLL(built.artifact)


def touch(count: int) -> autotune.SourceKernel:
    """Return an empty kernel with so many arguments, the last of which it writes."""
    names = [f"a{i}" for i in range(count)]
    text = f"void touch({', '.join(f'float *{name}' for name in names)}) {{}}"
    roles = ["in"] * (count - 1) + ["inout"]
    args = [autotune.arg(n, (SIZE,), role=r) for n, r in zip(names, roles, strict=True)]
    return autotune.SourceKernel("touch", text, args, grid=1, block=1)


def on_device(index: int) -> NDArray:
    """Return an array that says that it lies on a GPU."""
    return NDArray(Device("cuda", 0), (SIZE,), "float32", Block(0x7000 + 16 * index, 0, None))


def cases(driver: ctypes.CDLL, torch: Any) -> Iterator[Case]:
    """Yield the calls; the first is none."""
    yield Case("the loop", int)
    plain = Target("cuda -arch=sm_90")
    for count in COUNTS:
        head = f"{count} argument{'s' * (count > 1)}"
        values = [np.zeros(SIZE, "float32") for _ in range(count)]
        empty = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * count)(("nothing", driver))
        yield Case(f"{head}, ctypes", empty, [v.ctypes.data for v in values])
        function = autotune.build(touch(count), target="llvm")
        yield Case(f"{head}, C, numpy", function, values)
        yield Case(f"{head}, C, ours", function, [array(v) for v in values])
        if torch is not None:
            yield Case(f"{head}, C, torch", function, [torch.from_numpy(v) for v in values])
        launched = Module(touch(count).kernel("cuda"), plain, b"cubin", ".cubin")
        ours = [on_device(i) for i in range(count)]
        yield Case(f"{head}, CUDA, ours", launched, ours)
        yield Case(f"{head}, CUDA, ours, a stream", launched, ours, f", stream={STREAM}")


def cpu_ns(case: Case) -> float:
    """Return the least CPU time of a turn of the loop."""
    return min(case.timer.timeit(CALLS) for _ in range(BATCHES)) / CALLS * 1e9


def run_counted(found: Sequence[Case], driver: ctypes.CDLL) -> None:
    """Make all calls between marks, where `counted` looks for them."""
    for case in found:
        case.timer.timeit(3)
        timers = case.timer, case.timer
        driver.autotune_mark()
        for timer, calls in zip(timers, (FEW, MANY), strict=True):
            timer.timeit(calls)
            driver.autotune_mark()


def counted(names: Sequence[str], with_torch: bool) -> dict[str, float]:
    """Return the instructions of a turn of each loop.

    Raises:
        RuntimeError: valgrind failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        argv = [
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
            sys.executable, "-m", "benchmarks.calls.share", "--marked",
            *(["--torch"] if with_torch else []),
        ]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"valgrind failed: {done.stderr[-2000:]}")
        totals = partial(_total, Path(folder))
        turns = MANY - FEW
        return {
            name: (totals(3 * i + 3) - totals(3 * i + 2)) / turns for i, name in enumerate(names)
        }


def _total(folder: Path, number: int) -> int:
    text = (folder / f"out.{number}").read_text("utf-8", "replace")
    found = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"callgrind: no total in its output {number}")
    return int(found[1])


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", action="store_true", help="instructions too, by valgrind")
    parser.add_argument("--torch", action="store_true", help="tensors of torch too")
    parser.add_argument("--marked", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    if options.count and shutil.which("valgrind") is None:
        parser.error("--count needs valgrind, which is not installed")
    torch = __import__("torch") if options.torch else None
    with tempfile.TemporaryDirectory() as folder:
        driver = idle_driver(folder)
        libcuda.library = lambda: driver  # type: ignore[assignment]
        Device.exist = True  # type: ignore[method-assign, assignment]
        found = list(cases(driver, torch))
        if options.marked:
            run_counted(found, driver)
            return
        print("launcher:", why_not() or "C")
        ns = {case.name: cpu_ns(case) for case in found}
    instructions = counted(list(ns), options.torch) if options.count else {}
    rows = {
        name: {
            "cpu ns": round(taken - ns["the loop"], 1),
            **({"instructions": round(instructions[name] - instructions["the loop"])}
               if instructions else {}),
        }
        for name, taken in ns.items() if name != "the loop"
    }  # fmt: skip
    for name, row in rows.items():
        print(f"{name:34}", "  ".join(f"{value:8} {what}" for what, value in row.items()))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
