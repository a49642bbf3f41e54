"""The C templates against numpy and PyTorch, each in a process of its own, in turns.

    python -m benchmarks.apart_cpu --drawn 20 --seed 30101 --only gemm     # on all cores
    python -m benchmarks.apart_cpu --shapes "gemm 64x3771x736" "conv 640->48 1x1 on 70" --first
    python -m benchmarks.apart_cpu --threads 1 --drawn 20 --only "conv " --rounds 15

Threads of OpenMP and of a BLAS go on waiting actively when their work is done, and take the cores
of what is timed next. In one process they can only be waited for; another process is stopped as a
whole (SIGSTOP) where it is not its turn. In a turn a function is called for some milliseconds, so
that its threads are awake and the caches hold its own operands, and then timed for as long. The
order is drawn anew in each round. Printed are medians of wall time in us, and the ratio of the
best library's to ours with the quartiles of ours: where these are far apart, other programs ran.
``--first`` lets the timed threads run before those of other programs (real-time priority of Linux,
for root). Of fewer threads than cores all processes get as many cores, which kernels are made for.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from autotune.target import Target
from benchmarks import rivals_cpu
from benchmarks.drawn_cpu import Case, drawn, named
from benchmarks.templates_cpu import built, cases, operands

Call = Callable[[], Any]
OURS = "ours"
SIDES = (OURS, "numpy", "torch")


class Side:
    """The functions of one library in a process of its own, which runs only when it is asked."""

    def __init__(self, side: str, target: str, seconds: float, is_first: bool) -> None:
        self.side = side
        context = get_context("spawn")
        self._here, there = context.Pipe()
        arguments = there, side, target, seconds, is_first
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        there.close()

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self._send(signal.SIGCONT)
        self._process.kill()
        self._process.join()

    def ask(self, question: Case | str) -> Any:
        """Return the names of what computes a case, or the seconds of the function of a name."""
        self._send(signal.SIGCONT)
        self._here.send(question)
        try:
            return self._here.recv()
        finally:
            self._send(signal.SIGSTOP)

    def _send(self, number: int) -> None:
        os.kill(self._process.pid or 0, number)


def _serve(asked: Connection, side: str, target: str, seconds: float, is_first: bool) -> None:
    """Answer the questions of `Side.ask`, in its process."""
    calls: dict[str, Call] = {}
    while True:
        question = asked.recv()
        if isinstance(question, str):
            asked.send(_timed(calls[question], seconds, is_first))
            continue
        calls = _functions(side, question, Target(target))
        asked.send(list(calls))


def _functions(side: str, case: Case, target: Target) -> dict[str, Call]:
    template, args = case
    module = built(template, args, target)
    arrays = operands(module, args)
    if side == OURS:
        return {OURS: lambda: module(*arrays)}
    if side == "numpy":
        return rivals_cpu.of_numpy(template, arrays)
    return rivals_cpu.of_torch(template, args, arrays)


def _timed(call: Call, seconds: float, is_first: bool) -> float:
    """Return the mean wall time of a call."""
    call()  # starts threads
    if is_first:
        _schedule(os.SCHED_FIFO, 1)
    runs = _repeated(call, seconds)[0]
    runs, took = _repeated(call, seconds, max(runs // 8, 1))
    if is_first:
        _schedule(os.SCHED_OTHER, 0)
    return took / runs


def _repeated(call: Call, seconds: float, together: int = 1) -> tuple[int, float]:
    """Return how many calls took at least so many seconds, and how long they took."""
    started, runs = time.perf_counter(), 0
    while (took := time.perf_counter() - started) < seconds:
        for _ in range(together):
            call()
        runs += together
    return runs, took


def _schedule(policy: int, priority: int) -> None:
    """Set how all threads of this process are scheduled."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setscheduler(int(thread), policy, os.sched_param(priority))


@dataclass(frozen=True)
class Turns:
    """The seconds of one function in each round."""

    side: Side
    name: str
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)

    def take(self) -> None:
        """Take a sample."""
        self.seconds.append(self.side.ask(self.name))


def compare(
    name: str, case: Case, sides: Sequence[Side], rounds: int, rng: random.Random
) -> float:
    """Print one row; return how much longer the best library takes."""
    turns = [Turns(side, one) for side in sides for one in side.ask(case)]
    for _ in range(rounds):
        rng.shuffle(turns)
        for each in turns:
            each.take()
    times = {each.name: each.median for each in turns}
    ours = times.pop(OURS)
    best = min(times.values())
    (own,) = (each.seconds for each in turns if each.name == OURS)
    low, _, high = statistics.quantiles(own)
    shown = " | ".join(f"{who} {t * 1e6:.1f}" for who, t in [(OURS, ours), *sorted(times.items())])
    spread = f"{best / high:.2f} to {best / low:.2f}"
    print(f"| {name} | {shown} | {best / ours:.2f} | {spread} |", flush=True)
    return best / ours


def main(argv: Sequence[str] | None = None) -> None:
    options = _options(argv)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.threads :])
    every = drawn(options.seed, options.drawn) if options.drawn else cases()
    if options.shapes:
        every = dict(map(named, options.shapes))
    chosen = {n: c for n, c in every.items() if any(text in n for text in options.only)}
    rng, ratios = random.Random(options.seed), []
    print(f"{options.threads} threads; us, library / ours, and of the quartiles of ours")
    with ExitStack() as stack:
        given = options.target, options.ms / 1e3, options.first
        sides = [stack.enter_context(Side(side, *given)) for side in SIDES]
        for name, case in chosen.items():
            ratios.append(compare(name, case, sides, options.rounds, rng))
    mean = float(np.exp(np.mean(np.log(ratios))))
    print(f"{len(ratios)} cases: geometric mean {mean:.2f}, least {min(ratios):.2f}")


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=Target("llvm").limits.sm_count)
    parser.add_argument("--only", nargs="*", default=[""], help="cases whose names hold any")
    parser.add_argument("--shapes", nargs="*", default=[], help="just these, named as printed")
    parser.add_argument("--drawn", type=int, default=0, help="shapes of each kind from a seed")
    parser.add_argument("--seed", type=int, default=0, help="of shapes, and of the order of turns")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--ms", type=float, default=10.0, help="of a sample, and before it")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--first", action="store_true", help="run before other programs")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
