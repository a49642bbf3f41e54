"""Results of the auto-scheduler after a number of trials, and the cost of its search by part.

    python -m benchmarks.auto_scheduler --trials 64 --seeds 0 1 2     # needs a GPU
    python -m benchmarks.auto_scheduler --trials 64 --library --out found   # and PyTorch
    python -m benchmarks.auto_scheduler --costs                       # needs none
    python -m benchmarks.auto_scheduler --memory                      # needs none
    OMP_NUM_THREADS=1 python -m benchmarks.auto_scheduler --target llvm --fallback --trials 24
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 taskset -c 0 \\
        python -m benchmarks.auto_scheduler --target llvm --cases gemm512 gemm1024 --trials 64

Times are those of the final race of each run. With ``--library`` the winner is also built by nvcc
and timed in turns with what PyTorch calls, as `benchmarks.templates_gpu` does it: CUDA graphs,
arrays resident in L2. ``--out`` is a folder for the records of all trials, the CUDA text of each
winner and ``results.jsonl``; ``--without pipelines`` tells the gain of a structure, ``--without
estimate`` that of a technique of the search. On a CPU the winner and numpy's BLAS, or the C
template of a convolution, take turns in one process, and the least CPU time of each is shown: with
one thread, as above, other work on the machine disturbs it little. With several threads it is the
least wall time.

Costs are CPU seconds of one core: making programs of a graph, estimates of 10,000 rows,
proposing 64 candidates, learning from them and proposing 64 more, the same with 12, and lowering
one of them. With ``--fallback`` the winner of each of 30 workloads and the schedule by rule take
turns: how much of the tuned speed runs untuned, and the median of that. With ``--memory`` 30 tasks
propose three rounds of 64 and learn from them, with times that are made up, and the most memory
that the process had is shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.auto_scheduler.ablations import ABLATIONS
from benchmarks.auto_scheduler.cases import CASES, FIRST, THIRTY
from benchmarks.auto_scheduler.search import costs, memory, tuned


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=[*CASES, "all"])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--early-stopping", type=int, help="trials without a better one")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--workers", type=int, help="that compile; one a core by default")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--library", action="store_true", help="compare with PyTorch on the GPU")
    parser.add_argument("--rewrite", type=int, choices=[0, 1, 2], help="layout_rewrite_option")
    parser.add_argument("--out", type=Path, help="folder for what was found")
    parser.add_argument("--without", nargs="+", choices=ABLATIONS, default=[])
    parser.add_argument("--costs", action="store_true", help="measure the search, not kernels")
    parser.add_argument("--fallback", action="store_true", help="compare with untuned schedules")
    parser.add_argument("--memory", action="store_true", help="that 30 tasks take")
    options = parser.parse_args(argv)
    known = "cuda -arch=sm_90" if options.target == "cuda" else options.target
    names = options.cases or (THIRTY if options.fallback or options.memory else FIRST)
    names = tuple(CASES) if "all" in names else names
    if options.memory:
        memory(names, known)
        return
    shares = []
    for structure in options.without:
        ABLATIONS[structure]()
    for name in names:
        if options.costs:
            costs(name, known)
            continue
        for seed in options.seeds:
            try:
                shares.append(tuned(name, options, seed))
            except Exception as error:  # one case must not take the others with it
                print(f"{name:22} seed {seed}: {type(error).__name__}: {error}", flush=True)
    known_shares = sorted(each for each in shares if each is not None)
    if known_shares:
        middle = float(np.median(known_shares))
        print(f"{len(known_shares)} workloads: median {middle:.2f}, least {known_shares[0]:.2f}")


if __name__ == "__main__":
    main()
