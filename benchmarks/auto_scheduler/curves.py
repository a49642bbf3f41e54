"""Tables of what searches found: best so far against trials, medians over seeds.

    python -m benchmarks.auto_scheduler --seeds 0 1 2 --library --out found    # needs a GPU
    python -m benchmarks.auto_scheduler.curves found                                # needs none

Reads the ``results.jsonl`` of folders. A search denied something (``--without``) has rows of its
own, and beside each figure its ratio to the same search with everything. The curve is of the
trials themselves; "raced" is what the winner took in the final race, "library" and "found" in
turns.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Run = dict[str, Any]
# What is left out, and the workload.
Group = tuple[str, str]
POINTS = (8, 16, 32, 64, 128, 300, 1000)


def runs_of(folders: Sequence[Path]) -> dict[Group, list[Run]]:
    """Return the runs of some folders by what was left out and workload; of each seed the last."""
    found: dict[Group, dict[int, Run]] = defaultdict(dict)
    for file in sorted(each for folder in folders for each in folder.rglob("results.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            group = " ".join(row.get("without", [])), row["name"]
            found[group][row["seed"]] = row
    return {group: [rows[seed] for seed in sorted(rows)] for group, rows in found.items()}


def best_after(run: Run, trials: int) -> float:
    """Return the best of the first trials of a run, in us; infinite where it was to have fewer.

    A space that has fewer states than that ends a run early.
    """
    curve = run["curve_us"]
    if trials > run["budget"] or not curve:
        return float("inf")
    return float(curve[min(trials, len(curve)) - 1])


def at_points(runs: Sequence[Run], points: Sequence[int]) -> list[float]:
    """Return the medians over runs of the best after so many trials."""
    return [float(np.median([best_after(run, n) for run in runs])) for n in points]


def lines(found: dict[Group, list[Run]], points: Sequence[int]) -> Iterator[str]:
    """Yield the rows of a table."""
    heads = ["workload", "seeds", *map(str, points), "raced", "seconds"]
    yield "| " + " | ".join([*heads, "library, found", "library / found"]) + " |"
    yield "|---" * (len(heads) + 2) + "|"
    for (without, name), runs in sorted(found.items()):
        medians = at_points(runs, points)
        full = found.get(("", name), []) if without else []
        base = at_points(full, points) if full else [0.0] * len(points)
        cells = [_cell(value, other) for value, other in zip(medians, base, strict=True)]
        raced, wall = (float(np.median([run[key] for run in runs])) for key in ("us", "wall_s"))
        title = f"{name} without {without}" if without else name
        head = [title, " ".join(str(run["seed"]) for run in runs), *cells]
        yield "| " + " | ".join([*head, f"{raced:.1f}", f"{wall:.1f}", *_library(runs)]) + " |"


def _cell(value: float, base: float) -> str:
    if not np.isfinite(value):
        return ""
    return f"{value:.1f} ({value / base:.2f})" if base else f"{value:.1f}"


def _library(runs: Sequence[Run]) -> tuple[str, str]:
    known = [run for run in runs if "library_us" in run]
    if not known:
        return "", ""
    theirs, ours = (float(np.median([run[key] for run in known]))
                    for key in ("library_us", "beside_us"))  # fmt: skip
    ratio = float(np.median([run["library_us"] / run["beside_us"] for run in known]))
    return f"{theirs:.1f}, {ours:.1f}", f"{ratio:.2f}"


def means(found: dict[Group, list[Run]], points: Sequence[int]) -> Iterator[str]:
    """Yield for what was left out the geometric mean of times over those with everything."""
    for without in sorted({group for group, _ in found if group}):
        names = [name for group, name in found if group == without and ("", name) in found]
        logs = [
            np.log2(np.array(at_points(found[without, name], points)))
            - np.log2(np.array(at_points(found["", name], points)))
            for name in names
        ]
        if logs:
            ratios = 2.0 ** np.mean(logs, axis=0)
            shown = ", ".join(
                f"{ratio:.3f} after {n}"
                for ratio, n in zip(ratios, points, strict=True)
                if np.isfinite(ratio)
            )
            yield f"without {without}, {len(names)} workloads: {shown}"
    ratios = [_ratio(runs) for (without, _), runs in found.items() if not without]
    known = [ratio for ratio in ratios if ratio]
    if known:
        mean = float(np.exp(np.mean(np.log(known))))
        yield f"library / found, {len(known)} workloads: mean {mean:.2f}, least {min(known):.2f}"


def _ratio(runs: Sequence[Run]) -> float:
    shown = _library(runs)[1]
    return float(shown) if shown else 0.0


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--points", nargs="+", type=int, default=list(POINTS))
    options = parser.parse_args(argv)
    found = runs_of(options.folders)
    with np.errstate(invalid="ignore"):
        for line in [*lines(found, options.points), *means(found, options.points)]:
            print(line)


if __name__ == "__main__":
    main()
