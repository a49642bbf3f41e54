"""The cost of checking every trial: trials per second with it and without, in turn.

    python -m benchmarks.verification.cost [--target cuda|llvm] [--trials 60] [--rounds 3]

Each round measures the same configurations of each shipped template twice, checked and unchecked,
in turn, each time with an empty cache of builds. With ``--cached`` all builds come from the cache:
the cost is then set against what is left, loading, timing, and the pipeline. CPU times say how
much more is computed, also on a machine that others use.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np

from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, Pipeline, measure_option
from autotune.task import Task, create

TASKS = {
    "cuda": [
        ("conv2d_nchw.cuda", (1, 7, 7, 512, 512, 3, 3, 1, 1)),
        ("gemm_nn.cuda", (1024, 1024, 1024)),
        ("softmax.cuda", (4096, 4096)),
        ("te/conv2d_nchw.cuda", (1, 14, 14, 256, 256, 3, 3, 1, 1)),
        ("te/softmax.cuda", (4096, 4096)),
    ],
    "llvm": [
        ("conv2d_nchw.cpu", (1, 28, 28, 128, 128, 3, 3, 1, 1)),
        ("gemm_nn.cpu", (512, 512, 512)),
        ("softmax.cpu", (512, 1000)),
    ],
}


def children_s() -> float:
    """Return the CPU time of all processes that this one started and that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(task: Task, indices: Sequence[int], verify: bool) -> tuple[float, int]:
    """Return the time from the first result to the last, and how many worked."""
    option = measure_option(LocalBuilder(60), LocalRunner(60, cooldown_interval=0, verify=verify))
    inputs = [MeasureInput(task.target, task, task.config_space.get(i)) for i in indices]
    with Pipeline(task, option) as pipeline:
        ends, worked = [], 0
        while inputs or pipeline.outstanding:
            room = pipeline.room()
            pipeline.submit(inputs[:room])
            inputs = inputs[room:]
            for _, result in pipeline.next_results():
                ends.append(result.timestamp)
                worked += result.ok
        return max(ends) - min(ends), worked


@contextmanager
def own_cache() -> Iterator[None]:
    """Let builds find an empty cache."""
    before = os.environ.get("AUTOTUNE_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AUTOTUNE_CACHE_DIR"] = folder
        try:
            yield
        finally:
            os.environ.pop("AUTOTUNE_CACHE_DIR")
            if before is not None:
                os.environ["AUTOTUNE_CACHE_DIR"] = before


def main(argv: Sequence[str] | None = None) -> None:
    """Print trials per second with and without checks for each template."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", choices=tuple(TASKS), default="llvm")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--cached", action="store_true", help="take all builds from the cache")
    args = parser.parse_args(argv)
    for name, shape in TASKS[args.target]:
        if args.only not in name:
            continue
        task = create(name, shape, args.target)
        space = task.config_space
        indices = [
            int(i) for i in space.sample(min(args.trials, len(space)), np.random.default_rng(0))
        ]
        if args.cached:
            seconds(task, indices, False)
        rates: dict[bool, list[float]] = {True: [], False: []}
        cpu: dict[bool, list[float]] = {True: [], False: []}
        worked = 0
        for _ in range(args.rounds):
            for verify in (True, False):
                before = children_s()
                with nullcontext() if args.cached else own_cache():
                    took, worked = seconds(task, indices, verify)
                cpu[verify].append((children_s() - before) / len(indices))
                rates[verify].append((len(indices) - 1) / took)
        on, off = (float(np.median(rates[verify])) for verify in (True, False))
        busy, idle = (float(np.median(cpu[verify])) for verify in (True, False))
        print(
            f"{name} {shape}: {on:.1f} trials/s checked, {off:.1f} unchecked, "
            f"{100 * (1 - on / off):+.1f}% ({worked} of {len(indices)} worked); "
            f"CPU time of all processes {1e3 * busy:.0f} ms a trial checked, {1e3 * idle:.0f} "
            f"unchecked, {100 * (busy / idle - 1):+.1f}%",
            flush=True,
        )


if __name__ == "__main__":
    main()
