"""The number of trials that each tuner needs, on spaces that were measured exhaustively.

    python -m benchmarks.tuning.search                   # our tuners, a few seeds
    python -m benchmarks.tuning.search --seeds 31 --tuners auto random
    python -m benchmarks.tuning.search --peers           # with the peers that are installed
    python -m benchmarks.tuning.search --transfer        # with records of the other devices
    python -m benchmarks.tuning.search --refuse          # what fails is refused, and is no trial

Printed per space and over all (median over seeds, geometric mean over spaces): n10, n5, n1, the
distinct configurations measured until one was within 10%, 5%, 1% of the best recorded time,
failures included, at most `--cap`; the share of runs that came within 1%; the best found after 50,
100 and 200 trials relative to the best there is; and milliseconds of CPU time per proposal.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from autotune.measure import MeasureInput
from autotune.task import Task
from autotune.tuner import (
    AutoTuner,
    DropletTuner,
    GATuner,
    RandomTuner,
    Recording,
    SimulatedAnnealingTuner,
    Tuner,
    XGBTuner,
)
from benchmarks.tuning import search_peers

HERE = Path(__file__).resolve().parents[1]
SPACES = HERE.parent / "tests" / "data" / "recorded_spaces"
WITHIN = {"n10": 1.10, "n5": 1.05, "n1": 1.01}
BUDGETS = (50, 100, 200)

OURS: dict[str, Callable[[Task, int], Tuner]] = {
    "auto": lambda task, seed: AutoTuner(task, seed=seed),
    "xgb": lambda task, seed: XGBTuner(task, seed=seed),
    "xgb-rank": lambda task, seed: XGBTuner(task, loss_type="rank", seed=seed),
    "ga": lambda task, seed: GATuner(task, pop_size=20, seed=seed),
    "annealing": lambda task, seed: SimulatedAnnealingTuner(task, seed=seed),
    "droplet": lambda task, seed: DropletTuner(task, seed=seed),
    "random": lambda task, seed: RandomTuner(task, seed=seed),
}


@dataclass(frozen=True)
class Score:
    """One run: trials needed, best found relative to the best there is, CPU time."""

    n10: int
    n5: int
    n1: int
    best: tuple[float, ...]
    ms: float
    trials: int


@lru_cache(maxsize=16)
def recording_of(path: Path) -> Recording:
    return Recording.load(path)


def run_ours(
    name: str, path: Path, seed: int, cap: int, batch: int, transfer: bool, refuse: bool
) -> Score:
    """Drive one of our tuners until it is within 1% and the largest budget is used."""
    recording = recording_of(path)
    task = recording.task(path.stem.split("__")[0], (path.stem,))
    rows = {int(i): k for k, i in enumerate(task.config_space.indices(recording.codes))}
    times = np.array([result.seconds for result in recording.results])
    history = history_of(path, seed) if transfer else []
    order: list[int] = []
    room = batch
    start = time.process_time()
    tuner = OURS[name](task, seed)
    if transfer:
        tuner.load_history(history)
    while len(order) < cap and tuner.has_next():
        configs = tuner.next_batch(min(room, cap - len(order)))
        if not configs:
            break
        new = [rows[config.index] for config in configs]
        order += new
        inputs = [MeasureInput(task.target, task, config) for config in configs]
        tuner.update(inputs, [recording.results[k] for k in new])
        # What is refused is told at once, and leaves room for another proposal.
        room -= sum(recording.results[k].ok for k in new) if refuse else room
        room = room or batch
        if len(order) >= BUDGETS[-1] and times[order].min() <= times.min() * WITHIN["n1"]:
            break
    ms = (time.process_time() - start) * 1e3 / max(1, len(order))
    return scored(times, order, cap, ms)


def history_of(path: Path, seed: int, per_device: int = 300) -> list[tuple[object, object]]:
    """Return random records of the same kernel on the other devices."""
    kernel = path.stem.split("__")[0]
    rng = np.random.default_rng(seed)
    pairs: list[tuple[object, object]] = []
    for other in sorted(path.parent.glob(f"{kernel}__*.npz")):
        if other == path:
            continue
        recording = recording_of(other)
        task = recording.task(kernel, (other.stem,))
        for k in rng.permutation(len(recording.results))[:per_device]:
            index = int(task.config_space.indices(recording.codes[k : k + 1])[0])
            config = task.config_space.get(index)
            pairs.append((MeasureInput(task.target, task, config), recording.results[k]))
    return pairs


def scored(times: np.ndarray, order: Sequence[int], cap: int, ms: float) -> Score:
    reached = np.minimum.accumulate(times[list(order)]) / times.min()
    counts = {
        name: int(np.argmax(reached <= limit)) + 1 if reached[-1] <= limit else cap
        for name, limit in WITHIN.items()
    }
    best = tuple(float(reached[min(b, len(reached)) - 1]) for b in BUDGETS)
    return Score(**counts, best=best, ms=ms, trials=len(order))


def run(
    name: str, path: Path, seed: int, cap: int, batch: int, transfer: bool, refuse: bool
) -> Score:
    if name in OURS:
        return run_ours(name, path, seed, cap, batch, transfer, refuse)
    recording = recording_of(path)
    start = time.process_time()
    order = search_peers.run(name, recording, seed, cap)
    ms = (time.process_time() - start) * 1e3 / max(1, len(order))
    times = np.array([result.seconds for result in recording.results])
    return scored(times, order, cap, ms)


def summary(scores: Sequence[Score], cap: int) -> dict[str, float]:
    """Return medians over the seeds of one space."""
    row = {name: float(np.median([getattr(s, name) for s in scores])) for name in WITHIN}
    row["solve1"] = float(np.mean([s.n1 < cap for s in scores]))
    for i, budget in enumerate(BUDGETS):
        row[f"best{budget}"] = float(np.median([s.best[i] for s in scores]))
    row["ms"] = float(np.mean([s.ms for s in scores]))
    return row


def overall(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return geometric means over spaces; plain means of the share and of the CPU time."""
    plain = ("solve1", "ms")
    return {
        key: float(np.mean([r[key] for r in rows]))
        if key in plain
        else float(np.exp(np.mean(np.log([r[key] for r in rows]))))
        for key in rows[0]
    }


