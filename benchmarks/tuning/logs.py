"""The cost of reading a log: CPU time for many rows of one task, as AutoTVM writes them.

    python -m benchmarks.tuning.logs                   # 100,000 rows
    python -m benchmarks.tuning.logs --ours            # with the keys that our own records add

Every row has a configuration and a time of its own. Reading is timed by the CPU time of this
process, and repeated: the least counts, because all that others do to a machine makes it more.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from autotune.record import load_from_file

TARGET = "cuda -keys=cuda,gpu -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32"
ARGS: list[Any] = [
    ["TENSOR", [1, 512, 7, 7], "float32"], ["TENSOR", [512, 512, 3, 3], "float32"],
    [1, 1], [1, 1, 1, 1], [1, 1], "float32",
]  # fmt: skip


def write_rows(path: Path, rows: int, ours: bool) -> None:
    """Write a log of one convolution."""
    draw = random.Random(0)
    with path.open("w") as file:
        for index in range(rows):
            file.write(json.dumps(row(draw, index, ours)) + "\n")


def row(draw: random.Random, index: int, ours: bool) -> dict[str, Any]:
    """Return a trial with drawn choices and times."""
    sizes = [1, 2, 4, 7, 8, 16, 32, 64]
    splits = {"tile_f": 4, "tile_y": 4, "tile_x": 4, "tile_rc": 2, "tile_ry": 2, "tile_rx": 2}
    entity = [
        [name, "sp", [-1, *draw.choices(sizes, k=parts - 1)]] for name, parts in splits.items()
    ]
    entity += [["auto_unroll_max_step", "ot", draw.choice([0, 512, 1500])]]
    entity += [["unroll_explicit", "ot", draw.choice([0, 1])]]
    costs = [draw.uniform(1e-5, 1e-3), draw.uniform(1e-5, 1e-3)]
    extra = {
        "ci95": costs, "noise_floor": draw.random(), "samples": 9, "number": 100,
        "kernel_hash": f"{draw.getrandbits(64):016x}", "resources": {"registers": 64},
    }  # fmt: skip
    return {
        "input": [TARGET, "conv2d_nchw.cuda", ARGS, {}],
        "config": {"index": index * 97, "code_hash": None, "entity": entity},
        "result": [costs, 0, draw.uniform(1, 5), 1.7e9 + index],
        "version": 0.2,
        "tvm_version": "0.12.0",
        **(extra if ours else {}),
    }


def least_cpu_s(read: Callable[[], Iterable[Any]], rows: int, rounds: int) -> float:
    """Return the least CPU time of reading, everything kept."""
    spent = []
    for _ in range(rounds):
        started = time.process_time()
        kept = list(read())
        spent.append(time.process_time() - started)
        assert len(kept) == rows
        del kept
    return min(spent)


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5, help="repetitions; the least counts")
    parser.add_argument("--ours", action="store_true", help="rows with our own keys")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trials.log"
        write_rows(path, options.rows, options.ours)
        megabytes = path.stat().st_size / 1e6
        ours = least_cpu_s(lambda: load_from_file(path), options.rows, options.rounds)
        lines = path.read_text().splitlines()
        plain = least_cpu_s(lambda: map(json.loads, lines), options.rows, options.rounds)
    print(
        f"{options.rows} rows, {megabytes:.0f} MB: {ours:.2f} s of CPU to load "
        f"({ours / options.rows * 1e6:.1f} us a row); json.loads alone {plain:.2f} s"
    )
    return {"rows": options.rows, "load_cpu_s": ours, "json_cpu_s": plain}


if __name__ == "__main__":
    main()
