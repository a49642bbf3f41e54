"""How steady the choice of a winner is: the same finalists raced again and again.

    python -m benchmarks.selection                 # C on this machine
    python -m benchmarks.selection --target cuda

Tunes the kernel of `benchmarks.throughput` for a while, takes the finalists, and races them many
times. Counted is how often the winner differs from the one of the race before: when simply the
fastest wins, when the fixed rule decides among those that tie, and when besides an earlier winner
stays as long as it ties.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import autotune.task as at
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, measure_option
from autotune.measure.choose import Candidate, choose, tie_set
from autotune.measure.race import race
from autotune.tuner import RandomTuner
from benchmarks.throughput import CUDA_SIZE, SIZE

Rule = Callable[[Sequence[Candidate], "int | None"], Candidate]
HERE = Path(__file__).resolve().parent


def finalists(task: at.Task, option: dict[str, Any], trials: int, count: int) -> list[Any]:
    """Tune for a while and return the best inputs."""
    seen: list[tuple[MeasureInput, Any]] = []
    tuner = RandomTuner(task, seed=0)
    tuner.tune(trials, option, callbacks=[lambda _, i, r: seen.extend(zip(i, r, strict=True))])
    good = sorted((pair for pair in seen if pair[1].ok), key=lambda pair: pair[1].mean)
    return [inp for inp, _ in good[:count]]


def flips(winners: Sequence[int]) -> int:
    """Return how often the winner changed from one race to the next."""
    return sum(a != b for a, b in itertools.pairwise(winners))


def fastest(candidates: Sequence[Candidate]) -> Candidate:
    return min(candidates, key=lambda c: c.seconds)


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="c")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--finalists", type=int, default=8)
    parser.add_argument("--races", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "selection.json")
    options = parser.parse_args(argv)
    language = "cuda" if options.target.startswith("cuda") else "c"
    size = CUDA_SIZE if language == "cuda" else SIZE
    task = at.create("benchmark.throughput.gemm", (size, language), target=options.target)
    option = measure_option(LocalBuilder(timeout=60), LocalRunner(cooldown_interval=0))
    chosen = finalists(task, option, options.trials, options.finalists)
    races = [race(chosen, option, rounds=options.rounds).candidates for _ in range(options.races)]
    rules: dict[str, Rule] = {
        "fastest": lambda candidates, _: fastest(candidates),
        "rule": lambda candidates, _: choose(candidates),
        "incumbent": choose,
    }
    report: dict[str, Any] = {"target": options.target, "races": options.races}
    for name, rule in rules.items():
        winners: list[int] = []
        for candidates in races:
            winners.append(rule(candidates, winners[-1] if winners else None).index)
        report[name] = {"flips": flips(winners), "winners": sorted(set(winners))}
        print(f"{name:<10} {flips(winners):>3} flips in {len(races)} races, winners {winners}")
    report["tied"] = [[c.index for c in tie_set(candidates)] for candidates in races]
    option["runner"].close()
    option["builder"].close()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1))
    return report


if __name__ == "__main__":
    main()
