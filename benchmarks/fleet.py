"""What a fleet costs and gains: trials per second of a session of this host, and of fleets on it.

    python -m benchmarks.fleet                                   # C: this host, and a fleet of one
    python -m benchmarks.fleet --target "cuda -arch=sm_90" --devices 1 2 4 --builders 12

All ways measure the same trials of the same task, without a cache of compiled code, one way after
the other, in rounds. A fleet is made of workers started as a user starts them: `autotune worker`,
one that measures for each device, and one without devices whose builders compile (`--builders`).
Shown are trials per second, relative to the session, CPU seconds a trial of the client's process
and of all processes, and the key of the best trial.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, Session
from autotune.task import Task

HERE = Path(__file__).resolve().parent
C = """
void work(const float *x, float *y) {
  for (int r = 0; r < REPEAT; r++)
    for (int i = 0; i < N; i += UNROLL)
      for (int j = i; j < i + UNROLL; j++) y[j] = 2.0f * x[j] + KNOB * 0.0f;
}
"""
CUDA = """
extern "C" __global__ void work(const float *x, float *y) {
  volatile int different = KNOB;
  for (int r = 0; r < REPEAT; r++)
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x)
      y[i] = 2.0f * x[i];
}
"""
LIMIT_S = 60.0
_WARM = 12


@at.template("benchmark.fleet.work")
def work(n: int, repeat: int, language: str) -> SourceKernel:
    cfg = at.get_config()
    cfg.define_knob("UNROLL", [1, 2, 4, 8])
    cfg.define_knob("KNOB", list(range(1 << 16)))
    cfg.add_flop(n)
    return SourceKernel(
        "work",
        C if language == "c" else CUDA,
        defines={
            "N": n, "REPEAT": repeat, "UNROLL": cfg["UNROLL"].val, "KNOB": cfg["KNOB"].val
        },
        grid=1 if language == "c" else (64 * cfg["UNROLL"].val,),
        block=1 if language == "c" else (256,),
        args=[arg("x", (n,)), arg("y", (n,), role="out")],
        reference=lambda x: 2 * x,
    )  # fmt: skip


def options(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"cache": False, "timeout": 60}, {"number": args.number, "cooldown_interval": 0}


@contextmanager
def worker(scheduler: str, *words: str) -> Iterator[None]:
    """Run `autotune worker` with its own compilers."""
    command = [sys.executable, "-m", "autotune", "worker", "--scheduler", scheduler, *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def fleet_of(args: argparse.Namespace, devices: int) -> Iterator[Any]:
    """A scheduler, workers, and a fleet over them."""
    from distributed import LocalCluster

    from autotune.fleet import Fleet

    build, run = options(args)
    kind = "cpu" if args.language == "c" else "cuda"
    with ExitStack() as stack:
        cluster = LocalCluster(
            n_workers=0, processes=False, protocol="tcp://", dashboard_address=":0"
        )
        scheduler = stack.enter_context(cluster).scheduler_address
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
    """Measure trials; those that come first, while there is more to start, do not count."""
    inputs = [MeasureInput(task.target, task, task.config_space.get(key)) for key in keys]
    pairs = []
    started = own = busy = 0.0
    for pair in session.stream(inputs):
        pairs.append(pair)
        if len(pairs) == _WARM:
            started, own, busy = time.perf_counter(), cpu_s(), busy_s()
    seconds = time.perf_counter() - started
    pairs = pairs[_WARM:]
    bad = [result for _, result in pairs if not result.ok]
    assert not bad, bad[0]
    # Of equal kernels whichever was luckiest wins: what wins is the knob that matters.
    best: dict[int, list[float]] = {}
    for inp, result in pairs:
        best.setdefault(inp.config["UNROLL"].val, []).append(result.seconds)
    return {
        "trials": len(pairs),
        "per_second": len(pairs) / seconds,
        "client_cpu_ms": 1e3 * (cpu_s() - own) / len(pairs),
        "all_cpu_ms": 1e3 * (busy_s() - busy) / len(pairs),
        "winner": min(best, key=lambda knob: statistics.median(best[knob])),
    }


def ways(args: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {"session": lambda: session_of(args)}
    for devices in args.devices:
        found[f"fleet of {devices}"] = lambda devices=devices: fleet_of(args, devices)
    return found


def show(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    base = statistics.median(row["per_second"] for row in rows["session"])
    print(f"{'':14}{'trials/s':>10}{'relative':>10}{'client ms':>11}{'all ms':>9}  winner")
    for name, each in rows.items():
        rate, client, all_ms = (
            statistics.median(row[key] for row in each)
            for key in ("per_second", "client_cpu_ms", "all_cpu_ms")
        )
        winners = ", ".join(str(row["winner"]) for row in each)
        numbers = f"{rate:10.2f}{rate / base:10.3f}{client:11.2f}{all_ms:9.1f}"
        print(f"{name:14}{numbers}  {winners}")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="c")
    parser.add_argument("--devices", type=int, nargs="+", default=[1], help="fleets to make")
    parser.add_argument("--builders", type=int, default=0, help="of a worker without devices")
    parser.add_argument("--parallel", type=int, default=2, help="builders beside each device")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--number", type=int, default=4)
    parser.add_argument("--size", type=int, default=1 << 14)
    parser.add_argument("--repeat", type=int, default=1, help="work of one kernel")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "fleet.json")
    args = parser.parse_args(argv)
    args.language = "c" if args.target.split()[0] in ("c", "llvm") else "cuda"
    task = at.create(
        "benchmark.fleet.work", (args.size, args.repeat, args.language), target=args.target
    )
    rows: dict[str, list[dict[str, Any]]] = {}
    space = len(task.config_space)
    for name, make in ways(args).items():
        with make() as option, Session(option) as session:
            for turn in range(args.rounds):
                first = turn * 7919
                keys = [(first + 4097 * i) % space for i in range(args.trials)]
                rows.setdefault(name, []).append(measured(session, task, keys))
                print(name, json.dumps(rows[name][-1]), flush=True)
    show(rows)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"target": args.target, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
