"""CPU seconds of one round of the search between trials, and by part; nothing is built or run.

    OMP_NUM_THREADS=1 python -m benchmarks.auto_scheduler.rounds --rounds 3
    python -m benchmarks.auto_scheduler.rounds --states 200 --digests before.json

A round is what a user waits for: sketches, their programs with cost models, the first batch of 64,
the second after made-up times of the first, and the lowering of the first to text. The features
of TVM's cost models, which our search does not use, are timed beside it. With `--digests` a hash
of the steps of all states and one of all texts are written, to be compared before and after a
change that is to leave both as they are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy, XGBModel
from autotune.auto_scheduler.feature import get_per_store_features_from_states
from autotune.auto_scheduler.search.proposer import Proposer
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.measure import MeasureInput
from autotune.measure.build.realise import Realised, realise
from benchmarks.auto_scheduler.cases import CASES

BATCH = 64
NAMES = ("r18_128_28_128_3_1", "gemm1024", "attention512", "softmax4096", "depthwise144")
PARTS = ("sketches", "programs", "first batch", "second batch", "lowering", "features")


def texts_of(task: SearchTask, states: Sequence[RecordedState]) -> list[str]:
    """Return the texts of some states, or why one has none."""
    made = [realise(MeasureInput(task.target, task, each)) for each in states]
    return [each.kernel.source if isinstance(each, Realised) else each.error_msg for each in made]


def learn(proposer: Proposer, states: Sequence[RecordedState], rng: np.random.Generator) -> None:
    """Let a search learn made-up times."""
    proposer.learn([(each.transform_steps, float(rng.uniform(1e-5, 1e-3))) for each in states])


def round_of(name: str, target: str, seed: int, drawn: int) -> tuple[list[float], dict[str, str]]:
    """Return the seconds of each part of a round, and digests of steps and texts."""
    clocks = [time.process_time()]

    def timed(part: Callable[[], Any]) -> Any:
        found = part()
        clocks.append(time.process_time())
        return found

    task = SearchTask(compute_dag=ComputeDAG(CASES[name].tensors()), target=target)
    policy = SketchPolicy(task, XGBModel(), seed=seed, verbose=0)
    timed(lambda: policy.sketches)
    proposer = timed(lambda: policy.proposer)
    first = timed(lambda: policy.propose(BATCH))
    learn(proposer, first, np.random.default_rng(seed))
    second = timed(lambda: policy.propose(BATCH))
    texts = timed(lambda: texts_of(task, first))
    features = timed(lambda: get_per_store_features_from_states(first, task))
    seconds = [b - a for a, b in pairwise(clocks)]
    if not drawn:
        return seconds, {}
    others = [*second, *proposer.sample(max(drawn - 2 * BATCH, 0))]
    states, texts = [*first, *others], [*texts, *texts_of(task, others)]
    matrices = [each.tobytes() for each in features]
    return seconds, {
        "states": str(len(states)),
        "steps": digest([each.key.encode() for each in states]),
        "texts": digest([each.encode() for each in texts]),
        "features": digest(matrices),
    }


def digest(parts: Sequence[bytes]) -> str:
    """Return one hash of some texts in their order."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each workload; a small one before is not counted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--target", default="cuda -arch=sm_90")
    parser.add_argument("--names", nargs="+", choices=CASES, default=NAMES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1, help="of each part the least is shown")
    parser.add_argument("--states", type=int, default=200, help="of a digest, of each workload")
    parser.add_argument("--digests", type=Path, help="where hashes of steps and texts are written")
    options = parser.parse_args(argv)
    round_of("sum", options.target, options.seed, 0)
    print(f"{'':20}" + "".join(f"{part:>13}" for part in (*PARTS, "together")))
    digests, rows = {}, []
    for name in options.names:
        drawn = options.states if options.digests else 0
        times = []
        for _ in range(options.rounds):
            seconds, digests[name] = round_of(name, options.target, options.seed, drawn)
            times.append(seconds)
        rows.append(np.min(times, axis=0))
        print(line(name, rows[-1]), flush=True)
    print(line("all", np.sum(rows, axis=0)))
    if options.digests:
        options.digests.write_text(json.dumps(digests, indent=1), "utf-8")


def line(name: str, seconds: Sequence[float]) -> str:
    """Return a row: the parts and their sum."""
    return f"{name:20}" + "".join(f"{each:13.2f}" for each in (*seconds, sum(seconds)))


if __name__ == "__main__":
    main()
