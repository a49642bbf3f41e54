"""Stability of the choice of a winner: the same near ties raced again and again.

    python -m benchmarks.tuning.selection                 # C on this machine
    python -m benchmarks.tuning.selection --target cuda

Tunes the kernel of `throughput` for a while and races the best a few times to find
those that noise can hardly tell apart: where one candidate wins outright there is nothing to
choose. These are raced many times, each time handed over in another order. Counted is how often
the winner differs from the one of the race before: when simply the fastest wins, when the fixed
rule decides among those that tie, and when besides an earlier winner stays as long as it ties.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import autotune.task as at
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, measure_option
from autotune.measure.final.choose import Finalist, choose, tie_set
from autotune.measure.final.race import race
from autotune.tuner import RandomTuner
from benchmarks.tuning.throughput import CUDA_SIZE, SIZE

Rule = Callable[[Sequence[Finalist], "str | None"], Finalist]
HERE = Path(__file__).resolve().parents[1]

# The best of a run are raced this often to find the near ties among them: those that differ by no
# more than one of them differs from itself, within bounds that leave something to choose.
HEATS = 3
LEAST_SPREAD, MOST_SPREAD = 0.002, 0.03
# Of a run so many times as many are taken into the heats as are wanted in the end.
SHARE = 4


def best_of_run(
    task: at.Task, option: dict[str, Any], trials: int, seed: int, count: int
) -> list[MeasureInput]:
    """Tune for a while and return the best inputs, each machine code once."""
    seen: list[tuple[MeasureInput, Any]] = []
    tuner = RandomTuner(task, seed=seed)
    tuner.tune(
        trials,
        option,
        callbacks=[lambda _, i, r: seen.extend(zip(i, r, strict=True))],
        finalists=0,
    )
    good = [(inp, res) for inp, res in seen if res.ok and "same_code_as" not in res.extra]
    return [inp for inp, _ in sorted(good, key=lambda pair: pair[1].seconds)[:count]]


def near_ties(heats: Sequence[Sequence[Finalist]], count: int) -> tuple[list[str], float]:
    """Return the keys of the fastest candidates that lie close to each other, and how close.

    Those are the first ``count`` in a row that are near ties of the first of them, or the longest
    such row.
    """
    paces = {c.key: [x.seconds for one in heats for x in one if x.key == c.key] for c in heats[0]}
    medians = {key: statistics.median(seconds) for key, seconds in paces.items()}
    noise = statistics.median(max(s) / min(s) - 1 for s in paces.values())
    spread = min(max(LEAST_SPREAD, noise), MOST_SPREAD)
    ordered = sorted(medians, key=medians.__getitem__)
    rows = [
        [one for one in ordered[i:] if medians[one] <= (1 + spread) * medians[first]][:count]
        for i, first in enumerate(ordered)
    ]
    return max(rows, key=len), noise


def repeated(
    inputs: Sequence[MeasureInput], option: Mapping[str, Any], seeds: Sequence[int], rounds: int
) -> list[tuple[Finalist, ...]]:
    """Race the same inputs once for each seed, which decides in what order they are given."""
    races = []
    for seed in seeds:
        order = list(inputs)
        random.Random(seed).shuffle(order)
        races.append(race(order, option, rounds=rounds).candidates)
    return races


def flips(winners: Sequence[str]) -> int:
    """Return how often the winner changed from one race to the next."""
    return sum(a != b for a, b in itertools.pairwise(winners))


def fastest(candidates: Sequence[Finalist]) -> Finalist:
    return min(candidates, key=lambda c: c.seconds)


RULES: dict[str, Rule] = {
    "without the rule": lambda candidates, _: fastest(candidates),
    "with the rule": lambda candidates, _: choose(candidates),
    "and an incumbent": choose,
}


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="c")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--candidates", type=int, default=6)
    parser.add_argument("--races", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="of the tuner, and of the first race")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "selection.json")
    options = parser.parse_args(argv)
    language = "cuda" if options.target.startswith("cuda") else "c"
    size = CUDA_SIZE if language == "cuda" else SIZE
    task = at.create("benchmark.throughput.gemm", (size, language), target=options.target)
    seeds = list(range(options.seed, options.seed + options.races))
    # One thread leaves a core to whatever else a small machine does.
    with mock.patch.dict(os.environ, {"OMP_NUM_THREADS": "1"}):
        noise, races = near_ties_raced(task, options, seeds)
    report = {"target": options.target, "noise": noise, **summary(seeds, races)}
    show(report)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1))
    return report


def near_ties_raced(
    task: at.Task, options: argparse.Namespace, seeds: Sequence[int]
) -> tuple[float, list[tuple[Finalist, ...]]]:
    """Find near ties and race them; return how far one differs from itself, and the races."""
    option = measure_option(LocalBuilder(timeout=60), LocalRunner(cooldown_interval=0))
    best = best_of_run(task, option, options.trials, options.seed, SHARE * options.candidates)
    heats = repeated(best, option, range(HEATS), options.rounds)
    chosen, noise = near_ties(heats, options.candidates)
    inputs = [inp for inp in best if inp.key in chosen]
    races = repeated(inputs, option, seeds, options.rounds)
    option["runner"].close()
    option["builder"].close()
    return noise, races


def summary(seeds: Sequence[int], races: Sequence[Sequence[Finalist]]) -> dict[str, Any]:
    """Return what each rule chose in each race, and what it chose from."""
    report: dict[str, Any] = {"seeds": list(seeds), "rules": {}}
    for name, rule in RULES.items():
        winners: list[str] = []
        for candidates in races:
            winners.append(rule(candidates, winners[-1] if winners else None).key)
        report["rules"][name] = {"flips": flips(winners), "winners": winners}
    report["candidates"] = {
        c.key: {
            "seconds": [one.seconds for race in races for one in race if one.key == c.key],
            "registers": c.registers,
            "shared_bytes": c.shared_bytes,
            "tied": sum(any(one.key == c.key for one in tie_set(race)) for race in races),
        }
        for c in races[0]
    }
    return report


def show(report: Mapping[str, Any]) -> None:
    """Print the candidates, and the winners by each rule."""
    seeds = report["seeds"]
    print(
        f"{report['target']}: {len(seeds)} races, seeds {seeds[0]} to {seeds[-1]}; "
        f"from race to race one candidate differs from itself by {report['noise']:.2%}"
    )
    medians = {i: statistics.median(c["seconds"]) for i, c in report["candidates"].items()}
    least = min(medians.values())
    for index, one in sorted(report["candidates"].items(), key=lambda item: medians[item[0]]):
        slower = medians[index] / least - 1
        print(
            f"  #{index:<6} {medians[index] * 1e6:9.2f} us (+{slower:.2%}), "
            f"{one['registers']:3} registers, {one['shared_bytes']:6} bytes shared, "
            f"tied in {one['tied']} races"
        )
    for name, one in report["rules"].items():
        print(f"{name:<17} {one['flips']:>3} flips, winners {one['winners']}")


if __name__ == "__main__":
    main()
