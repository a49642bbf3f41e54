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

import autotune.templates

import autotune
from benchmarks.common_layers import layers

# Seconds that a final race and the check of the winner may take of one workload's share.
_RACE_SHARE = 0.3
# The name of a task and its arguments.
Workload = tuple[str, tuple[object, ...]]


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
    known = set()
    if given.missing:
        log = autotune.templates.TUNED / "h200.log"
        known = {(i.task.name, i.task.args) for i, _ in autotune.record.load_from_file(log, True)}
    wanted = [each for each in layers().values() if given.only in each[0] and each not in known]
    builder = autotune.LocalBuilder(timeout=30)
    with autotune.Session(builder, autotune.LocalRunner(timeout=20)) as session:
        tune_all(wanted, session, given)


def tune_all(
    workloads: Sequence[Workload], session: autotune.Session, given: argparse.Namespace
) -> None:
    """Tune workloads one after another, each in an even share of the time that is left."""

    def tuned(workload: Workload, trials: int, seconds: float | None) -> autotune.TuneResult:
        name, args = workload
        task = autotune.create(name, args=args, target=given.target)
        log = autotune.callback.log_to_file(given.out)
        return autotune.tuner.AutoTuner(task).tune(
            trials, session, callbacks=[log], resume=given.out, timeout_s=seconds
        )

    for first in workloads[:1]:
        tuned(first, 1, None)
    until = time.monotonic() + given.seconds
    for left, workload in zip(range(len(workloads), 0, -1), workloads, strict=True):
        share = max(0.0, until - time.monotonic()) / left
        result = tuned(workload, given.trials, share * (1 - _RACE_SHARE))
        if not result.trials:
            result = tuned(workload, 1, None)
        name, args = workload
        best, default = _shown(result.seconds), _shown(result.default_seconds)
        print(f"{name} {args}: {best} us, default {default}, {result.trials} trials", flush=True)


def _shown(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:.2f}"


if __name__ == "__main__":
    main()
