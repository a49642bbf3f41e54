"""Costs and gains of a fleet: trials per second of a local session, and of fleets.

    python -m benchmarks.fleet                                   # C: this host, and a fleet of one
    python -m benchmarks.fleet --target "cuda -arch=sm_90" --devices 1 2 4 --builders 40 \\
        --trials 32 --rounds 1 --number 2 --size 1048576 --trial-s 0.3

All ways measure trials of the same task, without a cache of compiled code, one way after the
other, in rounds; each of a fleet's devices adds `--trials`. With `--trial-s` the kernel repeats
its work so often that a trial has its device for about so long, by a short measured run of it:
what is asked of several devices then is their own time, as long as compiling keeps up. A fleet is
made of workers started as a user starts them: `autotune worker`, one that measures for each
device, and one without devices whose builders compile (`--builders`).

Trials per second are those of the time in which a device was at work: the sum, over the devices,
of the trials that each ended after its first by the time from its first end to its last. So
neither the compilations that nothing overlaps at the beginning nor the last trials of a run,
which not all devices get, decide them. Shown beside them: the same relative to the session and to
the fleet of one; CPU milliseconds a trial of the client's process and of all processes of the
host; and the knob that won.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, Session
from autotune.task import Task

HERE = Path(__file__).resolve().parents[1]
# Of equal machine code one trial is measured and the others share its result, so each knob must
# be in it: no compiler knows that x and y are different places.
C = """
void work(const float *x, float *y) {
  for (int r = 0; r < REPEAT; r++)
    for (int i = 0; i < N; i += UNROLL)
      for (int j = i; j < i + UNROLL; j++) y[j] = 2.0f * x[j];
  if (x == y) y[0] = KNOB;
}
"""
# Volatile: each repetition loads and stores anew (LDG and STG within both loops of the SASS).
# Where nothing hides the latency of the loads, time falls with the number of blocks, of which
# there are fewer than the device has multiprocessors.
CUDA = """
extern "C" __global__ void work(const float *x, float *y) {
  const volatile float *from = x;
  volatile float *to = y;
  for (int r = 0; r < REPEAT; r++)
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x)
      to[i] = 2.0f * from[i];
  if (x == y) y[0] = KNOB;
}
"""
UNROLL = [1, 2, 4, 8]
LIMIT_S = 60.0
_WARM = 12
# Repetitions of the short kernel whose time says how many make `--trial-s`, and the runs that a
# trial makes besides `--number`: one over each poison, to be compared.
_SHORT, _COMPARED = 100, 2


@at.template("benchmark.fleet.work")
def work(n: int, repeat: int, language: str) -> SourceKernel:
    cfg = at.get_config()
    cfg.define_knob("UNROLL", UNROLL)
    cfg.define_knob("KNOB", list(range(1 << 16)))
    cfg.add_flop(n)
    return SourceKernel(
        "work",
        C if language == "c" else CUDA,
        defines={
            "N": n, "REPEAT": repeat, "UNROLL": cfg["UNROLL"].val, "KNOB": cfg["KNOB"].val
        },
        grid=1 if language == "c" else (64 + 8 * cfg["UNROLL"].val,),
        block=1 if language == "c" else (256,),
        args=[arg("x", (n,)), arg("y", (n,), role="out")],
        reference=lambda x: 2 * x,
    )  # fmt: skip


def options(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    build = {"cache": False, "timeout": 60}
    run = {"number": args.number, "cooldown_interval": 0}
    # A trial that makes the same runs whatever came before it.
    steady = {"repeat": 1, "use_graph": False, "timeout": 30}
    return build, run | steady if args.language == "cuda" else run


@contextmanager
def running(*words: str) -> Iterator[None]:
    """Run a module of Python's in a process of its own, without Dask's profiler."""
    quiet = {
        **os.environ,
        "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
        "DASK_LOGGING__DISTRIBUTED": "warning",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.DEVNULL, env=quiet
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def started_scheduler() -> Iterator[str]:
    """Run `dask scheduler`; gives its address."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "scheduler.json"
        words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", said)
        deadline = time.monotonic() + LIMIT_S
        with running("distributed.cli.dask_scheduler", *map(str, words)):
            while not (said.exists() and said.read_text().endswith("}")):
                assert time.monotonic() < deadline, "no scheduler was started"
                time.sleep(0.05)
            yield json.loads(said.read_text())["address"]


def worker(scheduler: str, *words: str) -> AbstractContextManager[None]:
    """Run `autotune worker` with its own compilers."""
    return running("autotune", "worker", "--scheduler", scheduler, *words)


@contextmanager
def fleet_of(args: argparse.Namespace, devices: int) -> Iterator[Any]:
    """A scheduler, workers, and a fleet over them."""
    from autotune.fleet import Fleet

    build, run = options(args)
    kind = "cpu" if args.language == "c" else "cuda"
    with ExitStack() as stack:
        scheduler = stack.enter_context(started_scheduler())
        each = 0 if args.builders else args.parallel
        for index in range(devices):
            words = ("--device", f"{kind}:{index}", "--builders", str(each))
            stack.enter_context(worker(scheduler, *words))
        if args.builders:
            words = ("--device", "none", "--builders", str(args.builders))
            stack.enter_context(worker(scheduler, *words))
        fleet = stack.enter_context(Fleet(scheduler, build=build, run=run))
        fleet.wait(devices)
        deadline = time.monotonic() + LIMIT_S
        while fleet.builder.n_parallel < (args.builders or each) and time.monotonic() < deadline:
            time.sleep(0.1)
        yield fleet


