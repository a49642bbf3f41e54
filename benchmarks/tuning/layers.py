"""Tune layers one by one: how long it takes, how many trials, and what it brings over the default.

    python -m benchmarks.tuning.layers [--only "conv 64" gemm] [--trials 300] [--seconds 60]
    python -m benchmarks.tuning.layers --early-stopping 50 --log tuned.log
    python -m benchmarks.tuning.layers --convolutions 31127 --only depthwise transposed

Each layer has at most so many trials and so many seconds, of which a fifth is kept for the final
race; both are counted from the creation of the task to the winner. All share one session, whose
processes start with the first. "default" is what its template uses untuned and without the records
that ship, as the final race timed it. Needs one device, and nothing else running on it.
`AUTOTUNE_CACHE_DIR` should be a folder without compiled code. `race_records` times what was found
beside the default and PyTorch. With ``--convolutions`` the layers are those that `unseen` draws
from a seed, one of each of its classes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from benchmarks.common_layers import Layers, layers
from benchmarks.unseen.broad_convs import broad_convs

# Part of the seconds after which nothing more is proposed.
_PROPOSING = 0.8
HEAD = (
    "| layer | points | trials | failed | s | default, us | best, us | default / best | ended |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def chosen(parts: Sequence[str], seed: int | None = None) -> Layers:
    """Return the layers whose names have one of these parts, in the order of the parts.

    Args:
        seed: of the convolutions to draw, or None for layers that are usual.
    """
    every = layers() if seed is None else unseen_convolutions(seed)
    return {name: every[name] for part in parts for name in every if part in name}


def unseen_convolutions(seed: int) -> Layers:
    """Return the first convolution of each class that is drawn from a seed, by class and shape."""
    first = {layer.kind: layer for layer in reversed(list(broad_convs(seed, 1)))}
    return {
        f"{kind}: {layer.name}": (layer.ways[0].template, layer.ways[0].args)
        for kind, layer in first.items()
    }


def tuned(
    name: str, args: tuple[object, ...], session: object, options: argparse.Namespace
) -> str:
    """Tune a task; return the cells of a row."""
    import autotune

    begun = time.monotonic()
    task = autotune.create(name, args=args, target=options.target)
    run = autotune.tuner.AutoTuner(task, seed=options.seed).tune(
        options.trials,
        session,
        early_stopping=options.early_stopping,
        callbacks=[autotune.callback.log_to_file(options.log)] if options.log else [],
        timeout_s=options.seconds * _PROPOSING,
    )
    taken, before = time.monotonic() - begun, run.default_seconds
    default = f"{before * 1e6:.2f}" if before else "-"
    gain = f"{run.speedup:.2f}" if run.speedup else "-"
    failed = sum(run.failures.values())
    return (
        f"{task.config_space.rough_count} | {run.trials} | {failed} | {taken:.1f} | {default} | "
        f"{run.seconds * 1e6:.2f} | {gain} | {run.stop_reason}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each layer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=[""], nargs="*", help="parts of layers' names")
    parser.add_argument("--convolutions", type=int, metavar="SEED", help="draw convolutions")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60, help="of a layer")
    parser.add_argument("--early-stopping", type=int, help="trials without a better one")
    parser.add_argument("--all-seconds", type=float, default=1e9, help="then no layer is begun")
    parser.add_argument("--compiler", default="nvcc", choices=("nvcc", "nvrtc"))
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", help="a file for the trials and final races")
    options = parser.parse_args(argv)
    import autotune.templates

    import autotune

    print(HEAD, flush=True)
    until = time.monotonic() + options.all_seconds
    builder = autotune.LocalBuilder(timeout=30, compiler=options.compiler)
    with autotune.Session(builder, autotune.LocalRunner(timeout=20)) as session:
        for name, (task, args) in chosen(options.only, options.convolutions).items():
            if time.monotonic() > until:
                break
            print(f"| {name} | {tuned(task, args, session, options)} |", flush=True)


if __name__ == "__main__":
    main()
