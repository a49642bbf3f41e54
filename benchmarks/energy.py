"""Tune one kernel for time and for energy, and measure both winners again in turns.

    python -m benchmarks.energy --task gemm_nn.cuda --args 2048 2048 2048 --trials 50
    python -m benchmarks.energy --again 1700 62          # no trials: these configurations alone

Each objective has trials of its own, from one seed; all trials have their energy measured. Then
the winners, those of the joint Pareto front and the default run in turns, `--rounds` times each,
and the medians are printed, with half of the range from the first to the third quartile. Needs
one device, and nothing else running on it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

HEAD = "| index | tuned for | us | mJ | W | trial us | trial mJ |\n|---|---|---|---|---|---|---|"


def half_range(values: Sequence[float]) -> float:
    """Return half of the range between the quartiles, relative to the median."""
    low, high = np.percentile(values, [25, 75])
    return float(high - low) / 2 / median(values)


def tuned(task, objective: str, session, options: argparse.Namespace, log: Path):
    """Tune for one objective; print the summary, and return the result."""
    import autotune

    begun = time.monotonic()
    result = autotune.tuner.AutoTuner(task, seed=options.seed).tune(
        options.trials,
        session,
        callbacks=[autotune.callback.log_to_file(log)],
        timeout_s=options.seconds,
        objective=objective,
    )
    print(f"objective {objective}, {time.monotonic() - begun:.1f} s\n{result}\n", flush=True)
    return result


def again(task, configs, session, rounds: int) -> dict[str, list]:
    """Measure configurations in turns; return the results of each by its key."""
    found: dict[str, list] = {config.key: [] for config in configs}
    for _ in range(rounds):
        for config, result in zip(configs, session.measure(task, configs), strict=True):
            if result.ok:
                found[config.key].append(result)
    return found


def row(key: str, what: str, results: Sequence, trial) -> str:
    """Return a row of the table."""
    us = [one.seconds * 1e6 for one in results]
    mj = [one.joules * 1e3 for one in results]
    watts = median(one.watts for one in results)
    before = f"{trial.seconds * 1e6:.2f} | {trial.joules * 1e3:.3f}" if trial else "- | -"
    return (
        f"| {key} | {what} | {median(us):.2f} +- {half_range(us):.1%} | {median(mj):.3f} +- "
        f"{half_range(mj):.1%} | {watts:.0f} | {before} |"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Tune, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="gemm_nn.cuda")
    parser.add_argument("--args", type=int, nargs="*", default=[2048, 2048, 2048])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=1e9, help="of each objective")
    parser.add_argument("--objectives", nargs="*", default=["time", "energy"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--again", type=int, nargs="*", help="indices, in place of trials")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", help="folder for the trials")
    options = parser.parse_args(argv)
    import autotune.templates

    import autotune
    from autotune.measure import TimingPolicy
    from autotune.record import best_of, load_from_file, pareto_front

    task = autotune.create(options.task, args=tuple(options.args), target=options.target)
    folder = Path(options.log or tempfile.mkdtemp(prefix="energy-"))
    folder.mkdir(parents=True, exist_ok=True)
    # Those that are measured again are all measured, however slow.
    timing = TimingPolicy(hopeless=0)
    with (
        autotune.Session(
            autotune.LocalBuilder(timeout=60), autotune.LocalRunner(timeout=20, energy=True)
        ) as session,
        autotune.Session(
            autotune.LocalBuilder(timeout=60),
            autotune.LocalRunner(timeout=20, energy=True, timing=timing),
        ) as complete,
    ):
        if options.again:
            chosen = [task.config_space.get(index) for index in options.again]
            found = again(task, chosen, complete, options.rounds)
            print(f"in turns, {options.rounds} rounds\n{HEAD}")
            for key, results in found.items():
                print(row(key, "", results, None))
                print("mJ", *(f"{one.joules * 1e3:.3f}" for one in results), flush=True)
            return
        names: dict[str, list[str]] = {task.default().key: ["default"]}
        pairs = []
        for objective in options.objectives:
            log = folder / f"{objective}.log"
            result = tuned(task, objective, session, options, log)
            names.setdefault(result.best_config.key, []).append(objective)
            pairs += list(load_from_file(log))
        front = pareto_front(pairs)
        for inp, _ in front:
            names.setdefault(inp.key, []).append("front")
        configs = {inp.key: inp.config for inp, _ in pairs} | {task.default().key: task.default()}
        chosen = [configs[key] for key in names]
        found = again(task, chosen, complete, options.rounds)
        print(f"in turns, {options.rounds} rounds\n{HEAD}")
        for key, what in names.items():
            own = best_of(pair for pair in pairs if pair[0].key == key)
            trial = own[1] if own and own[1].joules else None
            print(row(key, ", ".join(what), found[key], trial), flush=True)


if __name__ == "__main__":
    main()
