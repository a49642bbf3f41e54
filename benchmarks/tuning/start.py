"""The time to the first result, the trials per second that follow, and where the time goes.

    python -m benchmarks.tuning.start                            # a GPU, with nvcc and with NVRTC
    python -m benchmarks.tuning.start --compilers nvrtc --tasks conv2d_nchw.cuda --trials 300
    python -m benchmarks.tuning.start --target llvm              # the CPU templates

Every run is a process of its own and compiles everything anew; one short run before the first is
not counted, so that compilers are in the file cache. Printed per run: seconds of making the task
and the tuner; seconds from `tune` to the first result as a log gets it, and to that of the first
proposal, behind which a bar shows the others; trials a second from there on; the wall time of the
calling thread by what it did: proposing, learning, running templates and lowering, waiting for
results, the final race, starting and ending processes; and that of the device by what it did for
trials: inputs, loading, timing, checking, resting.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "results" / "start.json"
MARK = "RESULT "

# Workloads by task.
TASKS: dict[str, tuple[Any, ...]] = {
    "conv2d_nchw.cuda": (1, 7, 7, 512, 512, 3, 3, 1, 1, True, True),
    "gemm_nn.cuda": (1024, 1024, 1024),
    "softmax.cuda": (4096, 4096),
    "te/conv2d_nchw.cuda": (1, 14, 14, 256, 256, 3, 3, 1, 1),
    "conv2d_nchw.cpu": (1, 14, 14, 256, 256, 3, 3, 1, 1),
    "gemm_nn.cpu": (512, 512, 512),
}
WARM_UP_TRIALS = 4
# Results between two looks at the clocks of compilers.
LOOK_EVERY = 6
_DEVICE_REST = "device: rest"


class Stopwatch:
    """Adds up the time that this thread spends in some functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.device: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def watch(self, owner: Any, name: str, label: str) -> None:
        """Replace a function of a class or module by one that is timed."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.perf_counter() - started
                self.seconds[label] = self.seconds.get(label, 0.0) + spent
                self.calls[label] = self.calls.get(label, 0) + 1

        setattr(owner, name, timed)

    def count(self, owner: Any, name: str, label: str) -> None:
        """Count how often the functions are called that a method is given."""
        method: Callable[..., Any] = getattr(owner, name)

        def counting(itself: Any, function: Callable[..., Any]) -> Any:
            def counted(*args: Any) -> Any:
                self.calls[label] = self.calls.get(label, 0) + 1
                return function(*args)

            return method(itself, counted)

        setattr(owner, name, counting)

    def summary(self, total_s: float) -> dict[str, dict[str, Any]]:
        """Return the calls, and the seconds of this thread and of the device, by what they did."""
        own = {label: s for label, s in self.seconds.items() if label != _DEVICE_REST}
        return {
            "calls": self.calls,
            "seconds": {**own, "other": total_s - sum(own.values())},
            "device": {**self.device, "rest": self.seconds.get(_DEVICE_REST, 0.0)},
        }


def watch_device(watch: Stopwatch) -> None:
    """Add up what the processes that own devices did for trials."""
    from autotune.measure.run.device_process import CoolDown, LocalDeviceProcess

    run = LocalDeviceProcess.run

    def timed(itself: Any, job: Any) -> Any:
        started = time.perf_counter()
        reply = run(itself, job)
        spent = time.perf_counter() - started
        label = f"rest of a {type(job).__name__}"
        phases = dict(getattr(reply, "phases", {}))
        phases[label] = spent - sum(phases.values())  # what is left: the way there and back
        for phase, seconds in phases.items():
            watch.device[phase] = watch.device.get(phase, 0.0) + seconds
        return reply

    LocalDeviceProcess.run = timed  # type: ignore[method-assign]
    watch.watch(CoolDown, "after", _DEVICE_REST)


def compiling_cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU time of builders so far, with that of the compilers they run and ran."""
    ticks = 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            fields = entry.read_text("utf-8", "replace").rpartition(")")[2].split()
            owner = os.getpgid(int(entry.parent.name))
            # A kept NVRTC process leads a group of its own, below its builder's.
            if owner in pids or int(fields[1]) in pids:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Arrivals:
    """A callback that notes when results come, of successes and of failures.

    Args:
        at_once: whether they are noted as they end, as a log does; else in order of proposal.
    """

    def __init__(self, at_once: bool = False) -> None:
        self.at_once = at_once
        self.at: list[float] = []
        self.good: list[float] = []

    def __call__(self, tuner: object, inputs: Sequence[object], results: Sequence[Any]) -> None:
        """Note the time of these results."""
        now = time.perf_counter()
        self.at += [now] * len(results)
        self.good += [now for result in results if result.error_no == 0]

    def summary(self, started: float) -> dict[str, float]:
        """Return how many results came, and when, counted from a start."""
        first, last = self.at[0], self.at[-1]
        return {
            "trials": len(self.at),
            "failed": len(self.at) - len(self.good),
            "first_result_s": first - started,
            "first_success_s": (self.good or [float("nan")])[0] - started,
            "per_s_from_first": (len(self.at) - 1) / max(last - first, 1e-9),
        }


