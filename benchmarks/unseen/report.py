"""The output of `unseen`: a line for each layer, and a table of geometric means."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Result = dict[str, Any]
# Seconds that counting a space may take.
COUNTED_S = 0.2
# Layers that a summary names.
WORST = 15


def results(path: Path) -> list[Result]:
    """Return the results of a file; none if it is not there."""
    return (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        if path.exists()
        else []
    )


def report(result: Result) -> None:
    """Print a layer."""
    line = f"{result['name']}: "
    for key in ("library", "default", "best"):
        one = result.get(key)
        if one:
            ratio = result["library"]["median"] / one["median"]
            line += f" {key} {one['median']:.2f}" + (f" ({ratio:.2f})" if key != "library" else "")
            line += f" [{one['name']}]" if key != "default" else ""
    for key in ("counted_s", "points", "seconds", "tuning_s", "trials", "refused", "error"):
        line += f" {key} {result[key]}" if result.get(key) else ""
    failures = result.get("failures", [])
    print(line + (f" failed {len(failures)} of {result['tried']}" if failures else ""))
    for failure in failures[:3]:
        print(f"    {failure}")
    sys.stdout.flush()


def summary(every: Sequence[Result], by: str = "kind") -> None:
    """Print geometric means by kind or network, the failed share, and what took long to count."""
    timed = [each for each in every if each.get("best")]
    groups = list(dict.fromkeys(each[by] for each in timed))
    print("\n| layers | how many | untuned | least | below 1 | best | least | below 1 |")
    print("|---|---|---|---|---|---|---|---|")
    for group in [*sorted(groups), ""]:
        some = [each for each in timed if group in ("", each[by])]
        shown = [_shown([_ratio(one, key) for one in some if one[key]])
                 for key in ("default", "best")]  # fmt: skip
        print(f"| {group or 'all'} | {len(some)} | {' | '.join(shown)} |")
    tried = sum(each.get("tried", 0) for each in every)
    failed = sum(len(each.get("failures", ())) for each in every)
    slow_counts = [each["name"] for each in every if each.get("counted_s", 0) > COUNTED_S]
    print(f"\n{len(every)} layers, {tried} configurations, {failed} failed "
          f"({100 * failed / max(tried, 1):.2f}%)")  # fmt: skip
    print(f"counted in more than {COUNTED_S} s: {slow_counts or 'none'}")
    for each in every:
        if each.get("refused") or each.get("error"):
            print(f"{each['name']}: {each.get('refused') or each.get('error')}")
    print("the slowest, untuned, beside PyTorch:")
    for each in sorted((e for e in timed if e["default"]), key=lambda e: _ratio(e, "default"))[
        :WORST
    ]:
        print(f"{_ratio(each, 'default'):.2f} {each['name']}")


def _ratio(result: Result, key: str) -> float:
    """Return how often as fast as PyTorch the default, or the best, was."""
    return float(result["library"]["median"] / result[key]["median"])


def _shown(ratios: Sequence[float]) -> str:
    """Return the mean, the least, and how many are below 1."""
    least = min(ratios, default=math.nan)
    return f"{_mean(ratios):.2f} | {least:.2f} | {sum(ratio < 1 for ratio in ratios)}"


def _mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
