"""The cost of a candidate before it is compiled: instantiate, lower, write the text.

    python -m benchmarks.tuning.lowering [--configs 200] [--seed 0] [--out DIR]

Random configurations of AutoTVM's tutorial convolution (1x512x7x7, 512 filters 3x3) are taken
through the whole way on one core, in CPU time. Most of them break a limit of a GPU, which lowering
tells before it writes loops out; they are counted in the first row, and left out of the second.
The table shows each pass. A second table shows how the time grows with the number of stages.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import autotune
from autotune import te
from autotune.codegen import kernel_of_function
from autotune.errors import InstantiationError
from autotune.lowering import lower_schedule
from autotune.target import Target
from benchmarks.tutorial_gpu import SHAPE, tutorial_template

HERE = Path(__file__).resolve().parents[1]

TARGET = Target("cuda -arch=sm_80")
CHAINS = (2, 4, 8, 16, 32)
REPEATS = 5
Passes = dict[str, float]


def one_candidate(make: Callable[[], Any]) -> Passes | None:
    """Return the seconds of each part of the way; None if a limit stopped it."""
    spent: Passes = {}
    last = time.process_time()

    def lap(name: str, _: object = None) -> None:
        nonlocal last
        now = time.process_time()
        spent[name] = spent.get(name, 0.0) + now - last
        last = time.process_time()

    schedule, args = make()
    lap("instantiate")
    try:
        lowered = lower_schedule(schedule, args, "conv", "cuda", lap, TARGET.limits)
    except InstantiationError:
        return None
    kernel_of_function(lowered, "cuda")
    lap("codegen")
    return spent


def convolution(configs: int, seed: int) -> dict[str, Any]:
    """Time random configurations of the tutorial template."""
    task = autotune.task.create("benchmarks/tutorial_conv2d", args=(*SHAPE, 1, 1), target=TARGET)
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, task.config_space.range_length, configs)
    rows, total = [], []
    for index in indices:
        entity = task.config_space.get(int(index))
        one_candidate(lambda e=entity: task.instantiate(e))
        begin = time.process_time()
        row = one_candidate(lambda e=entity: task.instantiate(e))
        total.append(time.process_time() - begin)
        if row is not None:
            rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {
        "all_ms": milliseconds(total),
        "fitting_ms": milliseconds([sum(row.values()) for row in rows]),
        "fitting": len(rows),
        "configs": configs,
        "passes_ms": {name: milliseconds([row.get(name, 0.0) for row in rows]) for name in names},
    }


def milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """Return median, mean and 90th percentile in milliseconds."""
    values = np.asarray(seconds) * 1e3
    return {
        "median": round(float(np.median(values)), 3),
        "mean": round(float(np.mean(values)), 3),
        "p90": round(float(np.percentile(values, 90)), 3),
    }


def chain(stages: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Return a chain of element-wise stages, each computed in the block of the next."""
    first = te.placeholder((1024, 64), name="A")
    last = first
    for i in range(stages):
        last = te.compute((1024, 64), lambda y, x, t=last: t[y, x] * 2.0 + 1.0, name=f"S{i}")
    s = te.create_schedule(last.op)
    y, x = s[last].op.axis
    s[last].bind(y, te.thread_axis("blockIdx.x"))
    s[last].bind(x, te.thread_axis("threadIdx.x"))
    for stage in s.stages[1:-1]:
        stage.set_scope("shared")
        stage.compute_at(s[last], y)
        stage.bind(stage.op.axis[1], te.thread_axis("threadIdx.x"))
    return s, [first, last]


def growth() -> dict[int, float]:
    """Return the milliseconds of lowering and printing chains of several lengths."""
    found = {}
    for stages in CHAINS:
        times = []
        for _ in range(REPEATS):
            row = one_candidate(lambda n=stages: chain(n))
            assert row is not None
            times.append(sum(row.values()) - row["instantiate"])
        found[stages] = round(statistics.median(times) * 1e3, 3)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args(argv)
    assert tutorial_template is not None
    results: dict[str, Any] = {"convolution": convolution(options.configs, options.seed)}
    results["chain_ms"] = growth()
    conv = results["convolution"]
    print(f"{'':24}{'median':>9}{'mean':>9}{'p90':>9}  ms of CPU time")
    print(line(f"all {conv['configs']} configurations", conv["all_ms"]))
    print(line(f"the {conv['fitting']} that fit", conv["fitting_ms"]))
    for name, row in conv["passes_ms"].items():
        print(line(f"  {name}", row))
    print("stages in a chain:", ", ".join(f"{n}: {t} ms" for n, t in results["chain_ms"].items()))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "lowering.json").write_text(json.dumps(results, indent=1), "utf-8")


def line(name: str, row: dict[str, float]) -> str:
    return f"{name:24}{row['median']:9.2f}{row['mean']:9.2f}{row['p90']:9.2f}"


if __name__ == "__main__":
    main()
