"""The gain of tuning tasks together: ResNet-18's eleven convolutions in one run.

    python -m benchmarks.auto_scheduler.sharing --seeds 0 1 2 --out shared     # needs a GPU
    python -m benchmarks.auto_scheduler.sharing --without nothing elites --nhwc

A `TaskScheduler` gives each task a round in turn. Shown is the sum of the best times of all tasks
after each round of all, and the seconds by then; once for each thing that the run is denied:
``nothing`` (all share one model), ``sharing`` (each task has a model of its own), ``elites`` (one
model, but no rows of similar tasks), ``prior`` (nothing ships). What ships of these layers is
always left out. ``--library`` times each winner in turns with what PyTorch calls for the same.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from autotune.auto_scheduler import (
    ComputeDAG,
    LocalBuilder,
    RecordToFile,
    SearchTask,
    SketchPolicy,
    TaskScheduler,
    TaskSchedulerCallback,
    TuningOptions,
    XGBModel,
)
from autotune.auto_scheduler.search import task_group, task_search
from autotune.auto_scheduler.search.models import prior
from benchmarks.auto_scheduler.cases import CASES
from benchmarks.auto_scheduler.library import beside_library, compiled

LAYERS = tuple(name for name in CASES if name.startswith("r18") and not name.endswith("nhwc"))
ALIKE = ("tutorial", *(name for name in CASES if name.startswith(("r18", "conv"))))


class Sums(TaskSchedulerCallback):
    """Notes the sum of the best times, in us, by trials and seconds; prints it now and then.

    Args:
        title: of the run.
        every: trials after which it is printed.
    """

    def __init__(self, title: str, every: int) -> None:
        self.title, self.every = title, every
        self.started = time.perf_counter()
        self.points: list[tuple[int, float, float]] = []

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Take note after a round."""
        del task_id
        trials, passed = task_scheduler.ct, time.perf_counter() - self.started
        before = self.points[-1][0] if self.points else 0
        self.points.append((trials, passed, task_scheduler.cur_score * 1e6))
        if trials // self.every > before // self.every:
            total = self.points[-1][2]
            print(f"{self.title}, {trials} trials: {total:.1f} us ({passed:.1f} s)", flush=True)


def policies_of(tasks: Sequence[SearchTask], without: str, seed: int) -> list[SketchPolicy]:
    """Return a policy for each task, with one model or one each."""
    model = XGBModel()
    models = [XGBModel() if without == "sharing" else model for _ in tasks]
    return [
        SketchPolicy(task, each, seed=seed, verbose=0)
        for task, each in zip(tasks, models, strict=True)
    ]


def tuned(names: Sequence[str], without: str, seed: int, options: argparse.Namespace) -> None:
    """Tune all tasks together, and print how the sum of their times fell."""
    shipped = prior.gpu_prior if without != "prior" else lambda names: None
    setattr(task_search, "gpu_prior", partial(shipped, ALIKE))  # noqa: B010
    given = task_group.GroupMember.elites
    if without == "elites":
        setattr(task_group.GroupMember, "elites", lambda self: [])  # noqa: B010
    graphs = [ComputeDAG(CASES[name].tensors()) for name in names]
    tasks = [SearchTask(compute_dag=g, target=options.target) for g in graphs]
    sums = Sums(f"without {without:8} seed {seed}", options.round * len(tasks))
    on_gpu = options.target.startswith("cuda")
    logs: list[Any] = []
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        logs = [RecordToFile(str(options.out / f"net_without_{without}_{seed}.json"))]
    scheduler = TaskScheduler(tasks, strategy="round-robin", callbacks=[sums])
    how = TuningOptions(
        options.trials * len(tasks),
        num_measures_per_round=options.round,
        builder=LocalBuilder(compiler="nvrtc") if on_gpu else LocalBuilder(),
        verbose=0,
        measure_callbacks=logs,
    )
    scheduler.tune(how, search_policy=policies_of(tasks, without, seed))
    setattr(task_group.GroupMember, "elites", given)  # noqa: B010
    row = {"without": without, "seed": seed, "points": sums.points}
    row["us"] = {n: s * 1e6 for n, s in zip(names, scheduler.best_costs, strict=True)}
    if options.library and without == "nothing":
        row["library"] = {}
        for name, task, each in zip(names, tasks, scheduler.progress, strict=True):
            if each.policy.best is not None:
                with tempfile.TemporaryDirectory() as folder:
                    built = compiled(name, task, each.policy.best[0], folder)
                    row["library"][name] = found = beside_library(name, *built)
                ratio = found["library_us"] / found["beside_us"]
                print(f"    {name:26} {found['library']} {found['library_us']:.2f}, found "
                      f"{found['beside_us']:.2f}: {ratio:.2f}x", flush=True)  # fmt: skip
    if options.out is not None:
        with (options.out / "sharing.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=32, help="of each task")
    parser.add_argument("--round", type=int, default=8, help="trials of a round")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=LAYERS)
    parser.add_argument("--nhwc", action="store_true", help="the layers in NHWC")
    parser.add_argument("--without", nargs="+", default=["nothing", "sharing"],
                        choices=["nothing", "sharing", "elites", "prior"])  # fmt: skip
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--library", action="store_true", help="compare with PyTorch on the GPU")
    parser.add_argument("--out", type=Path, help="folder for what was found")
    options = parser.parse_args(argv)
    names = [f"{name}_nhwc" for name in options.cases] if options.nhwc else options.cases
    for seed in options.seeds:
        for without in options.without:
            tuned(names, without, seed, options)


if __name__ == "__main__":
    main()
