"""Searches of the auto-scheduler, their winners beside other ways, and what searching costs."""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from autotune.templates import source

import autotune
from autotune.auto_scheduler import (
    ComputeDAG,
    LocalBuilder,
    RecordToFile,
    SearchTask,
    SketchPolicy,
    TuningOptions,
    XGBModel,
    fallback_schedule,
)
from autotune.auto_scheduler.search import task_search
from autotune.auto_scheduler.search.models import prior
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.auto_scheduler.tune_task import cuda_text
from autotune.driver import kernel_of
from autotune.measure.run.host_load import let_threads_rest
from autotune.runtime import array
from autotune.task import ApplyConfig, FallbackConfigEntity
from autotune.utils.environment import parallel_threads
from benchmarks.auto_scheduler.cases import CASES
from benchmarks.auto_scheduler.library import beside_library, compiled
from benchmarks.auto_scheduler.prior import alike


class Trials:
    """Notes what the trials of a run were: failures with their first messages, what was used."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self.messages: dict[str, str] = {}
        self.resources: dict[str, dict[str, Any]] = {}
        self.curve: list[float] = []

    def __call__(self, policy: object, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Note some trials."""
        del policy
        for inp, result in zip(inputs, results, strict=True):
            best = self.curve[-1] if self.curve else float("inf")
            self.curve.append(min(best, result.seconds if result.ok else best))
            if not result.ok:
                self.failures[result.error_no.name] += 1
                self.messages.setdefault(result.error_no.name, result.error_msg[-400:])
            elif result.evidence is not None and result.evidence.resources:
                self.resources[inp.config.key] = dict(result.evidence.resources)


class Stopwatch:
    """Adds up the seconds in which a policy proposes and learns."""

    def __init__(self, policy: SketchPolicy) -> None:
        self.seconds = 0.0
        for name in ("propose", "learn"):
            setattr(policy, name, self._timed(getattr(policy, name)))

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            found, seconds = timed(lambda: call(*given), time.perf_counter)
            self.seconds += seconds
            return found

        return run


def tuned(name: str, options: argparse.Namespace, seed: int) -> float | None:
    """Tune one case and print what was found; return the share that its fallback reaches."""
    row, task, best, messages = searched(name, options, seed)
    on_gpu = task.target.backend.on_gpu
    if best is not None and on_gpu and options.library:
        with tempfile.TemporaryDirectory() as folder:
            row |= beside_library(name, *compiled(name, task, best, folder))
    report(row)
    for kind, text in messages.items():
        print(f"    {kind} {row['failures'][kind]}: {text.strip().splitlines()[-1:]}")
    if options.out is not None and best is not None:
        keep(options.out, row)
        keep_text(options.out, row, task, best)
    if best is not None and options.fallback:
        return beside_fallback(name, task, best)
    if not on_gpu and best is not None:
        against_peers(name, task, best)
    return None


def searched(
    name: str, options: argparse.Namespace, seed: int
) -> tuple[dict[str, Any], SearchTask, RecordedState | None, dict[str, str]]:
    """Tune one case.

    Returns:
        what is known of the run, its task, its winner, and the first message of each failure.
    """
    graph = ComputeDAG(CASES[name].tensors())
    task = SearchTask(
        compute_dag=graph, target=options.target, desc=name, layout_rewrite_option=options.rewrite
    )
    # What ships of this very workload, in any layout, would flatter the search.
    setattr(task_search, "gpu_prior", partial(prior.gpu_prior, alike(name)))  # noqa: B010
    policy = SketchPolicy(task, XGBModel(), seed=seed)
    compiler: dict[str, Any] = {"compiler": "nvrtc"} if task.target.backend.on_gpu else {}
    builder = LocalBuilder(n_parallel=options.workers, **compiler)
    trials, thinking, started = Trials(), Stopwatch(policy), time.perf_counter()
    callbacks: list[Any] = [trials]
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        log = "_".join([name, *options.without, str(seed)])
        callbacks.append(RecordToFile(str(options.out / f"{log}.json")))
    how = TuningOptions(
        options.trials,
        options.early_stopping,
        builder=builder,
        verbose=0,
        measure_callbacks=callbacks,
    )
    task.tune(how, policy)
    wall_s = time.perf_counter() - started
    seconds = policy.result.seconds if policy.result else float("inf")
    row: dict[str, Any] = {"name": name, "seed": seed, "us": seconds * 1e6, "wall_s": wall_s}
    row |= {"trials": len(trials.curve), "failures": dict(trials.failures)}
    row |= {"without": options.without, "proposing_s": thinking.seconds}
    row |= {"budget": options.trials, "early_stopping": options.early_stopping}
    row["curve_us"] = [round(each * 1e6, 2) for each in trials.curve]
    best = None if policy.best is None else policy.best[0]
    row |= {} if best is None else trials.resources.get(best.key, {})
    return row, task, best, trials.messages


