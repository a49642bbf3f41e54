"""Trials a second of the auto-scheduler beside those of the template tuner, and its own share.

    python -m benchmarks.auto_scheduler.pace                    # needs a GPU
    python -m benchmarks.auto_scheduler.pace --target llvm      # needs none

Both tune the same layer or product with the same builder, runner and number of trials, in turns:
the template ``te/...`` by `AutoTuner`, the definition alone by `SketchPolicy`. Shown are the
trials a second from the call to its end, final race included, and which part of the
auto-scheduler's time it proposed and learned in, although devices and compilers work meanwhile.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import autotune.templates  # noqa: F401  registers the templates

from autotune import task as tasks
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy, TuningOptions, XGBModel
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.tuner import AutoTuner
from benchmarks.auto_scheduler.cases import CASES
from benchmarks.auto_scheduler.search import Stopwatch

# Case -> the template of the same, without its target, and the template's arguments.
PAIRS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "gemm1024": ("te/gemm", (1024, 1024, 1024)),
    "gemm512": ("te/gemm", (512, 512, 512)),
    "r18_64_56_64_3_1": ("te/conv2d_nchw", (1, 56, 56, 64, 64, 3, 3, 1, 1)),
}


def by_template(name: str, target: str, means: dict[str, Any], trials: int, seed: int) -> str:
    """Tune the template; return what is printed of it."""
    kind, arguments = PAIRS[name]
    suffix = "cuda" if target.startswith("cuda") else "cpu"
    task = tasks.create(f"{kind}.{suffix}", arguments, target=target)
    started = time.perf_counter()
    result = AutoTuner(task, seed=seed).tune(trials, measure_option(**means))
    wall_s = time.perf_counter() - started
    return f"template {result.trials / wall_s:.1f} trials/s, {result.seconds * 1e6:.1f} us"


def by_search(name: str, target: str, means: dict[str, Any], trials: int, seed: int) -> str:
    """Search the definition; return what is printed of it."""
    task = SearchTask(compute_dag=ComputeDAG(CASES[name].tensors()), target=target)
    policy = SketchPolicy(task, XGBModel(), seed=seed)
    thinking, started = Stopwatch(policy), time.perf_counter()
    task.tune(TuningOptions(trials, verbose=0, **means), policy)
    wall_s = time.perf_counter() - started
    result = policy.result
    if result is None:
        return "nothing found"
    text = f"auto-scheduler {result.trials / wall_s:.1f} trials/s, {result.seconds * 1e6:.1f} us"
    return f"{text}, {100 * thinking.seconds / wall_s:.1f}% of {wall_s:.1f} s its own"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--target", default="cuda")
    options = parser.parse_args(argv)
    on_gpu = options.target.startswith("cuda")
    for name in options.cases:
        for seed in options.seeds:
            for way in (by_template, by_search):
                builder = LocalBuilder(compiler="nvrtc") if on_gpu else LocalBuilder()
                means = {"builder": builder, "runner": LocalRunner()}
                shown = way(name, options.target, means, options.trials, seed)
                print(f"{name:18} seed {seed}: {shown}", flush=True)


if __name__ == "__main__":
    main()