def line(label: str, row: dict[str, float]) -> str:
    counts = "".join(f"{row[name]:7.0f}" for name in WITHIN)
    best = "".join(f"{row[f'best{b}']:8.3f}" for b in BUDGETS)
    return f"{label:36s}{counts}{row['solve1']:8.2f}{best}{row['ms']:9.2f}"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spaces", type=Path, default=SPACES, help="folder of .npz recordings")
    parser.add_argument("--tuners", nargs="+", default=["auto", "ga", "annealing", "random"])
    parser.add_argument("--peers", action="store_true", help="also the peers that are installed")
    parser.add_argument("--transfer", action="store_true", help="records of the other devices")
    parser.add_argument("--refuse", action="store_true", help="failures leave room in a batch")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first-seed", type=int, default=0, help="others than those of the docs")
    parser.add_argument("--cap", type=int, default=2000, help="most trials of a run")
    parser.add_argument("--batch", type=int, default=4, help="proposals at a time")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "search.json")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(argv)
    paths = sorted(args.spaces.glob("*.npz"))
    if not paths:
        raise SystemExit(f"no .npz recordings in {args.spaces}")
    names = [*args.tuners, *(search_peers.installed() if args.peers else [])]
    report = {}
    heads = "".join(f"{name:>7s}" for name in WITHIN) + "  solve1"
    budgets = "".join(f"{'best@' + str(b):>8s}" for b in BUDGETS)
    print(f"{'':36s}{heads}{budgets}   ms/trial")
    with ProcessPoolExecutor(args.jobs) as pool:
        for name in names:
            rows = []
            for path in paths:
                one = partial(
                    run,
                    name,
                    path,
                    cap=args.cap,
                    batch=args.batch,
                    transfer=args.transfer,
                    refuse=args.refuse,
                )
                scores = list(pool.map(one, range(args.first_seed, args.first_seed + args.seeds)))
                rows.append(summary(scores, args.cap))
                print(line(f"{name} {path.stem}", rows[-1]), flush=True)
                report[f"{name} {path.stem}"] = [asdict(score) for score in scores]
            report[f"{name} overall"] = overall(rows)
            print(line(f"{name} OVERALL", overall(rows)) + "\n", flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1), "utf-8")


if __name__ == "__main__":
    main()
