"""How long spaces of the templates take to make, to count and to draw from.

    python -m benchmarks.tuning.spaces [--seed 0] [--only gemm.cuda] [--slowest 10] [--out ...]
    python -m benchmarks.tuning.spaces --same-as spaces.jsonl  # have they the same points?

Shapes are those of `unseen.shapes` (drawn and nasty) and of `drawn_cpu`, and more products and
NHWC convolutions of the types and layouts whose filters have the most paths: TF32, 16-bit floats
of odd rows, and 8-bit integers. Printed, for each template and type: how many spaces, and the
geometric mean and the largest CPU time of counting the valid points exactly; then the slowest
spaces. "Made" is the time of running the template once, to define its knobs; "drawn" that of 64
points, of a space that is not counted yet.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import drawn_cpu
from benchmarks.memory_cpu import extent
from benchmarks.unseen.convs import Conv
from benchmarks.unseen.layer import HALVES
from benchmarks.unseen.products import Product
from benchmarks.unseen.shapes import drawn, nasty

Case = tuple[str, tuple[Any, ...]]
Result = dict[str, Any]
GPU = "cuda -arch=sm_90"
DRAWS, CHECKS = 64, 20_000
# Types whose spaces have several families of kernels.
TYPES = ("tf32", "tf32", "int8", *HALVES)


def cases(seed: int, of_each: int) -> Iterator[Case]:
    """Yield templates and their arguments."""
    rng = random.Random(seed)
    layers = [*drawn(seed, of_each), *nasty()]
    layers += [_product(rng).layer() for _ in range(4 * of_each)]
    layers += [_conv(rng).layer() for _ in range(of_each)]
    for layer in layers:
        yield from ((way.template, way.args) for way in layer.ways)
    for template, args in drawn_cpu.drawn(seed, max(1, of_each // 8)).values():
        yield f"{template}.cpu", args


def _product(rng: random.Random) -> Product:
    batch = rng.choice((1, 1, 1, 16))
    m, n, k = (extent(rng, 16, 4000 if batch == 1 else 600) for _ in range(3))
    layouts = rng.random() < 0.5, rng.random() < 0.5
    return Product(m, n, k, rng.choice(TYPES), batch, *layouts)


def _conv(rng: random.Random) -> Conv:
    size, side = extent(rng, 7, 80), rng.choice((1, 3, 3, 5))
    co, ci = extent(rng, 16, 600), extent(rng, 16, 600)
    kinds = {"padding": (side // 2,) * 4, "layout": "NHWC", "dtype": rng.choice(("tf32", *HALVES))}
    return Conv(rng.choice((1, 1, 8)), size, size, co, ci, (side, side), **kinds)


def measured(case: Case) -> Result | None:
    """Return the CPU times of a space, and what tells it from others; None if it is refused."""
    from autotune.errors import AutotuneError
    from autotune.task import create

    name, args = case
    target = "llvm" if name.endswith("cpu") else GPU
    try:
        made_s, space = _timed(lambda: create(name, args, target).config_space)
        counted_s, points = _timed(lambda: len(space))
    except AutotuneError:
        return None
    digest = _digest(space)
    space.clear_cache()
    drawn_s, _ = _timed(lambda: space.sample(DRAWS, _generator()))
    kind = " ".join([name, *(a for a in args if a in ("float32", "tf32", "int8", *HALVES))])
    return {
        "case": repr(case), "kind": kind, "made_s": made_s, "counted_s": counted_s,
        "drawn_s": drawn_s, "points": points, "exact": space.len_is_exact, "digest": digest,
    }  # fmt: skip


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()  # what other spaces left
    begun = time.process_time()
    result = function()
    return time.process_time() - begun, result


def _generator() -> Any:
    import numpy as np

    return np.random.default_rng(0)


def _digest(space: Any) -> str:
    """Return a hash of the knobs, and of which of some drawn indices are valid."""
    rng, dims = _generator(), space.dims
    rows = rng.integers(0, dims, (CHECKS, len(dims)))
    valid = space.is_valid(space.indices(rows))
    text = repr(list(space.space_map.items())).encode()
    return hashlib.sha256(text + valid.tobytes()).hexdigest()[:16]


def report(results: list[Result], slowest: int) -> None:
    """Print times by template and type, and the slowest spaces."""
    print("| spaces of | how many | counted, ms: mean | most | drawn: mean | most | made: mean |")
    print("|---|---|---|---|---|---|---|")
    for kind in [*sorted({each["kind"] for each in results}), ""]:
        some = [each for each in results if kind in ("", each["kind"])]
        times = {key: [1e3 * each[key] for each in some]
                 for key in ("counted_s", "drawn_s", "made_s")}  # fmt: skip
        means = {key: statistics.geometric_mean(max(t, 0.01) for t in every)
                 for key, every in times.items()}  # fmt: skip
        print(f"| {kind or 'all'} | {len(some)} | {means['counted_s']:.1f} | "
              f"{max(times['counted_s']):.0f} | {means['drawn_s']:.1f} | "
              f"{max(times['drawn_s']):.0f} | {means['made_s']:.1f} |")  # fmt: skip
    for key in ("counted_s", "drawn_s"):
        worst = sorted(results, key=lambda each: -each[key])[:slowest]
        print(
            f"\nslowest, {key}:",
            *(f"  {each[key]:.3f} {each['case']}" for each in worst),
            sep="\n",
        )
    inexact = [each["case"] for each in results if not each["exact"]]
    print(f"\nnot counted exactly: {inexact or 'none'}")


def compare(results: list[Result], before: list[Result]) -> None:
    """Print which spaces have other points than they had."""
    known = {each["case"]: each for each in before}
    keys = ("points", "exact", "digest")
    both = [each for each in results if each["case"] in known]
    changed = [each["case"] for each in both
               if any(each[key] != known[each["case"]][key] for key in keys)]  # fmt: skip
    print(f"\nof {len(both)} spaces known before, with other points: {changed or 'none'}")


def main(argv: list[str] | None = None) -> None:
    """Measure and print."""
    import autotune.templates  # noqa: F401 - registers the tasks

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--of-each", type=int, default=20, help="drawn layers of a kind")
    parser.add_argument("--only", default="", help="templates whose names have this in them")
    parser.add_argument("--slowest", type=int, default=10, help="how many to name")
    parser.add_argument("--out", type=Path, help="file for all results")
    parser.add_argument("--same-as", type=Path, help="results of another commit")
    options = parser.parse_args(argv)
    wanted = dict.fromkeys(c for c in cases(options.seed, options.of_each) if options.only in c[0])
    measured(next(iter(wanted)))  # imports are not counted
    gc.collect()
    gc.freeze()  # what they left is not gone through again
    results = [result for case in wanted if (result := measured(case))]
    report(results, options.slowest)
    if options.out:
        options.out.write_text("".join(f"{json.dumps(each)}\n" for each in results), "utf-8")
    if options.same_as:
        lines = options.same_as.read_text("utf-8").splitlines()
        compare(results, [json.loads(line) for line in lines])


if __name__ == "__main__":
    main(sys.argv[1:])
