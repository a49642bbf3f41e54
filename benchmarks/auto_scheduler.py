"""What the auto-scheduler finds in so many trials, and what its search costs by part.

    python -m benchmarks.auto_scheduler --trials 64 --seeds 0 1 2     # needs a GPU
    python -m benchmarks.auto_scheduler --costs                       # needs none
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 taskset -c 0 \\
        python -m benchmarks.auto_scheduler --target llvm --cases gemm512 gemm1024 --trials 64

Times are those of the final race of each run. On a CPU the winner and numpy's BLAS then take turns
in one process, and the least CPU time of each is shown: with one thread, as above, other work on
the machine disturbs it little. Costs are CPU seconds of one core: making programs of a graph,
closed forms of 10,000 rows, proposing 64 candidates, learning from them, and lowering one of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import autotune
from autotune import te, topi
from autotune.auto_scheduler import (
    ComputeDAG,
    LocalBuilder,
    SearchTask,
    SketchPolicy,
    TuningOptions,
    XGBModel,
)
from autotune.auto_scheduler.recorded_state import RecordedState
from autotune.driver import kernel_of


def of(operator: Callable[..., Any], *shapes: tuple[int, ...]) -> list[te.Tensor]:
    inputs = [te.placeholder(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    return [*inputs, operator(*inputs)]


def layer(channels: int, size: int, filters: int, kernel: int) -> list[te.Tensor]:
    def convolve(x: te.Tensor, w: te.Tensor, b: te.Tensor) -> te.Tensor:
        return topi.nn.relu(topi.nn.conv2d_nchw(x, w, 1, kernel // 2) + b)

    shapes = (1, channels, size, size), (filters, channels, kernel, kernel), (1, filters, 1, 1)
    return of(convolve, *shapes)


def nhwc(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    return topi.nn.relu(topi.nn.conv2d_nhwc(x, w, 1, 1))


def depthwise(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    return topi.nn.depthwise_conv2d_nchw(x, w, 1, 1)


CASES: dict[str, Callable[[], list[te.Tensor]]] = {
    "tutorial": lambda: layer(512, 7, 512, 3),
    "conv64": lambda: layer(64, 56, 64, 3),
    "conv128_nhwc": lambda: of(nhwc, (1, 28, 28, 128), (3, 3, 128, 128)),
    "conv1x1": lambda: layer(256, 56, 64, 1),
    "depthwise144": lambda: of(depthwise, (1, 144, 56, 56), (144, 1, 3, 3)),
    "softmax4096": lambda: of(topi.nn.softmax, (4096, 4096)),
    "gemm512": lambda: of(topi.matmul, (512, 512), (512, 512)),
    "gemm1024": lambda: of(topi.matmul, (1024, 1024), (1024, 1024)),
    "gemm2048": lambda: of(topi.matmul, (2048, 2048), (2048, 2048)),
    "gemm16": lambda: of(topi.matmul, (16, 4096), (4096, 4096)),
}


def tuned(name: str, target: str, trials: int, seed: int) -> None:
    """Tune one case and print what was found."""
    task = SearchTask(compute_dag=ComputeDAG(CASES[name]()), target=target, desc=name)
    policy = SketchPolicy(task, XGBModel(), seed=seed)
    on_gpu = task.target.backend.on_gpu
    builder = LocalBuilder(compiler="nvrtc") if on_gpu else LocalBuilder()
    started = time.perf_counter()
    task.tune(TuningOptions(trials, builder=builder, verbose=0), policy)
    wall_s = time.perf_counter() - started
    seconds = policy.result.seconds if policy.result else float("inf")
    print(f"{name:14} seed {seed}: {seconds * 1e6:8.1f} us after {trials} trials, {wall_s:.1f} s")
    if not on_gpu and policy.best is not None:
        against_peers(name, task, policy.best[0])


def against_peers(name: str, task: SearchTask, best: RecordedState, rounds: int = 15) -> None:
    """Print the CPU times of the winner and of its peers, taken in turns."""
    schedule, tensors = task.realise(best).what
    run = autotune.build(schedule, tensors, target=task.target)
    rng = np.random.default_rng(0)
    arrays = [rng.random([int(n) for n in each.shape], "float32") for each in tensors]
    calls: dict[str, Callable[[], Any]] = {"autotune": lambda: run(*arrays)}
    if name.startswith("gemm"):
        calls["BLAS"] = lambda: np.matmul(*arrays[:2], out=arrays[2])
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for label, call in calls.items():
            call()
            least[label] = min(least[label], timed(call)[1])
    shown = ", ".join(f"{label} {seconds * 1e6:.0f}" for label, seconds in least.items())
    print(f"{name:14} CPU time, us: {shown}")


def costs(name: str) -> None:
    """Print the CPU seconds of each part of a search."""
    task = SearchTask(compute_dag=ComputeDAG(CASES[name]()), target="cuda -arch=sm_90")
    policy = SketchPolicy(task, XGBModel(), seed=0)
    proposer, programs_s = timed(lambda: policy.proposer)
    forms = proposer.arms[0].forms
    rows = proposer.arms[0].sampler.draw(1000)
    many = np.tile(rows, (-(-10_000 // len(rows)), 1))[:10_000]
    forms_s = min(timed(lambda: forms(many))[1] for _ in range(5))
    batch, first_s = timed(lambda: policy.propose(64))
    trials = [(each.transform_steps, 1e-5 * (i + 1)) for i, each in enumerate(batch)]
    _, learn_s = timed(lambda: proposer.learn(trials))
    _, propose_s = timed(lambda: policy.propose(64))
    _, lower_s = timed(lambda: kernel_of(task.realise(batch[0]).what, task.target))
    print(
        f"{name:14} programs {len(proposer.arms)} in {programs_s:.3f}, forms {forms_s:.3f}, "
        f"first 64 {first_s:.2f}, learn {learn_s:.2f}, next 64 {propose_s:.2f}, "
        f"lower {lower_s:.3f}"
    )


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    found = action()
    return found, time.process_time() - started


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--costs", action="store_true", help="measure the search, not kernels")
    options = parser.parse_args(argv)
    for name in options.cases:
        if options.costs:
            costs(name)
            continue
        for seed in options.seeds:
            tuned(name, options.target, options.trials, seed)


if __name__ == "__main__":
    main()