def report(row: dict[str, Any]) -> None:
    """Print one line of what was found."""
    curve = row["curve_us"]
    early = ", ".join(f"{curve[n - 1]:.1f} after {n}" for n in (16, 32, 64) if n <= len(curve))
    line = f"{row['name']:22} seed {row['seed']}: {row['us']:8.2f} us after {row['trials']} trials"
    line += f" ({early}), {row['wall_s']:.1f} s, {row['proposing_s']:.1f} of it proposing"
    line += f", {sum(row['failures'].values())} fail"
    line += f", {row.get('registers', 0)} regs, {row.get('shared_bytes', 0)} B shared"
    if "library_us" in row:
        ratio = row["library_us"] / row["beside_us"]
        line += f" | {row['library']} {row['library_us']:.2f}, beside it {row['beside_us']:.2f}"
        line += f": {ratio:.2f}x"
    print(line, flush=True)


def keep(folder: Path, row: dict[str, Any]) -> None:
    """Write what is known of a run to a folder."""
    with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def keep_text(folder: Path, row: dict[str, Any], task: SearchTask, best: RecordedState) -> None:
    """Write the CUDA text of a winner to a folder."""
    if task.target.backend.on_gpu:
        name = "_".join([row["name"], *row["without"], str(row["seed"])])
        (folder / f"{name}.cu").write_text(cuda_text(task, best), "utf-8")


def against_peers(name: str, task: SearchTask, best: RecordedState, rounds: int = 15) -> None:
    """Print the least times of the winner and of its peers, taken in turns.

    They are CPU times of one thread, wall times of several.
    """
    schedule, tensors = task.realise(best).what
    run = autotune.build(schedule, tensors, target=task.target)
    rng = np.random.default_rng(0)
    own = task.compute_dag.tensors
    arrays = [rng.random([int(n) for n in each.shape], "float32") for each in own]
    pairs = zip(arrays, task.layouts_of(best), strict=True)
    given = [array if layout is None else layout.forward(array) for array, layout in pairs]
    calls: dict[str, Callable[[], Any]] = {"autotune": lambda: run(*given)}
    if name.startswith("gemm"):
        calls["BLAS"] = lambda: np.matmul(*arrays[:2], out=arrays[2])
    if CASES[name].template:
        calls["C template, untuned"] = template_call(CASES[name].template, arrays)
    several = parallel_threads() > 1
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for label, call in calls.items():
            let_threads_rest()
            call()
            clock = time.perf_counter if several else time.process_time
            least[label] = min(least[label], timed(call, clock)[1])
    shown = ", ".join(f"{label} {seconds * 1e6:.0f}" for label, seconds in least.items())
    print(f"{name:14} {'wall' if several else 'CPU'} time, us: {shown}")


def template_call(arguments: tuple[Any, ...], arrays: Sequence[Any]) -> Callable[[], Any]:
    """Return a call of the hand-written template of a convolution, as it is untuned."""
    with ApplyConfig(FallbackConfigEntity()), autotune.Target("llvm"):
        module = autotune.build(source.conv2d_nchw_cpu(*arguments), name="template")
    pairs = zip(module.kernel.args, arrays, strict=True)
    given = [each.reshape(arg.shape) for arg, each in pairs]
    return lambda: module(*given)


