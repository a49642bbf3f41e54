"""Tune layers one by one as users do: how long it takes, and what it brings over the default.

    python -m benchmarks.tuning_time [--only "conv 64" gemm] [--trials 300] [--seconds 60]

Each workload has a builder, a runner and a tuner of its own, started anew and counted: at most so
many trials and so many seconds, of which a fifth is kept for the final race. Records that ship are
used as by everyone: the default is one of them where there is one, or the nearest. Needs one
device, and nothing else running on it. `AUTOTUNE_CACHE_DIR` should be a folder without compiled
code.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from benchmarks.template_workloads import CONVS
from benchmarks.templates_gpu import make_templates_importable
from benchmarks.tune_pack import DEPTHWISE

# Part of the seconds after which nothing more is proposed.
_PROPOSING = 0.8
Workloads = dict[str, tuple[str, tuple[object, ...]]]


def workloads() -> Workloads:
    """Return tasks and their arguments by name, the most telling first."""
    chosen: Workloads = {
        "gemm 1024": ("gemm_nn.cuda", (1024, 1024, 1024)),
        "fp16 gemm 1024": ("gemm_nn.cuda", (1024, 1024, 1024, "float16")),
        "attention 16x1024, 64": ("attention.cuda", (1, 16, 1024, 1024, 64)),
        "softmax 4096x4096": ("softmax.cuda", (4096, 4096)),
        "layer norm 4096x4096": ("layer_norm.cuda", (4096, 4096)),
        "fp16 gemm 197x3072x768": ("gemm_nn.cuda", (197, 3072, 768, "float16")),
        "gemm 2048": ("gemm_nn.cuda", (2048, 2048, 2048)),
        "gemm 16x4096x4096": ("gemm_nn.cuda", (16, 4096, 4096)),
        "fp16 gemm 4096": ("gemm_nn.cuda", (4096, 4096, 4096, "float16")),
    }
    convs: Workloads = {name: ("conv2d_nchw.cuda", args) for name, args in CONVS.items()}
    windows: Workloads = {
        f"depthwise {c}x{size} s{stride}": (
            "depthwise_conv2d.cuda", (1, size, size, c, 1, 3, 3, stride, 1)
        )
        for c, size, stride in DEPTHWISE
    }  # fmt: skip
    return {**chosen, **convs, **windows}


def tuned(name: str, args: tuple[object, ...], options: argparse.Namespace) -> str:
    """Tune a task; return the cells of a row."""
    import autotune

    begun = time.monotonic()
    task = autotune.create(name, args=args, target=options.target)
    option = autotune.measure_option(
        autotune.LocalBuilder(timeout=30), autotune.LocalRunner(timeout=20)
    )
    run = autotune.tuner.AutoTuner(task, seed=options.seed).tune(
        options.trials,
        option,
        callbacks=[autotune.callback.log_to_file(options.log)] if options.log else [],
        timeout_s=options.seconds * _PROPOSING,
    )
    taken, before = time.monotonic() - begun, run.default_seconds
    default = f"{before * 1e6:.2f}" if before else "-"
    gain = f"{run.speedup:.2f}" if run.speedup else "-"
    failed = sum(run.failures.values())
    return (
        f"{len(task.config_space)} | {run.trials} | {failed} | {taken:.1f} | {default} | "
        f"{run.seconds * 1e6:.2f} | {gain}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=[""], nargs="*", help="parts of workloads' names")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60, help="of a workload")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", help="a file for the trials and final races")
    options = parser.parse_args(argv)
    make_templates_importable()
    import autotune.templates  # noqa: F401 - registers the tasks

    print("| workload | points | trials | failed | s | default, us | best, us | default / best |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (task, args) in workloads().items():
        if any(part in name for part in options.only):
            print(f"| {name} | {tuned(task, args, options)} |", flush=True)


if __name__ == "__main__":
    main()
