"""Logs for the tests of the page: rows as templates and the auto-scheduler write them."""

import json
import random
from pathlib import Path

TARGET = "cuda -keys=cuda,gpu -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32"
ILLEGAL = "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"


def row(
    index,
    seconds=1e-3,
    error=0,
    message="",
    task="conv",
    target=TARGET,
    knobs=None,
    end=None,
    **more,
):
    """Return one record; ``knobs`` are pairs of name and value."""
    knobs = {"tile": [-1, 2 ** (index % 4)], "unroll": index % 3} if knobs is None else knobs
    entity = [[k, "sp" if isinstance(v, list) else "ot", v] for k, v in knobs.items()]
    one = {
        "input": [target, task, [["TENSOR", [1, 64, 7, 7], "float32"], [1, 1]], {}],
        "config": {"index": index, "code_hash": None, "entity": entity},
        "result": [
            [1e9] if error else [seconds], error, 1.5, 1.7e9 + index if end is None else end,
        ],
        "version": 0.2,
        "tvm_version": "0.12.0",
        **more,
    }  # fmt: skip
    return {**one, "error_msg": message} if message else one


def text(rows):
    """Return rows as the text of a log."""
    return "".join(json.dumps(one) + "\n" for one in rows)


def run(count, seed=0, task="conv", target=TARGET, devices=2, energy=False):
    """Return rows of a run in which knobs matter, some trials fail, and moments are known."""
    draw = random.Random(seed)
    rows = []
    for i in range(count):
        tile, unroll = draw.choice([1, 2, 4, 8, 16]), draw.choice([0, 512, 1500])
        seconds = 1e-4 * (1 + abs(tile - 8)) * (1 + (unroll == 0)) * draw.uniform(0.98, 1.02)
        error, message = 0, ""
        if draw.random() < 0.1:
            error, message = 4, f"{ILLEGAL} in trial {i % 3}"
        extra = {
            "device": i % devices, "stages": [2.0, 1.5, 0.5, 0.4],
            "resources": {"registers": 32 + tile, "spill_bytes": 0},
        }  # fmt: skip
        if not error:
            extra |= {"ci95": [seconds * 0.99, seconds * 1.01], "noise_floor": 0.01, "samples": 9,
                      "roofline": 1e-5 / seconds, "roof": [2e6, 1e5, 1e12, 1e10]}  # fmt: skip
            if energy:
                joules = 0.02 + 2e-6 / seconds * draw.uniform(0.9, 1.1)  # haste takes more
                extra["energy"] = {"joules": joules, "watts": joules / seconds}
        knobs = {"tile": [-1, tile], "unroll": unroll, "plain": 1}
        rows.append(row(i, seconds, error, message, task, target, knobs, 1.7e9 + 0.3 * i, **extra))
    return rows


def race(winner, others):
    """Return the note of a race that a row won."""
    ran = [
        {"index": one["config"]["index"], "seconds": one["result"][0][0],
         "medians": one["result"][0], "ci95": [[one["result"][0][0] * 0.99, one["result"][0][0]]],
         "noise_floor": [0.01], "samples": [20]}
        for one in (winner, *others)
    ]  # fmt: skip
    proof = {
        "rounds": [20, 60],
        "risk": 0.01,
        "tied": [winner["config"]["index"]],
        "candidates": ran,
        "passed_over": [],
        "default": others[-1]["config"]["index"],
    }
    return "# race " + json.dumps({**winner, "race": proof}) + "\n"


def log(path: Path, rows, note="") -> Path:
    """Write a log."""
    path.write_text(text(rows) + note)
    return path