def beside_fallback(name: str, task: SearchTask, best: RecordedState, rounds: int = 15) -> float:
    """Time the winner and the schedule by rule in turns; print and return winner over fallback."""
    ways = {"found": task.realise(best).what}
    ways["fallback"] = fallback_schedule(task.compute_dag.tensors, task.target)
    runs = {label: autotune.build(*way, target=task.target) for label, way in ways.items()}
    rng = np.random.default_rng(0)
    shapes = [[int(n) for n in each.shape] for each in task.compute_dag.tensors]
    arrays = [rng.random(shape, "float32") for shape in shapes]
    if task.target.backend.on_gpu:
        dev = autotune.device("cuda", 0)
        given = [array(each, dev) for each in arrays]
        least = {
            label: run.time_evaluator(run.entry_name, dev, number=20, repeat=5)(*given).median
            for label, run in runs.items()
        }
    else:
        least = dict.fromkeys(runs, float("inf"))
        for _ in range(rounds):
            for label, run in runs.items():
                run(*arrays)
                least[label] = min(least[label], timed(lambda run=run: run(*arrays))[1])
    share = least["found"] / least["fallback"]
    shown = ", ".join(f"{label} {seconds * 1e6:.1f} us" for label, seconds in least.items())
    print(f"{name:22} {shown}: {share:.2f} of the tuned speed", flush=True)
    return share


def memory(names: Sequence[str], target: str) -> None:
    """Print the most memory that a process has that searches many tasks."""
    rng, before = np.random.default_rng(0), peak_mb()
    policies, model = [], XGBModel()
    for name in names:
        task = SearchTask(compute_dag=ComputeDAG(CASES[name].tensors()), target=target)
        policies.append(SketchPolicy(task, model, seed=0))
    for _ in range(3):
        for policy in policies:
            batch = policy.propose(64)
            seconds = 1e-5 * rng.random(len(batch)) + 1e-5
            steps = [each.transform_steps for each in batch]
            policy.proposer.learn(list(zip(steps, seconds.tolist(), strict=True)))
    cpu = time.process_time()
    print(f"{len(names)} tasks: at most {peak_mb():.0f} MB, {before:.0f} of it before the first")
    print(f"{cpu:.0f} s of CPU time")


def peak_mb() -> float:
    """Return the most memory that this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def costs(name: str, target: str) -> None:
    """Print the CPU seconds of each part of a search."""
    task = SearchTask(compute_dag=ComputeDAG(CASES[name].tensors()), target=target)
    policy = SketchPolicy(task, XGBModel(), seed=0)
    proposer, programs_s = timed(lambda: policy.proposer)
    model = proposer.programs[0].cost_model
    rows = proposer.programs[0].sampler.draw(1000)
    many = np.tile(rows, (-(-10_000 // len(rows)), 1))[:10_000]
    estimates_s = min(timed(lambda: model(many))[1] for _ in range(5))
    batch, first_s = timed(lambda: policy.propose(64))
    trials = [(each.transform_steps, 1e-5 * (i + 1)) for i, each in enumerate(batch)]
    proposer.learn(trials)
    _, next_s = timed(lambda: policy.propose(64))  # what was measured is learned from here
    proposer.learn([(each.transform_steps, 2e-5) for each in policy.propose(12)])
    _, few_s = timed(lambda: policy.propose(12))
    _, lower_s = timed(lambda: kernel_of(task.realise(batch[0]).what, task.target))
    print(
        f"{name:14} programs {len(proposer.programs)} in {programs_s:.3f}, "
        f"estimates {estimates_s:.3f}, "
        f"first 64 {first_s:.2f}, next 64 {next_s:.2f}, next 12 {few_s:.2f}, lower {lower_s:.3f}"
    )


def timed(
    action: Callable[[], Any], clock: Callable[[], float] = time.process_time
) -> tuple[Any, float]:
    started = clock()
    found = action()
    return found, clock() - started
