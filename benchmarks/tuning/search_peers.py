"""Searches of others on a recorded space: Optuna's TPE, and strategies of Kernel Tuner.

Neither is needed by autotune; what is installed beside it takes part.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autotune.measure import MeasureInput
from autotune.tuner import AskTellTuner, Recording

STRATEGIES = {
    "kt-ga": ("genetic_algorithm", {}),
    "kt-annealing": ("simulated_annealing", {}),
    "kt-pso": ("pso", {}),
    "kt-bayes": ("bayes_opt", {}),
    "kt-greedy-ils": ("greedy_ils", {}),
}


def installed() -> list[str]:
    """Return the names of the peers that can run here."""
    names = ["optuna-tpe"] if importlib.util.find_spec("optuna") else []
    return names + (list(STRATEGIES) if importlib.util.find_spec("kernel_tuner") else [])


def run(name: str, recording: Recording, seed: int, cap: int) -> list[int]:
    """Return the distinct rows of a recording that a peer asks for, in order."""
    if name == "optuna-tpe":
        return run_optuna(recording, seed, cap)
    strategy, options = STRATEGIES[name]
    return run_kernel_tuner(recording, strategy, dict(options), seed, cap)


class Study:
    """Optuna as an optimiser for `AskTellTuner`; it is shown positions, as integers.

    TPE learns nothing from failed trials and would repeat them, so it is told a long time where a
    point is invalid or fails, and the known time where it repeats one.
    """

    def __init__(self, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=seed)
        self.study = optuna.create_study(sampler=sampler)
        self._known: dict[tuple[int, ...], float] = {}

    def ask(self, knobs: Mapping[str, int]) -> tuple[Any, Mapping[str, int]]:
        """Propose a position for each knob."""
        trial = self.study.ask()
        return trial, {name: trial.suggest_int(name, 0, n - 1) for name, n in knobs.items()}

    def tell(self, token: Any, seconds: float | None) -> None:
        """Take the result of a proposal."""
        key = tuple(token.params.values())
        if seconds is not None:
            self._known[key] = seconds
        bad = 10 * max(self._known.values(), default=1.0)
        self.study.tell(token, self._known.setdefault(key, bad))


def run_optuna(recording: Recording, seed: int, cap: int) -> list[int]:
    task = recording.task()
    rows = {int(i): k for k, i in enumerate(task.config_space.indices(recording.codes))}
    tuner = AskTellTuner(task, Study(seed), seed=seed)
    goal = recording.best() * 1.01
    order: list[int] = []
    while len(order) < cap:
        configs = tuner.next_batch(1)
        if not configs:
            break
        row = rows[configs[0].index]
        order.append(row)
        result = recording.results[row]
        tuner.update([MeasureInput(task.target, task, configs[0])], [result])
        if len(order) >= 200 and min(recording.results[k].mean for k in order) <= goal:
            break
    return order


def run_kernel_tuner(
    recording: Recording, strategy: str, options: dict[str, Any], seed: int, cap: int
) -> list[int]:
    """Let Kernel Tuner search in its own simulation mode, on a cache written for it."""
    import kernel_tuner
    from constraint import FunctionConstraint

    random.seed(seed)
    np.random.seed(seed)  # the generator that Kernel Tuner draws from
    names, rows = list(recording.knobs), {}
    for k, codes in enumerate(recording.codes):
        values = tuple(recording.knobs[n][c] for n, c in zip(names, codes, strict=True))
        rows[values] = k
    knobs = {name: list(values) for name, values in recording.knobs.items()}
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        cache = Path(folder) / "cache.json"
        cache.write_text(json.dumps(_cache(recording, knobs, rows)), "utf-8")
        results, _ = kernel_tuner.tune_kernel(
            recording.name, "", (1,), [], knobs,
            restrictions=[FunctionConstraint(lambda *values: values in rows)],
            strategy=strategy, strategy_options={**options, "max_fevals": cap},
            simulation_mode=True, cache=str(cache), lang="C", verbose=False, quiet=True,
        )  # fmt: skip
    order = [rows[tuple(result[name] for name in names)] for result in results]
    return list(dict.fromkeys(order))


def _cache(
    recording: Recording, knobs: Mapping[str, Any], rows: Mapping[tuple[Any, ...], int]
) -> dict[str, Any]:
    entries = {}
    for values, row in rows.items():
        result = recording.results[row]
        entry: dict[str, Any] = dict(zip(knobs, values, strict=True))
        entry["time"] = result.seconds * 1e3 if result.ok else "RuntimeFailedConfig"
        entry |= {"times": [], "timestamp": "2020-01-01T00:00:00+00:00"}
        for part in ("compile", "verification", "benchmark", "strategy", "framework"):
            entry[f"{part}_time"] = 0.0
        entries[",".join(map(str, values))] = entry
    return {
        "device_name": "recorded", "kernel_name": recording.name, "problem_size": [1],
        "tune_params_keys": list(knobs), "tune_params": dict(knobs), "objective": "time",
        "cache": entries,
    }  # fmt: skip