@contextmanager
def session_of(args: argparse.Namespace) -> Iterator[Any]:
    """Builders and one device of this host."""
    build, run = options(args)
    parallel = args.builders or args.parallel
    yield {"builder": LocalBuilder(n_parallel=parallel, **build), "runner": LocalRunner(**run)}


def cpu_s() -> float:
    """Return CPU seconds of this process and of all that it started and waited for."""
    times = os.times()
    return times.user + times.system


def busy_s() -> float:
    """Return CPU seconds of all processes of this host."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    idle = int(words[3]) + int(words[4])
    return (sum(map(int, words[:8])) - idle) / os.sysconf("SC_CLK_TCK")


def measured(session: Session, task: Task, keys: Sequence[int]) -> dict[str, Any]:
    """Measure trials; of those that come first the CPU time does not count."""
    inputs = [MeasureInput(task.target, task, task.config_space.get(key)) for key in keys]
    pairs = []
    own = busy = 0.0
    for pair in session.stream(inputs):
        pairs.append(pair)
        if len(pairs) == _WARM:
            own, busy = cpu_s(), busy_s()
    counted = len(pairs) - _WARM
    own, busy = cpu_s() - own, busy_s() - busy
    bad = [result for _, result in pairs if not result.ok or result.evidence.same_code_as]
    assert not bad, bad[0]
    # Of equal kernels whichever was luckiest wins: what wins is the knob that matters.
    best: dict[int, list[float]] = {}
    ends: dict[int | None, list[float]] = {}
    for inp, result in pairs:
        best.setdefault(inp.config["UNROLL"].val, []).append(result.seconds)
        ends.setdefault(result.evidence.device, []).append(result.timestamp)
    every = [end for each in ends.values() for end in each]
    return {
        "trials": len(pairs),
        "devices": len(ends),
        "per_second": sum(
            (len(each) - 1) / (max(each) - min(each)) for each in ends.values() if each[1:]
        ),
        "per_second_to_the_last": (len(every) - 1) / (max(every) - min(every)),
        "client_cpu_ms": 1e3 * own / counted,
        "all_cpu_ms": 1e3 * busy / counted,
        "winner": min(best, key=lambda knob: statistics.median(best[knob])),
    }


def ways(args: argparse.Namespace) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Yield the name of each way, how many devices it has, and what makes it."""
    yield "session", 1, lambda: session_of(args)
    for devices in args.devices:
        yield f"fleet of {devices}", devices, partial(fleet_of, args, devices)


def show(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    def rate_of(name: str) -> float:
        each = [row["per_second"] for row in rows.get(name, ())]
        return statistics.median(each) if each else math.nan

    print(
        f"{'':12}{'trials/s':>9}{'session':>9}{'of one':>8}{'client ms':>11}{'all ms':>8}  winner"
    )
    for name, each in rows.items():
        rate = rate_of(name)
        client, all_ms = (
            statistics.median(row[key] for row in each) for key in ("client_cpu_ms", "all_cpu_ms")
        )
        ratios = f"{rate / rate_of('session'):9.3f}{rate / rate_of('fleet of 1'):8.3f}"
        winners = ", ".join(str(row["winner"]) for row in each)
        print(f"{name:12}{rate:9.2f}{ratios}{client:11.2f}{all_ms:8.1f}  {winners}")


def task_of(args: argparse.Namespace, repeat: int) -> Task:
    return at.create(
        "benchmark.fleet.work", (args.size, repeat, args.language), target=args.target
    )


def repetitions(args: argparse.Namespace) -> int:
    """Return how often the kernel repeats its work, so that a trial takes what was asked for."""
    if not args.trial_s:
        return int(args.repeat)
    task = task_of(args, _SHORT)
    with session_of(args) as option, Session(option) as session:
        results = session.measure(task, map(task.config_space.get, range(len(UNROLL))))
    seconds = statistics.mean(result.seconds for result in results)
    return max(1, round(_SHORT * args.trial_s / (seconds * (_COMPARED + args.number))))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="c")
    parser.add_argument("--devices", type=int, nargs="+", default=[1], help="fleets to make")
    parser.add_argument("--builders", type=int, default=0, help="of a worker without devices")
    parser.add_argument("--parallel", type=int, default=2, help="builders beside each device")
    parser.add_argument("--trials", type=int, default=100, help="for each device")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--number", type=int, default=4)
    parser.add_argument("--size", type=int, default=1 << 14)
    parser.add_argument("--repeat", type=int, default=1, help="work of one kernel")
    parser.add_argument("--trial-s", type=float, help="seconds that a trial has its device")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "fleet.json")
    args = parser.parse_args(argv)
    args.language = "c" if args.target.split()[0] in ("c", "llvm") else "cuda"
    task = task_of(args, repetitions(args))
    print("a kernel repeats its work", task.args[1], "times", flush=True)
    rows: dict[str, list[dict[str, Any]]] = {}
    space = len(task.config_space)
    for name, devices, make in ways(args):
        with make() as option, Session(option) as session:
            for turn in range(args.rounds):
                first = turn * 7919
                keys = [(first + 4097 * i) % space for i in range(args.trials * devices)]
                random.Random(turn).shuffle(keys)  # or devices by turns get kernels of one kind
                rows.setdefault(name, []).append(measured(session, task, keys))
                print(name, json.dumps(rows[name][-1]), flush=True)
    show(rows)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"target": args.target, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