def watched() -> Stopwatch:
    """Return a stopwatch over what the calling thread does for a run."""
    import autotune.measure.build.builder as builder
    import autotune.tuner.loop.run as driving
    from autotune.measure import Pipeline
    from autotune.task import ConfigSpace
    from autotune.tuner import AutoTuner

    watch = Stopwatch()
    watch.count(ConfigSpace, "multi_filter", "filter")
    watch.watch(AutoTuner, "next_batch", "propose")
    watch.watch(AutoTuner, "update", "learn")
    watch.watch(builder, "realise", "template and lowering")
    watch.watch(Pipeline, "wait_for_room", "wait for results")
    watch.watch(Pipeline, "__init__", "start processes")
    watch.watch(Pipeline, "close", "end processes")
    watch.watch(driving.Run, "_hold_race", "final race")
    watch_device(watch)
    return watch


def run_one(name: str, target: str, compiler: str, trials: int, seed: int) -> dict[str, Any]:
    """Tune once in this process, and return what took how long."""
    clock = time.perf_counter
    before = clock()
    import autotune.templates

    import autotune
    from autotune.measure import LocalBuilder, LocalRunner, measure_option
    from autotune.tuner import AutoTuner

    imported = clock()
    watch = watched()
    task = autotune.create(name, TASKS[name], target=target)
    tuner = AutoTuner(task, seed=seed)
    made = clock()
    builder = LocalBuilder(timeout=60, compiler=compiler, cache=False)  # type: ignore[arg-type]
    arrivals, ends = Arrivals(), Arrivals(at_once=True)
    compiling_s = 0.0

    def look(*_: object) -> None:
        nonlocal compiling_s
        if len(arrivals.at) % LOOK_EVERY == 0 or len(arrivals.at) == trials:
            compiling_s = compiling_cpu_s(builder.pids)

    cpu, started = time.process_time(), clock()
    option = measure_option(builder, LocalRunner())
    tuner.tune(trials, option, callbacks=[arrivals, ends, look], fail_fast=None)
    total = clock() - started
    own_cpu = time.process_time() - cpu
    best = tuner.best_measure_pair
    return {
        "task": name,
        "target": target,
        "compiler": compiler,
        "import_s": imported - before,
        "create_s": made - imported,
        "first_ended_s": ends.at[0] - started,
        **arrivals.summary(started),
        "total_s": total,
        "own_cpu_s": own_cpu,
        "compiling_cpu_s": compiling_s,
        "best_us": best[1].mean * 1e6 if best else None,
        **watch.summary(total),
    }


def in_process(arguments: Sequence[str]) -> dict[str, Any]:
    """Run one case in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.tuning.start", "--one", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stdout}\n{done.stderr[-4000:]}")
    return dict(json.loads(lines[-1].removeprefix(MARK)))


def show(row: dict[str, Any]) -> None:
    """Print one run."""
    calls = row["calls"].get("filter", 0)
    print(
        f"{row['task']} {row['compiler']}: import {row['import_s']:.2f} s, task and tuner "
        f"{row['create_s']:.2f} s, first result {row['first_ended_s']:.2f} s after tune, first in "
        f"turn {row['first_result_s']:.2f} s, then "
        f"{row['per_s_from_first']:.1f} trials/s; {row['trials']} trials ({row['failed']} failed) "
        f"in {row['total_s']:.1f} s, best {row['best_us'] or float('nan'):.1f} us; "
        f"filter called {calls} times"
    )
    parts = sorted(row["seconds"].items(), key=lambda part: -part[1])
    print("   wall: " + ", ".join(f"{label} {seconds:.2f} s" for label, seconds in parts))
    parts = sorted(row["device"].items(), key=lambda part: -part[1])
    print("   device: " + ", ".join(f"{label} {seconds:.2f} s" for label, seconds in parts))
    compiling, cores = row["compiling_cpu_s"], os.cpu_count() or 1
    until = row["total_s"] - row["seconds"].get("final race", 0.0)
    print(
        f"   CPU: calling process {row['own_cpu_s']:.1f} s, compiling {compiling:.1f} s "
        f"({compiling / max(row['trials'], 1):.2f} a trial, {compiling / until / cores:.0%} of "
        f"{cores} cores until the race)",
        flush=True,
    )


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), help="by default by the target")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--compilers", nargs="+", default=None, choices=["nvcc", "nvrtc"])
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    cuda = options.target.startswith("cuda")
    ending = ".cuda" if cuda else ".cpu"
    tasks = options.tasks or [name for name in TASKS if name.endswith(ending)]
    compilers = options.compilers or (["nvcc", "nvrtc"] if cuda else ["nvcc"])
    if options.one:
        row = run_one(tasks[0], options.target, compilers[0], options.trials, options.seed)
        print(MARK + json.dumps(row))
        return [row]

    def arguments(task: str, compiler: str, trials: int) -> list[str]:
        given = ["--tasks", task, "--compilers", compiler, "--target", options.target]
        return [*given, "--trials", str(trials), "--seed", str(options.seed)]

    rows = []
    for compiler in compilers:
        in_process(arguments(tasks[0], compiler, WARM_UP_TRIALS))
        for task in tasks:
            rows.append(in_process(arguments(task, compiler, options.trials)))
            show(rows[-1])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=1))
    return rows


if __name__ == "__main__":
    main()
