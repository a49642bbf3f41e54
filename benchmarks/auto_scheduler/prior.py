"""Writes what ships of earlier trials for the search on a GPU, from logs of the benchmark.

    python -m benchmarks.auto_scheduler --trials 300 --out found --cases all     # needs a GPU
    python -m benchmarks.auto_scheduler.prior found                                   # needs none
    python -m benchmarks.auto_scheduler.prior found --add           # to those that ship
    python -m benchmarks.auto_scheduler.prior found --leave-one-out

Logs may hold trials of one of the benchmark's cases or of several. Rows and estimates are computed
anew, so that the file fits the features of today: to be run again when they change.
``--leave-one-out`` shows for each workload how well estimates rank its trials, alone and corrected
by what the trials of other sizes say (Spearman's coefficient; 1 is the order of the measured
times).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler import (
    ComputeDAG,
    MeasureInput,
    RecordReader,
    SearchTask,
    SketchPolicy,
    XGBModel,
)
from autotune.auto_scheduler.search.models.common_model import (
    CommonModel,
    residuals_of,
    with_workload,
)
from autotune.auto_scheduler.search.models.descriptor import Descriptor, described
from autotune.auto_scheduler.search.models.prior import (
    FILE,
    fitted,
    shipped_prior,
    training_columns,
)
from autotune.auto_scheduler.search.program_search import AnalyticalCostModel
from autotune.auto_scheduler.search.space.program import Rows
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.measure import MeasureResult
from benchmarks.auto_scheduler.cases import CASES

Column = npt.NDArray[np.float64]
Pair = tuple[MeasureInput, MeasureResult]


@dataclass(frozen=True)
class Trials:
    """The trials of one workload: its descriptor, features, estimated and measured seconds."""

    descriptor: Descriptor
    features: npt.NDArray[np.float32]
    estimates: Column
    seconds: Column


def alike(name: str) -> tuple[str, ...]:
    """Return the cases with as many results and terms of each: a layer in all its forms."""
    return tuple(other for other, sizes in sizes_of().items() if sizes == sizes_of()[name])


@cache
def sizes_of() -> dict[str, tuple[float, float]]:
    """Return the logarithms of results, and of the terms of each, of all cases."""
    found = {name: described(task_of(name)) for name in CASES}
    return {name: (float(columns[3]), float(columns[4])) for name, columns in found.items()}


def task_of(name: str) -> SearchTask:
    """Return the task of a case, for a GPU."""
    return SearchTask(compute_dag=ComputeDAG(CASES[name].tensors()), target="cuda -arch=sm_90")


def records_of(logs: Sequence[Path]) -> dict[str, list[Pair]]:
    """Return what some logs hold of each case."""
    names = {task_of(name).workload_key: name for name in CASES}
    found: dict[str, list[Pair]] = {}
    for log in logs:
        for inp, result in zip(*RecordReader(log).read_lines(), strict=True):
            if inp.task.workload_key in names:
                found.setdefault(names[inp.task.workload_key], []).append((inp, result))
    return found


def trials_of(name: str, records: Sequence[Pair]) -> Trials:
    """Return the trials of a case as the analytical model sees them now."""
    task = task_of(name)
    proposer = SketchPolicy(task, XGBModel(), seed=0).proposer
    features, estimates, seconds = [], [], []
    for inp, result in records:
        row = proposer.row_of(inp.state.transform_steps)
        if row is None or not result.ok or not proposer.programs[row[0]].cost_model.tiles:
            continue
        estimated = proposer.programs[row[0]].cost_model(row[1][None])
        if estimated.feasible[0]:
            features.append(estimated.features[0])
            estimates.append(estimated.seconds[0])
            seconds.append(result.seconds)
    return Trials(described(task), np.array(features), np.array(estimates), np.array(seconds))


def write(known: dict[str, Trials], add: bool) -> None:
    """Write the file that ships; with ``add`` trials that it has are kept, those of logs added."""
    rows = first_program()[1].draw(64)
    names = [name for name, each in known.items() for _ in each.seconds]
    columns = {
        "features": np.concatenate([each.features for each in known.values()]),
        "descriptors": np.array(
            [each.descriptor for each in known.values() for _ in each.seconds]
        ),
        "residuals": np.concatenate(
            [residuals_of(each.estimates, each.seconds) for each in known.values()]
        ),
    }
    if add:
        with np.load(FILE) as data:
            names = [*map(str, data["workloads"]), *names]
            columns = {key: np.concatenate([data[key], new]) for key, new in columns.items()}
    kept = {key: values.astype(np.float16) for key, values in columns.items()}
    trees = fitted(*training_columns(kept)).to_json()
    np.savez_compressed(
        FILE,
        workloads=np.array(names),
        rows=rows,
        fingerprint=fingerprint(rows),
        trees=np.frombuffer(trees, np.uint8),
        **kept,
    )
    print(
        f"{FILE}: {len(names)} trials of {len(set(names))} workloads, {FILE.stat().st_size} bytes"
    )


def first_program() -> tuple[AnalyticalCostModel, RowSampler]:
    """Return the cost model of a program, and what draws rows of it."""
    searched = SketchPolicy(task_of("conv64"), XGBModel(), seed=0).proposer.programs[0]
    return searched.cost_model, searched.sampler


def fingerprint(rows: Rows) -> npt.NDArray[np.float64]:
    """Return the mean features of some rows of that program: they change with the model."""
    return first_program()[0](rows).features.mean(axis=0, dtype=np.float64)


def leave_one_out(known: dict[str, Trials]) -> None:
    """Print how well trials are ranked by estimates, alone and with the trials of all others."""
    for name, own in known.items():
        others = [each for other, each in known.items() if other not in alike(name)]
        model = CommonModel(
            shipped_prior(
                np.concatenate([with_workload(each.features, each.descriptor) for each in others]),
                np.concatenate([residuals_of(each.estimates, each.seconds) for each in others]),
            )
        )
        estimated = -np.log2(own.estimates)
        corrected = estimated + model.predict(with_workload(own.features, own.descriptor))
        found = [spearman(each, -own.seconds) for each in (estimated, corrected)]
        print(f"{name:26} {len(own.seconds):4} trials: {found[0]:5.2f} {found[1]:5.2f}")


def spearman(a: Column, b: Column) -> float:
    """Return how alike the orders of two columns are, from -1 to 1."""
    first, second = (np.unique(each, return_inverse=True)[1].astype(float) for each in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="where logs are, at any depth")
    parser.add_argument("--add", action="store_true", help="to what ships, instead of it")
    parser.add_argument("--leave-one-out", action="store_true")
    options = parser.parse_args(argv)
    logs = sorted(each for folder in options.folders for each in folder.rglob("*.json"))
    known = {name: trials_of(name, found) for name, found in records_of(logs).items()}
    known = {name: each for name, each in known.items() if len(each.seconds) > 1}
    if options.leave_one_out:
        leave_one_out(known)
    else:
        write(known, options.add)


if __name__ == "__main__":
    main()
