"""Tune common shapes with the templates that ship, for the pack of tuned kernels.

    python -m benchmarks.tune_pack --out h200.log --seconds 90 [--only gemm] [--target cuda]

The seconds are divided evenly among the workloads, in one session, and count from the end of the
first trial: what starts processes and measures the device belongs to no workload. Each workload
has one trial at least. A log that exists is continued. Every trial and every final race stands in
the log, from which `autotune hub pack` makes the pack; `race_records` tells which of its records
gain. Needs one device, and nothing else running on it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from benchmarks.common_layers import layers

# Seconds that a final race and the check of the winner may take of one workload's share.
_RACE_SHARE = 0.3


def main(argv: Sequence[str] | None = None) -> None:
    """Tune them all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="pack.log", help="the log")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--only", default="", help="part of the name of the tasks to tune")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--trials", type=int, default=400, help="most trials of a workload")
    parser.add_argument("--missing", action="store_true", help="only what the pack lacks")
    given = parser.parse_args(argv)
    import autotune.templates

    import autotune

    known = set()
    if given.missing:
        log = autotune.templates.TUNED / "h200.log"
        known = {(i.task.name, i.task.args) for i, _ in autotune.record.load_from_file(log, True)}
    wanted = [each for each in layers().values() if given.only in each[0] and each not in known]
    builder = autotune.LocalBuilder(timeout=30)
    with autotune.Session(builder, autotune.LocalRunner(timeout=20)) as session:

        def tuned(workload: tuple[str, tuple[object, ...]], trials: int, seconds: float | None):
            name, args = workload
            task = autotune.create(name, args=args, target=given.target)
            log = autotune.callback.log_to_file(given.out)
            return autotune.tuner.AutoTuner(task).tune(
                trials, session, callbacks=[log], resume=given.out, timeout_s=seconds
            )

        for first in wanted[:1]:
            tuned(first, 1, None)
        until = time.monotonic() + given.seconds
        for left, workload in zip(range(len(wanted), 0, -1), wanted, strict=True):
            share = max(0.0, until - time.monotonic()) / left
            result = tuned(workload, given.trials, share * (1 - _RACE_SHARE))
            if not result.trials:
                result = tuned(workload, 1, None)
            name, args = workload
            best = "-" if result.seconds is None else f"{result.seconds * 1e6:.2f}"
            default = result.default_seconds
            was = "-" if default is None else f"{default * 1e6:.2f}"
            print(f"{name} {args}: {best} us, default {was}, {result.trials} trials", flush=True)


if __name__ == "__main__":
    main()
