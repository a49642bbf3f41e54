"""The gain of a session: small tasks in one session, or each with processes of its own.

    python -m benchmarks.tuning.session                     # C
    python -m benchmarks.tuning.session --target cuda

Both ways tune the same tasks, in the same order, without any cache of compiled code, and take
turns, so that a change of the machine's load hits both. A third way mixes the trials of all tasks
in one queue. Shown are the seconds from the call of `tune` to the first result, of the first task
and of those after it; trials per second; and CPU time of the calling process a trial.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, Session, measure_option
from autotune.task import Task
from autotune.tuner import GridSearchTuner

HERE = Path(__file__).resolve().parents[1]
C = """
void work(const float *x, float *y) {
  for (int i = 0; i < N; i += UNROLL)
    for (int j = i; j < i + UNROLL; j++) y[j] = 2.0f * x[j] + KNOB * 0.0f;
}
"""
CUDA = """
extern "C" __global__ void work(const float *x, float *y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += UNROLL * 1024)
    y[i] = 2.0f * x[i] + KNOB * 0.0f;
}
"""


@at.template("benchmark.session.work")
def work(n: int, language: str) -> SourceKernel:
    cfg = at.get_config()
    cfg.define_knob("UNROLL", [1, 2, 4, 8])
    cfg.define_knob("KNOB", list(range(64)))
    cfg.add_flop(n)
    return SourceKernel(
        "work",
        C if language == "c" else CUDA,
        defines={"N": n, "UNROLL": cfg["UNROLL"].val, "KNOB": cfg["KNOB"].val},
        grid=1 if language == "c" else (64,),
        block=1 if language == "c" else (256,),
        args=[arg("x", (n,)), arg("y", (n,), role="out")],
        reference=lambda x: 2 * x,
    )


def parts() -> tuple[LocalBuilder, LocalRunner]:
    return LocalBuilder(cache=False), LocalRunner(number=1, repeat=3, cooldown_interval=0)


class Watch:
    """A callback that notes when the first result came, and how many there are."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.first_s = 0.0
        self.trials = 0

    def __call__(self, tuner: object, inputs: Sequence[object], results: Sequence[Any]) -> None:
        """Take note of results."""
        self.first_s = self.first_s or time.perf_counter() - self.started
        self.trials += sum(result.ok for result in results)


def tuned(task: Task, trials: int, option: Mapping[str, Any]) -> Watch:
    watch = Watch()
    GridSearchTuner(task).tune(trials, option, callbacks=[watch], finalists=0)
    return watch


def one_by_one(tasks: Sequence[Task], trials: int, session: bool) -> list[float]:
    """Tune all tasks, one after another; return the seconds to the first result of each."""
    if not session:
        return [tuned(task, trials, measure_option(*parts())).first_s for task in tasks]
    with Session(*parts()) as standing:
        return [tuned(task, trials, standing).first_s for task in tasks]


def mixed(tasks: Sequence[Task], trials: int) -> list[float]:
    """Measure all tasks in one queue."""
    rows = [[t.config_space.get(i) for i in range(trials)] for t in tasks]
    inputs = [
        MeasureInput(task.target, task, row[i])  # type: ignore[arg-type]
        for i in range(trials)
        for task, row in zip(tasks, rows, strict=True)
    ]
    with Session(*parts()) as standing:
        bad = [result for _, result in standing.stream(inputs) if not result.ok]
    if bad:
        raise SystemExit(f"{len(bad)} trials failed: {bad[0]}")
    return []


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="c")
    parser.add_argument("--tasks", type=int, default=6)
    parser.add_argument("--trials", type=int, default=32, help="of each task")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each way")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "session.json")
    options = parser.parse_args(argv)
    language = "cuda" if options.target.startswith("cuda") else "c"
    ways = {
        "own processes": lambda tasks: one_by_one(tasks, options.trials, session=False),
        "one session": lambda tasks: one_by_one(tasks, options.trials, session=True),
        "one queue": lambda tasks: mixed(tasks, options.trials),
    }
    rows: list[dict[str, Any]] = []
    for turn in range(options.rounds):
        for name, way in ways.items():
            sizes = [1024 * (i + 1) for i in range(options.tasks)]
            tasks = [at.create(work, (n, language), target=options.target) for n in sizes]
            cpu, started = time.process_time(), time.perf_counter()
            first = way(tasks)
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
            count = options.tasks * options.trials
            rows.append(
                {
                    "way": name,
                    "turn": turn,
                    "first_s": first,
                    "trials_per_s": count / seconds,
                    "caller_cpu_ms": cpu / count * 1e3,
                }
            )
    for name in ways:
        show(name, [row for row in rows if row["way"] == name])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=1))
    return rows


def show(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    rate = statistics.median(row["trials_per_s"] for row in rows)
    cpu = statistics.median(row["caller_cpu_ms"] for row in rows)
    text = f"{name:<14} {rate:7.1f} trials/s, caller {cpu:.2f} ms CPU a trial"
    if rows[0]["first_s"]:
        later = [seconds for row in rows for seconds in row["first_s"][1:]]
        first = statistics.median(row["first_s"][0] for row in rows)
        text += f"; first result after {first:.2f} s, of later tasks after "
        text += f"{statistics.median(later):.2f} s (at most {max(later):.2f})"
    print(text, flush=True)


if __name__ == "__main__":
    main()
