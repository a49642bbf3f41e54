"""Trials each class of devices needs when several are tuned at once, and when each is alone.

    python -m benchmarks.tuning.classes --seeds 11

The kernels of `tests/data/recorded_spaces` that were measured exhaustively on several GPUs answer
as devices would; each class proposes four trials in turn. Printed: the median over seeds of the
trials a class makes until one is within 5% and 1% of the best there is (at most ``--cap``).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from autotune.measure import MeasureInput
from autotune.runtime import Descriptor
from autotune.tuner import XGBTuner
from autotune.tuner.models.across_classes import AcrossClasses
from autotune.tuner.tune_classes import ClassTuner
from benchmarks.tuning.search import SPACES, recording_of

BATCH = 4
WITHIN = (1.05, 1.01)
# What their makers' data sheets say: processors, MHz, bytes/s, bytes of memory and of the last
# cache, and float32 operations/s.
DEVICES = {
    "A100": (108, 1410, 1.555e12, 40e9, 40e6, 19.5e12),
    "A4000": (48, 1560, 448e9, 16e9, 4e6, 19.2e12),
    "MI250X": (110, 1700, 1.638e12, 64e9, 8e6, 23.9e12),
    "RTX_2080_Ti": (68, 1545, 616e9, 11e9, 5.5e6, 13.4e12),
    "RTX_3060_laptop": (30, 1425, 336e9, 6e9, 3e6, 10.9e12),
    "RTX_3090": (82, 1695, 936e9, 24e9, 6e6, 35.6e12),
    "RTX_Titan": (72, 1770, 672e9, 24e9, 6e6, 16.3e12),
    "W6600": (28, 2331, 224e9, 8e9, 32e6, 10.4e12),
}


def descriptor(name: str) -> Descriptor:
    processors, mhz, bandwidth, memory, cache, flops = DEVICES[name]
    return Descriptor(
        "cuda",
        name,
        processors=processors,
        clock_mhz=mhz,
        memory_bytes=int(memory),
        cache_bytes=int(cache),
        bandwidth=bandwidth,
        flops=flops,
    )


class Lane:
    """One class: its tuner, and how far it has come."""

    def __init__(self, path: Path) -> None:
        kernel, self.device = path.stem.split("__")
        self.recording = recording_of(path)
        self.task = self.recording.task(kernel, (self.device,))
        points = self.task.config_space.indices(self.recording.codes)
        self.rows = {int(index): row for row, index in enumerate(points)}
        self.best = self.recording.best()
        self.trials, self.found = 0, float("inf")
        self.needed: list[int | None] = [None] * len(WITHIN)

    def step(self, tuner: XGBTuner) -> None:
        """Let the tuner propose, and tell it what the device would have."""
        others = tuner.from_others()[:BATCH] if isinstance(tuner, ClassTuner) else []
        for one in others:
            tuner.visited.add(one.index)
        configs = [*others, *tuner.next_batch(BATCH - len(others))]
        results = [self.recording.results[self.rows[one.index]] for one in configs]
        inputs = [MeasureInput(self.task.target, self.task, one) for one in configs]
        for result in results:
            self.trials += 1
            self.found = min(self.found, result.seconds)
            for i, within in enumerate(WITHIN):
                if self.needed[i] is None and self.found <= within * self.best:
                    self.needed[i] = self.trials
        tuner.update(inputs, results)


def run(kernel: str, together: bool, cap: int, seed: int) -> dict[str, list[int]]:
    """Return for each device of a kernel the trials that it needed."""
    lanes = [Lane(path) for path in sorted(SPACES.glob(f"{kernel}__*.npz"))]
    across = AcrossClasses({descriptor(lane.device): lane.task for lane in lanes})
    tuners: list[XGBTuner] = []
    for number, lane in enumerate(lanes):
        own = seed * 100 + number
        key = descriptor(lane.device).key
        tuners.append(
            ClassTuner(lane.task, across, key, own) if together else XGBTuner(lane.task, seed=own)
        )
    for _ in range(cap // BATCH):
        for lane, tuner in zip(lanes, tuners, strict=True):
            if lane.needed[-1] is None:
                lane.step(tuner)
    return {lane.device: [n or cap for n in lane.needed] for lane in lanes}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cap", type=int, default=300)
    parser.add_argument("--kernels", nargs="*")
    args = parser.parse_args(argv)
    kernels = args.kernels or sorted({path.stem.split("__")[0] for path in SPACES.glob("*.npz")})
    print(f"{'kernel on device':36} alone 5% / 1%   together 5% / 1%")
    ratios = []
    with ProcessPoolExecutor() as pool:
        for kernel in kernels:
            if len(list(SPACES.glob(f"{kernel}__*.npz"))) < 2:
                continue
            both = [
                list(pool.map(partial(run, kernel, together, args.cap), range(args.seeds)))
                for together in (False, True)
            ]
            for device in both[0][0]:
                alone, joined = (np.median([one[device] for one in runs], axis=0) for runs in both)
                ratios.append(alone / joined)
                print(
                    f"{kernel + ' on ' + device:36} {alone[0]:6.0f} / {alone[1]:4.0f}"
                    f"  {joined[0]:9.0f} / {joined[1]:4.0f}",
                    flush=True,
                )
    less = np.exp(np.log(ratios).mean(axis=0))
    print(f"fewer trials, geometric mean: {less[0]:.2f} times to 5%, {less[1]:.2f} to 1%")


if __name__ == "__main__":
    main()
