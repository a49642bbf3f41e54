"""Many searches on one GPU at once, each trial with the device to itself, until a deadline.

    python -m benchmarks.auto_scheduler.sweep plan.txt --out found --library         # needs a GPU
    python -m benchmarks.auto_scheduler.curves found                                 # needs none

A line of the plan is one search: a workload of `cases`, a seed, trials, and what the search is
denied, if anything (``gemm1024 0 64 crossover``); first comes first. Each is a process of its own,
so that what one is denied the others have; ``--lanes`` of them run at once, as compilers need more
time than the device. With ``--library`` one more process times winners in turns with what PyTorch
calls, as soon as they are known. None begins less than ``--last`` seconds before the
``--deadline``; what has no result by then is named, and ended.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.kernel import Kernel
from benchmarks.auto_scheduler.ablations import ABLATIONS
from benchmarks.auto_scheduler.cases import CASES
from benchmarks.auto_scheduler.library import beside_library, compiled
from benchmarks.auto_scheduler.search import keep, keep_text, report, searched

# Forks begin with everything imported; the parent has neither threads nor a device.
_FORK = multiprocessing.get_context("fork")
_POLL_S = 0.05


@dataclass(frozen=True)
class Job:
    """One search."""

    name: str
    seed: int
    trials: int
    without: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join([self.name, str(self.seed), str(self.trials), *self.without])


@dataclass(frozen=True)
class Winner:
    """The result of one search, compiled, with facts about the run."""

    row: dict[str, Any]
    kernel: Kernel
    cubin: Path


def plan_of(path: Path) -> list[Job]:
    """Return the jobs of a file."""
    lines = [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]
    jobs = [
        Job(name, int(seed), int(trials), tuple(without)) for name, seed, trials, *without in lines
    ]
    unknown = {job.name for job in jobs} - set(CASES)
    unknown |= {each for job in jobs for each in job.without} - set(ABLATIONS)
    if unknown:
        raise SystemExit(f"{path}: no such workload, or thing to go without: {sorted(unknown)}")
    return jobs


def search(job: Job, options: argparse.Namespace, winners: Any) -> None:
    """Run one search, and hand on what it found; for a process of its own."""
    for structure in job.without:
        ABLATIONS[structure]()
    own = {"without": list(job.without), "trials": job.trials}
    options = argparse.Namespace(**vars(options) | own)
    row, task, best, messages = searched(job.name, options, job.seed)
    keep(options.out, row)
    report(row)
    for kind, text in messages.items():
        print(f"    {kind} {row['failures'][kind]}: {text.strip().splitlines()[-1:]}", flush=True)
    if best is None or not task.target.backend.on_gpu:
        return
    keep_text(options.out, row, task, best)
    if winners is not None:
        winners.put(Winner(row, *compiled(job.name, task, best, options.out / "cubins")))


def compare(winners: Any, folder: Path) -> None:
    """Time winners beside the library as they come, until there is none; for its own process."""
    while (winner := winners.get()) is not None:
        name = winner.row["name"]
        try:
            row = winner.row | beside_library(name, winner.kernel, winner.cubin)
        except Exception as error:  # one case must not take the others with it
            print(f"{name:22} beside the library: {error}", flush=True)
            continue
        keep(folder, row)
        ratio = row["library_us"] / row["beside_us"]
        print(
            f"{name:22} seed {row['seed']}: {row['library']} {row['library_us']:.2f}, "
            f"found {row['beside_us']:.2f}: {ratio:.2f}x",
            flush=True,
        )


def sweep(jobs: Sequence[Job], options: argparse.Namespace) -> list[Job]:
    """Run searches, some at once; return those that have no result."""
    ends = time.monotonic() + options.deadline
    winners = _FORK.Queue() if options.library else None
    judge = None
    if winners is not None:
        judge = _FORK.Process(target=compare, args=(winners, options.out))
        judge.start()
    left, running, failed = list(jobs), dict[Job, Any](), list[Job]()
    while (left or running) and time.monotonic() < ends:
        ended = [job for job, process in running.items() if not process.is_alive()]
        failed += [job for job in ended if running.pop(job).exitcode]
        while left and len(running) < options.lanes and time.monotonic() < ends - options.last:
            job = left.pop(0)
            running[job] = _FORK.Process(target=search, args=(job, options, winners))
            running[job].start()
        if not running and time.monotonic() >= ends - options.last:
            break
        time.sleep(_POLL_S)
    for process in running.values():
        process.terminate()
    if judge is not None and winners is not None:
        winners.put(None)
        judge.join(max(ends + options.grace - time.monotonic(), 0.1))
        judge.kill()
    return [*failed, *running, *left]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the searches of a plan, and name those that have no result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--early-stopping", type=int, help="trials without a better one")
    parser.add_argument("--target", default="cuda -arch=sm_90")
    parser.add_argument("--rewrite", type=int, choices=[0, 1, 2], help="layout_rewrite_option")
    parser.add_argument("--lanes", type=int, default=4, help="searches at once")
    parser.add_argument("--workers", type=int, default=4, help="compilers of each")
    parser.add_argument("--deadline", type=float, default=3600.0, help="seconds")
    parser.add_argument("--last", type=float, default=12.0, help="seconds that a search needs")
    parser.add_argument("--grace", type=float, default=5.0, help="seconds for the last winners")
    parser.add_argument("--library", action="store_true", help="compare with PyTorch")
    parser.add_argument("--out", type=Path, required=True, help="folder for what was found")
    options = parser.parse_args(argv)
    (options.out / "cubins").mkdir(parents=True, exist_ok=True)
    for job in sweep(plan_of(options.plan), options):
        print(f"no result: {job}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
