"""Plot the best time found so far against the number of trials, from logs.

    python -m benchmarks.tuning.plot LOG [LOG ...] --line "cuDNN=108.1" --out docs/tuning.svg

Needs matplotlib (``pip install -e '.[bench]'``). A log's name is its legend.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("svg")
import matplotlib.pyplot as plt

from autotune.record import load_from_file


def best_so_far(path: Path) -> np.ndarray:
    """Return microseconds of the best trial up to each trial of a log; infinity before any."""
    costs = [result.seconds * 1e6 for _, result in load_from_file(path)]
    return np.minimum.accumulate(np.array(costs))


def main(argv: Sequence[str] | None = None) -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--line", action="append", default=[], metavar="NAME=MICROSECONDS")
    parser.add_argument("--title", default="")
    parser.add_argument("--top", type=float, help="highest time to show, in microseconds")
    parser.add_argument("--out", type=Path, default=Path("docs/tuning.svg"))
    options = parser.parse_args(argv)

    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for path in options.logs:
        best = best_so_far(path)
        axes.step(np.arange(1, len(best) + 1), best, where="post", label=path.stem, linewidth=2)
    for number, line in enumerate(options.line):
        name, _, value = line.rpartition("=")
        style = ("--", ":", "-.")[number % 3]
        label = f"{name}: {float(value):g} µs"
        axes.axhline(float(value), linestyle=style, color="black", linewidth=1, label=label)
    axes.set(xlabel="trials", ylabel="best so far, µs", yscale="log", title=options.title)
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.set_ylim(top=options.top)
    axes.legend()
    figure.savefig(options.out)
    print(options.out)


if __name__ == "__main__":
    main()
