"""Searches for a GPU on simulated times, which earlier trials taught: needs no GPU.

    python -m benchmarks.auto_scheduler.replay --seeds 0 1 2 3 4
    python -m benchmarks.auto_scheduler.replay --cases tutorial gemm1024 --profile tutorial.prof

Trees that were fitted to the trials that ship replace the device: a kernel takes its estimated
time, corrected by what the trials of its workload, and in part those of others, say of its
features, and by 4% at random that only its row decides. So searches are compared, not kernels: the
order of rows is near that of an H200, the times are relative to what this device has. The search
itself does not know trials of the workload, nor of any of its size (`prior.alike`).

A search proposes for a run of so many trials as a tuner does (`SketchTuner`), and is told the
times of each batch before the next. Shown are the best after some trials, and the seconds that
making programs, proposing and learning took, of the CPU and by the clock. With several seeds the
last line of a case has the geometric means. ``--profile`` writes what `cProfile` says of it all.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler import SketchPolicy, XGBModel
from autotune.auto_scheduler.search import task_search
from autotune.auto_scheduler.search.models import prior
from autotune.auto_scheduler.search.models.common_model import ShippedTrials, with_workload
from autotune.auto_scheduler.search.models.descriptor import described
from autotune.auto_scheduler.search.program_search import Row
from autotune.auto_scheduler.search.tuner import SketchTuner
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.cost_model import StoredTrees, Trees, TreeSettings
from autotune.measure import MeasureInput, MeasureResult
from benchmarks.auto_scheduler.prior import alike, task_of

# Workloads with trials that ship: convolutions of both layouts, products of few and many rows.
KNOWN = ("tutorial", "conv64", "conv128_nhwc", "gemm1024", "batch_matmul")
POINTS = (16, 32, 64)
# Trees that stand in for the device are larger than those of a search, and see the trials of their
# own workload as often as all this.
_SETTINGS = TreeSettings(rounds=150, depth=7, rate=0.1, threads=1)
_OWN = 6
# Standard deviation of what only the row decides, in doublings.
_NOISE = 0.06


class Device:
    """Says what rows of a workload take.

    Args:
        name: of the case.
    """

    def __init__(self, name: str) -> None:
        self.descriptor = described(task_of(name))
        with np.load(prior.FILE) as data:
            features, residuals = prior.training_columns(data)
            own = np.flatnonzero(data["workloads"] == name)
        which = np.concatenate([np.arange(len(residuals)), *[own] * _OWN])
        self._trees = Trees.fit(features[which], residuals[which], "reg", _SETTINGS, 11)

    def seconds(self, policy: SketchPolicy, at: int, row: Row) -> float:
        """Return what a row of a program takes."""
        model = policy.proposer.programs[at].cost_model
        found = model(row[None])
        columns = with_workload(found.features, self.descriptor, model.tiles)
        faster = float(self._trees.predict(columns)[0]) if model.tiles else 0.0
        return float(found.seconds[0]) * float(2.0 ** (_luck(at, row) - faster))


def _luck(at: int, row: Row) -> float:
    seed = int.from_bytes(blake2b(row.tobytes() + bytes([at]), digest_size=8).digest(), "little")
    return _NOISE * float(np.random.default_rng(seed).standard_normal())


@dataclass(frozen=True)
class Found:
    """One search.

    Attributes:
        name: of the case.
        seed: of the search.
        curve_us: the best so far after each trial.
        cpu_s: seconds of the CPU that the search took.
        wall_s: the same by the clock.
        batches: times that it proposed.
    """

    name: str
    seed: int
    curve_us: tuple[float, ...]
    cpu_s: float
    wall_s: float
    batches: int

    @property
    def best_us(self) -> dict[int, float]:
        """Return the best after each of `POINTS` that was reached, and after the last trial."""
        made = len(self.curve_us)
        return {n: self.curve_us[n - 1] for n in sorted({*POINTS, made}) if n <= made}


class Clocks:
    """Adds up CPU and wall seconds of some blocks."""

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = 0.0
        self._started = 0.0, 0.0

    def __enter__(self) -> None:
        self._started = time.process_time(), time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.cpu_s += time.process_time() - self._started[0]
        self.wall_s += time.perf_counter() - self._started[1]


@cache
def device_of(name: str) -> Device:
    """Return the stand-in for the device, for one case."""
    return Device(name)


@cache
def prior_without(names: tuple[str, ...]) -> ShippedTrials | None:
    """Return what ships of other workloads, with trees in the form in which they ship."""
    left = prior.gpu_prior(names)
    if left is None or isinstance(left.trees, StoredTrees):
        return left
    return replace(left, trees=StoredTrees(left.trees.to_json()))


def searched(name: str, seed: int, trials: int, profile: cProfile.Profile | None) -> Found:
    """Search one case."""
    device, task = device_of(name), task_of(name)
    setattr(task_search, "gpu_prior", partial(prior_without, alike(name)))  # noqa: B010
    prior_without(alike(name))  # fitting trees to what is left of the prior is no part of a search
    clocks, curve, batches = Clocks(), [float("inf")], 0
    policy = SketchPolicy(task, XGBModel(), seed=seed, verbose=0)
    tuner = SketchTuner(policy)
    tuner.n_trial, told = trials, 0
    while told < trials and tuner.has_next():
        if profile is not None:
            profile.enable()
        with clocks:
            batch = tuner.next_batch(trials - told)
        if profile is not None:
            profile.disable()
        inputs = [MeasureInput(task.target, task, each) for each in batch]
        times = [_seconds(device, policy, each) for each in batch]
        results = [MeasureResult((each,), 0, each, 0.0) for each in times]
        if profile is not None:
            profile.enable()
        with clocks:
            tuner.update(inputs, results)
        if profile is not None:
            profile.disable()
        told, batches = told + len(batch), batches + 1
        curve += [float(each) for each in np.minimum.accumulate([curve[-1], *times])[1:]]
    us = tuple([round(each * 1e6, 3) for each in curve[1:]])
    return Found(name, seed, us, clocks.cpu_s, clocks.wall_s, batches)


def _seconds(device: Device, policy: SketchPolicy, candidate: RecordedState) -> float:
    place = policy.proposer.row_of(candidate.transform_steps)
    assert place is not None
    return device.seconds(policy, *place)


def report(found: Found) -> None:
    """Print one line of a search."""
    best = ", ".join(f"{us:.2f} after {n}" for n, us in found.best_us.items())
    print(
        f"{found.name:14} seed {found.seed}: {best} us; {found.cpu_s:.3f} s of CPU, "
        f"{found.wall_s:.3f} s for {found.batches} batches",
        flush=True,
    )


def summary(runs: Sequence[Found]) -> None:
    """Print the geometric means of some searches of one case."""
    points = [n for n in runs[0].best_us if all(n in run.best_us for run in runs)]
    times = np.log([[run.best_us[n] for n in points] for run in runs])
    means = np.exp(times.mean(axis=0))
    shown = ", ".join(f"{each:.2f} after {n}" for each, n in zip(means, points, strict=True))
    cpu: npt.NDArray[np.float64] = np.array([run.cpu_s for run in runs])
    print(f"{runs[0].name:14} mean of {len(runs)}: {shown} us; {np.median(cpu):.3f} s of CPU")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=KNOWN)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--profile", type=Path, help="file for what cProfile says")
    parser.add_argument("--out", type=Path, help="file to which each search is added as JSON")
    options = parser.parse_args(argv)
    profile = None if options.profile is None else cProfile.Profile()
    for name in options.cases:
        runs = [searched(name, seed, options.trials, profile) for seed in options.seeds]
        for run in runs:
            report(run)
        if len(runs) > 1:
            summary(runs)
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(run)) + "\n" for run in runs)
    if profile is not None:
        profile.dump_stats(options.profile)


if __name__ == "__main__":
    main()
